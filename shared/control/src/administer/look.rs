//! What an operator is shown.

use domain::SCHEMA;
use domain::explain::{self, JobContext};
use domain::ids::{JobKey, PoolName};
use domain::instance::{Instance, State};
use domain::job::Job;
use domain::time::Time;
use serde_json::{Value, json};

use super::switch::{SUBJECT, shown};
use super::{Administer, Problem};
use crate::ports::{Github, Queue, Table};

/// Most jobs a listing shows per pool and group.
const JOBS_SHOWN: u32 = 200;
/// How many of the last settings of switches `status` shows.
const SWITCHINGS_SHOWN: u32 = 10;

impl<T: Table, Q: Queue, G: Github> Administer<'_, T, Q, G> {
    pub(super) async fn list(
        &self,
        pool: Option<&PoolName>,
        state: Option<State>,
        now: Time,
    ) -> Result<Value, Problem> {
        let mut shown = Vec::new();
        let mut unreadable = Vec::new();
        for name in self.pools(pool)? {
            let mut page = None;
            loop {
                let listed = self.table.live_instances(&name, page).await?;
                let wanted =
                    |instance: &&Instance| state.is_none_or(|state| instance.state() == state);
                shown.extend(listed.items.iter().filter(wanted).map(|one| summary(one, now)));
                unreadable.extend(listed.unreadable);
                page = listed.next;
                if page.is_none() {
                    break;
                }
            }
        }
        Ok(json!({ "instances": shown, "unreadable": unreadable }))
    }

    pub(super) async fn show(&self, name: &str, now: Time) -> Result<Value, Problem> {
        let instance = self.find(name).await?;
        let audit = self.table.audit(instance.name.as_str(), 50).await?;
        Ok(json!({
            "instance": instance,
            "runner_name": (instance.runner.n > 0).then(|| instance.runner_name()),
            "explanation": explain::instance(&instance, now),
            "audit": audit,
        }))
    }

    pub(super) async fn jobs(&self, pool: Option<&PoolName>, now: Time) -> Result<Value, Problem> {
        let mut shown = Vec::new();
        for name in self.pools(pool)? {
            for job in self.table.waiting_jobs(&name, JOBS_SHOWN).await? {
                shown.push(json!({
                    "job": job.key(),
                    "repository": job.said.repository,
                    "name": job.said.name,
                    "labels": job.said.labels,
                    "pool": job.pool,
                    "queued_at": job.queued_at(),
                    "age_seconds": now.since(job.queued_at()),
                    "claim": job.claim,
                    "hold": job.hold,
                }));
            }
        }
        Ok(json!({ "jobs": shown }))
    }

    pub(super) async fn explain_job(&self, key: JobKey, now: Time) -> Result<Value, Problem> {
        let job = self.table.job(key).await?.ok_or_else(|| {
            Problem::new(
                "not_found",
                format!(
                    "job {key} is not on record: its webhook never arrived, no pool and no runner \
                     of ours had to do with it, or it ended long ago"
                ),
            )
        })?;
        let claim = match &job.claim {
            Some(name) => self.table.instance(name).await?,
            None => None,
        };
        let pool = job.pool.as_ref().and_then(|name| self.settings.pool(name));
        let switches = self.table.switches().await?.unwrap_or_default();
        let off = job.pool.as_ref().and_then(|name| switches.launches_off(name));
        let context = JobContext { pool, live: self.live(&job).await?, claim: claim.as_ref(), off };
        let explanation = explain::job(&job, &context, now);
        Ok(json!({ "job": job, "explanation": explanation }))
    }

    async fn live(&self, job: &Job) -> Result<u32, Problem> {
        let capacity = match &job.pool {
            Some(name) => self.table.capacity(name).await?,
            None => None,
        };
        Ok(capacity.map_or(0, |capacity| capacity.live))
    }

    pub(super) async fn status(&self, now: Time) -> Result<Value, Problem> {
        let switches = self.table.switches().await?.unwrap_or_default();
        let mut pools = Vec::new();
        for pool in &self.settings.pools {
            let capacity = self.table.capacity(&pool.name).await?;
            let waiting = self.table.waiting_jobs(&pool.name, JOBS_SHOWN).await?;
            let oldest = waiting.iter().map(Job::queued_at).min();
            let ending = self.table.ending_instances(&pool.name, JOBS_SHOWN).await?;
            pools.push(json!({
                "name": pool.name,
                "labels": pool.labels,
                "entity": pool.entity,
                "max": pool.max,
                "live": capacity.map_or(0, |capacity| capacity.live),
                "ending": ending.len(),
                "waiting_jobs": waiting.len(),
                "oldest_waiting_job_seconds": oldest.map(|at| now.since(at)),
                "launches_off": switches.launches_off(&pool.name),
                "removed_at": pool.removed_at,
            }));
        }
        Ok(json!({
            "stack": self.settings.stack,
            "release": env!("CARGO_PKG_VERSION"),
            "record_version": SCHEMA,
            "now": now,
            "pools": pools,
            "switches": shown(&switches)["switches"],
            "switched": self.table.audit(SUBJECT, SWITCHINGS_SHOWN).await?,
            "unhealthy_entities": self.table.unhealthy_entities().await?.iter().map(|health| json!({
                "entity": health.entity,
                "unauthorized_since": health.unauthorized_since,
                "last_error": health.last_error,
            })).collect::<Vec<_>>(),
            "orphans": self.table.orphans().await?.iter().map(|orphan| json!({
                "machine": orphan.machine,
                "instance": orphan.instance,
                "since": orphan.since,
                "attempts": orphan.attempts,
                "last_error": orphan.last_error,
            })).collect::<Vec<_>>(),
        }))
    }
}

fn summary(instance: &Instance, now: Time) -> Value {
    json!({
        "name": instance.name,
        "pool": instance.pool,
        "state": instance.state(),
        "since": instance.since(),
        "age_seconds": now.since(instance.created_at),
        "machine": instance.machine(),
        "runner_state": instance.runner.state,
        "runner_id": instance.runner.id,
        "claim": instance.claim(),
        "waiting_for": instance.drain().and_then(|drain| drain.waiting.as_ref()),
        "attempts": instance.attempts,
        "due_at": instance.due_at(),
        "forced": instance.is_forced(),
    })
}
