//! How long machines take, based on live machines and the last ended ones.

use muster_api::AdminError;
use muster_api::answers::{Answer, PhaseList, PoolPhases};
use muster_domain::ids::PoolName;
use muster_domain::instance::{Instance, paces};
use muster_domain::stored::Stored;

use super::Admin;
use crate::context::{Context, Ports};
use crate::ports::{Instances as _, ReadError};

/// Maximum number of live and of ended machines per pool that are read: a few megabytes of the
/// table.
const LOOKED_AT: u32 = 500;

impl<P: Ports> Admin<'_, P> {
    pub(super) async fn phases(&self, pool: Option<&PoolName>) -> Result<Answer, AdminError> {
        let mut pools = Vec::new();
        for pool in self.pools(pool)? {
            let machines = self.machines(&pool).await?;
            let since = machines.iter().map(|one| one.created_at).min();
            let phases = paces(machines.iter().map(Stored::record));
            pools.push(PoolPhases { pool, since, phases });
        }
        Ok(Answer::Phases(PhaseList { pools }))
    }

    async fn machines(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let Context { table, .. } = self.context;
        let mut found = table.ended_instances(pool, LOOKED_AT).await?;
        let most = found.len() + LOOKED_AT as usize;
        let mut page = None;
        loop {
            let live = table.live_instances(pool, page).await?;
            found.extend(live.items);
            page = live.next;
            if page.is_none() || found.len() >= most {
                found.truncate(most);
                found.retain(|one| one.machine().is_some());
                return Ok(found);
            }
        }
    }
}
