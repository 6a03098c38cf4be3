//! Room under the limits of stack and entities: what is left, and who waits for what has become
//! free.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::pool::limits::{Headroom, Limits, Scope};

use crate::Settings;
use crate::ports::{ReadError, Table, Write};

/// A limit is near while no more than this is left of it: as many as may end at one moment.
const NEAR: u32 = 50;

/// What the limits leave, with the stack's counter where it is read already. What has no limit is
/// not read.
pub(crate) async fn left<T: Table>(
    table: &T,
    limits: &Limits,
    stack: Option<u32>,
) -> Result<Headroom, ReadError> {
    let mut scopes = limits.scopes();
    scopes.retain(|scope| stack.is_none() || *scope != Scope::Stack);
    let mut counted = match scopes.is_empty() {
        true => BTreeMap::new(),
        false => table.counts(&scopes).await?,
    };
    counted.extend(stack.map(|count| (Scope::Stack, count)));
    Ok(Headroom::new(limits.clone(), counted))
}

/// The pools to wake after the end of an instance. Its own; but where it counted against a limit
/// that is near, those whose jobs may have waited for just that, in the order in which they are
/// served, and no more than there is room for: the pool of the larger priority, then that of the
/// older job.
pub(crate) async fn waiting_for<T: Table>(
    table: &T,
    settings: &Settings,
    ended: &Instance,
) -> Result<Vec<PoolName>, ReadError> {
    let Some(room) = scarce(table, settings, &ended.counted_in).await? else {
        return Ok(vec![ended.pool.clone()]);
    };
    let mut waiting = Vec::new();
    for pool in &settings.pools {
        let first = table.demand(&pool.name, 1).await?.into_iter().next();
        let first = first.filter(|job| pool.serves(job).is_ok());
        waiting.extend(first.map(|job| (Reverse(pool.priority), job.queued_at(), &pool.name)));
    }
    waiting.sort();
    let names = waiting.into_iter().map(|(_, _, name)| name.clone());
    Ok(names.take(room.max(1) as usize).collect())
}

/// What is left of the tightest limit, if one is near.
async fn scarce<T: Table>(
    table: &T,
    settings: &Settings,
    scopes: &[Scope],
) -> Result<Option<u32>, ReadError> {
    let counts = match scopes.is_empty() {
        true => return Ok(None),
        false => table.counts(scopes).await?,
    };
    let left = |scope: &Scope| {
        let max = settings.limits.max(scope)?;
        Some(max.saturating_sub(counts.get(scope).copied().unwrap_or(0)))
    };
    Ok(scopes.iter().filter_map(left).filter(|left| *left <= NEAR).min())
}

/// Of these writes, those that count down what is at zero, as after a restored table: nobody may
/// wait for what cannot be counted down.
pub(crate) async fn uncounted<T: Table>(
    table: &T,
    writes: &[Write],
) -> Result<Vec<Write>, ReadError> {
    let mut uncounted = Vec::new();
    for write in writes {
        let count = match write {
            Write::CapacityDown(pool) => {
                table.capacity(pool).await?.map_or(0, |capacity| capacity.live)
            }
            Write::CountDown(scope) => {
                table.counts(std::slice::from_ref(scope)).await?.get(scope).copied().unwrap_or(0)
            }
            _ => continue,
        };
        if count == 0 {
            uncounted.push(write.clone());
        }
    }
    Ok(uncounted)
}
