//! The orphan ledger: machines that run, or may run, without a live record that owns them.

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::absence::Absence;
use crate::ec2::Make;
use crate::ids::{InstanceName, LaunchId, MachineId};
use crate::provider::ErrorDetail;
use crate::time::Time;

/// A machine in the ledger. It remains there until EC2 reports that the machine is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Orphan {
    /// The record's schema version.
    pub schema: u16,
    /// The machine.
    pub machine: MachineId,
    /// The instance whose forced delete moved it here. `None` for a machine that EC2 lists without
    /// a record.
    pub instance: Option<InstanceName>,
    /// The launch that created it. `None` for a machine that has the stack's tag but comes from no
    /// launch: it is reported but never terminated.
    pub launch: Option<LaunchId>,
    /// Instance type, zone and market.
    #[serde(default, skip_serializing_if = "Make::is_unknown")]
    pub make: Make,
    /// When its cost stopped being recorded elsewhere: when EC2 launched it, or when its record
    /// ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs_since: Option<Time>,
    /// When it was added.
    pub since: Time,
    /// Number of failed terminations since then.
    pub attempts: u32,
    /// The last failure.
    pub last_error: Option<ErrorDetail>,
    /// The period in which EC2 has denied knowing the machine.
    pub absence: Option<Absence>,
    /// When it was last checked, if it should be terminated.
    pub looked_at: Option<Time>,
}

impl Orphan {
    /// Creates an entry for a machine that EC2 lists without a record.
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

    /// Sort key of the order of checks: first machines that were never checked, then by the time of
    /// the last check, and last the machines that should not be terminated.
    #[must_use]
    pub fn turn(&self) -> (bool, Option<Time>, Time, &MachineId) {
        (self.launch.is_none(), self.looked_at, self.since, &self.machine)
    }

    /// Returns whether it should be terminated and still exists after an attempt.
    #[must_use]
    pub const fn will_not_end(&self) -> bool {
        self.launch.is_some() && self.looked_at.is_some()
    }
}
