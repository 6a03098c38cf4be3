//! Brake: launches of the stack or of the pool are paused. Existing runners continue to take jobs.

use super::{Block, BlockScope, Brake, Case};

pub(super) fn brake(case: &Case<'_>) -> Option<Block> {
    let pool = case.pool;
    let off = case.conditions.switches.launches_off(&pool.name, case.now);
    let why = match off {
        _ if pool.is_removed() => format!("pool {} is being removed", pool.name),
        Some(off) => format!("launches are {off}"),
        None => return None,
    };
    Some(Block { brake: Brake::Switch, until: None, why, scope: BlockScope::Pool, elsewhere: true })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{For, Scene};
    use super::{BlockScope, Brake};
    use crate::switches::{Switch, SwitchedOff, Switches};
    use crate::testkit::{With as _, at};
    use crate::time::Time;

    #[test]
    fn nothing_is_launched_while_somebody_holds_the_pool() {
        let off_until = |switch: Switch, until: Option<Time>| {
            let (by, reason) = ("ada".to_owned(), "moving".to_owned());
            let off = SwitchedOff { since: at(5), by, reason, until };
            Scene::new().with(|all| {
                all.conditions.switches = Switches::with(&Switches::default(), &switch, Some(off));
            })
        };
        let off = |switch: Switch| off_until(switch, None);
        let pool = |name: &str| Switch::Pool(name.parse().expect("a name"));
        let said = format!("launches are paused at {} by ada: moving", at(5));
        let ends = format!("launches are paused at {} by ada until {}: moving", at(5), at(1001));
        let removed = Scene::new().with(|all| all.pool.removed_at = Some(at(5)));
        let rows = [
            ("all is on", Scene::new(), None),
            ("launches", off(Switch::Launches), Some(said.as_str())),
            ("deletes", off(Switch::Deletes), None),
            ("the pool", off(pool("default")), Some(&said)),
            ("another pool", off(pool("other")), None),
            ("launches, with an end", off_until(Switch::Launches, Some(at(1001))), Some(&ends)),
            ("launches, ended now", off_until(Switch::Launches, Some(at(1000))), None),
            ("the pool, with an end", off_until(pool("default"), Some(at(1001))), Some(&ends)),
            ("the pool, ended", off_until(pool("default"), Some(at(6))), None),
            ("removed", removed, Some("pool default is being removed")),
        ];
        for (name, all, why) in rows {
            for what in [For::Job, For::Slot, For::Idle] {
                let told = why.map(|why| (why.to_owned(), None, BlockScope::Pool, true));
                assert_eq!(all.says(Brake::Switch, what), told, "{name}: {what:?}");
            }
        }
    }
}
