//! The build of an image.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::built::{BuiltImage, Trust};
use crate::ids::{ImageId, InstanceName, LaunchId, PoolName};
use crate::instance::{Baked, DeleteReason, Instance, RunnerState};
use crate::time::{Seconds, Time};

/// How long EC2 may take to create an image. Large disks take an hour; EC2 documents no maximum.
pub const EC2_CREATES_FOR: Seconds = Seconds(12 * 3600);
/// How long EC2 may not show an image that it has created. EC2 is eventually consistent.
pub const EC2_HIDES_FOR: Seconds = Seconds(1800);
/// How long a build waits for a machine to try its image with: the pool may be full.
pub const TRIED_WITHIN: Seconds = Seconds(24 * 3600);
/// Maximum number of trials that ended for a reason outside of the image.
pub const MAX_TRIALS: u32 = 5;

/// Why a build was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum BuildReason {
    /// An operator ordered it.
    Ordered,
    /// The family has no image.
    First,
    /// The scripts that prepare an image have changed.
    Upgrade,
    /// The image is a week old.
    Age,
    /// GitHub lists a newer agent.
    Agent,
}

impl BuildReason {
    /// Returns the reason in a few words.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Ordered => "an operator ordered it",
            Self::First => "there is no image yet",
            Self::Upgrade => "Muster's scripts or launch template changed",
            Self::Age => "the image is a week old",
            Self::Agent => "GitHub lists a newer agent",
        }
    }
}

/// What a build waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildStep {
    /// The builder prepares its disk.
    Preparing,
    /// EC2 creates the image.
    Creating {
        /// When EC2 was first called.
        since: Time,
        /// The builder's report.
        baked: Baked,
        /// The image's ID, once EC2 has returned it.
        image: Option<ImageId>,
    },
    /// A machine of the image shows whether it boots.
    Trying {
        /// When EC2 had created the image.
        since: Time,
        /// The image.
        image: Box<BuiltImage>,
        /// The machine, once it is launched.
        trial: Option<InstanceName>,
        /// Number of machines before it that ended for a reason outside of the image.
        lost: u32,
    },
}

/// The build of an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Build {
    /// The pool that its machines are launched with.
    pub pool: PoolName,
    /// The instance that is imaged.
    pub builder: InstanceName,
    /// The builder's launch, which names the image.
    pub launch: LaunchId,
    /// When it was started.
    pub since: Time,
    /// Why it was started.
    pub reason: BuildReason,
    /// The operator who ordered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The version of the scripts that prepare the image.
    pub scripts: Arc<str>,
    /// What it waits for.
    pub step: BuildStep,
}

impl Build {
    /// Returns the image that it is creating or trying.
    #[must_use]
    pub const fn image(&self) -> Option<&ImageId> {
        match &self.step {
            BuildStep::Preparing => None,
            BuildStep::Creating { image, .. } => image.as_ref(),
            BuildStep::Trying { image, .. } => Some(&image.id),
        }
    }

    /// Returns its instances.
    pub fn instances(&self) -> impl Iterator<Item = &InstanceName> {
        let trial = match &self.step {
            BuildStep::Trying { trial, .. } => trial.as_ref(),
            BuildStep::Preparing | BuildStep::Creating { .. } => None,
        };
        std::iter::once(&self.builder).chain(trial)
    }

    /// Returns what it waits for, in a few words.
    #[must_use]
    pub const fn waits_for(&self) -> &'static str {
        match &self.step {
            BuildStep::Preparing => "the builder installs packages and the agent",
            BuildStep::Creating { .. } => "EC2 creates the image",
            BuildStep::Trying { trial: None, .. } => "waits for a machine that tries the image",
            BuildStep::Trying { trial: Some(_), .. } => "a machine tries the image",
        }
    }

    /// Returns the image, once EC2 has created it with this disk size.
    #[must_use]
    pub fn built(&self, id: ImageId, baked: &Baked, disk_gib: u32) -> BuiltImage {
        BuiltImage {
            id,
            name: self.launch.to_string(),
            built_at: baked.at,
            agent: baked.agent,
            scripts: Arc::clone(&self.scripts),
            boot: baked.boot,
            why: baked.why.clone(),
            disk_gib,
            used_bytes: baked.disk_bytes,
            untried: None,
            trust: Trust::Probation(Vec::new()),
        }
    }
}

/// How a machine has ended that belongs to a build, or to an image on probation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineEnd {
    /// It did not boot, or its script failed; with the reason.
    Failed(String),
    /// For a reason outside of the image: EC2 had no machine or took it back, or an operator deleted it.
    Lost(String),
}

impl MachineEnd {
    /// Returns how an instance has ended, if it is ending. An instance whose record is gone was lost.
    #[must_use]
    pub fn of(instance: Option<&Instance>) -> Option<Self> {
        let Some(instance) = instance else {
            return Some(Self::Lost("its record is gone".to_owned()));
        };
        let exit = instance.runner.exit.as_ref();
        if instance.spot_notice_at.is_some() || exit.is_some_and(|exit| exit.stopped_for.is_some())
        {
            return Some(Self::Lost("EC2 reclaimed its machine".to_owned()));
        }
        let mark = instance.mark();
        if exit.is_none() && mark.is_none() && instance.state().is_live() {
            return None;
        }
        let last = || {
            instance.last_error.as_ref().map(|error| format!("{}: {}", error.code, error.message))
        };
        let lost = |what: &str| {
            Some(Self::Lost(
                last().map_or_else(|| what.to_owned(), |last| format!("{what}: {last}")),
            ))
        };
        let failed = |what: &str| Some(Self::Failed(instance.with_last_words(what)));
        if instance.machine().is_none() {
            return lost("EC2 launched no machine");
        }
        if exit.is_some() && instance.runner.state == RunnerState::Failed {
            return failed("its machine failed to boot");
        }
        match mark.map(|mark| &mark.reason) {
            Some(DeleteReason::BootTimeout) if instance.builds().is_some() => {
                failed("the builder did not finish in time")
            }
            Some(DeleteReason::BootTimeout) => failed("its machine did not start a runner in time"),
            Some(DeleteReason::MaxLifetime) => {
                failed("it reached its pool's maximum lifetime before it was ready")
            }
            Some(DeleteReason::Ordered) => lost("an operator deleted it"),
            Some(DeleteReason::Outdated) => lost("its pool has changed"),
            Some(DeleteReason::MachineGone | DeleteReason::MachineStopped) => {
                match instance.ended_by() {
                    Some(code) if is_foreign(code) => lost("its machine was ended"),
                    Some(_) | None => failed("its machine ended before it was ready"),
                }
            }
            _ => failed("its runner ended"),
        }
    }
}

/// Returns whether a state reason's code means that EC2, or a user of the account, ended the machine.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
fn is_foreign(code: &str) -> bool {
    code.starts_with("Server.") || code == "Client.UserInitiatedShutdown"
}

/// Returns the proof that a machine has booted: it requested its runner's configuration, whether or not GitHub had one.
#[must_use]
pub fn has_booted(instance: &Instance) -> bool {
    instance.runner.n > 0
}
