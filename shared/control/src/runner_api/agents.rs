//! Selects the agent that a machine runs its job with.

use futures_util::future::join;
use muster_domain::agent::{AgentDownload, AgentOffer, AgentReport, AgentVersion, Agents};
use muster_domain::causes::with_causes;
use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::launch::record::Cooldowns;
use muster_domain::pool::Pool;
use muster_domain::time::Time;

use super::RunnerApi;
use crate::context::Wired;
use crate::health::note;
use crate::ports::{Github, Queue, Registrar, Table};

/// A machine's report about its agent, and GitHub's list.
pub(super) struct ReportedAgent {
    report: AgentReport,
    /// GitHub's list; absent if GitHub does not answer, in which case machines use the known
    /// agents.
    listed: Option<Vec<AgentDownload>>,
    /// When GitHub stops accepting the machine's own agent, if it has announced that.
    ends_at: Option<Time>,
}

impl ReportedAgent {
    /// Returns the agent to use instead of the machine's own, along with the newest version.
    pub(super) fn offer(
        &self,
        known: &Agents,
        now: Time,
    ) -> (Option<AgentOffer>, Option<AgentVersion>) {
        let listed = self.listed.as_deref();
        let newest = known.newest_for(self.report.arch, listed).map(|newest| newest.version);
        let learned = known.after_end(self.report.version, self.ends_at);
        (learned.as_ref().unwrap_or(known).offer(self.report, listed, now), newest)
    }

    /// Returns the version in the machine's image.
    pub(super) const fn own(&self) -> Option<AgentVersion> {
        self.report.version
    }

    /// Returns the record after this report, if it changes.
    pub(super) fn after(&self, known: &Cooldowns, pool: &PoolName, now: Time) -> Option<Cooldowns> {
        let listed = self.listed.as_deref().unwrap_or_default();
        let ends = known.agents.after_end(self.own(), self.ends_at);
        let base = ends.as_ref().unwrap_or(&known.agents);
        known.with_agents(base.after_report(pool, self.own(), listed, now).or(ends))
    }
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> RunnerApi<'_, W> {
    /// Queries GitHub's list and the end of support of the machine's own agent concurrently, if the
    /// machine can use a different agent.
    pub(super) async fn told_of_agents(
        &self,
        registrar: &Registrar,
        report: Option<AgentReport>,
    ) -> Option<ReportedAgent> {
        let report = report?;
        let github = self.context.github;
        let end = async {
            match report.version {
                Some(version) => github.agent_ends_at(registrar, version).await,
                None => Ok(None),
            }
        };
        let (listed, ends_at) = join(github.agents(registrar), end).await;
        let ends_at = ends_at.unwrap_or_else(|trouble| {
            tracing::info!(entity = %registrar.entity, error = with_causes(&trouble),
                "failed to read when GitHub stops accepting an agent");
            None
        });
        let listed = match listed {
            Ok(listed) => Some(listed),
            Err(trouble) => {
                tracing::warn!(entity = %registrar.entity, error = with_causes(&trouble),
                    "failed to list GitHub's agents: machines use the known ones");
                None
            }
        };
        Some(ReportedAgent { report, listed, ends_at })
    }

    /// Records that GitHub rejected an agent as too old: machines with it in their image use a
    /// different one from now on. If the write fails, the next such machine reports it again.
    pub(super) async fn note_refused_agent(&self, version: AgentVersion, of: &Instance, now: Time) {
        tracing::warn!(instance.id = %of.name, pool.name = %of.pool, %version,
            "GitHub no longer accepts an agent: it is too old");
        let after = |known: &Cooldowns| known.with_agents(known.agents.after_refusal(version, now));
        if let Err(error) = note(self.context.table, after).await {
            tracing::warn!(instance.id = %of.name, error = with_causes(&error),
                "failed to record that GitHub no longer accepts an agent");
        }
    }
}

/// Replaces an offer's download address with the pool's mirror, if it has one.
pub(super) fn from_mirror(offer: AgentOffer, pool: &Pool) -> AgentOffer {
    match (offer, &pool.agent_mirror) {
        (AgentOffer::Download(download), Some(folder)) => {
            AgentOffer::Download(download.mirrored(folder))
        }
        (offer, _) => offer,
    }
}
