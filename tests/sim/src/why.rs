//! Why a job of the simulated stack waits, by the product's own verdict over the tables as they are.

use muster_domain::job::Job;
use muster_domain::launch::verdict::{Block, Brake, Conditions, Wanted, verdict};
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Headroom;

use crate::world::World;

impl World {
    /// What stands in the way of a machine for a waiting job, if anything does.
    pub(crate) fn block_of(&self, job: &Job) -> Option<Block> {
        let pool = job.pool.as_ref().and_then(|name| self.checker.pool(name))?;
        verdict(pool, Wanted::Job(job), &self.conditions(pool), self.time()).err()
    }

    /// Whether machines for the job were refused, or served nothing, lately.
    pub(crate) fn is_braked(&self, job: &Job) -> bool {
        let Some(pool) = job.pool.as_ref().and_then(|name| self.checker.pool(name)) else {
            return false;
        };
        let in_trouble =
            pool.entity_for(job).is_some_and(|entity| self.conditions(pool).finds_out(&entity));
        let brake = self.block_of(job).map(|block| block.brake);
        in_trouble || matches!(brake, Some(Brake::Withheld | Brake::Refusal))
    }

    fn conditions(&self, pool: &Pool) -> Conditions {
        let tables = &self.tables;
        let limits = &self.checker.limits;
        let counted = limits.scopes().into_iter().map(|scope| {
            let count = tables.counted(&scope);
            (scope, count)
        });
        let demand: Vec<&Job> = tables
            .jobs
            .values()
            .map(|job| job.record())
            .filter(|job| job.is_demand() && job.pool.as_ref() == Some(&pool.name))
            .collect();
        let live: Vec<_> = tables.live_rows().filter(|row| row.pool == pool.name).collect();
        Conditions::new(
            tables.switches.as_deref().cloned().unwrap_or_default(),
            tables.cooldowns.as_deref().cloned().unwrap_or_default(),
            tables.capacities.get(&pool.name).map_or(0, |capacity| capacity.live),
            Headroom::new(limits.clone(), counted.collect()),
        )
        .judged_by(pool, &demand, &live, &live, self.time(), &self.checker.timings)
    }
}
