//! The stack as a whole, and what needs attention there.

mod pools;

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures_util::future::{try_join, try_join_all, try_join4, try_join5};
use muster_api::AdminError;
use muster_api::answers::{
    AgentsStatus, Answer, AppStatus, EntityStatus, Finding, ImageAgent, LimitStatus, Location,
    OrphanStatus, Overview, Severity, ShownSwitches, StackStatus, UnservedJob, UnservedJobs,
};
use muster_domain::SCHEMA;
use muster_domain::agent::{Agents, Standing};
use muster_domain::ids::{Entity, PoolName};
use muster_domain::image::Images;
use muster_domain::job::Job;
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::trouble::{Trouble, TroubleScope};
use muster_domain::pool::Pool;
use muster_domain::pool::limits::{Headroom, Scope};
use muster_domain::rerun::Rerun;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::Prices;

use self::pools::Around;
use super::Admin;
use super::findings::{StackFacts, at_most, damaged, findings, not_rolled_up};
use super::switch::SUBJECT;
use crate::app_watch::AppWatch;
use crate::context::{Context, Ports, Wired};
use crate::notices::Notices;
use crate::ports::{
    Directory, Jobs as _, Launches as _, Operations as _, ReadError, Table, Usage as _,
};
use crate::sums::late_since;

/// Maximum number of unserved jobs whose reasons are read.
const LOOKED_AT: u32 = 100;
/// Maximum number of reasons shown.
const REASONS_SHOWN: usize = 10;
/// Number of audit lines about switches that `status` shows.
const SWITCHINGS_SHOWN: u32 = 10;
/// Maximum number of workflow runs with interrupted jobs that are read.
const RERUNS_READ: u32 = 1_000;
/// How long the end of such a record is reported.
const RERUNS_SINCE: Seconds = Seconds(24 * 3600);
/// How many findings `overview` shows.
const FINDINGS_SHOWN: usize = 20;

/// The state of the stack without GitHub.
struct StackSnapshot {
    /// Without its findings.
    overview: Overview,
    cooldowns: Option<Cooldowns>,
    entities: Vec<EntityStatus>,
    orphans: Vec<OrphanStatus>,
    notices: Option<Notices>,
    /// Since when the roll-up of costs is outstanding.
    costs_due: Option<Time>,
    prices: Option<Prices>,
    images: Option<Images>,
    /// Workflow runs with interrupted jobs: those that wait, then what became of the latest.
    reruns: Vec<Rerun>,
    /// Records that cannot be parsed. Their contents are left out.
    damages: Vec<ReadError>,
}

impl StackSnapshot {
    /// Returns the overview with everything that needs attention. `app`: GitHub's current answer;
    /// without it, the result of the last recorded check is used.
    fn judged(self, app: Option<&AppStatus>) -> Overview {
        let Self { overview, cooldowns, .. } = &self;
        let checked = self.notices.as_ref().and_then(|record| record.app_status(overview.now));
        let (checked_at, checked) = checked.unzip();
        let app_checked_at = app.map(|_| overview.now).or(checked_at);
        let cooldowns = cooldowns.as_ref();
        let mut all = damaged(&self.damages);
        all.extend(self.costs_due.map(|due| not_rolled_up(due, overview.now)));
        all.extend(findings(&StackFacts {
            overview,
            app: app.or(checked.as_ref()),
            foreign: cooldowns.map_or(&[][..], |known| &known.foreign),
            failing: cooldowns.map_or(&[][..], |known| &known.failing),
            troubles: cooldowns.map_or(&[][..], |known| &known.troubles),
            cooldowns: &cooldowns.map(|known| known.reported(overview.now)).unwrap_or_default(),
            reclaimed: &cooldowns.map(|known| known.avoided(overview.now)).unwrap_or_default(),
            reruns: &self.reruns,
            orphans: &self.orphans,
            notices: self.notices.as_ref(),
            refused_prices: self.prices.as_ref().map(|prices| &prices.refused),
            images: self.images.as_ref(),
        }));
        all.sort_by_key(|finding| finding.severity);
        Overview { findings: all, app_checked_at, ..self.overview }
    }
}

/// Lists what needs attention from the records alone, without calls to GitHub.
///
/// # Errors
/// When the tables do not answer.
pub async fn known_findings<W: Wired<Table: Table>>(
    context: Context<'_, W>,
    now: Time,
) -> Result<Vec<Finding>, ReadError> {
    let pools = &context.settings.pools;
    Ok(StackReader { context, pools }.seen(now).await?.judged(None).findings)
}

impl<P: Ports<Github: Directory>> Admin<'_, P> {
    fn look<'a>(&'a self, pools: &'a [Pool]) -> StackReader<'a, P> {
        StackReader { context: self.context, pools }
    }

    pub(super) async fn overview(&self, now: Time) -> Result<Answer, AdminError> {
        let overview = self.look(&self.context.settings.pools).seen(now).await?.judged(None);
        let findings = at_most(FINDINGS_SHOWN, overview.findings);
        Ok(Answer::Overview(Box::new(Overview { findings, ..overview })))
    }

    pub(super) async fn status(&self, github: bool, now: Time) -> Result<Answer, AdminError> {
        let mut seen = self.look(&self.context.settings.pools).seen(now).await?;
        let watch = AppWatch { context: self.context };
        let app = match github {
            true => Some(watch.look(now).await.into_iter().map(|(_, status)| status).collect()),
            false => None,
        };
        let cooldowns = seen.cooldowns.as_ref().map(|known| known.reported(now));
        let (entities, orphans) = (std::mem::take(&mut seen.entities), seen.orphans.clone());
        Ok(Answer::Status(Box::new(StackStatus {
            overview: seen.judged(app.as_ref()),
            cooldowns,
            switched: self.context.table.audit(SUBJECT, SWITCHINGS_SHOWN).await?,
            entities,
            orphans,
        })))
    }

    /// Lists what may keep the jobs of a pool waiting, or jobs without a pool: findings about the
    /// pool and about resources that all pools share.
    pub(super) async fn findings_of(
        &self,
        pool: Option<&Pool>,
        now: Time,
    ) -> Result<Vec<Finding>, AdminError> {
        let pools = pool.map_or(&[][..], std::slice::from_ref);
        let overview = self.look(pools).seen(now).await?.judged(None);
        let concerns = |finding: &Finding| match &finding.location {
            Location::Pool(name) => pool.is_some_and(|pool| pool.name == *name),
            Location::Github | Location::Machines => finding.severity != Severity::Note,
            Location::Stack => {
                matches!(finding.kind(), "launches-paused" | "limit-reached" | "unreadable-record")
                    || finding.kind().starts_with("ec2-")
            }
            _ => false,
        };
        Ok(overview.findings.into_iter().filter(concerns).collect())
    }
}

/// Returns a record. A record that cannot be parsed is listed and left out, so that it does not
/// hide the others.
async fn noted<R>(
    damages: &RefCell<Vec<ReadError>>,
    read: impl Future<Output = Result<Option<R>, ReadError>>,
) -> Result<Option<R>, ReadError> {
    match read.await {
        Err(damage @ ReadError::Unreadable { .. }) => {
            damages.borrow_mut().push(damage);
            Ok(None)
        }
        read => read,
    }
}

/// Reads the state of the stack, or of some of its pools, without GitHub.
struct StackReader<'a, W: Wired> {
    context: Context<'a, W>,
    pools: &'a [Pool],
}

impl<W: Wired<Table: Table>> StackReader<'_, W> {
    /// Reads everything concurrently. Pools and jobs are counted without reading their records.
    async fn seen(&self, now: Time) -> Result<StackSnapshot, ReadError> {
        let Context { table, settings, .. } = self.context;
        let damage = settings.damage.as_ref().map(|damage| damage.error.clone());
        let damages = RefCell::new(Vec::from_iter(damage));
        let counted = self.pools.iter().map(|pool| self.counted(pool, &damages, now));
        let (counted, nobodys, records, (costs_due, prices, images, reruns)) = try_join4(
            try_join_all(counted),
            try_join4(
                table.count_unmatched_jobs(),
                table.unmatched_jobs(LOOKED_AT),
                table.count_gated_jobs(),
                table.gated_jobs(LOOKED_AT),
            ),
            try_join5(
                noted(&damages, table.switches()),
                noted(&damages, table.cooldowns()),
                table.orphans(),
                async {
                    let limits = noted(&damages, async { self.limits().await.map(Some) });
                    limits.await.map(Option::unwrap_or_default)
                },
                noted(&damages, table.notices()),
            ),
            try_join4(
                late_since(table, now),
                noted(&damages, table.prices()),
                noted(&damages, table.images()),
                try_join(
                    table.open_reruns(RERUNS_READ),
                    table.closed_reruns(now - RERUNS_SINCE, RERUNS_READ),
                ),
            ),
        )
        .await?;
        let (unserved, first_unserved, gated, first_gated) = nobodys;
        let (switches, cooldowns, orphans, limits, notices) = records;
        let switches = switches.map(Stored::into_record).unwrap_or_default();
        let cooldowns = cooldowns.map(Stored::into_record);
        let troubles = cooldowns.as_ref().map_or(&[][..], |known| &known.troubles);
        let entities = self.entities(troubles, now);
        let headroom = Headroom::new(
            settings.limits.clone(),
            limits.iter().map(|limit| (limit.of.clone(), limit.live)).collect(),
        );
        let around =
            Around { switches: &switches, cooldowns: cooldowns.as_ref(), headroom: &headroom, now };
        let pools = counted.into_iter().map(|counted| self.shown(counted, &around));
        let pools = try_join_all(pools).await?;
        let agents = cooldowns.as_ref().map(|known| self.agents(&known.agents, now));
        let overview = Overview {
            stack: settings.stack.clone(),
            release: crate::RELEASE.into(),
            record_version: SCHEMA,
            now,
            pools,
            unserved: reasons(unserved, &first_unserved, now),
            waiting_for_approval: reasons(gated, &first_gated, now),
            limits,
            switches: ShownSwitches::new(&switches, now),
            agents: agents.unwrap_or_default(),
            app_checked_at: None,
            findings: Vec::new(),
        };
        let orphans = orphans.into_iter().map(Stored::into_record).map(OrphanStatus::from);
        let (open, closed) = reruns;
        let (notices, prices) = (notices.map(Stored::into_record), prices.map(Stored::into_record));
        let images = images.map(Stored::into_record);
        let (orphans, damages) = (orphans.collect(), damages.into_inner());
        Ok(StackSnapshot {
            overview,
            cooldowns,
            entities,
            orphans,
            notices,
            costs_due,
            prices,
            images,
            reruns: open.into_iter().chain(closed).map(Stored::into_record).collect(),
            damages,
        })
    }

    /// Returns the entities that a pool names or that GitHub denies or limits. An entity that no
    /// pool names is known only from its failures.
    fn entities(&self, troubles: &[Trouble], now: Time) -> Vec<EntityStatus> {
        let pools = &self.context.settings.pools;
        let named = pools.iter().filter_map(|pool| pool.entity.as_ref());
        let troubled = troubles.iter().filter_map(|one| one.scope.entity());
        let all: BTreeMap<Entity, &Entity> =
            troubled.chain(named).map(|entity| (entity.lower_case(), entity)).collect();
        let of = |entity: &Entity| -> Vec<PoolName> {
            let is_of = |pool: &&Pool| pool.entity.as_ref().is_some_and(|own| own.same_as(entity));
            pools.iter().filter(is_of).map(|pool| pool.name.clone()).collect()
        };
        let shown = |entity: &Entity| {
            let is_of = |one: &&Trouble| one.scope.entity().is_some_and(|own| own.same_as(entity));
            let own: Vec<Trouble> = troubles.iter().filter(is_of).cloned().collect();
            let refusal = own.iter().find(|one| matches!(one.scope, TroubleScope::Entity(_)));
            let limit =
                |one: &&Trouble| matches!(one.scope, TroubleScope::Limit(_)) && now < one.until;
            let held = refusal.or_else(|| own.iter().find(limit));
            EntityStatus {
                entity: entity.clone(),
                pools: of(entity),
                healthy: held.is_none(),
                unauthorized_since: refusal.map(|one| one.since),
                troubles: own.clone(),
            }
        };
        all.into_values().map(shown).collect()
    }

    /// Returns the agents in pools' images.
    fn agents(&self, known: &Agents, now: Time) -> AgentsStatus {
        let newest = known.newest();
        let shown = |pool: &Pool| {
            let version = *known.images.get(&pool.name)?;
            let until = match known.standing(version, newest, now)? {
                Standing::Newest => return None,
                Standing::Until(time) => Some(time),
                Standing::TooOld => None,
            };
            Some(ImageAgent { pool: pool.name.clone(), version, until })
        };
        let images = self.context.settings.pools.iter().filter_map(shown).collect();
        AgentsStatus { newest, images }
    }

    /// Returns the counters of the limits of stack and entities.
    async fn limits(&self) -> Result<Vec<LimitStatus>, ReadError> {
        let Context { table, settings, .. } = self.context;
        let scopes = settings.limits.scopes();
        if scopes.is_empty() {
            return Ok(Vec::new());
        }
        let counts = table.counts(&scopes).await?;
        let status = |scope: Scope| LimitStatus {
            max: settings.limits.max(&scope),
            live: counts.get(&scope).copied().unwrap_or(0),
            of: scope,
        };
        Ok(scopes.into_iter().map(status).collect())
    }
}

/// Returns the number of jobs, and the first jobs' reasons with their number.
fn reasons(count: usize, first: &[Stored<Job>], now: Time) -> UnservedJobs {
    let mut oldest_seconds = None;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for job in first {
        let UnservedJob { age_seconds, reason, .. } = UnservedJob::new(job.record().clone(), now);
        oldest_seconds = oldest_seconds.max(Some(age_seconds));
        *reasons.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (looked_at, reasons) = (first.len(), reasons.into_iter().take(REASONS_SHOWN).collect());
    // The two reads are separate, so the count may be newer.
    UnservedJobs { count: count.max(looked_at), oldest_seconds, looked_at, reasons }
}
