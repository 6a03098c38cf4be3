//! The orphan ledger: machines that run, or may run, without a live record that owns them.

use serde::{Deserialize, Serialize};

use crate::absence::Absence;
use crate::ids::{InstanceName, MachineId};
use crate::instance::ErrorDetail;
use crate::time::Time;

/// One machine in the ledger. It stays there until EC2 says that the machine is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Orphan {
    /// Version of the record's form.
    pub schema: u16,
    /// The machine.
    pub machine: MachineId,
    /// The record that gave it up; none for a machine found by its tag alone.
    pub instance: Option<InstanceName>,
    /// When it was entered.
    pub since: Time,
    /// How often termination failed since then.
    pub attempts: u32,
    /// The last of those failures.
    pub last_error: Option<ErrorDetail>,
    /// EC2 does not know it, since when and until which look.
    pub absence: Option<Absence>,
}
