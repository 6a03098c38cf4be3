//! Shows and explains single instances and jobs.

use futures_util::future::join3;
use muster_api::answers::{Answer, ExplainedJob, InstanceSummary, ShownInstance};
use muster_api::{AdminError, AdminErrorCode};
use muster_domain::explain::{self, JobContext};
use muster_domain::ids::JobKey;
use muster_domain::instance::{Instance, Waiting};
use muster_domain::job::{Job, JobStatus};
use muster_domain::launch::verdict::Conditions;
use muster_domain::pool::warm::Warm;
use muster_domain::pool::{Pool, select};
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::Line;

use super::Admin;
use crate::context::{Context, Ports};
use crate::launches::conditions;
use crate::ports::{
    Directory, Instances as _, Jobs as _, LaunchConditions, Launches as _, Operations as _,
};
use crate::writes::readable;

/// Maximum number of a pool's jobs that are read as its demand, to explain why one of them waits.
const MAX_DEMAND: u32 = 1_000;
impl<P: Ports<Github: Directory>> Admin<'_, P> {
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
            explanation: self.explained(&instance, now).await?,
            instance: instance.into_record(),
            audit,
        })))
    }

    /// Explains an instance. If it waits because deletes are paused, includes by whom and until
    /// when.
    pub(super) async fn explained(
        &self,
        instance: &Instance,
        now: Time,
    ) -> Result<Vec<String>, AdminError> {
        let mut lines = explain::instance(instance, now);
        if instance.mark().is_some_and(|mark| mark.waiting == Some(Waiting::SwitchedOff)) {
            let switches = self.context.table.switches().await?;
            let off = switches.as_deref().and_then(|all| all.deletes_off(now));
            lines.extend(off.map(|off| format!("Deletes are {off}.")));
        }
        lines.extend(self.kept_warm(instance, now).await?);
        Ok(lines)
    }

    /// Returns which event keeps an idle machine waiting.
    async fn kept_warm(
        &self,
        instance: &Instance,
        now: Time,
    ) -> Result<Option<String>, AdminError> {
        let pool = self.context.settings.pool(&instance.pool);
        let Some(pool) = pool.filter(|pool| !pool.warm_on.is_empty()) else { return Ok(None) };
        let capacity = self.context.table.capacity(&pool.name).await?;
        let all = capacity.as_ref().map_or(&[][..], |capacity| &capacity.warm);
        let warm = Warm::current(all, pool, now);
        let warm = warm.filter(|_| instance.is_kept_idle_by(&pool.while_warm(all, now)));
        Ok(warm.map(|warm| format!("It is {}.", warm.sentence(now))))
    }

    pub(super) async fn explain_job(&self, key: JobKey, now: Time) -> Result<Answer, AdminError> {
        let job = self.context.table.job(key).await?.ok_or_else(|| {
            AdminError::new(
                AdminErrorCode::NotFound,
                format!(
                    "job {key} has no record: its webhook event never arrived, it was not for our \
                     pools or runners, or it ended long ago"
                ),
            )
        })?;
        // The instance that it is meant for, or that GitHub assigned it to.
        let instance = match job.claim.clone().or_else(|| job.ran_on()) {
            Some(name) => self.context.table.instance(&name).await?,
            None => None,
        };
        let is_claim = |one: &Instance| Some(&one.name) == job.claim.as_ref();
        let instance = instance.filter(|one| is_claim(one) || one.took(&job));
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
        let mut explanation = explain::job(&job, &context, now);
        let run = readable(self.context.table.rerun(job.last_event.run_key()).await)?;
        explanation.extend(run.map(|run| run.explain(&job, now)).unwrap_or_default());
        let is_waiting =
            job.claim.is_none() && !job.expired && job.status() < JobStatus::InProgress;
        let findings = match is_waiting {
            true => self.findings_of(pool, now).await?,
            false => Vec::new(),
        };
        let line = match instance.as_ref().and_then(|one| Line::so_far(one, Some(&job), now)) {
            Some(line) => Some(self.with_price(line).await?),
            None => None,
        };
        Ok(Answer::ExplainJob(Box::new(ExplainedJob {
            job: job.into_record(),
            explanation,
            findings,
            ran_on: instance.map(|one| InstanceSummary::new(&one, now)),
            line,
        })))
    }

    /// Returns what prevents a pool's launches, read as in a launch pass.
    async fn conditions(&self, pool: &Pool, now: Time) -> Result<Conditions, AdminError> {
        let (_, conditions, _) = self.looked(pool, now).await?;
        Ok(conditions)
    }

    /// Returns the conditions, the records that they are based on, and the pool's jobs without a
    /// claim in the order of the pass.
    pub(super) async fn looked(
        &self,
        pool: &Pool,
        now: Time,
    ) -> Result<(LaunchConditions, Conditions, Vec<Stored<Job>>), AdminError> {
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
        Ok((read, conditions, demand))
    }
}
