//! What a machine says, and what is read before it is answered.

use std::borrow::Cow;

use futures_util::future::join;
use muster_domain::ids::{InstanceName, MachineId};
use muster_domain::instance::StartReport;

use crate::Settings;
use crate::ports::{ReadError, Table};

/// A report of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineReport {
    /// The agent runs.
    RunnerStarted {
        /// Its registration.
        runner: String,
        /// Its hooks are in place.
        hooks: bool,
    },
    /// A job is about to start: the compare-and-set.
    JobStarted {
        /// Its registration.
        runner: String,
        /// The job.
        job: StartReport,
    },
    /// The job ended.
    JobCompleted {
        /// Its registration.
        runner: String,
    },
    /// The agent ended.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// The agent never started.
    BootFailed {
        /// The last log lines.
        log: String,
    },
}

/// What every request begins with: the pools as they are now, and who owns the machine that asks.
/// One read does not wait for the other.
///
/// # Errors
/// When one of them cannot be read.
pub async fn look<'a, T: Table>(
    parameters: &'a Settings,
    table: &T,
    machine: &MachineId,
) -> Result<(Cow<'a, Settings>, Option<InstanceName>), ReadError> {
    let (settings, owner) = join(parameters.current(table), table.owner_of(machine)).await;
    Ok((settings?, owner?))
}
