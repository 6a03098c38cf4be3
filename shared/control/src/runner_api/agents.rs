//! Which agent a machine runs its job with.

use futures_util::future::join;
use muster_domain::agent::{AgentDownload, AgentOffer, AgentReport, AgentVersion, Agents};
use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::pool::Pool;
use muster_domain::time::Time;

use super::RunnerApi;
use crate::causes::with_causes;
use crate::context::Wired;
use crate::health::note;
use crate::ports::{Github, Queue, Registrar, Table};

/// What a machine has told of its agent, and GitHub of others.
pub(super) struct Told {
    report: AgentReport,
    /// None where GitHub does not answer: it holds nothing up.
    listed: Option<Vec<AgentDownload>>,
    /// When GitHub stops accepting the machine's own agent, where it has announced that.
    ends_at: Option<Time>,
}

impl Told {
    /// What the machine takes in place of its own agent; with it, what is the newest.
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

    /// What its image has brought.
    pub(super) const fn own(&self) -> Option<AgentVersion> {
        self.report.version
    }

    /// The record after it, if that changes it.
    pub(super) fn after(&self, known: &Cooldowns, pool: &PoolName, now: Time) -> Option<Cooldowns> {
        let listed = self.listed.as_deref().unwrap_or_default();
        let ends = known.agents.after_end(self.own(), self.ends_at);
        let base = ends.as_ref().unwrap_or(&known.agents);
        known.with_agents(base.after_report(pool, self.own(), listed, now).or(ends))
    }
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> RunnerApi<'_, W> {
    /// Queries GitHub's list, and at the same time the end of the machine's own agent, where the
    /// machine can take another one.
    pub(super) async fn told_of_agents(
        &self,
        registrar: &Registrar,
        report: Option<AgentReport>,
    ) -> Option<Told> {
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
                "GitHub does not tell when it stops accepting an agent");
            None
        });
        let listed = match listed {
            Ok(listed) => Some(listed),
            Err(trouble) => {
                tracing::warn!(entity = %registrar.entity, error = with_causes(&trouble),
                    "GitHub does not list its agents: machines take what is known");
                None
            }
        };
        Some(Told { report, listed, ends_at })
    }

    /// GitHub has called an agent too old: machines whose image has it take another from now on.
    /// Where that cannot be written, the next one that ends like this tells it again.
    pub(super) async fn note_refused_agent(&self, version: AgentVersion, of: &Instance, now: Time) {
        tracing::warn!(instance.id = %of.name, pool.name = %of.pool, %version,
            "GitHub takes an agent no more: it is too old");
        let after = |known: &Cooldowns| known.with_agents(known.agents.after_refusal(version, now));
        if let Err(error) = note(self.context.table, after).await {
            tracing::warn!(instance.id = %of.name, error = with_causes(&error),
                "failed to note that GitHub takes an agent no more");
        }
    }
}

/// The archive from where the pool's machines get theirs.
pub(super) fn from_mirror(offer: AgentOffer, pool: &Pool) -> AgentOffer {
    match (offer, &pool.agent_mirror) {
        (AgentOffer::Download(download), Some(folder)) => {
            AgentOffer::Download(download.mirrored(folder))
        }
        (offer, _) => offer,
    }
}
