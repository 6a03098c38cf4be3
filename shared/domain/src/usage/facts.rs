//! What a machine cannot know about itself, for the lines in its job's log.

use serde::Serialize;

use super::prices::Prices;
use crate::ec2::Make;
use crate::ids::PoolName;
use crate::instance::{Instance, Phase};
use crate::pool::Pool;
use crate::time::{Seconds, Time};

/// A runner that idled longer than this before its job was not what the job waited for.
const PICKED_UP_WITHIN: Seconds = Seconds(60);

/// What the log of a job shows about its machine, in addition to what the machine measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobFacts {
    /// Instance type, zone and market.
    #[serde(flatten)]
    pub make: Make,
    /// The pool.
    pub pool: PoolName,
    /// How long a job waited for this machine, from its plan until the agent listened, and how long
    /// the machine booted. `None` if it was there before its job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<[Seconds; 2]>,
    /// The time since the machine was launched.
    pub seconds: Seconds,
    /// The price of machine and disk per hour, in millionths of a dollar, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
}

impl JobFacts {
    /// Returns the facts about an instance's machine. `None` if its pool does not want them in logs.
    /// `pool` is absent if it no longer exists.
    #[must_use]
    pub fn new(
        instance: &Instance,
        pool: Option<&Pool>,
        prices: Option<&Prices>,
        now: Time,
    ) -> Option<Self> {
        if pool.is_some_and(|pool| !pool.log_usage) {
            return None;
        }
        let disk = pool.and_then(|pool| pool.disk.as_ref());
        let disk = disk.map_or(Pool::TEMPLATE_DISK_GIB, |disk| disk.size_gib);
        let price = prices.and_then(|prices| prices.of(&instance.make, disk));
        Some(Self {
            make: instance.make.clone(),
            pool: instance.pool.clone(),
            waited: waited(instance),
            seconds: now.since(instance.bound_at?),
            price: price.map(|price| price.whole()),
        })
    }
}

fn waited(instance: &Instance) -> Option<[Seconds; 2]> {
    let phases = instance.phases();
    let (_, listened) = *phases.iter().find(|(phase, _)| *phase == Phase::Started)?;
    let started = instance.runner.started.as_ref()?.at;
    let is_for_job = instance.bought_for_job && started.since(listened) <= PICKED_UP_WITHIN;
    is_for_job.then_some([listened.since(instance.created_at), listened.since(instance.bound_at?)])
}
