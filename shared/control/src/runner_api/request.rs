//! Machines' reports, and the reads before a request is answered.

use std::borrow::Cow;

use futures_util::future::join;
use muster_domain::agent::AgentVersion;
use muster_domain::ids::{InstanceName, MachineId, instance_of_runner};
use muster_domain::instance::{BootMethod, Instance, StartReport, StopCause, Used};
use muster_domain::stored::Stored;
use muster_domain::time::Seconds;
use muster_domain::usage::Prices;

use super::{Hindrance, RunnerApiError};
use crate::Settings;
use crate::ports::{Bound, Table};

/// A report from the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineReport {
    /// The agent started.
    RunnerStarted {
        /// The runner's registration.
        runner: String,
    },
    /// A job is about to start: the compare-and-set.
    JobStarted {
        /// The runner's registration.
        runner: String,
        /// The job.
        job: StartReport,
    },
    /// The job ended.
    JobCompleted {
        /// The runner's registration.
        runner: String,
        /// What the job used.
        used: Option<Used>,
    },
    /// The machine saw EC2's notice of a Spot interruption.
    Interrupted {
        /// The runner's registration.
        runner: String,
    },
    /// The agent exited.
    Exited {
        /// The runner's registration. Only leads to the record; the machine's end is accepted with any.
        runner: String,
        /// Its exit code.
        code: i32,
        /// Why the supervisor stopped it, if it did.
        stopped_for: Option<StopCause>,
        /// What its job used, again: the earlier report may be lost.
        used: Option<Used>,
    },
    /// A builder's disk is ready for an image.
    Baked {
        /// The version of the agent on it, if it can be read.
        agent: Option<AgentVersion>,
        /// How machines of the image boot.
        boot: BootMethod,
        /// Why they do not boot by the unit.
        why: Option<String>,
        /// The used space, in bytes.
        disk_bytes: u64,
    },
    /// The agent never started.
    BootFailed {
        /// The last log lines.
        log: String,
    },
}

impl MachineReport {
    /// Returns the registration that the report names.
    fn runner(&self) -> Option<&str> {
        match self {
            Self::RunnerStarted { runner }
            | Self::JobStarted { runner, .. }
            | Self::JobCompleted { runner, .. }
            | Self::Interrupted { runner }
            | Self::Exited { runner, .. } => Some(runner),
            Self::Baked { .. } | Self::BootFailed { .. } => None,
        }
    }
}

/// The instance that owns a machine.
#[derive(Clone, Debug)]
pub struct MachineOwner {
    /// Its name, which never changes.
    pub(super) name: InstanceName,
    /// Its record, if that was read to find the owner.
    pub(super) read: Option<Stored<Instance>>,
    /// Its record as the bind wrote it: see [`Bound`].
    pub(super) bound: Option<Stored<Instance>>,
    /// The latest prices, for the answer to the end of a job.
    pub(super) prices: Option<Prices>,
}

impl From<InstanceName> for MachineOwner {
    fn from(name: InstanceName) -> Self {
        Self { name, read: None, bound: None, prices: None }
    }
}

/// Reads what every request needs: the current pools and, concurrently, the owner of the machine
/// that calls. A report names its registration, and so the instance; that instance's record shows
/// whether it owns the machine.
///
/// # Errors
/// If one of them cannot be read. A machine may boot before its launch's answer is recorded: it
/// retries until a pass has bound it, at the latest the pass that repeats the launch.
pub async fn look<'a, T: Table>(
    parameters: &'a Settings,
    table: &T,
    machine: &MachineId,
    report: Option<&MachineReport>,
) -> Result<(Cow<'a, Settings>, MachineOwner), RunnerApiError> {
    if let Some(name) = report.and_then(MachineReport::runner).and_then(instance_of_runner) {
        let with_prices = matches!(report, Some(MachineReport::JobCompleted { .. }));
        let named = async {
            if with_prices {
                table.instance_and_prices(&name).await
            } else {
                Ok((table.instance(&name).await?, None))
            }
        };
        let (settings, named) = join(parameters.current(table), named).await;
        let (named, prices) = named.unwrap_or_default();
        if let Some(read) = named.filter(|named| named.machine() == Some(machine)) {
            return Ok((settings?, MachineOwner { read: Some(read), prices, ..name.into() }));
        }
    }
    let (settings, owner) = join(parameters.current(table), table.bound_to(machine)).await;
    let (settings, owner) = (settings?, owner?);
    let unknown = || RunnerApiError::Later {
        after: Seconds(5),
        hindrance: Hindrance::NotKnownYet,
        why: "this machine has no record yet".to_owned(),
    };
    let Bound { owner, record } = owner.ok_or_else(unknown)?;
    Ok((settings, MachineOwner { bound: record, ..owner.into() }))
}
