//! The canary: one machine without a job, launched like any other, to test that launches work.

use muster_api::answers::{Answer, OrderedCanary};
use muster_api::{AdminError, AdminErrorCode, CanaryRequest};
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::causes::with_causes;
use muster_domain::hash::fnv1a;
use muster_domain::ids::{Entity, PoolName};
use muster_domain::instance::Instance;
use muster_domain::launch::plan::{self, PlannedLaunch, View};
use muster_domain::launch::verdict::Block;
use muster_domain::message::WakePool;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};

use super::Admin;
use crate::context::{Context, Ports};
use crate::ports::{Directory, Queue as _, Write};
use crate::writes;

/// When the pool is woken a second time: the index of open launches may not show this one yet when
/// the first wake-up arrives.
const AGAIN: Seconds = Seconds(5);

impl<P: Ports<Github: Directory>> Admin<'_, P> {
    /// Plans a launch of one machine and commits it. The pool's next pass finds the open launch and
    /// calls EC2, which tests the permissions of the function that launches every machine.
    pub(super) async fn canary(
        &self,
        request: &CanaryRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let pool = self.pool_of_canary(request)?;
        let entity = home(pool, request.entity.as_ref())?;
        let pool = &Pool { entity: Some(entity.clone()), ..pool.clone() };
        let by = request.by.as_deref().unwrap_or("operator");
        let mut round = 0;
        let planned = writes::in_rounds(async || {
            round += 1;
            self.try_canary(pool, by, request.dry_run, round, now).await
        })
        .await?;
        if !request.dry_run {
            tracing::warn!(pool.name = %pool.name, launch.id = %planned.launch.id, by, "operator ordered a canary");
            self.wake_for_canary(pool).await;
        }
        let timings = self.context.settings.timings_of(&pool.name);
        Ok(Answer::Canary(Box::new(OrderedCanary {
            name: planned.launch.slots.first().filter(|_| !request.dry_run).cloned(),
            dry_run: request.dry_run,
            pool: pool.name.clone(),
            entity,
            request: planned.launch.request,
            boot_deadline_seconds: timings.boot_deadline_seconds,
            idle_limit_seconds: timings.idle_limit_seconds,
        })))
    }

    async fn try_canary(
        &self,
        pool: &Pool,
        by: &str,
        dry_run: bool,
        round: u64,
        now: Time,
    ) -> Result<PlannedLaunch, AdminError> {
        let Context { settings, .. } = self.context;
        let (read, conditions, _) = self.looked(pool, now).await?;
        let view = View {
            stack: &settings.stack,
            pool,
            conditions,
            demand: Vec::new(),
            supply: Vec::new(),
            retries: Vec::new(),
            seed: fnv1a(format!("{by} {now} {round}").as_bytes()),
            now,
            timings: &settings.timings,
        };
        let mut planned = plan::canary(view)
            .map_err(|block| held(&block))?
            .ok_or_else(|| refused(format!("the name of pool {} makes no launch", pool.name)))?;
        for one in &mut planned.idle {
            one.tell(now, format!("a canary, ordered by {by}"));
        }
        if !dry_run {
            self.commit(self.canary_writes(&planned, read.capacity.as_ref(), by, now)).await?;
        }
        Ok(planned)
    }

    /// Returns the writes of a launch pass, except its lease. The pool's counter is replaced on
    /// condition that it is unchanged, so a concurrent launch causes a conflict and this pass
    /// starts over.
    fn canary_writes(
        &self,
        planned: &PlannedLaunch,
        capacity: Option<&Stored<Capacity>>,
        by: &str,
        now: Time,
    ) -> Vec<Write> {
        let pool = &planned.launch.pool;
        let mut counted = capacity
            .map_or_else(|| Capacity::empty(pool.clone()), |stored| stored.record().clone());
        counted.live += 1;
        let mut writes = vec![
            Change::create(planned.launch.clone()).into(),
            Change::from_read(capacity, counted).into(),
        ];
        let limits = &self.context.settings.limits;
        for Instance { name, entity, counted_in, .. } in &planned.idle {
            writes.extend(counted_in.iter().map(|scope| Write::CountUp {
                scope: scope.clone(),
                count: 1,
                max: limits.max(scope).unwrap_or(u32::MAX),
            }));
            let why = format!("a machine of pool {pool} for {entity} that no job needs");
            writes.push(Write::Audit(Audit::new(name, AuditKind::CanaryOrdered, by, &why, now)));
        }
        writes.extend(planned.idle.iter().cloned().map(Change::create).map(Write::from));
        writes
    }

    async fn wake_for_canary(&self, pool: &Pool) {
        let wake = [WakePool::whole(pool.name.clone())];
        for delay in [Seconds(0), AGAIN] {
            if let Err(error) = self.context.queue.send_wakes(&wake, delay).await {
                tracing::warn!(
                    error = with_causes(&error),
                    "failed to wake the pool; the sweep does when the canary is due"
                );
            }
        }
    }

    /// Returns the requested pool, or the only one.
    fn pool_of_canary(&self, request: &CanaryRequest) -> Result<&Pool, AdminError> {
        let settings = self.context.settings;
        let names = self.pools(request.pool.as_ref())?;
        let [name] = names.as_slice() else {
            let names: Vec<&str> = names.iter().map(PoolName::as_str).collect();
            return Err(refused(format!("name a \"pool\": {}", names.join(", "))));
        };
        match settings.pool(name) {
            Some(pool) if pool.enabled => Ok(pool),
            Some(_) => Err(refused(format!("pool {name} is disabled: it serves no job"))),
            None => Err(refused(format!("there is no pool {name}"))),
        }
    }
}

/// Returns the entity to register the canary's runner with.
fn home(pool: &Pool, asked: Option<&Entity>) -> Result<Entity, AdminError> {
    let name = &pool.name;
    match (&pool.entity, asked) {
        (Some(own), Some(other)) if !own.same_as(other) => {
            Err(refused(format!("pool {name} registers its runners at {own} and not at {other}")))
        }
        (Some(own), _) => Ok(own.clone()),
        (None, Some(asked)) => Ok(asked.clone()),
        (None, None) => Err(refused(format!(
            "pool {name} registers each runner where its job comes from; name an \"entity\" for \
             this one: an organization, or owner/repo"
        ))),
    }
}

fn held(block: &Block) -> AdminError {
    let when = block.until.map_or_else(|| "now".to_owned(), |until| format!("before {until}"));
    refused(format!("no machine is launched {when}: {}", block.why))
}

fn refused(message: String) -> AdminError {
    AdminError::new(AdminErrorCode::NotLaunched, message)
}
