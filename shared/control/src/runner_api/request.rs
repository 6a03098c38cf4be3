//! What a machine says, and what is read before it is answered.

use std::borrow::Cow;

use futures_util::future::join;
use muster_domain::ids::{InstanceName, MachineId};
use muster_domain::instance::StartReport;
use muster_domain::time::Seconds;

use super::{Hindrance, RunnerApiError};
use crate::Settings;
use crate::ports::Table;

/// A report of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineReport {
    /// The agent runs.
    RunnerStarted {
        /// Its registration.
        runner: String,
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
/// When one of them cannot be read. A machine may boot faster than its launch's answer is on
/// record; a pass binds it then, at the latest the one that repeats the launch, and until then it
/// asks again.
pub async fn look<'a, T: Table>(
    parameters: &'a Settings,
    table: &T,
    machine: &MachineId,
) -> Result<(Cow<'a, Settings>, InstanceName), RunnerApiError> {
    let (settings, owner) = join(parameters.current(table), table.owner_of(machine)).await;
    let (settings, owner) = (settings?, owner?);
    let unknown = || RunnerApiError::Later {
        after: Seconds(5),
        hindrance: Hindrance::NotKnownYet,
        why: "no record knows this machine yet".to_owned(),
    };
    Ok((settings, owner.ok_or_else(unknown)?))
}
