//! Brake: the stack or the entity is at its maximum. The end of an instance wakes the pools that
//! may wait for it.

use super::{Block, BlockScope, Brake, Case, Wanted};
use crate::pool::limits::Scope;

pub(super) fn brake(case: &Case<'_>) -> Option<Block> {
    if matches!(case.wanted, Wanted::Slot(_)) {
        return None;
    }
    let (scope, max) = case.conditions.headroom.reached(case.entity.as_ref()?)?;
    Some(Block {
        brake: Brake::Limit,
        until: None,
        why: format!("{scope} is at its maximum ({max})"),
        scope: match scope {
            Scope::Stack => BlockScope::Pool,
            Scope::Entity(_) => BlockScope::Entity,
        },
        elsewhere: true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{For, Scene, limit};
    use super::{BlockScope::Entity, BlockScope::Pool, Brake};
    use crate::testkit::With as _;

    #[test]
    fn a_limit_of_the_stack_is_everybodys_and_one_of_an_entity_its_own() {
        type Row<'a> =
            (&'a str, Option<u32>, &'a [(&'a str, u32)], For, Option<(&'a str, super::BlockScope)>);
        let stack = Some(("the stack is at its maximum (0)", Pool));
        let entity = Some(("acme is at its maximum (0)", Entity));
        let rows: &[Row<'_>] = &[
            ("no limits", None, &[], For::Job, None),
            ("room", Some(1), &[("acme", 1)], For::Job, None),
            ("the stack", Some(0), &[], For::Job, stack),
            ("the entity", Some(1), &[("Acme", 0)], For::Job, entity),
            ("another entity", None, &[("other", 0)], For::Job, None),
            ("both", Some(0), &[("acme", 0)], For::Job, stack),
            ("the min idle", None, &[("acme", 0)], For::Idle, entity),
            ("a slot counts already", Some(0), &[("acme", 0)], For::Slot, None),
        ];
        for (name, max, entities, what, why) in rows {
            let all = Scene::new().with(|all| limit(all, *max, entities));
            let told = why.map(|(why, scope)| (why.to_owned(), None, scope, true));
            assert_eq!(all.says(Brake::Limit, *what), told, "{name}");
        }
    }
}
