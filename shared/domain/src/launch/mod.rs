//! The write-ahead record of a fleet request.
//!
//! A launch is committed before EC2 is called, and its ID is the client token. A retry sends the
//! stored request unchanged, because EC2 rejects a token with different parameters
//! (`IdempotentParameterMismatch`), and a new token launches again.
//! Source: docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html

pub mod plan;
pub mod record;
pub mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ec2::{LaunchError, Make, Market, Override};
use crate::ids::{InstanceName, LaunchId, MachineId, PoolName};
use crate::instance::Instance;
use crate::pool::{Allocation, Disk, Image, Placement, Requirements};
use crate::stored::Change;
use crate::time::Time;
use crate::timings::Timings;

/// A complete CreateFleet request: exactly these values are sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchRequest {
    /// The launch template.
    pub template_id: Arc<str>,
    /// The template's version number.
    pub template_version: Arc<str>,
    /// Instance types times subnets or, with requirements, subnets.
    pub overrides: Vec<Override>,
    /// Required attributes of every machine, if no types are listed.
    pub requirements: Option<Requirements>,
    /// Spot or On-Demand.
    pub market: Market,
    /// EC2's allocation strategy; one that the market supports.
    pub allocation: Allocation,
    /// Maximum Spot price in US dollars per hour.
    pub max_price: Option<String>,
    /// The image, if different from the launch template's.
    pub image: Option<Image>,
    /// The disk, if different from the launch template's.
    pub disk: Option<Disk>,
    /// The device of the launch template's disk, if `disk` uses a different one: otherwise the
    /// machine would get two disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_device: Option<Arc<str>>,
    /// Placement of the machines, if specified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Whether reserved capacity is used first. On-Demand only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved_first: bool,
    /// Number of machines.
    pub capacity: u32,
    /// Tags of machines and volumes.
    pub tags: Arc<[(String, String)]>,
}

impl LaunchRequest {
    /// Returns a choice's position in the order of preference, if EC2 should follow that order. 0
    /// is the first.
    #[must_use]
    pub fn priority(&self, choice: &Override) -> Option<u16> {
        let rank = match self.allocation {
            Allocation::Prioritized => self.overrides.iter().position(|one| one == choice)?,
            // With this strategy free capacity has precedence and determines the subnet.
            Allocation::CapacityOptimizedPrioritized => self.rank_of_type(&choice.instance_type)?,
            _ => return None,
        };
        u16::try_from(rank).ok()
    }

    fn rank_of_type(&self, wanted: &str) -> Option<usize> {
        let mut types: Vec<&str> = Vec::new();
        for one in &self.overrides {
            if !types.contains(&&*one.instance_type) {
                types.push(&one.instance_type);
            }
        }
        types.iter().position(|name| *name == wanted)
    }
}

/// Returns the allocation strategy to send: the pool's if the market supports it, otherwise the
/// market's default. For Spot the default considers price and free capacity, as AWS recommends:
/// preferring one type would cause more interruptions. Without a list of types there is no order of
/// types.
/// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-allocation-strategy.html
#[must_use]
pub const fn allocation(
    market: Market,
    wanted: Option<Allocation>,
    without_types: bool,
) -> Allocation {
    use Allocation::{
        CapacityOptimized, CapacityOptimizedPrioritized, Diversified, LowestPrice,
        PriceCapacityOptimized, Prioritized,
    };
    match (market, wanted) {
        (Market::Spot, Some(CapacityOptimizedPrioritized)) if without_types => CapacityOptimized,
        (
            Market::Spot,
            Some(
                known @ (PriceCapacityOptimized
                | CapacityOptimized
                | CapacityOptimizedPrioritized
                | Diversified
                | LowestPrice),
            ),
        ) => known,
        (Market::Spot, Some(Prioritized) | None) => PriceCapacityOptimized,
        (Market::OnDemand, _) if without_types => LowestPrice,
        (Market::OnDemand, Some(LowestPrice)) => LowestPrice,
        (Market::OnDemand, _) => Prioritized,
    }
}

/// The progress of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchState {
    /// EC2 was called or is about to be, and its response is not recorded.
    Open,
    /// EC2's response is recorded, and every slot is bound or released.
    Settled,
}

/// The record of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Launch {
    /// The record's schema version.
    pub schema: u16,
    /// The client token and tag value.
    pub id: LaunchId,
    /// The pool it is for.
    pub pool: PoolName,
    /// The request to EC2.
    pub request: LaunchRequest,
    /// The instances to bind the machines to.
    pub slots: Vec<InstanceName>,
    /// Open or settled.
    pub state: LaunchState,
    /// When it was committed.
    pub created_at: Time,
    /// The lease of the pass that called EC2; after it, any pass may replay the launch.
    pub lease_until: Time,
    /// Number of times the request was sent.
    pub calls: u32,
    /// When it was last sent, unless EC2 has definitely refused it since.
    pub called_at: Option<Time>,
    /// When, before that, it was last sent with an unknown outcome: that call may still be in
    /// flight.
    pub doubtful_at: Option<Time>,
}

impl Launch {
    /// Creates a launch that is leased to the pass that commits it.
    #[must_use]
    pub fn open(
        id: LaunchId,
        pool: PoolName,
        request: LaunchRequest,
        slots: Vec<InstanceName>,
        now: Time,
        timings: &Timings,
    ) -> Self {
        Self {
            schema: SCHEMA,
            id,
            pool,
            request,
            slots,
            state: LaunchState::Open,
            created_at: now,
            lease_until: now + timings.creating_lease_seconds,
            calls: 1,
            called_at: Some(now),
            doubtful_at: None,
        }
    }

    /// Returns the launch for a committing pass that does not call EC2: the first pass that finds
    /// it will.
    #[must_use]
    pub fn uncalled(self) -> Self {
        Self { lease_until: self.created_at, calls: 0, called_at: None, ..self }
    }

    /// Returns the launch leased for a call, usually a repeated one. `None` while a different pass
    /// may still be calling.
    #[must_use]
    pub fn leased_again(&self, now: Time, timings: &Timings) -> Option<Self> {
        let free = self.state == LaunchState::Open && now >= self.lease_until;
        free.then(|| Self {
            lease_until: now + timings.creating_lease_seconds,
            calls: self.calls + 1,
            called_at: Some(now),
            doubtful_at: self.called_at.or(self.doubtful_at),
            ..self.clone()
        })
    }

    /// Returns the launch with its lease released, due again at `again_at`. `is_refused`: EC2
    /// definitely launched no machine in this call.
    #[must_use]
    pub fn released(&self, again_at: Time, is_refused: bool) -> Self {
        let called_at = self.called_at.filter(|_| !is_refused);
        Self { lease_until: again_at, called_at, ..self.clone() }
    }

    /// Returns whether EC2 was called before with this launch's token, so that its response may
    /// date from the first call.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        self.calls > 1
    }

    /// Returns whether an earlier call may still be in flight, so that EC2 may still execute it.
    #[must_use]
    pub fn may_be_under_way(&self, now: Time, timings: &Timings) -> bool {
        self.doubtful_at.is_some_and(|at| !now.is_past(at, timings.creating_lease_seconds))
    }

    /// Returns the launch after its response was recorded.
    #[must_use]
    pub fn settled(&self) -> Self {
        Self { state: LaunchState::Settled, ..self.clone() }
    }

    /// Returns whether an ambiguous launch was looked up for long enough: a machine that appears
    /// later is an orphan.
    #[must_use]
    pub fn is_given_up(&self, now: Time, timings: &Timings) -> bool {
        now.is_past(self.created_at, timings.launch_lookup_seconds)
    }
}

/// EC2's response to a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaunchAnswer {
    /// The machines that it launched, with type, zone and market. A replay may omit them: AWS does
    /// not document that case.
    pub machines: BTreeMap<MachineId, Make>,
    /// Definite errors of parts of the fleet, one per type and zone.
    pub errors: Vec<LaunchError>,
}

/// The effect of EC2's response, or of the lookup by tag, on a launch and its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOutcome {
    /// The launch, settled or still open.
    pub launch: Change<Launch>,
    /// Slots that got a machine.
    pub bound: Vec<(MachineId, Change<Instance>)>,
    /// Slots that definitely got no machine.
    pub failed: Vec<Change<Instance>>,
    /// Slots of a launch that remains open, with the time of its next lookup.
    pub waiting: Vec<Change<Instance>>,
}

#[cfg(test)]
mod tests;
