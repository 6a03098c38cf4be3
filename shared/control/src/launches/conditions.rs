//! Reads what may prevent a pool's launches. Used by the launch pass, the overflow to other pools
//! and `explain`, and evaluated by `launch::verdict`.

use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::verdict::Conditions;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::timings::Timings;

use crate::Settings;
use crate::launches::headroom;
use crate::ports::{LaunchConditions, ReadError, Table};

/// Returns the conditions of a pool. `read` are its records, `demand` its jobs without a claim, and
/// `free` its instances that a job may be meant for.
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
    judged(table, pool, conditions, demand, free, now, &settings.timings).await
}

/// The same, of conditions that know no jobs and instances yet.
///
/// # Errors
/// When the tables do not answer.
pub(crate) async fn judged<T: Table>(
    table: &T,
    pool: &Pool,
    conditions: Conditions,
    demand: &[impl AsRef<Job>],
    free: &[Stored<Instance>],
    now: Time,
    timings: &Timings,
) -> Result<Conditions, ReadError> {
    let demand: Vec<&Job> =
        demand.iter().map(AsRef::as_ref).filter(|job| job.is_demand()).collect();
    let live = match conditions.needs_instances(pool, &demand) {
        true => live_instances(table, pool).await?,
        false => Vec::new(),
    };
    Ok(conditions.judged_by(pool, &demand, free, &live, now, timings))
}

/// Returns all live instances of a pool.
pub(crate) async fn live_instances<T: Table>(
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
