//! What an operator is shown.

use std::collections::BTreeMap;

use futures_util::future::{join3, try_join_all, try_join4};
use muster_domain::SCHEMA;
use muster_domain::agent::{Agents, Standing};
use muster_domain::ids::{Entity, JobKey, PoolName};
use muster_domain::instance::{Instance, State};
use muster_domain::job::Job;
use muster_domain::job::explain::{self, JobContext};
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::trouble::{Trouble, TroubleScope};
use muster_domain::launch::verdict::{Block, Conditions, Wanted, verdict};
use muster_domain::orphan::Orphan;
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Scope;
use muster_domain::pool::select;
use muster_domain::stored::Stored;
use muster_domain::switches::Switches;
use muster_domain::time::Time;

use super::answers::{
    AgentsStatus, Answer, EntityStatus, ExplainedJob, ImageAgent, InstanceList, InstanceSummary,
    JobList, LimitStatus, OrphanStatus, PoolStatus, ShownInstance, StackStatus, UnservedJob,
    UnservedJobs, WaitingJob,
};
use super::request::MAX_LIMIT;
use super::switch::SUBJECT;
use super::{Admin, AdminError, AdminErrorCode};
use crate::context::{Context, Ports};
use crate::launches::conditions;
use crate::ports::{
    Directory, Instances as _, Jobs as _, LaunchConditions, Launches as _, Operations as _,
};

/// Most jobs without a pool that `status` counts.
const COUNTED: u32 = MAX_LIMIT;
/// How many waiting jobs of a pool, with and without a claim each, are asked since when they wait.
/// They come in the order in which GitHub queued them; one that was approved late began to wait later.
const FIRST: u32 = 20;
/// Most jobs of a pool that stand for its demand where it is asked why one of them waits.
const MAX_DEMAND: u32 = 1_000;
/// How many reasons of jobs that nobody launches for `status` shows at most.
const REASONS_SHOWN: usize = 20;
/// How many of the last settings of switches `status` shows.
const SWITCHINGS_SHOWN: u32 = 10;

impl<P: Ports<Github: Directory>> Admin<'_, P> {
    pub(super) async fn list(
        &self,
        pool: Option<&PoolName>,
        state: Option<State>,
        limit: u32,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let limit = within(limit)?;
        let mut shown = Vec::new();
        let mut unreadable = Vec::new();
        'pools: for name in self.pools(pool)? {
            let mut page = None;
            loop {
                if shown.len() > limit {
                    break 'pools;
                }
                let listed = self.context.table.live_instances(&name, page).await?;
                let wanted = |instance: &&Stored<Instance>| {
                    state.is_none_or(|state| instance.state() == state)
                };
                shown.extend(
                    listed.items.iter().filter(wanted).map(|one| InstanceSummary::new(one, now)),
                );
                unreadable.extend(listed.unreadable);
                page = listed.next;
                if page.is_none() {
                    break;
                }
            }
        }
        let more = shown.len() > limit;
        shown.truncate(limit);
        Ok(Answer::List(InstanceList { instances: shown, unreadable, more: more.into() }))
    }

    pub(super) async fn show(
        &self,
        name: &str,
        github: bool,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let instance = self.find(name).await?;
        let audit = self.context.table.audit(instance.name.as_str(), 50).await?;
        let seen = if github { self.runner_seen(&instance, now).await? } else { None };
        Ok(Answer::Show(Box::new(ShownInstance {
            runner_seen: seen.map(Into::into),
            runner_name: (instance.runner.n > 0).then(|| instance.runner_name()),
            explanation: explain::instance(&instance, now),
            instance: instance.into_record(),
            audit,
        })))
    }

    pub(super) async fn jobs(
        &self,
        pool: Option<&PoolName>,
        limit: u32,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let limit = within(limit)?;
        let mut shown = Vec::new();
        let mut more = false;
        for name in self.pools(pool)? {
            let waiting = self.context.table.waiting_jobs(&name, as_limit(limit + 1)).await?;
            let (claimed, free): (Vec<Stored<Job>>, Vec<Stored<Job>>) =
                waiting.into_iter().partition(|job| job.claim.is_some());
            more |= free.len() > limit || claimed.len() > limit;
            let mut blocks = self.blocks(&name, &free, now).await?;
            shown.extend(free.into_iter().take(limit).map(|job| {
                let block = blocks.remove(&job.key());
                WaitingJob::new(job.into_record(), block, now)
            }));
            let claimed = claimed.into_iter().take(limit);
            shown.extend(claimed.map(|job| WaitingJob::new(job.into_record(), None, now)));
        }
        let (unserved, gated) = self.unserved(as_limit(limit + 1)).await?;
        let is_asked_for = |job: &Job| pool.is_none() || job.pool.as_ref() == pool;
        let mut listed = |jobs: Vec<Job>| -> Vec<UnservedJob> {
            let jobs: Vec<Job> = jobs.into_iter().filter(is_asked_for).collect();
            more |= jobs.len() > limit;
            jobs.into_iter().take(limit).map(|job| UnservedJob::new(job, now)).collect()
        };
        let (unserved, waiting_for_approval) = (listed(unserved), listed(gated));
        let more = more.into();
        Ok(Answer::Jobs(JobList { jobs: shown, unserved, waiting_for_approval, more }))
    }

    /// Why no machine is launched for these jobs of a pool, the oldest first, as the next launch pass
    /// has it.
    async fn blocks(
        &self,
        pool: &PoolName,
        jobs: &[Stored<Job>],
        now: Time,
    ) -> Result<BTreeMap<JobKey, Block>, AdminError> {
        let Some(pool) = self.context.settings.pool(pool).filter(|_| !jobs.is_empty()) else {
            return Ok(BTreeMap::new());
        };
        let mut conditions = self.conditions(pool, now).await?;
        let mut blocks = BTreeMap::new();
        for job in jobs.iter().filter(|job| job.is_demand()) {
            let wanted = Wanted::Job(job);
            match (verdict(pool, wanted, &conditions, now), pool.entity_for(job)) {
                (Err(block), _) => drop(blocks.insert(job.key(), block)),
                (Ok(_), Some(entity)) => conditions.take(wanted, &entity),
                (Ok(_), None) => {}
            }
        }
        Ok(blocks)
    }

    /// The jobs that no pool serves, and those that wait for an approval.
    async fn unserved(&self, limit: u32) -> Result<(Vec<Job>, Vec<Job>), AdminError> {
        let table = self.context.table;
        let records = |jobs: Vec<Stored<Job>>| jobs.into_iter().map(Stored::into_record).collect();
        Ok((records(table.unmatched_jobs(limit).await?), records(table.gated_jobs(limit).await?)))
    }

    pub(super) async fn explain_job(&self, key: JobKey, now: Time) -> Result<Answer, AdminError> {
        let job = self.context.table.job(key).await?.ok_or_else(|| {
            AdminError::new(
                AdminErrorCode::NotFound,
                format!(
                    "job {key} is not on record: its webhook never arrived, no pool and no runner \
                     of ours had to do with it, or it ended long ago"
                ),
            )
        })?;
        let claim = match &job.claim {
            Some(name) => self.context.table.instance(name).await?,
            None => None,
        };
        let settings = self.context.settings;
        let pool = job.pool.as_ref().and_then(|name| settings.pool(name));
        let conditions = match pool {
            Some(pool) => Some((pool, self.conditions(pool, now).await?)),
            None => None,
        };
        let context = JobContext {
            pool: conditions.as_ref().map(|(pool, conditions)| (*pool, conditions)),
            claim: claim.as_deref(),
            choice: &select::reasons(&settings.pools, settings.balance, &job),
        };
        let explanation = explain::job(&job, &context, now);
        Ok(Answer::ExplainJob(Box::new(ExplainedJob { job: job.into_record(), explanation })))
    }

    /// What stands in the way of a pool's launches, read as the launch pass reads it.
    async fn conditions(&self, pool: &Pool, now: Time) -> Result<Conditions, AdminError> {
        Ok(self.looked(pool, now).await?.1)
    }

    /// The same, with the records that it was read from.
    pub(super) async fn looked(
        &self,
        pool: &Pool,
        now: Time,
    ) -> Result<(LaunchConditions, Conditions), AdminError> {
        let Context { table, settings, .. } = self.context;
        let (read, demand, free) = join3(
            table.launch_conditions(&pool.name),
            table.demand(&pool.name, MAX_DEMAND),
            table.free_instances(&pool.name),
        )
        .await;
        let (read, demand, free) = (read?, demand?, free?);
        let conditions =
            conditions::of_pool(table, settings, pool, &read, &demand, &free, now).await?;
        Ok((read, conditions))
    }

    /// The entities that a pool names and those that GitHub refuses or limits. One that no pool names
    /// is known by its trouble alone.
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
                launches_held: held.map(Trouble::sentence),
                troubles: own.clone(),
            }
        };
        all.into_values().map(shown).collect()
    }

    /// The agents of pools' images.
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

    /// What the limits of stack and entities count.
    async fn limits(&self) -> Result<Vec<LimitStatus>, AdminError> {
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

    pub(super) async fn status(&self, github: bool, now: Time) -> Result<Answer, AdminError> {
        let switches =
            self.context.table.switches().await?.map(Stored::into_record).unwrap_or_default();
        let cooldowns = self.context.table.cooldowns().await?;
        let pools = self.context.settings.pools.iter();
        let pools = pools.map(|pool| self.pool_status(pool, &switches, cooldowns.as_deref(), now));
        let pools = try_join_all(pools).await?;
        let troubles = cooldowns.as_ref().map_or(&[][..], |known| &known.troubles);
        let (unserved, gated) = self.unserved(COUNTED).await?;
        let orphans = |all: Vec<Stored<Orphan>>| {
            all.into_iter().map(Stored::into_record).map(OrphanStatus::from).collect()
        };
        Ok(Answer::Status(Box::new(StackStatus {
            stack: self.context.settings.stack.clone(),
            release: crate::RELEASE.into(),
            record_version: SCHEMA,
            now,
            pools,
            unserved: counted(unserved, now),
            waiting_for_approval: counted(gated, now),
            limits: self.limits().await?,
            switches: switches.into(),
            cooldowns: cooldowns.as_ref().map(|known| known.on(now)),
            switched: self.context.table.audit(SUBJECT, SWITCHINGS_SHOWN).await?,
            app: if github { Some(self.found(&self.facts().await, now)) } else { None },
            entities: self.entities(troubles, now),
            agents: cooldowns
                .as_ref()
                .map(|known| self.agents(&known.agents, now))
                .unwrap_or_default(),
            orphans: orphans(self.context.table.orphans().await?),
        })))
    }

    async fn pool_status(
        &self,
        pool: &Pool,
        switches: &Switches,
        cooldowns: Option<&Cooldowns>,
        now: Time,
    ) -> Result<PoolStatus, AdminError> {
        let table = self.context.table;
        let (capacity, ending, waiting, first) = try_join4(
            table.capacity(&pool.name),
            table.count_ending_instances(&pool.name),
            table.count_waiting_jobs(&pool.name),
            table.waiting_jobs(&pool.name, FIRST),
        )
        .await?;
        let oldest = first.iter().map(|job| job.waits_since()).min();
        Ok(PoolStatus {
            name: pool.name.clone(),
            labels: pool.labels.clone(),
            entity: pool.entity.clone(),
            priority: pool.priority,
            enabled: pool.enabled,
            max: pool.max,
            min_idle: pool.idle_wanted(),
            trouble: cooldowns.and_then(|known| known.trouble(pool)).cloned(),
            live: capacity.map_or(0, |capacity| capacity.live),
            ending,
            waiting_jobs: waiting,
            oldest_waiting_job_seconds: oldest.map(|at| now.since(at)),
            launches_off: switches.launches_off(&pool.name).cloned(),
            removed_at: pool.removed_at,
        })
    }
}

/// How many jobs there are for each reason.
fn counted(jobs: Vec<Job>, now: Time) -> UnservedJobs {
    let mut counted = UnservedJobs { count: jobs.len(), ..UnservedJobs::default() };
    for UnservedJob { age_seconds, reason, .. } in
        jobs.into_iter().map(|job| UnservedJob::new(job, now))
    {
        counted.oldest_seconds = counted.oldest_seconds.max(Some(age_seconds));
        *counted.reasons.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<(String, usize)> =
        std::mem::take(&mut counted.reasons).into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted.reasons = reasons.into_iter().take(REASONS_SHOWN).collect();
    counted
}

/// A listing's limit as it was asked for.
fn within(limit: u32) -> Result<usize, AdminError> {
    match limit {
        1..=MAX_LIMIT => Ok(limit as usize),
        _ => {
            let message = format!("\"limit\" must be 1 to {MAX_LIMIT}");
            Err(AdminError::new(AdminErrorCode::BadRequest, message))
        }
    }
}

fn as_limit(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}
