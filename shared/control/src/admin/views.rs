//! What an operator is shown.

use std::collections::BTreeMap;

use futures_util::future::join3;
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::instance::{Instance, State};
use muster_domain::job::Job;
use muster_domain::job::explain::{self, JobContext};
use muster_domain::launch::verdict::{Block, Conditions, Wanted, verdict};
use muster_domain::pool::Pool;
use muster_domain::pool::select;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::Line;

use super::answers::{
    Answer, ExplainedJob, InstanceList, InstanceSummary, JobList, ShownInstance, UnservedJob,
    WaitingJob,
};
use super::request::MAX_LIMIT;
use super::{Admin, AdminError, AdminErrorCode};
use crate::context::{Context, Ports};
use crate::launches::conditions;
use crate::ports::{
    Directory, Instances as _, Jobs as _, LaunchConditions, Launches as _, Operations as _,
};

/// Most jobs of a pool that stand for its demand where it is asked why one of them waits.
const MAX_DEMAND: u32 = 1_000;
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
    pub(super) async fn unserved(&self, limit: u32) -> Result<(Vec<Job>, Vec<Job>), AdminError> {
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
        // The one that it is meant for, or the one that GitHub gave it to.
        let instance = match job.claim.clone().or_else(|| job.ran_on()) {
            Some(name) => self.context.table.instance(&name).await?,
            None => None,
        };
        let is_claim = |one: &Instance| Some(&one.name) == job.claim.as_ref();
        let instance = instance.filter(|one| is_claim(one) || job.is_taken_by(one));
        let claim = instance.as_ref().filter(|one| is_claim(one));
        let settings = self.context.settings;
        let pool = job.pool.as_ref().and_then(|name| settings.pool(name));
        let conditions = match pool {
            Some(pool) => Some((pool, self.conditions(pool, now).await?)),
            None => None,
        };
        let context = JobContext {
            pool: conditions.as_ref().map(|(pool, conditions)| (*pool, conditions)),
            claim: claim.map(Stored::record),
            choice: &select::reasons(&settings.pools, settings.balance, &job),
        };
        let explanation = explain::job(&job, &context, now);
        let line = match instance.as_ref().and_then(|one| Line::so_far(one, Some(&job), now)) {
            Some(line) => Some(self.with_price(line).await?),
            None => None,
        };
        Ok(Answer::ExplainJob(Box::new(ExplainedJob {
            job: job.into_record(),
            explanation,
            ran_on: instance.map(|one| InstanceSummary::new(&one, now)),
            line,
        })))
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
