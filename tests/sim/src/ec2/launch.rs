//! `CreateFleet` and its client token.

use muster_domain::ec2::{ErrorClass, Market, Override};
use muster_domain::ids::LaunchId;
use muster_domain::instance::ErrorDetail as Told;
use muster_domain::launch::{LaunchAnswer, LaunchError, LaunchRequest};

use super::Scripted;
use super::bucket::Call;
use crate::agenda::{Event, SECOND};
use crate::fault::Fault;
use crate::world::World;

/// A fleet that EC2 remembers for its client token.
#[derive(Debug)]
pub(super) struct Fleet {
    request: LaunchRequest,
    answer: LaunchAnswer,
}

/// A request that EC2 carries out although its caller has given up waiting.
#[derive(Debug)]
pub struct LateLaunch {
    id: LaunchId,
    request: LaunchRequest,
}

fn error(class: ErrorClass, code: &str) -> LaunchError {
    LaunchError::new(class, code, "simulated")
}

fn ambiguous() -> LaunchError {
    error(ErrorClass::Ambiguous, "RequestTimeout")
}

impl World {
    /// A call of `CreateFleet`.
    pub(super) fn launch(
        &mut self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError> {
        self.calls.launches += 1;
        self.check_launch(id, request);
        if self.is_away(Fault::OutageEc2) {
            return Err(ambiguous());
        }
        if self.strikes(Fault::LaunchTimedOut) || self.ec2.scripted(Scripted::LaunchTimedOut) {
            return Err(ambiguous());
        }
        if self.strikes(Fault::LaunchLate) {
            let number = u32::try_from(self.ec2.late.len()).unwrap_or(u32::MAX);
            self.ec2.late.push(super::LateLaunch { id: id.clone(), request: request.clone() });
            let at = self.now + self.between(SECOND, 60 * SECOND);
            self.agenda.at(at, Event::LateLaunch(number));
            return Err(ambiguous());
        }
        if self.strikes(Fault::LaunchThrottled)
            || self.is_bucket_empty(Call::Launch)
            || !self.has_resource_tokens(request.capacity)
        {
            return Err(error(ErrorClass::Throttle, "RequestLimitExceeded"));
        }
        if self.is_misconfigured(id) {
            return Err(error(ErrorClass::Configuration, "InvalidLaunchTemplateId.NotFound"));
        }
        if self.is_over_quota(request) {
            return Err(error(ErrorClass::Quota, "VcpuLimitExceeded"));
        }
        let answer = self.fleet(id, request);
        if self.strikes(Fault::LaunchAnswerLost) || self.ec2.scripted(Scripted::LaunchAnswerLost) {
            return Err(ambiguous());
        }
        answer
    }

    /// A launch that was thought lost.
    pub fn late_launch(&mut self, number: u32) {
        let late = &self.ec2.late[number as usize];
        let (id, request) = (late.id.clone(), late.request.clone());
        self.say(|| format!("a late launch takes effect: {id}"));
        // Nobody hears the answer.
        let _ = self.fleet(&id, &request);
    }

    /// What EC2 does with a request that reaches it.
    fn fleet(
        &mut self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError> {
        if let Some(fleet) = self.ec2.fleets.get(id) {
            if fleet.request != *request {
                return Err(error(ErrorClass::Idempotency, "IdempotentParameterMismatch"));
            }
            let answer = fleet.answer.clone();
            self.say(|| format!("  EC2 replays {id}"));
            return Ok(if self.cloud_config.replay_shows_machines {
                answer
            } else {
                LaunchAnswer::default()
            });
        }
        let none = error(ErrorClass::Capacity, "InsufficientInstanceCapacity");
        let mut count = request.capacity;
        let dry = self.dry_places(request);
        let mut errors: Vec<LaunchError> = dry
            .iter()
            .map(|place| LaunchError { place: Some(place.clone()), ..none.clone() })
            .collect();
        let is_barred = self.ec2.without_spot && request.market == Market::Spot;
        if is_barred {
            count = 0;
            let code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
            let refused = error(ErrorClass::Capacity, code);
            let at =
                |place: &Override| LaunchError { place: Some(place.clone()), ..refused.clone() };
            errors = request.overrides.iter().map(at).collect();
        }
        if !dry.is_empty() && dry.len() == request.overrides.len() {
            count = 0;
        }
        if count == 0 {
            // Nothing is left in any place.
        } else if self.strikes(Fault::LaunchNoCapacity) || self.ec2.scripted(Scripted::NoCapacity) {
            // As a whole-call error, or as an answer of errors alone: both were seen.
            if self.rng.chance(500_000) {
                return Err(none);
            }
            count = 0;
        } else if count > 1 && self.strikes(Fault::LaunchPartial) {
            count = u32::try_from(self.rng.below(u64::from(count))).unwrap_or(0);
        }
        let is_spot = request.market == Market::Spot;
        let machines = (0..count)
            .map(|_| {
                let number = self.make_machine(Some(id.clone()), is_spot);
                self.ec2.at(number).id.clone()
            })
            .collect();
        if count < request.capacity && !is_barred && (errors.is_empty() || self.rng.chance(500_000))
        {
            errors.push(none);
        }
        let answer = LaunchAnswer { machines, errors };
        let fleet = Fleet { request: request.clone(), answer: answer.clone() };
        self.calls.fleets += 1;
        self.ec2.fleets.insert(id.clone(), fleet);
        self.check_machines_of(id, request.capacity);
        Ok(answer)
    }

    /// EC2's error as the ports tell it.
    pub(super) fn told(&self, operation: &str, code: &str) -> Told {
        Told {
            at: self.time(),
            operation: operation.to_owned(),
            code: code.to_owned(),
            message: "simulated".to_owned(),
        }
    }
}
