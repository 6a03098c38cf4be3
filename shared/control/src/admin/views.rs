//! What an operator is shown.

use std::collections::BTreeSet;

use muster_domain::SCHEMA;
use muster_domain::entity::EntityHealth;
use muster_domain::ids::{Entity, JobKey, PoolName};
use muster_domain::instance::{Instance, State};
use muster_domain::job::Job;
use muster_domain::job::explain::{self, JobContext};
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Scope;
use muster_domain::pool::select;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use serde_json::{Value, json};

use super::request::MAX_LIMIT;
use super::resolve::told;
use super::switch::{SUBJECT, shown};
use super::{Admin, AdminError, AdminErrorCode};
use crate::ports::{Directory, Github, Queue, Table};

/// Most jobs and ending instances that `status` counts per pool and group.
const COUNTED: u32 = MAX_LIMIT;
/// How many of the last settings of switches `status` shows.
const SWITCHINGS_SHOWN: u32 = 10;

impl<T: Table, Q: Queue, G: Github + Directory, I> Admin<'_, T, Q, G, I> {
    pub(super) async fn list(
        &self,
        pool: Option<&PoolName>,
        state: Option<State>,
        limit: u32,
        now: Time,
    ) -> Result<Value, AdminError> {
        let limit = within(limit)?;
        let mut shown = Vec::new();
        let mut unreadable = Vec::new();
        'pools: for name in self.pools(pool)? {
            let mut page = None;
            loop {
                if shown.len() > limit {
                    break 'pools;
                }
                let listed = self.table.live_instances(&name, page).await?;
                let wanted = |instance: &&Stored<Instance>| {
                    state.is_none_or(|state| instance.state() == state)
                };
                shown.extend(listed.items.iter().filter(wanted).map(|one| summary(one, now)));
                unreadable.extend(listed.unreadable);
                page = listed.next;
                if page.is_none() {
                    break;
                }
            }
        }
        let more = shown.len() > limit;
        shown.truncate(limit);
        Ok(with_more(json!({ "instances": shown, "unreadable": unreadable }), more))
    }

    pub(super) async fn show(&self, name: &str, now: Time) -> Result<Value, AdminError> {
        let instance = self.find(name).await?;
        let audit = self.table.audit(instance.name.as_str(), 50).await?;
        Ok(json!({
            "instance": instance.record(),
            "runner_name": (instance.runner.n > 0).then(|| instance.runner_name()),
            "explanation": explain::instance(&instance, now),
            "audit": audit,
        }))
    }

    pub(super) async fn jobs(
        &self,
        pool: Option<&PoolName>,
        limit: u32,
        now: Time,
    ) -> Result<Value, AdminError> {
        let limit = within(limit)?;
        let mut shown = Vec::new();
        let mut more = false;
        for name in self.pools(pool)? {
            let waiting = self.table.waiting_jobs(&name, as_limit(limit + 1)).await?;
            let (claimed, free): (Vec<Stored<Job>>, Vec<Stored<Job>>) =
                waiting.into_iter().partition(|job| job.claim.is_some());
            more |= free.len() > limit || claimed.len() > limit;
            for job in free.into_iter().take(limit).chain(claimed.into_iter().take(limit)) {
                shown.push(json!({
                    "job": job.key(),
                    "repository": job.last_event.repository,
                    "name": job.last_event.name,
                    "labels": job.last_event.labels,
                    "pool": job.pool,
                    "moved": job.moved,
                    "queued_at": job.queued_at(),
                    "age_seconds": now.since(job.waits_since()),
                    "claim": job.claim,
                    "hold": job.hold,
                }));
            }
        }
        Ok(with_more(json!({ "jobs": shown }), more))
    }

    pub(super) async fn explain_job(&self, key: JobKey, now: Time) -> Result<Value, AdminError> {
        let job = self.table.job(key).await?.ok_or_else(|| {
            AdminError::new(
                AdminErrorCode::NotFound,
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
        let switches = self.table.switches().await?.map(Stored::into_record).unwrap_or_default();
        let off = job.pool.as_ref().and_then(|name| switches.launches_off(name));
        let limit = self.reached(pool, &job).await?;
        let cooldowns = self.table.cooldowns().await?;
        let entity = pool.and_then(|pool| pool.entity_for(&job));
        let health = match &entity {
            Some(entity) => self.table.entity_health(entity).await?,
            None => None,
        };
        let github = health.zip(pool).and_then(|(health, pool)| health.held_in(pool, now));
        let context = JobContext {
            pool,
            live: self.live(&job).await?,
            claim: claim.as_deref(),
            off,
            limit: limit.as_ref().map(|(scope, count)| (scope, *count)),
            choice: &select::reasons(&self.settings.pools, self.settings.balance, &job),
            cooldowns: cooldowns.as_deref(),
            github: github.as_ref(),
        };
        let explanation = explain::job(&job, &context, now);
        Ok(json!({ "job": job.record(), "explanation": explanation }))
    }

    /// The entities that a pool names and those that GitHub refuses, each with its health. One that
    /// no pool names is known by its refusal alone.
    fn entities(&self, unhealthy: &[EntityHealth], now: Time) -> Vec<Value> {
        let pools = &self.settings.pools;
        let named = pools.iter().filter_map(|pool| pool.entity.as_ref());
        let all: BTreeSet<&Entity> =
            named.chain(unhealthy.iter().map(|health| &health.entity)).collect();
        let of = |entity: &Entity| -> Vec<&PoolName> {
            let own = pools.iter().filter(|pool| pool.entity.as_ref() == Some(entity));
            own.map(|pool| &pool.name).collect()
        };
        let shown = |entity: &Entity| {
            let refused = unhealthy.iter().find(|health| health.entity == *entity);
            json!({
                "entity": entity,
                "pools": of(entity),
                "healthy": refused.is_none_or(|health| health.held(now).is_none()),
                "unauthorized_since": refused.and_then(|health| health.unauthorized_since),
                "launches_held": refused.and_then(|health| health.held(now)).map(|held| held.reason),
                "last_error": refused.and_then(|health| health.last_error.as_ref()),
                "refused_pools": refused.map(|health| &health.refused_pools),
            })
        };
        all.into_iter().map(shown).collect()
    }

    /// The first limit beside the pool's own that keeps an instance from being launched for the
    /// job.
    async fn reached(
        &self,
        pool: Option<&Pool>,
        job: &Job,
    ) -> Result<Option<(Scope, u32)>, AdminError> {
        let Some(entity) = pool.and_then(|pool| pool.entity_for(job)) else { return Ok(None) };
        for (scope, max) in self.settings.limits.for_entity(&entity) {
            let count = self.table.counted(&scope).await?;
            if count >= max {
                return Ok(Some((scope, count)));
            }
        }
        Ok(None)
    }

    /// What the limits of stack and entities count.
    async fn limits(&self) -> Result<Value, AdminError> {
        let mut shown = Vec::new();
        for scope in self.settings.limits.scopes() {
            let live = self.table.counted(&scope).await?;
            let max = self.settings.limits.max(&scope);
            shown.push(json!({ "of": scope, "max": max, "live": live }));
        }
        Ok(json!(shown))
    }

    async fn live(&self, job: &Job) -> Result<u32, AdminError> {
        let capacity = match &job.pool {
            Some(name) => self.table.capacity(name).await?,
            None => None,
        };
        Ok(capacity.map_or(0, |capacity| capacity.live))
    }

    /// What the App lacks at GitHub, whose settings no event and no error tells of. Without an
    /// answer the rest is shown.
    async fn app(&self) -> Value {
        match self.github.app().await {
            Ok(app) => json!({ "lacks": app.lacks(&self.settings.pools) }),
            Err(trouble) => json!({ "unknown": told("GitHub", &trouble).1 }),
        }
    }

    pub(super) async fn status(&self, now: Time) -> Result<Value, AdminError> {
        let switches = self.table.switches().await?.map(Stored::into_record).unwrap_or_default();
        let mut pools = Vec::new();
        for pool in &self.settings.pools {
            let capacity = self.table.capacity(&pool.name).await?;
            let waiting = self.table.waiting_jobs(&pool.name, COUNTED).await?;
            let oldest = waiting.iter().map(|job| job.waits_since()).min();
            let ending = self.table.ending_instances(&pool.name, COUNTED).await?;
            pools.push(json!({
                "name": pool.name,
                "labels": pool.labels,
                "entity": pool.entity,
                "priority": pool.priority,
                "enabled": pool.enabled,
                "paused": pool.paused,
                "max": pool.max,
                "min_idle": pool.idle_wanted(),
                "min_idle_hold": capacity.as_ref().and_then(|capacity| capacity.idle_hold.clone()),
                "live": capacity.map_or(0, |capacity| capacity.live),
                "ending": ending.len(),
                "waiting_jobs": waiting.len(),
                "oldest_waiting_job_seconds": oldest.map(|at| now.since(at)),
                "launches_off": switches.launches_off(&pool.name),
                "removed_at": pool.removed_at,
            }));
        }
        let mut unhealthy = self.table.unhealthy_entities().await?;
        // A rate limit that is over stands on record until GitHub's next answer.
        unhealthy.retain(|one| one.held(now).is_some() || !one.refused_pools.is_empty());
        Ok(json!({
            "stack": self.settings.stack,
            "release": env!("CARGO_PKG_VERSION"),
            "record_version": SCHEMA,
            "now": now,
            "pools": pools,
            "limits": self.limits().await?,
            "switches": shown(&switches)["switches"],
            "cooldowns": self.table.cooldowns().await?.map(|known| known.on(now)),
            "switched": self.table.audit(SUBJECT, SWITCHINGS_SHOWN).await?,
            "app": self.app().await,
            "entities": self.entities(&unhealthy, now),
            "unhealthy_entities": unhealthy.iter().map(|health| json!({
                "entity": health.entity,
                "unauthorized_since": health.unauthorized_since,
                "last_error": health.last_error,
                "limited_until": health.limited_until,
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

/// Says that a listing is not all, and how to see more of it.
fn with_more(mut listing: Value, more: bool) -> Value {
    listing["more"] = json!(more);
    if more {
        listing["hint"] = json!(format!(
            "not all are shown: name a \"pool\", or a larger \"limit\" (up to {MAX_LIMIT})"
        ));
    }
    listing
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
