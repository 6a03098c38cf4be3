//! The canary: one machine without a job, launched like any other, to test that launches work.

use muster_api::answers::{Answer, OrderedCanary};
use muster_api::{AdminError, AdminErrorCode, CanaryRequest};
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::hash::fnv1a;
use muster_domain::ids::{Entity, PoolName};
use muster_domain::image::ImageChoice;
use muster_domain::launch::plan::PlannedLaunch;
use muster_domain::launch::verdict::Block;
use muster_domain::pool::Pool;
use muster_domain::time::Time;

use super::Admin;
use crate::context::{Context, Ports};
use crate::launches::single::{self, NotPlanned, SingleLaunch};
use crate::ports::{Directory, LaunchConditions, Write};
use crate::writes;

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
            self.try_canary(pool, by, request, round, now).await
        })
        .await?;
        if !request.dry_run {
            tracing::warn!(pool.name = %pool.name, launch.id = %planned.launch.id, by, "operator ordered a canary");
            single::wake(self.context, pool).await;
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
        request: &CanaryRequest,
        round: u64,
        now: Time,
    ) -> Result<PlannedLaunch, AdminError> {
        let Context { settings, table, .. } = self.context;
        let seed = fnv1a(format!("{by} {now} {round}").as_bytes());
        // The image that most machines of the pool boot; a canary does not count while it is on probation.
        let image = |read: &LaunchConditions| ImageChoice {
            image: read
                .images
                .as_ref()
                .filter(|_| !request.template_image)
                .and_then(|images| images.choice(pool).image),
            ..ImageChoice::default()
        };
        let mut single = SingleLaunch::plan(table, settings, pool, image, seed, now)
            .await
            .map_err(|error| not_planned(error, pool))?;
        let mut audit = Vec::new();
        for one in &mut single.planned.idle {
            one.tell(now, format!("a canary, ordered by {by}"));
            let why =
                format!("a machine of pool {} for {} that no job needs", one.pool, one.entity);
            audit.push(Write::Audit(Audit::new(
                &one.name,
                AuditKind::CanaryOrdered,
                by,
                &why,
                now,
            )));
        }
        if !request.dry_run {
            self.commit(single.writes(settings).into_iter().chain(audit)).await?;
        }
        Ok(single.planned)
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

fn not_planned(error: NotPlanned, pool: &Pool) -> AdminError {
    match error {
        NotPlanned::Read(error) => error.into(),
        NotPlanned::Blocked(block) => held(&block),
        NotPlanned::NoName => refused(format!("the name of pool {} makes no launch", pool.name)),
    }
}

fn held(block: &Block) -> AdminError {
    let when = block.until.map_or_else(|| "now".to_owned(), |until| format!("before {until}"));
    refused(format!("no machine is launched {when}: {}", block.why))
}

fn refused(message: String) -> AdminError {
    AdminError::new(AdminErrorCode::NotLaunched, message)
}
