//! What holds for all pools together: the maxima of the stack and of entities, and the balance
//! among equal pools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::Entity;

/// The words of `balance` in the file.
pub const BALANCES: &[(&str, Balance)] =
    &[("pack", Balance::Pack), ("round-robin", Balance::RoundRobin)];

/// How jobs are spread over pools that serve them equally well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// The first in the file until it is full, then the next.
    #[default]
    Pack,
    /// Each in its turn, by the job's number. No memory is needed, and any two passes agree.
    RoundRobin,
}

/// Maxima beside those of the pools. An instance is counted from the moment a limit is set: those
/// that were there before are not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The most live instances of the stack.
    pub stack: Option<u32>,
    /// The most live instances whose runners are registered at an entity, exactly there: an
    /// organization's maximum does not count the runners of its repositories.
    pub entities: BTreeMap<Entity, u32>,
}

/// What a limit counts, and the name of its counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All instances.
    Stack,
    /// Those of an entity, in lower case.
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
    /// Every limit that an instance of this entity counts against.
    #[must_use]
    pub fn for_entity(&self, entity: &Entity) -> Vec<(Scope, u32)> {
        let own = self.entities.iter().find(|(limited, _)| limited.same_as(entity));
        let own = own.map(|(limited, max)| (Scope::Entity(limited.lower_case()), *max));
        self.stack.map(|max| (Scope::Stack, max)).into_iter().chain(own).collect()
    }

    /// The maximum of a counter, while there is one.
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

    /// Every limit.
    #[must_use]
    pub fn scopes(&self) -> Vec<Scope> {
        let entities = self.entities.keys().map(|entity| Scope::Entity(entity.lower_case()));
        self.stack.map(|_| Scope::Stack).into_iter().chain(entities).collect()
    }
}

/// Why there is no room for another instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Full {
    /// The pool is at its maximum.
    Pool,
    /// The stack is, or the entity.
    Limit(Scope),
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pool => f.write_str("the pool is at its maximum"),
            Self::Limit(scope) => write!(f, "{scope} is at its maximum"),
        }
    }
}

/// How many instances more there may be: what is counted, against what is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headroom {
    limits: Limits,
    counted: BTreeMap<Scope, u32>,
}

impl Headroom {
    /// The limits and their counters as read. A counter that was not read counts as nothing.
    #[must_use]
    pub const fn new(limits: Limits, counted: BTreeMap<Scope, u32>) -> Self {
        Self { limits, counted }
    }

    /// The counters that an instance of this entity is counted in.
    #[must_use]
    pub fn scopes_of(&self, entity: &Entity) -> Vec<Scope> {
        self.limits.for_entity(entity).into_iter().map(|(scope, _)| scope).collect()
    }

    /// Whether there is a limit for the stack.
    #[must_use]
    pub const fn limits_stack(&self) -> bool {
        self.limits.stack.is_some()
    }

    /// Whether there is a limit for single entities.
    #[must_use]
    pub fn limits_entities(&self) -> bool {
        !self.limits.entities.is_empty()
    }

    /// Counts one more instance of this entity.
    ///
    /// # Errors
    /// Which limit is reached; then nothing is counted.
    pub fn take(&mut self, entity: &Entity) -> Result<(), Full> {
        let limits = self.limits.for_entity(entity);
        let reached =
            |(scope, max): &&(Scope, u32)| self.counted.get(scope).copied().unwrap_or(0) >= *max;
        if let Some((scope, _)) = limits.iter().find(reached) {
            return Err(Full::Limit(scope.clone()));
        }
        for (scope, _) in limits {
            *self.counted.entry(scope).or_default() += 1;
        }
        Ok(())
    }

    /// Counts one more instance of this entity, in the place of one that ends and is counted in
    /// `ended`.
    ///
    /// # Errors
    /// Which limit is reached all the same, because the other is not counted there; then nothing is
    /// counted.
    pub fn take_in_place_of(&mut self, ended: &[Scope], entity: &Entity) -> Result<(), Full> {
        let before = self.counted.clone();
        for scope in ended {
            if let Some(count) = self.counted.get_mut(scope) {
                *count = count.saturating_sub(1);
            }
        }
        self.take(entity).inspect_err(|_| self.counted = before)
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
        // An organization's limit is not that of its repositories.
        assert_eq!(of("acme/web"), [stack.clone(), (Scope::Entity(entity("acme/web")), 2)]);
        assert_eq!(of("acme/api"), [stack]);
        assert_eq!(limits(None, &[]).for_entity(&entity("acme")), []);
        assert_eq!(all.max(&Scope::Entity(entity("acme"))), Some(3));
        assert_eq!(all.scopes().len(), 3);
    }

    #[test]
    fn room_is_taken_until_the_first_limit_is_reached() {
        let all = limits(Some(4), &[("acme", 2)]);
        let counted = BTreeMap::from([(Scope::Stack, 1)]);
        let mut room = Headroom::new(all, counted);
        let acme = Err(Full::Limit(Scope::Entity(entity("acme"))));
        assert_eq!(room.take(&entity("acme")), Ok(()));
        assert_eq!(room.take(&entity("Acme")), Ok(()));
        // What is refused is not counted: the stack has room for one more.
        assert_eq!(room.take(&entity("acme")), acme);
        assert_eq!(room.take(&entity("other")), Ok(()));
        assert_eq!(room.take(&entity("other")), Err(Full::Limit(Scope::Stack)));
        assert_eq!(Headroom::default().take(&entity("acme")), Ok(()));
    }

    #[test]
    fn who_takes_the_place_of_another_needs_no_room_more() {
        let counted = [Scope::Stack, Scope::Entity(entity("acme"))].map(|scope| (scope, 2));
        let mut room = Headroom::new(limits(Some(2), &[("acme", 2)]), counted.into());
        let both = [Scope::Stack, Scope::Entity(entity("acme"))];
        assert_eq!(room.take_in_place_of(&both, &entity("acme")), Ok(()));
        // The other was counted elsewhere, or before there was a limit.
        let acme = Err(Full::Limit(Scope::Entity(entity("acme"))));
        assert_eq!(room.take_in_place_of(&[Scope::Stack], &entity("acme")), acme);
        assert_eq!(room.take_in_place_of(&[], &entity("other")), Err(Full::Limit(Scope::Stack)));
        // What is refused gives nothing back.
        assert_eq!(room.take(&entity("other")), Err(Full::Limit(Scope::Stack)));
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
