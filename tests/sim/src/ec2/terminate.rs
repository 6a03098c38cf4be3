//! One `TerminateInstances`, as EC2 carries it out.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::ports::Refusal;
use muster_domain::ec2::ErrorClass;
use muster_domain::ids::MachineId;
use muster_domain::observation::{Machine as Shown, Termination};

use super::bucket::Call;
use super::{End, Power, Scripted};
use crate::agenda::{MINUTE, Millis};
use crate::fault::Fault;
use crate::world::World;

/// How long an ended machine keeps its tags. EC2 does not say; karpenter-provider-aws #2100 has met
/// machines without.
const TAGGED: Millis = 5 * MINUTE;

/// An answer in a few words.
pub(super) fn terminated(answer: &Result<BTreeMap<MachineId, Shown>, Refusal>) -> String {
    match answer {
        Ok(shown) => {
            let states: BTreeSet<String> =
                shown.values().map(|state| format!("{state:?}")).collect();
            format!("accepted, {}", states.into_iter().collect::<Vec<_>>().join(" and "))
        }
        Err(Refusal { answer: Termination::Accepted(state), .. }) => format!("refused, {state:?}"),
        Err(Refusal {
            answer: Termination::NotFound(fault) | Termination::Failed(_, fault),
            ..
        }) => fault.code.clone(),
    }
}

impl World {
    /// An id that EC2 does not know fails the call before anything ends; a protected machine fails
    /// its zone.
    pub(super) fn terminate(
        &mut self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Shown>, Refusal> {
        for id in machines {
            self.check_terminate(id);
        }
        if let Some((class, code)) = self.terminates_not() {
            return Err(self.refusal(class, code));
        }
        let unknown: BTreeSet<MachineId> =
            machines.iter().filter(|id| self.numbered(id).is_none()).cloned().collect();
        if !unknown.is_empty() {
            let told = self.told("TerminateInstances", "InvalidInstanceID.NotFound");
            return Err(Refusal { answer: Termination::NotFound(told), named: unknown });
        }
        let numbers: BTreeMap<MachineId, u32> =
            machines.iter().filter_map(|id| Some((id.clone(), self.ec2.number(id)?))).collect();
        if numbers.values().any(|number| self.is_without_tags(*number)) {
            return Err(self.refusal(ErrorClass::Authorization, "UnauthorizedOperation"));
        }
        self.end_all(&numbers)
    }

    /// A machine that ended some time ago has no tags any more, and what we may end is told by
    /// them.
    fn is_without_tags(&self, number: u32) -> bool {
        let machine = self.ec2.at(number);
        machine.power == Power::Terminated && self.now >= machine.since + TAGGED
    }

    /// What fails the call whatever it names.
    fn terminates_not(&mut self) -> Option<(ErrorClass, &'static str)> {
        if self.is_away(Fault::OutageEc2)
            || self.strikes(Fault::TerminateFailed)
            || self.ec2.scripted(Scripted::TerminateFails)
        {
            Some((ErrorClass::Ambiguous, "InternalError"))
        } else if self.strikes(Fault::TerminateDenied) {
            Some((ErrorClass::Authorization, "UnauthorizedOperation"))
        } else if self.is_bucket_empty(Call::Terminate) {
            Some((ErrorClass::Throttle, "RequestLimitExceeded"))
        } else {
            None
        }
    }

    /// A machine that EC2 shows.
    fn numbered(&mut self, id: &MachineId) -> Option<u32> {
        let number = self.ec2.number(id)?;
        self.shown(number).map(|_| number)
    }

    fn end_all(
        &mut self,
        numbers: &BTreeMap<MachineId, u32>,
    ) -> Result<BTreeMap<MachineId, Shown>, Refusal> {
        let is_protected =
            |world: &Self, number| world.now < world.ec2.at(number).behaviour.blocked_until;
        let protected: Vec<(&MachineId, u32)> = numbers
            .iter()
            .map(|(id, number)| (id, *number))
            .filter(|(_, number)| is_protected(self, *number))
            .collect();
        let spared: Vec<_> =
            protected.iter().map(|(_, number)| self.ec2.at(*number).zone).collect();
        let mut shown = BTreeMap::new();
        let mut is_away = false;
        for (id, number) in numbers {
            let zone = self.ec2.at(*number).zone;
            if spared.contains(&zone) {
                continue;
            }
            if self.is_zone_away(zone) {
                is_away = true;
                continue;
            }
            shown.insert(id.clone(), self.end_one(*number));
        }
        if let Some((first, _)) = protected.first() {
            // As EC2 does, the first one alone is named.
            let named = BTreeSet::from([MachineId::clone(first)]);
            let refusal = self.refusal(ErrorClass::Blocked, "OperationNotPermitted");
            return Err(Refusal { named, ..refusal });
        }
        if is_away {
            return Err(self.refusal(ErrorClass::Ambiguous, "InternalError"));
        }
        if self.strikes(Fault::TerminateAnswerLost) {
            return Err(self.refusal(ErrorClass::Ambiguous, "RequestTimeout"));
        }
        Ok(shown)
    }

    fn end_one(&mut self, number: u32) -> Shown {
        if self.strikes(Fault::TerminateStuck) {
            return self.ec2.at(number).power.shown();
        }
        self.check_kill(number);
        self.end_machine(number, End::Terminated);
        Shown::Gone
    }

    fn refusal(&self, class: ErrorClass, code: &str) -> Refusal {
        let told = self.told("TerminateInstances", code);
        Refusal { answer: Termination::Failed(class, told), named: BTreeSet::new() }
    }
}
