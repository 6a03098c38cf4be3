//! One `TerminateInstances`, as EC2 carries it out.

use std::collections::{BTreeMap, BTreeSet};

use muster_cloud::Ids;
use muster_cloud::ec2::Ec2Error;
use muster_control::ports::TerminationError;
use muster_domain::ids::MachineId;
use muster_domain::observation::{Machine as Shown, Termination};
use muster_domain::provider::ErrorDetail;

use super::bucket::Call;
use super::port::KEPT;
use super::{End, InstanceState, Scripted, ZONES, words};
use crate::agenda::{MINUTE, Millis};
use crate::fault::Fault;
use crate::world::World;

/// How long an ended machine keeps its tags. EC2 does not say; karpenter-provider-aws #2100 has met
/// machines without.
const TAGGED: Millis = 5 * MINUTE;

/// An answer in a few words.
pub(super) fn terminated(answer: &Result<BTreeMap<MachineId, Shown>, TerminationError>) -> String {
    match answer {
        Ok(shown) => {
            let states: BTreeSet<String> =
                shown.values().map(|state| format!("{state:?}")).collect();
            format!("accepted, {}", states.into_iter().collect::<Vec<_>>().join(" and "))
        }
        Err(TerminationError { answer: Termination::Accepted(state), .. }) => {
            format!("refused, {state:?}")
        }
        Err(TerminationError {
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
    ) -> Result<BTreeMap<MachineId, Shown>, TerminationError> {
        for id in machines {
            self.check_terminate(id);
        }
        if let Some(code) = self.terminates_not() {
            return Err(self.refusal(&Ec2Error::new(code, "simulated"), machines));
        }
        for number in machines.iter().filter_map(|id| self.ec2.number(id)).collect::<Vec<_>>() {
            self.may_deny(number);
            let until = self.ec2.at(number).behaviour.blocked_until;
            self.ec2.cloud.at_mut(number as usize).protected = self.now < until;
        }
        let ids: Vec<String> = machines.iter().map(ToString::to_string).collect();
        let (changes, error) = self.ec2.cloud.judge_termination(&ids, self.now, KEPT);
        let number = |id: &MachineId| self.ec2.number(id);
        if !changes.is_empty()
            && machines.iter().filter_map(number).any(|one| self.is_without_tags(one))
        {
            let error = Ec2Error::new("UnauthorizedOperation", "simulated");
            return Err(self.refusal(&error, machines));
        }
        let numbers = changes.iter().filter_map(|change| Ids::number(&change.id)).collect();
        let ended = self.end_all(numbers);
        match error {
            Some(error) => Err(self.refusal(&error, machines)),
            None => ended.map_err(|error| self.refusal(&error, machines)),
        }
    }

    /// A machine that ended some time ago has no tags any more, and what we may end is told by
    /// them.
    fn is_without_tags(&self, number: u32) -> bool {
        let instance = self.ec2.instance(number);
        instance.state == InstanceState::Terminated && self.now >= instance.since + TAGGED
    }

    /// What fails the call whatever it names.
    fn terminates_not(&mut self) -> Option<&'static str> {
        if self.is_away(Fault::OutageEc2)
            || self.strikes(Fault::TerminateFailed)
            || self.ec2.scripted(Scripted::TerminateFails)
        {
            Some("InternalError")
        } else if self.strikes(Fault::TerminateDenied) {
            Some("UnauthorizedOperation")
        } else if self.is_bucket_empty(Call::Terminate) {
            Some("RequestLimitExceeded")
        } else {
            None
        }
    }

    fn end_all(&mut self, numbers: Vec<u32>) -> Result<BTreeMap<MachineId, Shown>, Ec2Error> {
        let mut shown = BTreeMap::new();
        let mut is_away = false;
        for number in numbers {
            if self.ec2.instance(number).zone == ZONES[0] && self.is_away(Fault::OutageZone) {
                is_away = true;
                continue;
            }
            self.end_one(number);
            let state = words::shown(self.ec2.instance(number).state);
            shown.insert(self.ec2.at(number).id.clone(), state);
        }
        if is_away {
            return Err(Ec2Error::new("InternalError", "simulated"));
        }
        if self.strikes(Fault::TerminateAnswerLost) {
            return Err(Ec2Error::new("RequestTimeout", "simulated"));
        }
        Ok(shown)
    }

    /// EC2 may accept it, and do nothing.
    fn end_one(&mut self, number: u32) {
        if !self.strikes(Fault::TerminateStuck) {
            self.check_kill(number);
            self.end_machine(number, &End::Terminated);
        }
    }

    fn refusal(&self, error: &Ec2Error, machines: &BTreeSet<MachineId>) -> TerminationError {
        let detail = ErrorDetail {
            at: self.time(),
            operation: "TerminateInstances".to_owned(),
            code: error.code.clone(),
            message: error.message.clone(),
        };
        TerminationError::from_call(words::class(error), detail, machines)
    }
}
