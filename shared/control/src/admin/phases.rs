//! How long machines take, based on live machines and the last ended ones.

use std::cmp::Reverse;

use muster_api::AdminError;
use muster_api::answers::{Answer, PhaseList, PoolPhases};
use muster_domain::ids::{ImageId, PoolName};
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
            pools.extend(by_image(&pool, &machines));
        }
        Ok(Answer::Phases(PhaseList { pools }))
    }

    /// Returns live machines and the last ended ones.
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

/// Returns the phases by image, that of the newest machine first: before and after a new image are two entries. A
/// builder's phases are those of no job.
fn by_image(pool: &PoolName, machines: &[Stored<Instance>]) -> Vec<PoolPhases> {
    let mut machines: Vec<&Instance> =
        machines.iter().map(Stored::record).filter(|one| one.builds().is_none()).collect();
    machines.sort_by_key(|one| Reverse(one.created_at));
    let mut images: Vec<Option<&ImageId>> = Vec::new();
    for image in machines.iter().map(|one| one.image.as_ref()) {
        if !images.contains(&image) {
            images.push(image);
        }
    }
    if images.is_empty() {
        images.push(None);
    }
    let of = |image: &Option<&ImageId>| {
        let own = || machines.iter().copied().filter(|one| one.image.as_ref() == *image);
        PoolPhases {
            pool: pool.clone(),
            image: image.cloned(),
            since: own().map(|one| one.created_at).min(),
            phases: paces(own()),
        }
    };
    images.iter().map(of).collect()
}
