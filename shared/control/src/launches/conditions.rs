//! What may stand in the way of a pool's launches, as the tables have it. The launch pass, the
//! overflow to other pools and `explain` read it here, and ask `launch::verdict`.

use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::verdict::Conditions;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use crate::Settings;
use crate::launches::headroom;
use crate::ports::{LaunchConditions, ReadError, Table};

/// The conditions of a pool. `read`: its records, as they were read. `demand`: its jobs without a
/// claim. `free`: its instances that a job may be meant for.
///
/// # Errors
/// When the tables do not answer.
pub(crate) async fn of_pool<T: Table>(
    table: &T,
    settings: &Settings,
    pool: &Pool,
    read: &LaunchConditions,
    demand: &[Stored<Job>],
    free: &[Stored<Instance>],
    now: Time,
) -> Result<Conditions, ReadError> {
    let conditions = Conditions::new(
        read.switches.as_deref().cloned().unwrap_or_default(),
        read.cooldowns.as_deref().cloned().unwrap_or_default(),
        read.capacity.as_ref().map_or(0, |capacity| capacity.live),
        headroom::left(table, &settings.limits, Some(read.counted)).await?,
    );
    let live = match conditions.needs_instances(pool, demand) {
        true => live_instances(table, pool).await?,
        false => Vec::new(),
    };
    Ok(conditions.judged_by(pool, demand, free, &live, now, &settings.timings))
}

async fn live_instances<T: Table>(
    table: &T,
    pool: &Pool,
) -> Result<Vec<Stored<Instance>>, ReadError> {
    let (mut live, mut page) = (Vec::new(), None);
    loop {
        let listed = table.live_instances(&pool.name, page).await?;
        live.extend(listed.items);
        page = listed.next;
        if page.is_none() {
            return Ok(live);
        }
    }
}
