//! Pools whose last machines served nothing: what may be launched there.

use muster_domain::instance::Instance;
use muster_domain::launch::cooldown::LaunchBlock;
use muster_domain::launch::trouble::Finding;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use super::ScaleUp;
use super::pool_snapshot::PoolSnapshot;
use crate::ports::{CommitError, Table};
use crate::writes::PassError;

impl<T: Table, C> ScaleUp<'_, T, C> {
    /// How many machines may be launched, where the pool is in trouble, and why no more. Live
    /// instances are read for such pools alone; one that serves ends the trouble.
    pub(super) async fn trouble(
        &self,
        pool: &Pool,
        known: &mut PoolSnapshot,
        now: Time,
    ) -> Result<Option<(u32, LaunchBlock)>, PassError> {
        let Some(stored) = known.cooldowns.clone() else { return Ok(None) };
        let Some(trouble) = stored.trouble(pool) else { return Ok(None) };
        let live = self.live_instances(pool).await?;
        match trouble.finding(&live, now) {
            Finding::Most(most, block) => Ok(Some((most, block))),
            Finding::Over => {
                let change = stored.change(stored.without_trouble(&pool.name));
                match self.table.commit(&[change.clone().into()]).await {
                    Ok(committed) => known.cooldowns = Some(change.stored(&committed)),
                    // The next pass finds the same.
                    Err(CommitError::Conflict) => {}
                    Err(error) => return Err(error.into()),
                }
                tracing::info!(pool.name = %pool.name, "the pool's machines serve again");
                Ok(None)
            }
        }
    }

    /// All live instances of a pool.
    pub(super) async fn live_instances(
        &self,
        pool: &Pool,
    ) -> Result<Vec<Stored<Instance>>, PassError> {
        let (mut live, mut page) = (Vec::new(), None);
        loop {
            let listed = self.table.live_instances(&pool.name, page).await?;
            live.extend(listed.items);
            page = listed.next;
            if page.is_none() {
                return Ok(live);
            }
        }
    }
}
