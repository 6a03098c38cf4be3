//! EC2's door to machines.

use std::collections::{BTreeMap, BTreeSet};

use muster_cloud::ec2::{DescribeRequest, Described, InstancePage};
use muster_control::ports::{Compute, ListedMachine, Page, ShownMachine, TerminationError};
use muster_domain::ec2::{LaunchError, Make};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::launch::plan::STACK_TAG;
use muster_domain::launch::{LaunchAnswer, LaunchRequest};
use muster_domain::observation::{Machine as Shown, MachineSeen};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;

use super::bucket::Call;
use super::terminate::terminated;
use super::{Ec2, words};
use crate::agenda::{HOUR, MINUTE, Millis, SECOND};
use crate::door::Door;
use crate::executor::Pause;
use crate::fault::Fault;
use crate::world::World;

/// How many machines one page of a listing holds. Small, so that paging happens.
const PAGE: u32 = 30;
/// What a machine without a way out has on its console.
const UNREACHABLE: &str = "cloud-init[612]: Network is unreachable\r\n";
/// How often EC2 denies one machine.
const MAX_DENIALS: u8 = 2;
/// How long EC2 shows a terminated machine.
pub(super) const KEPT: Millis = HOUR;

impl World {
    /// A question that EC2 may leave unanswered.
    pub(crate) fn ec2_answers(&mut self, operation: &str) -> Result<(), ProviderError> {
        self.calls.looks += 1;
        *self.operations.entry(operation.to_owned()).or_default() += 1;
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

    /// Now and then EC2 may not know a machine for a while: most times for less than what two looks
    /// must be apart.
    pub(super) fn may_deny(&mut self, number: u32) {
        if self.ec2.at(number).denials == MAX_DENIALS || !self.strikes(Fault::MachineDenied) {
            return;
        }
        let longest =
            if self.strikes(Fault::MachineDeniedLong) { 8 * MINUTE } else { 100 * SECOND };
        let until = self.now + self.between(SECOND, longest);
        self.ec2.at_mut(number).denials += 1;
        let instance = self.ec2.cloud.at_mut(number as usize);
        instance.visible_from = instance.visible_from.max(until);
    }

    /// Looks at a machine by its id; none when EC2 denies knowing it.
    fn look_at(&mut self, id: &MachineId) -> Option<MachineSeen> {
        let number = self.ec2.number(id)?;
        self.may_deny(number);
        let page = self.ec2.page(&words::by_id(id), self.now);
        page.ok()?.instances.first().map(words::seen)
    }

    /// Looks at many by their ids.
    fn look_at_many(
        &mut self,
        stack: &str,
        ids: &BTreeSet<MachineId>,
    ) -> BTreeMap<MachineId, ShownMachine> {
        let numbers: Vec<u32> = ids.iter().filter_map(|id| self.ec2.number(id)).collect();
        numbers.into_iter().for_each(|number| self.may_deny(number));
        self.ec2.cloud.toggles.page_limit = u32::MAX;
        let Ok(page) = self.ec2.page(&words::by_ids(ids), self.now) else {
            unreachable!("EC2 understands the filter")
        };
        page.instances.iter().filter_map(|shown| self.ec2.shown(shown, stack)).collect()
    }

    /// The machines of the stack that are not gone; of one launch, where that is asked for.
    fn present(
        &mut self,
        stack: &str,
        launch: Option<&LaunchId>,
        page: Option<String>,
    ) -> Page<ListedMachine> {
        for number in self.ec2.numbers_of(launch) {
            self.may_deny(number);
        }
        let request = words::present(stack, launch, page);
        let Ok(page) = self.ec2.page(&request, self.now) else {
            unreachable!("EC2 understands the request and its own page token")
        };
        let items = page.instances.iter().filter_map(|shown| self.ec2.listed(shown));
        Page { items: items.collect(), unreadable: Vec::new(), next: page.next_token }
    }
}

impl Ec2 {
    fn page(
        &self,
        request: &DescribeRequest,
        now: Millis,
    ) -> Result<InstancePage<'_>, muster_cloud::ec2::Ec2Error> {
        self.cloud.describe_instances(request, now, KEPT)
    }

    fn listed(&self, shown: &Described) -> Option<ListedMachine> {
        let number = muster_cloud::Ids::number(&shown.instance.id)?;
        let machine = self.at(number);
        Some(ListedMachine {
            id: machine.id.clone(),
            state: words::shown(shown.state),
            launched_at: Time::from_millis(shown.instance.launched_at),
            launch: machine.launch.clone(),
            make: words::make(shown.instance),
        })
    }

    fn shown(&self, shown: &Described, stack: &str) -> Option<(MachineId, ShownMachine)> {
        let machine = self.at(muster_cloud::Ids::number(&shown.instance.id)?);
        let is_ours = shown.instance.tags.get(STACK_TAG).is_some_and(|value| value == stack);
        let (state, launch) = (Some(words::shown(shown.state)), machine.launch.clone());
        Some((machine.id.clone(), ShownMachine { state, is_ours, launch }))
    }

    /// Our machines that are not gone; of one launch, where that is asked for.
    fn numbers_of(&self, launch: Option<&LaunchId>) -> Vec<u32> {
        let all = (0..).zip(&self.machines).filter(|(_, machine)| match launch {
            Some(_) => machine.launch.as_ref() == launch,
            None => machine.launch.is_some(),
        });
        all.map(|(number, _)| number).filter(|number| !self.is_gone(*number)).collect()
    }
}

/// An answer in a few words.
fn launched(answer: &Result<LaunchAnswer, LaunchError>) -> String {
    let errors = match answer {
        Ok(answer) => answer.errors.as_slice(),
        Err(error) => std::slice::from_ref(error),
    };
    let machines = answer.iter().flat_map(|answer| answer.machines.keys());
    let machines = machines.map(ToString::to_string);
    let mut words: Vec<String> =
        machines.chain(errors.iter().map(|error| error.code.clone())).collect();
    // Of several places, often the same.
    words.dedup();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

impl Compute for Door {
    async fn launch(
        &self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError> {
        let takes = self.sim.world.borrow_mut().launch_takes(id);
        if takes > 0 {
            Pause::new(&self.sim, takes).await;
        }
        self.call(|world| {
            let answer = world.launch(id, request);
            let is_refused = answer.as_ref().map_or(true, |answer| answer.machines.is_empty());
            let places = |request: &LaunchRequest| format!("{:?}", request.overrides);
            world.note_answer(|| format!("{:?} {}", request.market, places(request)), is_refused);
            world.narrate(|| {
                format!("CreateFleet {id} x{}: {}", request.capacity, launched(&answer))
            });
            answer
        })
        .await
    }

    async fn find_launched(
        &self,
        id: &LaunchId,
    ) -> Result<BTreeMap<MachineId, Make>, ProviderError> {
        self.call(|world| {
            world.asked()?;
            world.ec2.cloud.toggles.page_limit = u32::MAX;
            let page = world.present(&self.sim.settings.stack, Some(id), None);
            Ok(page.items.into_iter().map(|machine| (machine.id, machine.make)).collect())
        })
        .await
    }

    async fn machine(&self, id: &MachineId) -> Result<MachineSeen, ProviderError> {
        self.call(|world| {
            world.asked()?;
            let seen = world.look_at(id).unwrap_or(Shown::Absent.into());
            world.say(|| format!("  DescribeInstances {id} → {:?}", seen.state));
            if let Some(machine) = world.ec2.number(id) {
                world.ec2.at_mut(machine).is_explained =
                    seen.reason.as_ref().is_some_and(|why| why.code.starts_with("Server."));
            }
            Ok(seen)
        })
        .await
    }

    async fn console(&self, id: &MachineId) -> Result<String, ProviderError> {
        self.call(|world| {
            world.ec2_answers("GetConsoleOutput")?;
            let output = world.ec2.cloud.console_output(id.as_str(), true, world.now, KEPT);
            let mut output = output.unwrap_or_default().to_owned();
            let number = world.ec2.number(id);
            if number.is_some_and(|number| world.ec2.at(number).behaviour.never_boots) {
                output.push_str(UNREACHABLE);
            }
            world.narrate(|| format!("GetConsoleOutput {id}: {} bytes", output.len()));
            Ok(output)
        })
        .await
    }

    async fn machines(
        &self,
        ids: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, ShownMachine>, ProviderError> {
        self.call(|world| {
            world.asked()?;
            let shown = world.look_at_many(&self.sim.settings.stack, ids);
            world.say(|| format!("  DescribeInstances {ids:?} → {shown:?}"));
            Ok(shown)
        })
        .await
    }

    async fn list(&self, page: Option<String>) -> Result<Page<ListedMachine>, ProviderError> {
        self.call(|world| {
            world.asked()?;
            world.ec2.cloud.toggles.page_limit =
                if world.strikes(Fault::ListPaged) { 2 } else { PAGE };
            Ok(world.present(&self.sim.settings.stack, None, page))
        })
        .await
    }

    async fn terminate(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Shown>, TerminationError> {
        self.call(|world| {
            world.calls.terminates += 1;
            let answer = world.terminate(machines);
            for machine in machines {
                world.note_answer(|| format!("terminate {machine}"), answer.is_err());
            }
            world.narrate(|| {
                let ids: Vec<&str> = machines.iter().map(MachineId::as_str).collect();
                format!("TerminateInstances {}: {}", ids.join(", "), terminated(&answer))
            });
            answer
        })
        .await
    }
}
