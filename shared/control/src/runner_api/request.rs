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

impl MachineReport {
    /// Whether the pass over it asks what the pools are. A starting job does not: its hook waits,
    /// with a limit of its own, and refuses the job for a late answer.
    #[must_use]
    pub const fn asks_pools(&self) -> bool {
        !matches!(self, Self::JobStarted { .. })
    }
}

/// The settings that a request is answered with: the pools as they are now, except for a report
/// that does not ask what they are. `report` is none where a configuration is asked for.
async fn settings_for<'a, T: Table>(
    parameters: &'a Settings,
    table: &T,
    report: Option<&MachineReport>,
) -> Result<Cow<'a, Settings>, ReadError> {
    match report {
        Some(report) if !report.asks_pools() => Ok(Cow::Borrowed(parameters)),
        _ => parameters.current(table).await,
    }
}

/// What every request begins with: the settings that it is answered with, and who owns the machine
/// that asks. `report` is none where a configuration is asked for. One read does not wait for the
/// other.
///
/// # Errors
/// When one of them cannot be read.
pub async fn look<'a, T: Table>(
    parameters: &'a Settings,
    table: &T,
    machine: &MachineId,
    report: Option<&MachineReport>,
) -> Result<(Cow<'a, Settings>, Option<InstanceName>), ReadError> {
    let settings = settings_for(parameters, table, report);
    let (settings, owner) = join(settings, table.owner_of(machine)).await;
    Ok((settings?, owner?))
}
