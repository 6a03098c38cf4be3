//! Deletes, switches and canaries.

use std::borrow::Cow;
use std::collections::BTreeMap;

use muster_domain::ids::{Entity, InstanceName, PoolName};
use muster_domain::instance::{Order, State};
use muster_domain::launch::LaunchRequest;
use muster_domain::switches::{SwitchedOff, Switches};
use muster_domain::time::{Seconds, Time};
use serde::{Deserialize, Serialize};

/// A delete that was ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedDelete {
    /// The instance.
    pub name: InstanceName,
    /// Its state with the order.
    pub state: State,
    /// The order, joined with those before.
    pub order: Option<Order>,
    /// What happens next.
    pub message: Cow<'static, str>,
}

/// What a delete would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteDryRun {
    /// Always true.
    pub dry_run: bool,
    /// The instance.
    pub name: InstanceName,
    /// Its state.
    pub state: State,
    /// Its state with the order.
    pub would_be: State,
}

/// A machine that is launched for no job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedCanary {
    /// Its instance; none in a dry run.
    pub name: Option<InstanceName>,
    /// Nothing was launched.
    pub dry_run: bool,
    /// The pool.
    pub pool: PoolName,
    /// Where its runner is registered.
    pub entity: Entity,
    /// What EC2 is asked for.
    pub request: LaunchRequest,
    /// How long its machine may take until its runner listens.
    pub boot_deadline_seconds: Seconds,
    /// How long its runner waits for a job before it ends by itself.
    pub idle_limit_seconds: Seconds,
}

/// The switches after a `switch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchedNow {
    /// As they are now.
    pub switches: ShownSwitches,
}

/// The switches; none where something is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownSwitches {
    /// New machines of every pool.
    pub launches: Option<SwitchedOff>,
    /// Every delete without force.
    pub deletes: Option<SwitchedOff>,
    /// New machines of these pools.
    pub pools: BTreeMap<PoolName, SwitchedOff>,
}

impl ShownSwitches {
    /// What of the record is still off.
    #[must_use]
    pub fn new(switches: &Switches, now: Time) -> Self {
        let pools = switches.pools_off(now);
        Self {
            launches: switches.all_launches_off(now).cloned(),
            deletes: switches.deletes_off(now).cloned(),
            pools: pools.map(|(name, off)| (name.clone(), off.clone())).collect(),
        }
    }
}
