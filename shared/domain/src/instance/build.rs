//! Instances that build a machine image: they never run a job.

use serde::{Deserialize, Serialize};

use super::{DeleteReason, Instance, ReportError, RunnerState, State};
use crate::agent::AgentVersion;
use crate::text::first;
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// How long a builder may take from its launch until it is ready for its image: a boot, packages, and the pool's
/// image hook.
const PREPARES_FOR: Seconds = Seconds(45 * 60);
/// How long a builder that is ready is kept for its image. EC2 takes a snapshot at the moment of the call, so a machine
/// that ends earlier does not spoil the image; keeping it is cheap.
const KEPT_FOR: Seconds = Seconds(3600);
/// How long a trial's runner waits at least until the build has seen it: a pool's idle limit can be shorter than the time
/// between two sweeps.
const TRIAL_WAITS: Seconds = Seconds(600);
/// Maximum length of the sentence in a builder's report, in characters.
const MAX_WHY: usize = 200;

/// How machines of an image start Muster.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum BootMethod {
    /// By a systemd unit of Muster's, without cloud-init.
    Unit,
    /// By cloud-init.
    CloudInit,
}

impl BootMethod {
    /// Returns the name used in reports and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A builder's report that its disk is ready for an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Baked {
    /// When it was reported.
    pub at: Time,
    /// The version of the agent on the disk, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentVersion>,
    /// How machines of the image boot.
    pub boot: BootMethod,
    /// Why they do not boot by the unit, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The used space of the disk, in bytes.
    pub disk_bytes: u64,
}

impl Baked {
    /// Creates the report of time `at`, with its sentence cut to a maximum length.
    #[must_use]
    pub fn new(
        at: Time,
        agent: Option<AgentVersion>,
        boot: BootMethod,
        why: Option<&str>,
        disk_bytes: u64,
    ) -> Self {
        let why = why.filter(|why| !why.is_empty()).map(|why| first(why, MAX_WHY).to_owned());
        Self { at, agent, boot, why, disk_bytes }
    }
}

/// The part of an instance in the build of an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildPart {
    /// EC2 creates the image of its disk.
    Builder {
        /// The requested boot method.
        boot: BootMethod,
        /// Its report, once the disk is ready.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        baked: Option<Baked>,
    },
    /// Its machine boots a new image, to show that machines of that image work.
    Trial,
}

impl Instance {
    /// Returns the boot method to prepare, if this is a builder.
    #[must_use]
    pub const fn builds(&self) -> Option<BootMethod> {
        match &self.build {
            Some(BuildPart::Builder { boot, .. }) => Some(*boot),
            Some(BuildPart::Trial) | None => None,
        }
    }

    /// Returns the report of a builder.
    #[must_use]
    pub const fn baked(&self) -> Option<&Baked> {
        match &self.build {
            Some(BuildPart::Builder { baked, .. }) => baked.as_ref(),
            Some(BuildPart::Trial) | None => None,
        }
    }

    /// Returns when a builder is deleted even if its image does not exist; `None` for other instances.
    #[must_use]
    pub fn build_deadline(&self) -> Option<Time> {
        self.builds()?;
        Some(self.baked().map_or(self.launched_at() + PREPARES_FOR, |baked| baked.at + KEPT_FOR))
    }

    /// Returns when an idle trial is deleted even if its build has not seen it; `None` for other instances.
    #[must_use]
    pub fn trial_deadline(&self, timings: &Timings) -> Option<Time> {
        self.build.as_ref()?;
        Some(self.runner.since + timings.idle_limit_seconds.max(TRIAL_WAITS))
    }

    /// Records a builder's request for its script. It can be repeated until the machine reports.
    ///
    /// # Errors
    /// If this is no builder, or the builder is being deleted or has ended.
    pub fn ask_script(&mut self, now: Time) -> Result<BootMethod, ReportError> {
        let boot = self.builds().ok_or(ReportError::OtherRegistration)?;
        if self.mark.is_some() || !matches!(self.state, State::Creating | State::Running) {
            return Err(ReportError::Draining);
        }
        if self.runner.exit.is_some() {
            return Err(ReportError::Ended);
        }
        if self.runner.state == RunnerState::Pending {
            self.runner.move_to(RunnerState::Installing, now);
            self.tell(now, "got the script that prepares an image".to_owned());
        }
        Ok(boot)
    }

    /// Records a builder's report that its disk is ready. A repeated report is ignored.
    ///
    /// # Errors
    /// If this is no builder, or the builder is being deleted or has ended.
    pub fn disk_is_ready(&mut self, report: Baked) -> Result<(), ReportError> {
        if self.mark.is_some() || !matches!(self.state, State::Creating | State::Running) {
            return Err(ReportError::Draining);
        }
        if self.runner.exit.is_some() {
            return Err(ReportError::Ended);
        }
        let at = report.at;
        match &mut self.build {
            Some(BuildPart::Builder { baked: Some(_), .. }) => return Ok(()),
            Some(BuildPart::Builder { baked, .. }) => *baked = Some(report),
            Some(BuildPart::Trial) | None => return Err(ReportError::OtherRegistration),
        }
        self.tell(at, "its disk is ready for an image".to_owned());
        Ok(())
    }

    /// Ends a machine that a build no longer needs. Its hook refuses every job, so no evidence is gathered first. Does
    /// nothing to a machine that is ending.
    pub fn leave_build(&mut self, now: Time) {
        if self.build.is_some() && self.mark.is_none() && self.state.is_serving() {
            self.to_pending_delete(DeleteReason::BuildEnded, now);
        }
    }
}

#[cfg(test)]
mod tests;
