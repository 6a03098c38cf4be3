//! `CreateFleet`: what befalls a call before EC2 carries it out, and after.

use std::collections::BTreeMap;

use muster_cloud::ec2::Ec2Error;
use muster_domain::ec2::{ErrorClass, LaunchError, Market};
use muster_domain::ids::LaunchId;
use muster_domain::launch::{LaunchAnswer, LaunchRequest};
use muster_domain::provider::ErrorDetail as Told;

use super::bucket::Call;
use super::{Ec2, Scripted, words};
use crate::agenda::{Event, SECOND};
use crate::fault::Fault;
use crate::world::World;

/// A request that EC2 carries out although its caller has given up waiting.
#[derive(Debug)]
pub struct LateLaunch {
    id: LaunchId,
    request: LaunchRequest,
}

/// An error of a whole call.
pub(super) fn refused(code: &str) -> LaunchError {
    let error = Ec2Error::new(code, "simulated");
    LaunchError::new(words::class(&error), code, error.message)
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
            return Err(refused("RequestTimeout"));
        }
        if self.strikes(Fault::LaunchTimedOut) || self.ec2.scripted(Scripted::LaunchTimedOut) {
            return Err(refused("RequestTimeout"));
        }
        if self.strikes(Fault::LaunchLate) {
            let number = u32::try_from(self.ec2.late.len()).unwrap_or(u32::MAX);
            self.ec2.late.push(super::LateLaunch { id: id.clone(), request: request.clone() });
            let at = self.now + self.between(SECOND, 60 * SECOND);
            self.agenda.at(at, Event::LateLaunch(number));
            return Err(refused("RequestTimeout"));
        }
        if self.strikes(Fault::LaunchThrottled)
            || self.is_bucket_empty(Call::Launch)
            || !self.has_resource_tokens(request.capacity)
        {
            return Err(refused("RequestLimitExceeded"));
        }
        if self.ec2.spot_errs && request.market == Market::Spot {
            return Err(refused("InternalError"));
        }
        if self.is_misconfigured(id) {
            return Err(refused("InvalidLaunchTemplateId.NotFound"));
        }
        if self.is_over_quota(request) {
            return Err(refused("VcpuLimitExceeded"));
        }
        let answer = self.fleet(id, request);
        if self.strikes(Fault::LaunchAnswerLost) || self.ec2.scripted(Scripted::LaunchAnswerLost) {
            return Err(refused("RequestTimeout"));
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
        let is_replay = self.ec2.cloud.has_fleet(id.as_str());
        if is_replay {
            self.say(|| format!("  EC2 replays {id}"));
        } else if let Some(answer) = self.forbidden(request) {
            return Ok(answer);
        } else {
            let rules = self.supply(request)?;
            self.ec2.cloud.set_capacity(rules);
        }
        let mut answer = self.create_fleet(id, request)?;
        if is_replay {
            return Ok(answer);
        }
        self.may_name_no_place(&mut answer);
        for _ in answer.machines.keys() {
            let number = u32::try_from(self.ec2.machines.len()).unwrap_or(u32::MAX);
            self.adopt(number, Some(id.clone()));
        }
        self.calls.fleets += 1;
        self.check_machines_of(id, request.capacity);
        Ok(answer)
    }

    /// What EC2 answers where a policy forbids one of the types, if it does.
    /// Source: aws/karpenter-provider-aws#7370
    fn forbidden(&self, request: &LaunchRequest) -> Option<LaunchAnswer> {
        let forbidden = self.ec2.forbidden_type.as_deref()?;
        let place = request.overrides.iter().find(|one| &*one.instance_type == forbidden)?;
        let error = LaunchError {
            place: Some(place.clone()),
            ..LaunchError::new(
                ErrorClass::Authorization,
                "UnauthorizedOperation",
                "You are not authorized to perform this operation.",
            )
        };
        Some(LaunchAnswer { machines: BTreeMap::new(), errors: vec![error] })
    }

    /// An error of a fleet need not say where.
    fn may_name_no_place(&mut self, answer: &mut LaunchAnswer) {
        let is_capacity = |error: &LaunchError| error.class == ErrorClass::Capacity;
        let by_hand = self.cloud_config.by_hand || self.ec2.without_spot;
        if !by_hand && answer.errors.iter().any(is_capacity) && self.rng.chance(500_000) {
            answer.errors.truncate(1);
            answer.errors[0].place = None;
        }
    }

    fn create_fleet(
        &mut self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError> {
        let Ec2 { cloud, ids, .. } = &mut self.ec2;
        cloud.toggles.replay_shows_instances = self.cloud_config.replay_shows_machines;
        let sent = words::fleet(id, request);
        if cloud.template(&sent.configs[0].template).is_none() {
            cloud.put_template(words::template(request));
        }
        if let Some(image) = words::image(request).filter(|one| cloud.image(&one.id).is_none()) {
            cloud.put_image(image);
        }
        let answer = cloud
            .create_fleet(ids, &sent, self.now)
            .map_err(|error| LaunchError::new(words::class(&error), error.code, error.message))?;
        Ok(words::launched(&answer))
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
