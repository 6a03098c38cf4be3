//! What EC2 lacks or refuses for a while: a type in a subnet, a quota, a pool whose configuration
//! is wrong.

use muster_cloud::ec2::CapacityRule;
use muster_domain::ec2::{Bucket, LaunchError, Market, Override};
use muster_domain::ids::{LaunchId, PoolName};
use muster_domain::launch::LaunchRequest;

use super::launch::refused;
use super::{SUBNETS, Scripted};
use crate::agenda::{MINUTE, Millis, SECOND};
use crate::fault::Fault;
use crate::world::World;

/// What is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Place(Market, Override),
    Quota(Market, Bucket),
    Configuration(PoolName),
}

/// All that is short, and until when.
#[derive(Debug, Default)]
pub(super) struct Shortages(Vec<(Lack, Millis)>);

impl World {
    /// Chance makes something short, for a while that ends with the other faults.
    fn run_short(&mut self, fault: Fault, lack: impl FnOnce(&mut Self) -> Option<Lack>) {
        if self.strikes(fault)
            && let Some(lack) = lack(self)
        {
            let longest = [30 * SECOND, 5 * MINUTE, 40 * MINUTE][self.rng.index(3)];
            let until = (self.now + self.between(SECOND, longest)).min(self.faults_end);
            self.ec2.shortages.0.push((lack, until));
        }
    }

    fn is_short(&self, lack: &Lack) -> bool {
        self.ec2.shortages.0.iter().any(|(one, until)| one == lack && self.now < *until)
    }

    /// Whether EC2 refuses the pool's requests.
    pub(super) fn is_misconfigured(&mut self, id: &LaunchId) -> bool {
        let Some(pool) = self.tables.launches.get(id).map(|launch| launch.pool.clone()) else {
            return self.strikes(Fault::LaunchMisconfigured);
        };
        let lack = Lack::Configuration(pool);
        let strikes = self.counts.of(Fault::LaunchMisconfigured);
        self.run_short(Fault::LaunchMisconfigured, |_| Some(lack.clone()));
        self.is_short(&lack) || self.counts.of(Fault::LaunchMisconfigured) > strikes
    }

    /// Whether the quota of the first type's bucket is used up, on the market of the request. The
    /// types of a pool here are all of one bucket.
    pub(super) fn is_over_quota(&mut self, request: &LaunchRequest) -> bool {
        let first = request.overrides.first();
        let bucket = first.and_then(|place| Bucket::from_instance_type(&place.instance_type));
        let bucket = bucket.unwrap_or(Bucket::Standard);
        let is_told = self.ec2.without_quota.as_ref().is_some_and(|(market, known)| {
            *known == bucket && market.is_none_or(|market| market == request.market)
        });
        let lack = Lack::Quota(request.market, bucket);
        let strikes = self.counts.of(Fault::LaunchQuota);
        self.run_short(Fault::LaunchQuota, |_| Some(lack.clone()));
        is_told || self.is_short(&lack) || self.counts.of(Fault::LaunchQuota) > strikes
    }

    /// What EC2 has for a new request. An error when it says at once that there is nothing: as the
    /// error of a whole call, or in an answer of errors alone; both were seen.
    pub(super) fn supply(
        &mut self,
        request: &LaunchRequest,
    ) -> Result<Vec<CapacityRule>, LaunchError> {
        let mut rules = self.dry_places(request);
        let is_dry = rules.len() >= request.overrides.len();
        if self.is_away(Fault::OutageZone) {
            let subnet_id = Some(SUBNETS[0].to_owned());
            rules.push(CapacityRule { subnet_id, ..CapacityRule::default() });
        }
        if self.ec2.without_spot && request.market == Market::Spot {
            let code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted".to_owned();
            let message = "The provided credentials do not have permission to create the \
                           service-linked role for EC2 Spot Instances.";
            let message = Some(message.to_owned());
            rules.insert(0, CapacityRule { code, message, ..CapacityRule::default() });
        } else if is_dry {
            // Nothing is left in any place.
        } else if self.strikes(Fault::LaunchNoCapacity) || self.ec2.scripted(Scripted::NoCapacity) {
            if self.rng.chance(500_000) {
                return Err(refused("InsufficientInstanceCapacity"));
            }
            rules.push(CapacityRule::default());
        } else if request.capacity > 1 && self.strikes(Fault::LaunchPartial) {
            let left = u32::try_from(self.rng.below(u64::from(request.capacity))).unwrap_or(0);
            rules.push(CapacityRule { left, ..CapacityRule::default() });
        }
        Ok(rules)
    }

    /// The places of a request that have no capacity.
    fn dry_places(&mut self, request: &LaunchRequest) -> Vec<CapacityRule> {
        self.run_short(Fault::LaunchPlaceDry, |world| {
            let number = world.rng.index(request.overrides.len().max(1));
            Some(Lack::Place(request.market, request.overrides.get(number)?.clone()))
        });
        let is_dry =
            |place: &&Override| self.is_short(&Lack::Place(request.market, (*place).clone()));
        let rule = |place: &Override| CapacityRule {
            instance_type: Some(place.instance_type.to_string()).filter(|name| !name.is_empty()),
            subnet_id: Some(place.subnet.to_string()),
            ..CapacityRule::default()
        };
        request.overrides.iter().filter(is_dry).map(rule).collect()
    }
}
