//! Responses to deletes, switches and canaries.

use std::borrow::Cow;
use std::collections::BTreeMap;

use muster_domain::ids::{Entity, InstanceName, PoolName};
use muster_domain::instance::{DeleteOrder, State};
use muster_domain::launch::LaunchRequest;
use muster_domain::switches::{SwitchedOff, Switches};
use muster_domain::time::{Seconds, Time};
use serde::{Deserialize, Serialize};

use super::{Finding, Location, Severity};

/// An accepted delete order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedDelete {
    /// The instance.
    pub name: InstanceName,
    /// Its state after the order.
    pub state: State,
    /// The order, merged with earlier orders.
    pub order: Option<DeleteOrder>,
    /// What happens next.
    pub message: Cow<'static, str>,
}

/// The result of a delete's dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteDryRun {
    /// Always true.
    pub dry_run: bool,
    /// The instance.
    pub name: InstanceName,
    /// Its current state.
    pub state: State,
    /// Its state after the order.
    pub would_be: State,
}

/// A machine that was launched without a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedCanary {
    /// Its instance; absent in a dry run.
    pub name: Option<InstanceName>,
    /// Whether this was a dry run, which launches no machine.
    pub dry_run: bool,
    /// The pool.
    pub pool: PoolName,
    /// The entity its runner registers with.
    pub entity: Entity,
    /// The request to EC2.
    pub request: LaunchRequest,
    /// Maximum time from the launch until the runner listens for jobs.
    pub boot_deadline_seconds: Seconds,
    /// How long its runner waits for a job before it exits.
    pub idle_limit_seconds: Seconds,
}

/// The response to a `switch` request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchedNow {
    /// The current positions.
    pub switches: ShownSwitches,
}

/// The switches that are off; an entry is absent if it is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownSwitches {
    /// Launches in all pools.
    pub launches: Option<SwitchedOff>,
    /// Deletes without force.
    pub deletes: Option<SwitchedOff>,
    /// Launches in these pools.
    pub pools: BTreeMap<PoolName, SwitchedOff>,
}

impl ShownSwitches {
    /// Returns the switches that are off at `now`.
    #[must_use]
    pub fn new(switches: &Switches, now: Time) -> Self {
        let pools = switches.pools_off(now);
        Self {
            launches: switches.all_launches_off(now).cloned(),
            deletes: switches.deletes_off(now).cloned(),
            pools: pools.map(|(name, off)| (name.clone(), off.clone())).collect(),
        }
    }
    /// Lists the pauses, each with the command that resumes it.
    #[must_use]
    pub fn findings(&self, now: Time) -> Vec<Finding> {
        let paused = |name: &str, off: &SwitchedOff, pool: Option<&PoolName>| {
            let SwitchedOff { since, by, reason, until: _ } = off;
            let (key, noun, location) = match pool {
                Some(pool) => (
                    format!("pool-paused:{pool}"),
                    format!("launches of pool {pool}"),
                    Location::Pool(pool.clone()),
                ),
                None => (format!("{name}-paused"), name.to_owned(), Location::Stack),
            };
            let (since_when, end) = (since.clock(now), off.end(now));
            let message = format!("{noun} were paused by {by} at {since_when}{end}: {reason}");
            let finding = Finding::new(key, Severity::Warning, location, &message);
            finding.since(*since).fix(format!("muster resume {name}"))
        };
        let stack = [("launches", &self.launches), ("deletes", &self.deletes)];
        let stack =
            stack.into_iter().filter_map(|(name, off)| Some(paused(name, off.as_ref()?, None)));
        let pools = self.pools.iter().map(|(pool, off)| paused(pool.as_str(), off, Some(pool)));
        stack.chain(pools).collect()
    }
}
