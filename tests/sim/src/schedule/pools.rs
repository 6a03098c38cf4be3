//! The stacks of the schedules.

use std::sync::Arc;

use muster_control::Settings;
use muster_domain::pool::limits::Balance;
use muster_domain::pool::{LabelMatch, Pool};
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;
use serde_json::json;

use crate::names::APP_OWNER;
use crate::rng::Rng;

/// The stack's name.
pub const STACK: &str = "sim";

/// A pool.
#[must_use]
pub fn pool(name: &str, labels: &[&str], max: u32, market: &str, entity: Option<&str>) -> Pool {
    let value = json!({
        "name": name,
        "entity": entity,
        "app_owner": APP_OWNER,
        "labels": labels,
        "launch_template_id": "lt-0123456789abcdef0",
        "launch_template_version": "3",
        "instance_types": ["m7i.large", "m7a.large"],
        "subnets": ["subnet-a", "subnet-b"],
        "market": market,
        "max": max,
        "max_lifetime_seconds": 4 * 3600,
    });
    match serde_json::from_value(value) {
        Ok(pool) => pool,
        Err(error) => unreachable!("a valid pool: {error}"),
    }
}

/// Pools whose labels overlap, so that runners of one take jobs of another; each with types,
/// subnets, market and price of its own.
pub(super) fn settings(rng: &mut Rng, seed: u64) -> Settings {
    let markets = ["spot", "on-demand", "spot-then-on-demand"];
    let mut max = || [1, 2, 5, 20][rng.index(4)];
    let (small, large, own) = (max(), max(), max());
    let mut pools = vec![pool("default", &["linux", "x64"], small, markets[rng.index(3)], None)];
    if rng.chance(500_000) {
        pools.push(pool("gpu", &["linux", "x64", "gpu"], large, markets[rng.index(3)], None));
    }
    if rng.chance(300_000) {
        let entity = Some("acme/web");
        pools.push(pool("web", &["linux", "x64"], own, markets[rng.index(3)], entity));
    }
    pools.iter_mut().for_each(|pool| vary(pool, rng));
    let mut settings = Settings::from_parameters(STACK.to_owned(), pools, Timings::default());
    // Chances of its own, so that the rest of a seed's day stays what it was.
    let mut rng = Rng::new(seed ^ 0x9e37_79b9_7f4a_7c15);
    if rng.chance(600_000) {
        season(&mut rng, &mut settings);
    }
    settings
}

/// What the pool file can say besides: choice, min idle, limits, ages.
fn season(rng: &mut Rng, settings: &mut Settings) {
    for pool in &mut settings.pools {
        pool.priority = [0, 0, 5, 10][rng.index(4)];
        if pool.entity.is_none() && rng.chance(400_000) {
            pool.entity = "acme".parse().ok();
        }
        if rng.chance(400_000) {
            pool.min_idle = 1 + rng.index(3) as u32;
        }
        if rng.chance(150_000) {
            pool.job_age_seconds = Seconds([30, 90, 300][rng.index(3)]);
        }
        pool.enabled = !rng.chance(40_000);
        if rng.chance(80_000) {
            pool.label_match = LabelMatch::Exact;
        }
        if rng.chance(80_000) {
            pool.repositories = vec!["ACME/web".to_owned()];
        }
    }
    if rng.chance(400_000) {
        settings.balance = Balance::RoundRobin;
    }
    // The idle ones alone must not use a limit up: no job would ever be served.
    let idle: u32 = settings.pools.iter().map(Pool::idle_wanted).sum();
    if rng.chance(250_000) {
        settings.limits.stack = Some(idle + [2, 4, 12][rng.index(3)]);
    }
    if rng.chance(250_000) {
        let most = idle + [1, 3, 8][rng.index(3)];
        settings.limits.entities.extend("ACME".parse().ok().map(|acme| (acme, most)));
    }
}

/// What only EC2 sees of a pool.
fn vary(pool: &mut Pool, rng: &mut Rng) {
    let types = ["m7i.large", "m7a.large", "m6i.large"];
    let subnets = ["subnet-a", "subnet-b", "subnet-c"];
    let some = |rng: &mut Rng, all: [&str; 3]| -> Vec<Arc<str>> {
        let count = 1 + rng.index(3);
        all.into_iter().take(count).map(Arc::from).collect()
    };
    (pool.instance_types, pool.subnets) = (some(rng, types), some(rng, subnets));
    pool.max_price = rng.chance(300_000).then(|| "0.05".to_owned());
}
