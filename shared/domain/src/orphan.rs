//! The orphan ledger: machines that run, or may run, without a live record that owns them.

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::absence::Absence;
use crate::ec2::Make;
use crate::ids::{InstanceName, LaunchId, MachineId};
use crate::instance::ErrorDetail;
use crate::time::Time;

/// One machine in the ledger. It stays there until EC2 says that the machine is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Orphan {
    /// Version of the record's form.
    pub schema: u16,
    /// The machine.
    pub machine: MachineId,
    /// The record that gave it up; none for a machine that EC2 lists and no record knows.
    pub instance: Option<InstanceName>,
    /// The launch that made it. None for a machine that carries our stack's tag and that no launch
    /// made: it is told of, and never ended.
    pub launch: Option<LaunchId>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Make::is_unknown")]
    pub make: Make,
    /// Since when no record answers for what it costs: since EC2 launched it, or since a record gave
    /// it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs_since: Option<Time>,
    /// When it was entered.
    pub since: Time,
    /// How often termination failed since then.
    pub attempts: u32,
    /// The last of those failures.
    pub last_error: Option<ErrorDetail>,
    /// EC2 does not know it, since when and until which look.
    pub absence: Option<Absence>,
    /// The last look at it, where it is to be ended.
    pub looked_at: Option<Time>,
}

impl Orphan {
    /// A machine that EC2 lists and no record knows.
    #[must_use]
    pub fn found(machine: MachineId, launch: Option<LaunchId>, now: Time) -> Self {
        Self {
            schema: SCHEMA,
            machine,
            instance: None,
            launch,
            make: Make::default(),
            costs_since: None,
            since: now,
            attempts: 0,
            last_error: None,
            absence: None,
            looked_at: None,
        }
    }

    /// Who is looked at first: those that never were, then those whose last look is longest ago,
    /// and last what is not to be ended.
    #[must_use]
    pub fn turn(&self) -> (bool, Option<Time>, Time, &MachineId) {
        (self.launch.is_none(), self.looked_at, self.since, &self.machine)
    }

    /// It is to be ended, and is still there after a try.
    #[must_use]
    pub const fn will_not_end(&self) -> bool {
        self.launch.is_some() && self.looked_at.is_some()
    }
}
