//! Remaining capacity under the limits of stack and entities, and the pools to wake when some
//! becomes available.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures_util::future::join;
use muster_domain::causes::with_causes;
use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::pool::limits::{Headroom, Limits, Scope};

use crate::Settings;
use crate::ports::{ReadError, Table, Write};
use crate::writes::Before;

/// Remaining capacity from which a limit counts as near: as many instances as may end at the same
/// moment.
const NEAR: u32 = 50;

/// Returns the remaining capacity under each limit, using the stack's counter if it was read
/// already. Does not read counters without a limit.
pub(crate) async fn left<T: Table>(
    table: &T,
    limits: &Limits,
    stack: Option<u32>,
) -> Result<Headroom, ReadError> {
    let mut scopes = limits.scopes();
    scopes.retain(|scope| stack.is_none() || *scope != Scope::Stack);
    let mut counted = match scopes.is_empty() {
        true => BTreeMap::new(),
        false => readable_counts(table, &scopes).await?,
    };
    counted.extend(stack.map(|count| (Scope::Stack, count)));
    Ok(Headroom::new(limits.clone(), counted))
}

/// Reads the counters of limits. One that cannot be read is full: no machine is launched under its limit.
async fn readable_counts<T: Table>(
    table: &T,
    scopes: &[Scope],
) -> Result<BTreeMap<Scope, u32>, ReadError> {
    match table.counts(scopes).await {
        Err(ReadError::Unreadable { .. }) => {}
        read => return read,
    }
    let mut counts = BTreeMap::new();
    for scope in scopes {
        counts.insert(scope.clone(), count(table, scope).await?.unwrap_or(u32::MAX));
    }
    Ok(counts)
}

/// Returns how many instances a limit counts; none if that cannot be read.
async fn count<T: Table>(table: &T, scope: &Scope) -> Result<Option<u32>, ReadError> {
    match table.counts(std::slice::from_ref(scope)).await {
        Ok(counts) => Ok(Some(counts.get(scope).copied().unwrap_or(0))),
        Err(error @ ReadError::Unreadable { .. }) => {
            tracing::error!(error = with_causes(&error), "a limit counts as full");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the pools to wake after the end of an instance: its own, if something waits there. If the
/// instance counted against a limit that is near, returns instead all pools with jobs that may have waited
/// for that limit: higher priority first, then older jobs, and at most as many pools as there is room for.
pub(crate) async fn waiting_for<T: Table>(
    table: &T,
    settings: &Settings,
    ended: &Instance,
) -> Result<Vec<PoolName>, ReadError> {
    let scarce = scarce(table, settings, ended);
    let (room, own_waits) = join(scarce, waits(table, settings, &ended.pool)).await;
    let Some(room) = room? else {
        return Ok(own_waits?.then(|| ended.pool.clone()).into_iter().collect());
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

/// Returns whether a job, or an idle runner that the pool keeps, may wait for capacity in a pool.
async fn waits<T: Table>(
    table: &T,
    settings: &Settings,
    pool: &PoolName,
) -> Result<bool, ReadError> {
    let keeps_idle = settings.pool(pool).is_some_and(|pool| pool.idle_wanted() > 0);
    Ok(keeps_idle || !table.demand(pool, 1).await?.is_empty())
}

/// Returns the remaining capacity of the tightest limit, if one is near and pools share it.
async fn scarce<T: Table>(
    table: &T,
    settings: &Settings,
    ended: &Instance,
) -> Result<Option<u32>, ReadError> {
    let scopes = &ended.counted_in;
    let is_shared = settings.pools.iter().any(|pool| pool.name != ended.pool);
    let counts = match is_shared && !scopes.is_empty() {
        true => readable_counts(table, scopes).await?,
        false => return Ok(None),
    };
    let left = |scope: &Scope| {
        let max = settings.limits.max(scope)?;
        Some(max.saturating_sub(counts.get(scope).copied().unwrap_or(0)))
    };
    Ok(scopes.iter().filter_map(left).filter(|left| *left <= NEAR).min())
}

/// Returns the writes that would decrement a counter that is zero, for example after a table was
/// restored: they must not block the commit.
pub(crate) async fn uncounted<T: Table>(
    table: &T,
    writes: &[Write],
) -> Result<Vec<Write>, ReadError> {
    let mut uncounted = Vec::new();
    for write in writes {
        let count = match write {
            Write::CapacityDown(pool) => match Before::of(table.capacity(pool).await)? {
                Before::Read(capacity) => capacity.map_or(0, |capacity| capacity.live),
                Before::Unreadable => 0,
            },
            Write::CountDown(scope) => count(table, scope).await?.unwrap_or(0),
            _ => continue,
        };
        if count == 0 {
            uncounted.push(write.clone());
        }
    }
    Ok(uncounted)
}
