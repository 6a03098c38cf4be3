//! Choice of the pool for a job, the next one if that pool has no capacity, and the reasons.
//!
//! The rule, in this order:
//! 1. a pool of the job's repository before one of its organization before one of its enterprise
//!    before one without an entity;
//! 2. the larger priority, regardless of how the pools match labels;
//! 3. among equals the [`Balance`]: `pack` uses the order of the file; `round-robin` starts with
//!    the pool at *job ID modulo number of equals* and continues in file order, wrapping around.

use std::cmp::Reverse;

use crate::job::Job;
use crate::pool::Pool;
use crate::pool::limits::Balance;

/// Sort key of a pool before the balance applies.
fn rank(pool: &Pool) -> (u8, Reverse<u32>) {
    let entity = pool.entity.as_ref().map_or(u8::MAX, |entity| entity.kind() as u8);
    (entity, Reverse(pool.priority))
}

/// Returns all pools that serve a job, the first choice first.
#[must_use]
pub fn candidates<'a>(pools: &'a [Pool], balance: Balance, job: &Job) -> Vec<&'a Pool> {
    let mut serving: Vec<&Pool> = pools.iter().filter(|pool| pool.serves(job).is_ok()).collect();
    // The sort is stable: equals keep their file order.
    serving.sort_by_key(|pool| rank(pool));
    match balance {
        Balance::Pack => {}
        Balance::RoundRobin => {
            for equals in serving.chunk_by_mut(|a, b| rank(a) == rank(b)) {
                let turn = job.key().job % equals.len() as u64;
                equals.rotate_left(usize::try_from(turn).unwrap_or(0));
            }
        }
    }
    serving
}

/// No pool serves the job. The text gives each pool's reason, in at most a kilobyte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoPoolError(pub String);

/// Chooses the pool for a job.
///
/// # Errors
/// If no pool serves it.
pub fn choose<'a>(pools: &'a [Pool], balance: Balance, job: &Job) -> Result<&'a Pool, NoPoolError> {
    candidates(pools, balance, job).first().copied().ok_or_else(|| {
        let reasons: Vec<String> = pools
            .iter()
            .filter_map(|pool| {
                pool.serves(job).err().map(|why| format!("pool {}: {why}", pool.name))
            })
            .collect();
        NoPoolError(match reasons.len() {
            0 => "no pool is configured".to_owned(),
            _ => bounded(&reasons),
        })
    })
}

/// Joins the reasons, in at most a kilobyte: they are stored with the job.
fn bounded(reasons: &[String]) -> String {
    const MAX_REASON: usize = 960;
    let mut text = String::new();
    for (index, reason) in reasons.iter().enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        if index > 0 && text.len() + separator.len() + reason.len() > MAX_REASON {
            let more = reasons.len() - index;
            return text + &format!("; and {more} more pools do not");
        }
        text.push_str(separator);
        text.push_str(reason);
    }
    text
}

/// Explains, for each pool in the order of choice, why it has its position; then why each remaining
/// pool does not serve the job.
#[must_use]
pub fn reasons(pools: &[Pool], balance: Balance, job: &Job) -> Vec<String> {
    let serving = candidates(pools, balance, job);
    let mut lines = Vec::new();
    for (index, pool) in serving.iter().enumerate() {
        let place = index + 1;
        let line = match index.checked_sub(1).and_then(|before| serving.get(before)) {
            None if serving.len() == 1 => format!("Only pool {} serves it.", pool.name),
            None => format!("Pool {} is choice {place}.", pool.name),
            Some(better) => {
                let why = why_after(better, pool, balance);
                format!("Pool {} is choice {place}, after {}: {why}.", pool.name, better.name)
            }
        };
        lines.push(line);
    }
    lines.extend(pools.iter().filter_map(|pool| {
        pool.serves(job).err().map(|why| format!("Pool {} does not serve it: {why}.", pool.name))
    }));
    lines
}

/// Explains why `better` comes before `other`.
fn why_after(better: &Pool, other: &Pool, balance: Balance) -> String {
    let (first, second) = (rank(better), rank(other));
    if first.0 != second.0 {
        let of = |pool: &Pool| {
            pool.entity.as_ref().map_or("no entity", |entity| entity.kind().as_str()).to_owned()
        };
        return format!("it belongs to {}, the other to {}", of(other), of(better));
    }
    if first.1 != second.1 {
        return format!("its priority is {}, the other's {}", other.priority, better.priority);
    }
    match balance {
        Balance::Pack => "equal, and later in the list (pack)".to_owned(),
        Balance::RoundRobin => {
            "equal, and the job's ID determines this turn (round-robin)".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
