//! Brake: machines of the pool, or for the entity, never ran a job. One machine at a time probes
//! whether that is over (`launch/record/trouble.rs`).

use super::{Block, BlockScope, Brake, Case};
use crate::launch::record::trouble::TroubleScope;

pub(super) fn brake(case: &Case<'_>) -> Option<Block> {
    let closed = case.conditions.troubles(case.entity.as_ref()).find(|(_, most)| *most == 0);
    let (trouble, _) = closed?;
    Some(Block {
        brake: Brake::Trouble,
        until: Some(trouble.look_again(case.now)),
        why: trouble.sentence(),
        scope: match trouble.scope {
            TroubleScope::Pool(_) => BlockScope::Pool,
            _ => BlockScope::Entity,
        },
        elsewhere: true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{For, Scene, acme, distrust};
    use super::BlockScope::{self, Entity, Pool};
    use super::Brake;
    use crate::launch::record::Cooldowns;
    use crate::launch::record::trouble::RequestKind::{Other, Registration};
    use crate::provider::ProviderError;
    use crate::testkit::{With as _, at, booting, fault, slot};

    fn with(change: impl FnOnce(&Cooldowns) -> Option<Cooldowns>) -> Scene {
        Scene::new().with(|all| {
            all.conditions.cooldowns = change(&all.conditions.cooldowns).expect("a trouble");
        })
    }

    /// A scene in which this many machines failed that were launched at this time.
    fn failed(count: u32, launched: u32) -> Scene {
        (1..=count).fold(Scene::new(), |all, n| {
            let one = booting().with(|one| {
                one.name = slot(n).name;
                one.created_at = at(launched);
            });
            let known =
                all.conditions.cooldowns.after_failure(&one, "dead".to_owned(), at(launched));
            all.with(|all| all.conditions.cooldowns = known.expect("a failure"))
        })
    }

    fn refused(code: &str, since: u32) -> Scene {
        Scene::new().with(|all| distrust(all, Registration, code, since))
    }

    fn wrong(pool: &str) -> Scene {
        with(|known| {
            let own = Scene::new().pool.with(|own| own.name = pool.parse().expect("a name"));
            let said = fault("422").with(|said| said.at = at(900));
            known.after_refused_configuration(&own, &acme(), &said)
        })
    }

    fn limited(until: u32) -> Scene {
        let limit = ProviderError::RateLimited(at(until));
        with(|known| known.after_answer(&acme(), Other, Some(&limit), at(900)))
    }

    /// Launches in second 1000 wait at least a minute longer, so that jobs do not cause constant
    /// checks.
    #[test]
    fn launches_wait_for_the_pools_own_trouble_and_their_entities() {
        let out = failed(3, 700).with(|all| {
            let entity = acme();
            let entities = std::collections::BTreeSet::from([&entity]);
            all.conditions.cooldowns =
                all.conditions.cooldowns.probed(&all.pool, &entities, at(820)).expect("a probe");
        });
        let two = failed(3, 900).with(|all| distrust(all, Other, "401", 900));
        let told = |why: &str, until: i64, scope: BlockScope| Some((why.to_owned(), until, scope));
        let machines = "the last 3 machines of pool default, launched since";
        let registers = "GitHub has refused to register runners for acme since";
        let runners = "GitHub has refused to register runners of pool default for acme since";
        let limit = format!("GitHub's rate limit for acme lasts until {}", at(1500));
        let rows = [
            ("two may be chance", failed(2, 900), None),
            ("machines", failed(3, 900), told(machines, 1060, Pool)),
            ("one may find out", failed(3, 880), None),
            ("one is out", out, told(machines, 1060, Pool)),
            (
                "credentials",
                refused("401", 900),
                told("GitHub has rejected the App's credentials", 1100, Entity),
            ),
            (
                "for long",
                refused("401", 0),
                told("GitHub has rejected the App's credentials", 1300, Entity),
            ),
            ("registrations", refused("403", 930), told(registers, 1060, Entity)),
            ("a runner may find out", refused("403", 880), None),
            ("a configuration", wrong("default"), told(runners, 1060, Entity)),
            ("another pool's", wrong("other"), None),
            ("a limit", limited(1500), told(&limit, 1500, Entity)),
            ("its end", limited(1000), None),
            ("the pool's first", two, told(machines, 1060, Pool)),
        ];
        for (name, all, expected) in rows {
            for what in [For::Job, For::Slot, For::Idle] {
                let said = all.says(Brake::Trouble, what);
                let elsewhere = said.as_ref().is_none_or(|said| said.3);
                assert!(elsewhere, "{name}: another pool may do better");
                let begins = |why: String| match &expected {
                    Some((begin, ..)) if why.starts_with(begin) => begin.clone(),
                    _ => why,
                };
                let said =
                    said.and_then(|(why, until, scope, _)| Some((begins(why), until?, scope)));
                assert_eq!(said, expected, "{name}: {what:?}");
            }
        }
        // A slot waits for the entity that it was launched for.
        let slot = refused("401", 900).with(|all| {
            all.slot.entity = "other".parse().expect("an entity");
        });
        assert_eq!(slot.says(Brake::Trouble, For::Slot), None);
    }
}
