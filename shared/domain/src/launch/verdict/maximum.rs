//! Brake: the pool is at its maximum. The end of an instance wakes the pool.

use super::{Block, BlockScope, Brake, Case, Wanted};

pub(super) fn brake(case: &Case<'_>) -> Option<Block> {
    let (live, max) = (case.conditions.live, case.pool.max);
    let is_counted = matches!(case.wanted, Wanted::Slot(_));
    (!is_counted && live >= max).then(|| Block {
        brake: Brake::Maximum,
        until: None,
        why: format!("pool {} is at its maximum ({live} of {max})", case.pool.name),
        scope: BlockScope::Pool,
        elsewhere: true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{For, Scene};
    use super::{BlockScope, Brake};
    use crate::testkit::With as _;

    #[test]
    fn a_pool_has_no_more_machines_than_its_maximum() {
        let rows = [
            ("room for one", 9, 10, For::Job, None),
            ("full", 10, 10, For::Job, Some("pool default is at its maximum (10 of 10)")),
            ("lowered", 11, 4, For::Job, Some("pool default is at its maximum (11 of 4)")),
            ("none at all", 0, 0, For::Idle, Some("pool default is at its maximum (0 of 0)")),
            ("the min idle", 10, 10, For::Idle, Some("pool default is at its maximum (10 of 10)")),
            ("a slot counts already", 11, 4, For::Slot, None),
        ];
        for (name, live, max, what, why) in rows {
            let all = Scene::new().with(|all| (all.conditions.live, all.pool.max) = (live, max));
            let told = why.map(|why| (why.to_owned(), None, BlockScope::Pool, true));
            assert_eq!(all.says(Brake::Maximum, what), told, "{name}");
        }
    }
}
