//! The write-ahead record of a fleet request.
//!
//! A launch is committed before EC2 is called, and its id is the client token. A retry replays the
//! stored request word for word, because EC2 answers a token with other parameters with
//! `IdempotentParameterMismatch`, and a new token launches again.
//! Source: docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html

pub mod cooldown;
pub mod foreign_runners;
pub mod plan;
pub mod registrations;
pub mod trouble;
pub mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ec2::classify::advice;
use crate::ec2::{ErrorClass, Make, Market, Override};
use crate::ids::{InstanceName, LaunchId, MachineId, PoolName};
use crate::pool::{Allocation, Disk, Image, Placement, Requirements};
use crate::time::Time;
use crate::timings::Timings;

/// Most combinations of type and subnet in one fleet request. AWS states this limit for fleets of
/// the types `request` and `maintain`, and none for `instant`, which ours are.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_FleetLaunchTemplateConfigRequest.html
pub const MAX_OVERRIDES: usize = 300;
/// Most subnets of a request with requirements in place of types: EC2 counts the requirements of
/// each override, and refuses a fifth.
/// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-attribute-based-instance-type-selection.html;
/// its message is in osbuild/osbuild-composer#3946
pub const MAX_REQUIREMENTS: usize = 4;

/// A CreateFleet request, complete: what is here is sent, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchRequest {
    /// The launch template and its numbered version.
    pub template_id: Arc<str>,
    /// See `template_id`.
    pub template_version: Arc<str>,
    /// Types times subnets, or, with requirements, subnets.
    pub overrides: Vec<Override>,
    /// What every machine must have, where no types are listed.
    pub requirements: Option<Requirements>,
    /// Spot or on-demand.
    pub market: Market,
    /// How EC2 chooses; one that the market knows.
    pub allocation: Allocation,
    /// The most to pay for a spot machine, in US dollars an hour.
    pub max_price: Option<String>,
    /// The image, where it is not the launch template's.
    pub image: Option<Image>,
    /// The disk, where it is not the launch template's.
    pub disk: Option<Disk>,
    /// The device of the launch template's own disk, where `disk` is on another: it would be a
    /// second disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_device: Option<Arc<str>>,
    /// Where machines stand, where it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Whether reserved capacity is taken before other. On demand only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved_first: bool,
    /// How many machines.
    pub capacity: u32,
    /// Tags of machine and volume.
    pub tags: Arc<[(String, String)]>,
}

impl LaunchRequest {
    /// The place of a choice in the order of preference, where EC2 is to go by that: 0 is the
    /// first.
    #[must_use]
    pub fn priority(&self, choice: &Override) -> Option<u16> {
        let rank = match self.allocation {
            Allocation::Prioritized => self.overrides.iter().position(|one| one == choice)?,
            // Free capacity comes first there, and chooses the subnet.
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

/// The allocation that is sent: what the pool asks for where the market knows it, else the market's
/// default. Spot goes by price and free capacity, as AWS advises: the preferred type alone would be
/// reclaimed more often. What has no list of types has no order of types either.
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

/// How far a launch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchState {
    /// EC2 was called, or is about to be, and its answer is not on record.
    Open,
    /// EC2's answer is on record and every slot is bound or free again.
    Settled,
}

/// The record of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Launch {
    /// Version of the record's form.
    pub schema: u16,
    /// Client token and tag.
    pub id: LaunchId,
    /// The pool it is for.
    pub pool: PoolName,
    /// What is asked of EC2.
    pub request: LaunchRequest,
    /// The instances that the machines will be bound to.
    pub slots: Vec<InstanceName>,
    /// Open or settled.
    pub state: LaunchState,
    /// When it was committed.
    pub created_at: Time,
    /// Until then it belongs to the pass that called EC2; later anyone may replay it.
    pub lease_until: Time,
    /// How often the request was sent.
    pub calls: u32,
    /// When it was last sent, unless EC2 has refused it for certain since.
    pub called_at: Option<Time>,
    /// When, before that, it was last sent with an outcome that nobody knows: it may still be under
    /// way.
    pub doubtful_at: Option<Time>,
}

impl Launch {
    /// A new launch, leased to the pass that commits it.
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

    /// The launch where who commits it does not call EC2: whoever finds it first does.
    #[must_use]
    pub fn uncalled(self) -> Self {
        Self { lease_until: self.created_at, calls: 0, called_at: None, ..self }
    }

    /// The lease taken for a call, mostly one more; none while another pass may still be calling.
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

    /// The lease given back at once: it is to be looked for again soon. `is_refused`: EC2 certainly
    /// did nothing on this call.
    #[must_use]
    pub fn released(&self, again_at: Time, is_refused: bool) -> Self {
        let called_at = self.called_at.filter(|_| !is_refused);
        Self { lease_until: again_at, called_at, ..self.clone() }
    }

    /// Whether EC2 has been called before with this launch's token: an answer may be as old as the
    /// first call.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        self.calls > 1
    }

    /// Whether an earlier call may still be under way: EC2 may yet carry it out.
    #[must_use]
    pub fn may_be_under_way(&self, now: Time, timings: &Timings) -> bool {
        self.doubtful_at.is_some_and(|at| !now.is_past(at, timings.creating_lease_seconds))
    }

    /// The answer is on record.
    #[must_use]
    pub fn settled(&self) -> Self {
        Self { state: LaunchState::Settled, ..self.clone() }
    }

    /// Whether an ambiguous launch has been looked for long enough: what shows up later is an
    /// orphan.
    #[must_use]
    pub fn is_given_up(&self, now: Time, timings: &Timings) -> bool {
        now.is_past(self.created_at, timings.launch_lookup_seconds)
    }
}

/// EC2's answer to a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaunchAnswer {
    /// The machines it launched, and what each is. A replay may answer without them: AWS does not
    /// document it.
    pub machines: BTreeMap<MachineId, Make>,
    /// Definite errors of parts of the fleet, one per type and zone.
    pub errors: Vec<LaunchError>,
}

/// A provider's error: class, its own code, its sentence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchError {
    /// What to do about it.
    pub class: ErrorClass,
    /// EC2's code, for example `InsufficientInstanceCapacity`.
    pub code: String,
    /// EC2's sentence.
    pub message: String,
    /// The type and subnet that it is about; none when it is about the whole call.
    pub place: Option<Override>,
}

impl LaunchError {
    /// Returns an error of a whole call: EC2's message, and advice where that alone does not help.
    #[must_use]
    pub fn new(class: ErrorClass, code: impl Into<String>, message: impl Into<String>) -> Self {
        let (code, mut message) = (code.into(), message.into());
        if let Some(advice) = advice(&code) {
            message = format!("{message} ({advice})");
        }
        Self { class, code, message, place: None }
    }

    /// Where, if that is known, and EC2's sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.place {
            Some(place) => format!("{place}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

impl std::fmt::Display for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.sentence())
    }
}

#[cfg(test)]
mod tests;
