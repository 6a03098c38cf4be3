//! EC2's door.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::ports::{Compute, ListedMachine, Page, Refusal};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::launch::{LaunchAnswer, LaunchError, LaunchRequest};
use muster_domain::observation::{Machine as Shown, MachineSeen, ProviderError};
use muster_domain::time::Time;

use super::bucket::Call;
use super::terminate::terminated;
use super::{End, Power};
use crate::agenda::{HOUR, SECOND};
use crate::door::Door;
use crate::executor::Pause;
use crate::fault::Fault;
use crate::world::World;

/// How many machines one page of a listing holds. Small, so that paging happens.
const PAGE: usize = 30;
/// How long EC2 shows a terminated machine.
const KEPT: i64 = HOUR;

impl World {
    /// A question that EC2 may leave unanswered.
    pub(crate) fn ec2_answers(&mut self, operation: &str) -> Result<(), ProviderError> {
        self.calls.looks += 1;
        if self.is_bucket_empty(Call::Describe) {
            return Err(ProviderError::Unavailable(self.told(operation, "RequestLimitExceeded")));
        }
        if self.is_away(Fault::OutageEc2) || self.strikes(Fault::DescribeFailed) {
            return Err(ProviderError::Unavailable(self.told(operation, "RequestTimeout")));
        }
        Ok(())
    }

    fn asked(&mut self) -> Result<(), ProviderError> {
        self.ec2_answers("DescribeInstances")
    }

    /// The machine's state as EC2 shows it; none when it denies knowing the machine.
    pub(super) fn shown(&mut self, number: u32) -> Option<Shown> {
        let machine = self.ec2.at(number);
        let forgotten = machine.power == Power::Terminated && self.now >= machine.since + KEPT;
        if self.now < machine.visible_from || forgotten || self.is_denied(number) {
            return None;
        }
        let machine = self.ec2.at(number);
        let (fresh, before, power) =
            (self.now < machine.since + 10 * SECOND, machine.before, machine.power);
        if fresh && self.strikes(Fault::DescribeStale) {
            return Some(before.shown());
        }
        Some(power.shown())
    }

    /// Once in a machine's life EC2 may not know it for a while: shorter than what two looks must
    /// be apart.
    fn is_denied(&mut self, number: u32) -> bool {
        if self.ec2.at(number).denied_until.is_none() && self.strikes(Fault::MachineDenied) {
            let until = self.now + self.between(SECOND, 100 * SECOND);
            self.ec2.at_mut(number).denied_until = Some(until);
        }
        self.ec2.at(number).denied_until.is_some_and(|until| self.now < until)
    }

    fn listed(&mut self, number: u32) -> Option<ListedMachine> {
        let state = self.shown(number)?;
        let machine = self.ec2.at(number);
        Some(ListedMachine {
            id: machine.id.clone(),
            state,
            launched_at: Time::from_millis(machine.launched_at),
            launch: machine.launch.clone(),
        })
    }
}

/// An answer in a few words.
fn launched(answer: &Result<LaunchAnswer, LaunchError>) -> String {
    let (machines, errors) = match answer {
        Ok(answer) => (answer.machines.as_slice(), answer.errors.as_slice()),
        Err(error) => ([].as_slice(), std::slice::from_ref(error)),
    };
    let machines = machines.iter().map(ToString::to_string);
    let words: Vec<String> =
        machines.chain(errors.iter().map(|error| error.code.clone())).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

impl Compute for Door {
    async fn launch(
        &self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError> {
        let takes = self.sim.world.borrow().ec2.launch_takes;
        if takes > 0 {
            Pause::new(&self.sim, takes).await;
        }
        self.call(|world| {
            let answer = world.launch(id, request);
            world.narrate(|| {
                format!("CreateFleet {id} x{}: {}", request.capacity, launched(&answer))
            });
            answer
        })
        .await
    }

    async fn find_launched(&self, id: &LaunchId) -> Result<Vec<MachineId>, ProviderError> {
        self.call(|world| {
            world.asked()?;
            let numbers: Vec<u32> = (0..)
                .zip(&world.ec2.machines)
                .filter(|(_, machine)| machine.launch.as_ref() == Some(id))
                .map(|(number, _)| number)
                .collect();
            let shown = numbers.into_iter().filter_map(|number| world.listed(number));
            Ok(shown.filter(|one| one.state != Shown::Gone).map(|one| one.id).collect())
        })
        .await
    }

    async fn machine(&self, id: &MachineId) -> Result<MachineSeen, ProviderError> {
        self.call(|world| {
            world.asked()?;
            let number = world.ec2.number(id);
            let shown = number.and_then(|number| world.shown(number)).unwrap_or(Shown::Absent);
            world.say(|| format!("  DescribeInstances {id} → {shown:?}"));
            let end = number.and_then(|number| world.ec2.at(number).end);
            let reason = end.filter(|_| shown == Shown::Gone).map(End::reason);
            Ok(MachineSeen { state: shown, reason })
        })
        .await
    }

    async fn identify(&self, id: &MachineId) -> Result<Option<ListedMachine>, ProviderError> {
        self.call(|world| {
            world.asked()?;
            Ok(world.ec2.number(id).and_then(|number| world.listed(number)))
        })
        .await
    }

    async fn list(&self, page: Option<String>) -> Result<Page<ListedMachine>, ProviderError> {
        let start: u32 = page.and_then(|text| text.parse().ok()).unwrap_or(0);
        self.call(|world| {
            world.asked()?;
            let most = if world.strikes(Fault::ListPaged) { 2 } else { PAGE };
            let mut items = Vec::new();
            let mut next = None;
            for number in start..u32::try_from(world.ec2.machines.len()).unwrap_or(u32::MAX) {
                let machine = world.ec2.at(number);
                if machine.launch.is_none() || machine.power == Power::Terminated {
                    continue;
                }
                if items.len() == most {
                    next = Some(number.to_string());
                    break;
                }
                items.extend(world.listed(number).filter(|one| one.state != Shown::Gone));
            }
            Ok(Page { items, unreadable: Vec::new(), next })
        })
        .await
    }

    async fn terminate(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Shown>, Refusal> {
        self.call(|world| {
            world.calls.terminates += 1;
            let answer = world.terminate(machines);
            world.narrate(|| {
                let ids: Vec<&str> = machines.iter().map(MachineId::as_str).collect();
                format!("TerminateInstances {}: {}", ids.join(", "), terminated(&answer))
            });
            answer
        })
        .await
    }
}
