//! What a round of the launch pass knows.

use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::job::untold;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::plan::{self, View};
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Limits;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use super::ScaleUp;
use super::pool_snapshot::{PoolSnapshot, newest};
use crate::launches::headroom;
use crate::ports::{Compute, Table};
use crate::writes::PassError;

impl<T: Table, C: Compute> ScaleUp<'_, T, C> {
    pub(super) async fn view<'b>(
        &'b self,
        pool: &'b Pool,
        demand: Vec<Stored<Job>>,
        round: usize,
        known: &mut PoolSnapshot,
        cooldowns: &'b Cooldowns,
        now: Time,
    ) -> Result<View<'b>, PassError> {
        let timings = &self.settings.timings;
        known.wait_for(demand.iter().map(|job| pool.launches_at(job).max(job.listed_at())), now);
        let mut allowances = self.withhold(pool, &demand, now).await?;
        let demand: Vec<Stored<Job>> =
            demand.into_iter().filter(|job| plan::is_job_due(job, cooldowns, now)).collect();
        let has_instances = known.has_instances();
        let works = !demand.is_empty() || pool.idle_wanted() > 0;
        let mut supply: Vec<Stored<Instance>> = if works && has_instances {
            known.as_known(self.table.free_instances(&pool.name).await?)
        } else {
            Vec::new()
        };
        let (demand, told_until) = untold::without(demand, &supply, now);
        known.wait_for(told_until, now);
        supply.retain(|one| one.is_free_supply() || one.may_be_kept());
        let limits = if works { &self.settings.limits } else { &Limits::default() };
        let room = headroom::left(self.table, limits).await?;
        let trouble = if works { self.trouble(pool, known, now).await? } else { None };
        known.wait_for(trouble.iter().map(|(_, block)| block.until), now);
        let listed = match has_instances {
            true => known.as_known(self.table.slots_to_retry(&pool.name).await?),
            false => Vec::new(),
        };
        let mut retries = newest(known.rest.drain(..).chain(listed));
        retries.retain(|slot| slot.claim().is_some());
        known.wait_for(retries.iter().filter_map(|slot| slot.retry_at(timings)), now);
        retries.retain(|slot| plan::is_launch_due(pool, slot, cooldowns, now, timings));
        allowances.extend(self.allowances(pool, &demand, &retries, known, now).await?);
        Ok(View {
            stack: &self.settings.stack,
            pool,
            live: known.capacity.live,
            room,
            trouble,
            held: None,
            demand,
            supply,
            retries,
            cooldowns,
            allowances,
            seed: self.seed.wrapping_add(round as u64),
            now,
            timings,
        })
    }
}
