//! Limits across pools: the maxima of the stack and of entities, and the balance among equal pools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::Entity;

/// The values of `balance` in the pool file.
pub const BALANCES: &[(&str, Balance)] =
    &[("pack", Balance::Pack), ("round-robin", Balance::RoundRobin)];

/// How jobs are distributed over pools that serve them equally well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// Fill the first pool in the file, then the next.
    #[default]
    Pack,
    /// Take turns by the job's ID. This needs no stored state, and concurrent passes agree.
    RoundRobin,
}

/// Maxima that apply in addition to the pools' own. An instance counts only if it was created after
/// the limit was set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of live instances in the stack.
    pub stack: Option<u32>,
    /// Maximum number of live instances whose runners are registered at exactly this entity: an
    /// organization's maximum does not count the runners of its repositories.
    pub entities: BTreeMap<Entity, u32>,
}

/// What a limit counts; also the name of its counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All instances.
    Stack,
    /// The instances of an entity, whose name is in lower case.
    Entity(Entity),
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stack => f.write_str("the stack"),
            Self::Entity(entity) => write!(f, "{entity}"),
        }
    }
}

impl Limits {
    /// Returns these limits capped by the stack's own maximum, which a pool file can lower but not
    /// raise.
    #[must_use]
    pub fn below(self, most: Option<u32>) -> Self {
        Self { stack: self.stack.into_iter().chain(most).min(), ..self }
    }

    /// Returns every limit that an instance of this entity counts against.
    #[must_use]
    pub fn for_entity(&self, entity: &Entity) -> Vec<(Scope, u32)> {
        let own = self.entities.iter().find(|(limited, _)| limited.same_as(entity));
        let own = own.map(|(limited, max)| (Scope::Entity(limited.lower_case()), *max));
        self.stack.map(|max| (Scope::Stack, max)).into_iter().chain(own).collect()
    }

    /// Returns the maximum for a counter, if there is one.
    #[must_use]
    pub fn max(&self, scope: &Scope) -> Option<u32> {
        match scope {
            Scope::Stack => self.stack,
            Scope::Entity(entity) => {
                let own = self.entities.iter().find(|(limited, _)| limited.same_as(entity));
                own.map(|(_, max)| *max)
            }
        }
    }

    /// Returns the scope of every limit.
    #[must_use]
    pub fn scopes(&self) -> Vec<Scope> {
        let entities = self.entities.keys().map(|entity| Scope::Entity(entity.lower_case()));
        self.stack.map(|_| Scope::Stack).into_iter().chain(entities).collect()
    }
}

/// How many more instances the limits allow: current counts against maxima.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headroom {
    limits: Limits,
    counted: BTreeMap<Scope, u32>,
}

impl Headroom {
    /// Creates the headroom from the limits and their counters. A counter that was not read counts
    /// as 0.
    #[must_use]
    pub const fn new(limits: Limits, counted: BTreeMap<Scope, u32>) -> Self {
        Self { limits, counted }
    }

    /// Returns the counters that an instance of this entity counts in.
    #[must_use]
    pub fn scopes_of(&self, entity: &Entity) -> Vec<Scope> {
        self.limits.for_entity(entity).into_iter().map(|(scope, _)| scope).collect()
    }

    /// Returns whether the stack has a limit.
    #[must_use]
    pub const fn limits_stack(&self) -> bool {
        self.limits.stack.is_some()
    }

    /// Returns whether any entity has a limit.
    #[must_use]
    pub fn limits_entities(&self) -> bool {
        !self.limits.entities.is_empty()
    }

    /// Returns the limit that one more instance of this entity would exceed, and its maximum.
    #[must_use]
    pub fn reached(&self, entity: &Entity) -> Option<(Scope, u32)> {
        let is_reached =
            |(scope, max): &(Scope, u32)| self.counted.get(scope).copied().unwrap_or(0) >= *max;
        self.limits.for_entity(entity).into_iter().find(is_reached)
    }

    /// Counts one more instance of this entity.
    pub fn count(&mut self, entity: &Entity) {
        for (scope, _) in self.limits.for_entity(entity) {
            *self.counted.entry(scope).or_default() += 1;
        }
    }

    /// Returns the headroom after an instance that was counted in `ended` has ended.
    #[must_use]
    pub fn without(&self, ended: &[Scope]) -> Self {
        let mut next = self.clone();
        for scope in ended {
            if let Some(count) = next.counted.get_mut(scope) {
                *count = count.saturating_sub(1);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(text: &str) -> Entity {
        text.parse().expect("valid")
    }

    fn limits(stack: Option<u32>, entities: &[(&str, u32)]) -> Limits {
        let entities = entities.iter().map(|(name, max)| (entity(name), *max)).collect();
        Limits { stack, entities }
    }

    #[test]
    fn an_instance_counts_against_the_stack_and_its_own_entity() {
        let all = limits(Some(9), &[("Acme", 3), ("acme/web", 2)]);
        let of = |name: &str| all.for_entity(&entity(name));
        let stack = (Scope::Stack, 9);
        assert_eq!(of("ACME"), [stack.clone(), (Scope::Entity(entity("acme")), 3)]);
        // An organization's limit does not apply to its repositories.
        assert_eq!(of("acme/web"), [stack.clone(), (Scope::Entity(entity("acme/web")), 2)]);
        assert_eq!(of("acme/api"), [stack]);
        assert_eq!(limits(None, &[]).for_entity(&entity("acme")), []);
        assert_eq!(all.max(&Scope::Entity(entity("acme"))), Some(3));
        assert_eq!(all.scopes().len(), 3);
    }

    #[test]
    fn the_lower_maximum_of_the_stack_holds() {
        for (file, own, holds) in [
            (None, None, None),
            (Some(3), None, Some(3)),
            (None, Some(5), Some(5)),
            (Some(3), Some(5), Some(3)),
            (Some(7), Some(5), Some(5)),
            (Some(7), Some(0), Some(0)),
        ] {
            assert_eq!(limits(file, &[("acme", 9)]).below(own), limits(holds, &[("acme", 9)]));
        }
    }

    #[test]
    fn room_is_taken_until_the_first_limit_is_reached() {
        let counted = BTreeMap::from([(Scope::Stack, 1)]);
        let mut room = Headroom::new(limits(Some(4), &[("acme", 2)]), counted);
        let acme = Some((Scope::Entity(entity("acme")), 2));
        for name in ["acme", "Acme"] {
            assert_eq!(room.reached(&entity(name)), None);
            room.count(&entity(name));
        }
        assert_eq!(room.reached(&entity("ACME")), acme);
        assert_eq!(room.reached(&entity("other")), None, "the stack has room for one more");
        room.count(&entity("other"));
        for name in ["other", "acme"] {
            assert_eq!(room.reached(&entity(name)), Some((Scope::Stack, 4)), "{name}");
        }
        assert_eq!(Headroom::default().reached(&entity("acme")), None);
    }

    #[test]
    fn who_takes_the_place_of_another_needs_no_room_more() {
        let counted = [Scope::Stack, Scope::Entity(entity("acme"))].map(|scope| (scope, 2));
        let room = Headroom::new(limits(Some(2), &[("acme", 2)]), counted.into());
        let both = [Scope::Stack, Scope::Entity(entity("acme"))];
        let without = |ended: &[Scope], name| room.without(ended).reached(&entity(name));
        assert_eq!(without(&both, "acme"), None);
        // The other instance was counted in a different scope, or before there was a limit.
        assert_eq!(without(&both[..1], "acme"), Some((both[1].clone(), 2)));
        assert_eq!(without(&[], "other"), Some((Scope::Stack, 2)));
        let uncounted = Headroom::new(limits(Some(0), &[]), BTreeMap::new());
        assert_eq!(uncounted.without(&both).reached(&entity("acme")), Some((Scope::Stack, 0)));
    }

    #[test]
    fn the_words_of_the_file() {
        let read: Limits =
            serde_json::from_str(r#"{"stack":9,"entities":{"acme/web":2}}"#).expect("valid");
        assert_eq!(read, limits(Some(9), &[("acme/web", 2)]));
        assert_eq!(serde_json::from_str::<Limits>("{}").expect("valid"), Limits::default());
        let balance = |text| serde_json::from_str::<Balance>(text).expect("valid");
        assert_eq!(balance(r#""round-robin""#), Balance::RoundRobin);
        assert_eq!(balance(r#""pack""#), Balance::default());
    }
}
