//! The stacks of the schedules.

use control::Settings;
use domain::pool::Pool;
use serde_json::json;

use crate::rng::Rng;

/// A pool.
#[must_use]
pub fn pool(name: &str, labels: &[&str], max: u32, market: &str, entity: Option<&str>) -> Pool {
    let value = json!({
        "name": name,
        "entity": entity,
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

/// Pools whose labels overlap, so that runners of one take jobs of another.
pub(super) fn settings(rng: &mut Rng) -> Settings {
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
    Settings::of_parameters("sim".to_owned(), pools, domain::timings::Timings::default())
}
