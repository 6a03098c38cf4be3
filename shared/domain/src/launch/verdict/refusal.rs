//! Brake: EC2 refuses everything that the pool could request (`launch/record/cooldown.rs`).

use super::{Block, BlockScope, Brake, Case, Wanted};
use crate::ec2::Market;
use crate::launch::record::cooldown::{LaunchOptions, first_market, next_market};
use crate::pool::MarketPolicy;

pub(super) fn brake(case: &Case<'_>) -> Option<Block> {
    offer(case).err()
}

/// Returns what to request from EC2.
pub(super) fn offer(case: &Case<'_>) -> Result<LaunchOptions, Block> {
    let pool = case.pool;
    let (market, prefers) = match case.wanted {
        Wanted::Slot(slot) => (next_market(pool, slot), slot.prefers_on_demand),
        Wanted::Job(job) if pool.prefers_on_demand(job) => (Market::OnDemand, true),
        Wanted::Job(_) | Wanted::Idle => (first_market(pool.market), false),
    };
    let cooldowns = &case.conditions.cooldowns;
    let offered = cooldowns.offer(pool, market, case.now);
    // Spot is better than waiting for On-Demand.
    let is_mixed = pool.market == MarketPolicy::SpotThenOnDemand;
    let other = (market == Market::OnDemand && prefers && is_mixed).then_some(Market::Spot);
    let offered = match (offered, other) {
        (Err(refused), Some(spot)) => cooldowns.offer(pool, spot, case.now).map_err(|_| refused),
        (offered, _) => offered,
    };
    offered.map_err(|refused| Block {
        brake: Brake::Refusal,
        until: Some(refused.until),
        why: refused.reason,
        scope: BlockScope::Pool,
        elsewhere: true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{For, Scene, refuse};
    use super::{BlockScope, Brake};
    use crate::ec2::{Bucket, CooldownScope, Market};
    use crate::pool::MarketPolicy::{self, OnDemand, Spot, SpotThenOnDemand};
    use crate::testkit::With as _;

    #[test]
    fn what_ec2_refuses_is_not_asked_for() {
        let quota = |market| CooldownScope::Quota { market, bucket: Bucket::Standard };
        let pool = |name: &str| CooldownScope::Pool(name.parse().expect("a name"));
        let (spot, demand) = (|| quota(Market::Spot), || quota(Market::OnDemand));
        // The slot was refused once for Spot capacity, and is requested as On-Demand if the policy
        // allows that.
        let rows: [(&str, MarketPolicy, Option<CooldownScope>, [bool; 3]); 8] = [
            ("nothing", OnDemand, None, [false; 3]),
            ("all calls", OnDemand, Some(CooldownScope::Calls), [true; 3]),
            ("the pool", OnDemand, Some(pool("default")), [true; 3]),
            ("another pool", OnDemand, Some(pool("other")), [false; 3]),
            ("its only market", Spot, Some(spot()), [true; 3]),
            ("the other market", Spot, Some(demand()), [false; 3]),
            ("there is another one", SpotThenOnDemand, Some(spot()), [false; 3]),
            ("its second market", SpotThenOnDemand, Some(demand()), [false, true, false]),
        ];
        for (name, market, closed, is_refused) in rows {
            let all = Scene::new().with(|all| {
                all.pool.market = market;
                closed.iter().for_each(|closed| refuse(all, closed.clone()));
            });
            let why = closed.map(|closed| format!("{closed} (Code: no)"));
            for (what, is_refused) in [For::Job, For::Slot, For::Idle].into_iter().zip(is_refused) {
                let told = why.clone().filter(|_| is_refused);
                let told = told.map(|why| (why, Some(1100), BlockScope::Pool, true));
                assert_eq!(all.says(Brake::Refusal, what), told, "{name}: {what:?}");
            }
        }
    }
}
