//! A family: the pools whose machines can boot the same image.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::build::{Build, BuildReason};
use super::built::BuiltImage;
use crate::agent::AgentVersion;
use crate::backoff;
use crate::instance::BootMethod;
use crate::time::{Seconds, Time};

/// The age at which an image is rebuilt, for the distribution's updates.
const REBUILT_AFTER: Seconds = Seconds(7 * 24 * 3600);
/// How long GitHub must have listed a newer agent before an image is rebuilt for it. GitHub releases a version to one
/// owner after the other.
const AGENT_SETTLES: Seconds = Seconds(24 * 3600);
/// The waits after the first, second and each later failed build in a row.
const WAITS: [Seconds; 3] = [Seconds(3600), Seconds(6 * 3600), Seconds(24 * 3600)];
/// The wait after a build that ended for a reason outside of it, for example a Spot interruption. It doubles with each
/// one in a row, up to the maximum.
const RETRIED_AFTER: Seconds = Seconds(600);
const RETRIED_WITHIN: Seconds = Seconds(6 * 3600);
/// Maximum length of a failure's reason, in characters.
const MAX_WHY: usize = 600;

/// The failures of a family's builds since a machine last proved an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BuildFailure {
    /// Number of failures in a row.
    pub count: u32,
    /// When the last one was.
    pub at: Time,
    /// Its reason, in a sentence.
    pub why: String,
}

/// The images of a family, and the build of its next one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Family {
    /// The image that machines boot. `None`: the launch template's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<BuiltImage>,
    /// The image before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<BuiltImage>,
    /// The build in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// The operator who ordered a build that has not started yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered_by: Option<String>,
    /// The failures since a machine last proved an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<BuildFailure>,
    /// Number of builds in a row that ended for a reason outside of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub losses: u32,
    /// No build starts before this time unless an operator orders it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// Why a build that is due does not start: the pool launches no machine for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// The version of the scripts whose unit did not boot a machine: their images boot by cloud-init.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_fails: Option<Arc<str>>,
    /// Since when no pool belongs to the family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_pools_since: Option<Time>,
}

impl Family {
    /// Returns the current and the previous image.
    pub fn images(&self) -> impl Iterator<Item = &BuiltImage> {
        self.current.iter().chain(&self.previous)
    }

    /// Returns why a build should start now, if one should. `scripts` is the current version of the scripts; `agent`
    /// the newest agent that GitHub lists, with the time when it was first seen.
    #[must_use]
    pub fn due(
        &self,
        scripts: &str,
        agent: Option<(AgentVersion, Time)>,
        now: Time,
    ) -> Option<BuildReason> {
        if self.build.is_some() {
            return None;
        }
        if self.ordered_by.is_some() {
            return Some(BuildReason::Ordered);
        }
        if self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        let Some(current) = &self.current else { return Some(BuildReason::First) };
        let is_newer = |(version, since): (AgentVersion, Time)| {
            current.agent.is_some_and(|own| own < version) && now.is_past(since, AGENT_SETTLES)
        };
        if *current.scripts != *scripts {
            Some(BuildReason::Upgrade)
        } else if now.is_past(current.built_at, REBUILT_AFTER) {
            Some(BuildReason::Age)
        } else if agent.is_some_and(is_newer) {
            Some(BuildReason::Agent)
        } else {
            None
        }
    }

    /// Returns when the next build starts without an order: the time of the next weekly build, or the end of a back-off.
    #[must_use]
    pub fn next_build_at(&self) -> Option<Time> {
        let weekly = self.current.as_ref().map(|current| current.built_at + REBUILT_AFTER);
        weekly.into_iter().chain(self.not_before).max()
    }

    /// Returns how images of these scripts boot.
    #[must_use]
    pub fn boot_method(&self, scripts: &str) -> BootMethod {
        match self.unit_fails.as_deref() == Some(scripts) {
            true => BootMethod::CloudInit,
            false => BootMethod::Unit,
        }
    }

    /// Counts a failure, and delays the next build.
    pub(super) fn fails(&mut self, why: &str, now: Time) {
        let count = self.failure.as_ref().map_or(0, |failure| failure.count).saturating_add(1);
        let why = crate::text::first(why, MAX_WHY).to_owned();
        self.failure = Some(BuildFailure { count, at: now, why });
        let index = (count as usize - 1).min(WAITS.len() - 1);
        self.not_before = Some(now + WAITS[index]);
    }

    /// Makes the next build use cloud-init, and start at once.
    pub(super) fn does_not_boot_by_unit(&mut self, scripts: &Arc<str>) {
        self.unit_fails = Some(Arc::clone(scripts));
        self.not_before = None;
    }

    /// Starts the next build soon. An operator's order remains.
    pub(super) fn retries(&mut self, reason: BuildReason, by: Option<String>, now: Time) {
        if reason == BuildReason::Ordered {
            self.ordered_by = by;
        }
        self.losses = self.losses.saturating_add(1);
        self.not_before = Some(now + backoff::grown(RETRIED_AFTER, self.losses, RETRIED_WITHIN));
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}
