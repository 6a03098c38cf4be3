//! The record of agent versions, for all machines of the stack.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AgentDownload, AgentOffer, AgentReport, AgentVersion};
use crate::ec2::Arch;
use crate::ids::PoolName;
use crate::time::{Seconds, Time};

/// How long GitHub accepts an agent after the release of its successor.
const TAKEN_FOR: Seconds = Seconds(30 * 24 * 3600);
/// The first version that reports, when it exits, that it is too old; older ones exit without a
/// reason. github.com stopped accepting all of them long ago. GitHub Enterprise Server may list no
/// newer version, and accepts them.
const CAN_TELL: AgentVersion = AgentVersion::new(2, 333, 0);
/// Maximum number of versions stored of each kind: two years of releases.
const MAX_KEPT: usize = 24;

/// A version that GitHub's list has named as the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListedAgent {
    /// The version.
    pub version: AgentVersion,
    /// When it was first seen. GitHub may have released it earlier.
    pub since: Time,
}

/// A version whose agent exited because GitHub rejected it as too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefusedAgent {
    /// The version.
    pub version: AgentVersion,
    /// When a machine first reported that.
    pub at: Time,
}

/// The known status of an agent version at GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the newest version.
    Newest,
    /// A newer version exists, and GitHub accepts this one until that time at most.
    Until(Time),
    /// GitHub assigns it no jobs.
    TooOld,
}

/// The record. It is advice: if it is wrong, a machine ends without a job and reports that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Agents {
    /// Listed versions, oldest first.
    pub listed: Arc<[ListedAgent]>,
    /// The archives of the newest version, for use when GitHub does not answer.
    pub downloads: Arc<[AgentDownload]>,
    /// Versions that GitHub has rejected, newest rejection last.
    pub refused: Arc<[RefusedAgent]>,
    /// The agent versions in the images of pools, for those that have one.
    pub images: BTreeMap<PoolName, AgentVersion>,
    /// When GitHub will stop accepting versions, as announced.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ends: BTreeMap<AgentVersion, Time>,
}

impl Agents {
    /// Returns whether the record is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the newest version that GitHub has listed for any entity.
    #[must_use]
    pub fn newest(&self) -> Option<AgentVersion> {
        self.listed.last().map(|listed| listed.version)
    }

    /// Returns the status of a version. `newest`: the newest version in GitHub's list for its
    /// entity. `None` if no version is listed and this one was not rejected.
    #[must_use]
    pub fn standing(
        &self,
        version: AgentVersion,
        newest: Option<AgentVersion>,
        now: Time,
    ) -> Option<Standing> {
        if newest.is_some_and(|newest| version >= newest) {
            return Some(Standing::Newest);
        }
        // GitHub accepts no version older than one that it rejected.
        if self.refused.iter().any(|refused| refused.version >= version) {
            return Some(Standing::TooOld);
        }
        if newest? >= CAN_TELL && version < CAN_TELL {
            return Some(Standing::TooOld);
        }
        let newer = self.listed.iter().filter(|listed| listed.version > version);
        // The currently listed version may not be recorded yet.
        let since = newer.map(|listed| listed.since).min().unwrap_or(now);
        let until = self.ends.get(&version).copied().unwrap_or(since + TAKEN_FOR);
        Some(if now < until { Standing::Until(until) } else { Standing::TooOld })
    }

    /// Returns the agent that a machine should install instead of its own. `None` if it can keep
    /// its own. `listed`: GitHub's list for its entity, if GitHub answered.
    #[must_use]
    pub fn offer(
        &self,
        report: AgentReport,
        listed: Option<&[AgentDownload]>,
        now: Time,
    ) -> Option<AgentOffer> {
        let newest = self.newest_for(report.arch, listed);
        let lists = newest.map(|newest| newest.version);
        let is_kept = report
            .version
            .is_some_and(|version| self.standing(version, lists, now) != Some(Standing::TooOld));
        let download = || newest.cloned().map_or(AgentOffer::Newest, AgentOffer::Download);
        (!is_kept).then(download)
    }

    /// Returns the newest agent for a machine: from GitHub's list, or else from the last recorded
    /// list.
    #[must_use]
    pub fn newest_for<'a>(
        &'a self,
        arch: Arch,
        listed: Option<&'a [AgentDownload]>,
    ) -> Option<&'a AgentDownload> {
        let fits = |all: &'a [AgentDownload]| {
            let fitting = all.iter().filter(|one| one.arch == arch);
            fitting.max_by_key(|one| one.version)
        };
        listed.and_then(fits).or_else(|| fits(&self.downloads))
    }

    /// Returns the record after a machine of the pool reported its agent and GitHub returned its
    /// list, if that changes it.
    #[must_use]
    pub fn after_report(
        &self,
        pool: &PoolName,
        own: Option<AgentVersion>,
        listed: &[AgentDownload],
        now: Time,
    ) -> Option<Self> {
        let read = self.after_list(listed, now);
        let reported = read.as_ref().unwrap_or(self).after_image(pool, own);
        reported.or(read)
    }

    /// Returns the record after GitHub announced when it stops accepting a version, if that changes
    /// it.
    #[must_use]
    pub fn after_end(&self, version: Option<AgentVersion>, ends_at: Option<Time>) -> Option<Self> {
        let (version, ends_at) = version.zip(ends_at)?;
        if self.ends.get(&version) == Some(&ends_at) {
            return None;
        }
        let mut next = self.clone();
        next.ends.insert(version, ends_at);
        if next.ends.len() > MAX_KEPT {
            next.ends.pop_first();
        }
        Some(next)
    }

    /// Returns the record after GitHub's list, if that changes it. GitHub releases a new version to
    /// one owner after the other, so a list without a newer version is no evidence.
    #[must_use]
    pub fn after_list(&self, listed: &[AgentDownload], now: Time) -> Option<Self> {
        let newest = listed.iter().map(|one| one.version).max()?;
        let known = self.newest();
        if known.is_some_and(|known| newest < known)
            || (known == Some(newest) && listed == &*self.downloads)
        {
            return None;
        }
        let mut next = Self { downloads: listed.into(), ..self.clone() };
        if known != Some(newest) {
            next.listed = appended(&self.listed, ListedAgent { version: newest, since: now });
        }
        Some(next)
    }

    /// Returns the record after a machine of the pool reported its image's agent, if that changes
    /// it.
    #[must_use]
    pub fn after_image(&self, pool: &PoolName, version: Option<AgentVersion>) -> Option<Self> {
        if self.images.get(pool) == version.as_ref() {
            return None;
        }
        let mut next = self.clone();
        match version {
            Some(version) => next.images.insert(pool.clone(), version),
            None => next.images.remove(pool),
        };
        Some(next)
    }

    /// Returns the record after GitHub rejected an agent as too old, if that changes it. If it is
    /// the newest version, GitHub is wrong or has an outage, and replacing the agent would not
    /// help.
    #[must_use]
    pub fn after_refusal(&self, version: AgentVersion, now: Time) -> Option<Self> {
        let is_newest = self.newest().is_some_and(|newest| version >= newest);
        let is_known = self.refused.iter().any(|refused| refused.version == version);
        let refused = RefusedAgent { version, at: now };
        (!is_newest && !is_known)
            .then(|| Self { refused: appended(&self.refused, refused), ..self.clone() })
    }
}

/// Returns the list with one entry appended, and without its oldest entry if it is full.
fn appended<T: Clone>(list: &[T], one: T) -> Arc<[T]> {
    let kept = &list[list.len().saturating_sub(MAX_KEPT - 1)..];
    kept.iter().cloned().chain([one]).collect()
}
