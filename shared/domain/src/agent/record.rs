//! What is on record of agents, for all machines of the stack.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AgentDownload, AgentOffer, AgentReport, AgentVersion};
use crate::ids::PoolName;
use crate::pool::Arch;
use crate::time::{Seconds, Time};

/// How long GitHub takes an agent once there is a newer one.
const TAKEN_FOR: Seconds = Seconds(30 * 24 * 3600);
/// An older agent cannot say that it is too old: it just ends. github.com has taken none of them
/// for longer than its thirty days. GitHub Enterprise Server may list nothing newer, and takes them.
const CAN_TELL: AgentVersion = AgentVersion::new(2, 333, 0);
/// Most versions that are kept of each kind: two years of releases.
const MAX_KEPT: usize = 24;

/// A version that GitHub's list has named as the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListedAgent {
    /// The version.
    pub version: AgentVersion,
    /// Since when we know of it. GitHub may have released it earlier.
    pub since: Time,
}

/// A version that has ended because GitHub called it too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefusedAgent {
    /// The version.
    pub version: AgentVersion,
    /// When a machine told that first.
    pub at: Time,
}

/// How an agent stands with GitHub, as far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no newer one.
    Newest,
    /// There is a newer one, and GitHub takes this one until then at most.
    Until(Time),
    /// GitHub gives it no job.
    TooOld,
}

/// The record. It is advice: a machine that it misleads ends without a job, and says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Agents {
    /// Oldest first.
    pub listed: Arc<[ListedAgent]>,
    /// The archives of the newest, for when GitHub does not answer.
    pub downloads: Arc<[AgentDownload]>,
    /// What GitHub has refused, the newest refusal last.
    pub refused: Arc<[RefusedAgent]>,
    /// The agents that the images of pools have brought, where they have one.
    pub images: BTreeMap<PoolName, AgentVersion>,
    /// When GitHub stops accepting versions, as it has announced.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ends: BTreeMap<AgentVersion, Time>,
}

impl Agents {
    /// Nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The newest version that GitHub has listed to anybody.
    #[must_use]
    pub fn newest(&self) -> Option<AgentVersion> {
        self.listed.last().map(|listed| listed.version)
    }

    /// How a version stands. `newest`: what GitHub lists for its entity. None where nothing is
    /// listed and nothing is held against it.
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
        // GitHub takes nothing that is older than what it refuses.
        if self.refused.iter().any(|refused| refused.version >= version) {
            return Some(Standing::TooOld);
        }
        if newest? >= CAN_TELL && version < CAN_TELL {
            return Some(Standing::TooOld);
        }
        let newer = self.listed.iter().filter(|listed| listed.version > version);
        // What is listed now may not be on record yet.
        let since = newer.map(|listed| listed.since).min().unwrap_or(now);
        let until = self.ends.get(&version).copied().unwrap_or(since + TAKEN_FOR);
        Some(if now < until { Standing::Until(until) } else { Standing::TooOld })
    }

    /// What a machine is to take in place of its own agent; none where it may keep that. `listed`:
    /// GitHub's list for its entity, if it has answered.
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

    /// The newest agent for a machine: what GitHub lists, or else the last that it listed.
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

    /// The record after a machine of the pool told which agent it has, and GitHub listed some, if that
    /// changes it.
    #[must_use]
    pub fn after_report(
        &self,
        pool: &PoolName,
        own: Option<AgentVersion>,
        listed: &[AgentDownload],
        now: Time,
    ) -> Option<Self> {
        let read = self.after_list(listed, now);
        let told = read.as_ref().unwrap_or(self).after_image(pool, own);
        told.or(read)
    }

    /// The record after GitHub announced when it stops accepting a version, if that changes it.
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

    /// The record after GitHub's list, if that changes it. GitHub lists a new version to one owner
    /// after another, so a list with nothing newer says nothing.
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
            next.listed = with(&self.listed, ListedAgent { version: newest, since: now });
        }
        Some(next)
    }

    /// The record after a machine of the pool told which agent its image has, if that changes it.
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

    /// The record after GitHub called an agent too old, if that changes it. Where it is the newest
    /// there is, GitHub is mistaken or down: to replace it would not help.
    #[must_use]
    pub fn after_refusal(&self, version: AgentVersion, now: Time) -> Option<Self> {
        let is_newest = self.newest().is_some_and(|newest| version >= newest);
        let is_known = self.refused.iter().any(|refused| refused.version == version);
        let refused = RefusedAgent { version, at: now };
        (!is_newest && !is_known)
            .then(|| Self { refused: with(&self.refused, refused), ..self.clone() })
    }
}

/// The list with one more at its end, and the oldest gone where there are too many.
fn with<T: Clone>(list: &[T], one: T) -> Arc<[T]> {
    let kept = &list[list.len().saturating_sub(MAX_KEPT - 1)..];
    kept.iter().cloned().chain([one]).collect()
}
