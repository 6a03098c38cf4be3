//! The troubles in the record that all launch passes share.

use std::collections::BTreeSet;

use super::{Trouble, TroubleScope};
use crate::ids::{Entity, PoolName};
use crate::instance::Instance;
use crate::launch::cooldown::Cooldowns;
use crate::pool::Pool;
use crate::time::Time;

/// Most troubles that the record keeps; those that were told longest ago make room. A record of
/// DynamoDB holds 400 KB.
const MAX_TROUBLES: usize = 200;

impl Cooldowns {
    /// What launches of a pool wait for, as it is configured now: its own troubles, and those of all
    /// entities.
    pub fn troubles_of(&self, pool: &Pool) -> impl Iterator<Item = &Trouble> {
        self.troubles.iter().filter(|one| one.holds(pool))
    }

    /// The trouble of a pool's machines, if launches wait for it.
    #[must_use]
    pub fn trouble(&self, pool: &Pool) -> Option<&Trouble> {
        self.troubles_of(pool).find(|one| matches!(one.scope, TroubleScope::Pool(_)))
    }

    /// Whether GitHub refuses or limits this entity.
    #[must_use]
    pub fn has_entity(&self, entity: &Entity) -> bool {
        self.troubles.iter().any(|one| one.scope.entity().is_some_and(|own| own.same_as(entity)))
    }

    /// How many machines in a row served nothing, of a pool as it is configured now.
    #[must_use]
    pub fn failures(&self, pool: &Pool) -> u32 {
        let own = self.known(&TroubleScope::Pool(pool.name.clone()));
        own.filter(|one| one.generation == pool.generation).map_or(0, |one| one.failures)
    }

    /// The record after a machine that served nothing, if that changes it.
    #[must_use]
    pub fn after_failure(&self, instance: &Instance, reason: String, now: Time) -> Option<Self> {
        let known = self.known(&TroubleScope::Pool(instance.pool.clone()));
        self.with_trouble(Trouble::after(known, instance, reason, now)?)
    }

    /// The record after a machine that served, if that ends the trouble of its pool.
    #[must_use]
    pub fn after_service(&self, instance: &Instance, now: Time) -> Option<Self> {
        let scope = TroubleScope::Pool(instance.pool.clone());
        self.without(|one| one.scope == scope && one.is_ended_by(instance, now))
    }

    /// The record without the trouble of a pool's machines, if there is one.
    #[must_use]
    pub fn without_trouble(&self, pool: &PoolName) -> Option<Self> {
        let scope = TroubleScope::Pool(pool.clone());
        self.without(|one| one.scope == scope)
    }

    /// The record when machines of the pool for these entities are about to be launched, if one of
    /// them is to find out whether a trouble is over.
    #[must_use]
    pub fn probed(&self, pool: &Pool, entities: &BTreeSet<&Entity>, now: Time) -> Option<Self> {
        let finds_out = |one: &Trouble| {
            let is_asked = |own: &Entity| entities.iter().any(|entity| entity.same_as(own));
            one.by_machine && one.holds(pool) && one.scope.entity().is_none_or(is_asked)
        };
        if !self.troubles.iter().any(finds_out) {
            return None;
        }
        let next = |one: &Trouble| if finds_out(one) { one.probed(now) } else { one.clone() };
        Some(Self { troubles: self.troubles.iter().map(next).collect(), ..self.clone() })
    }

    pub(super) fn known(&self, scope: &TroubleScope) -> Option<&Trouble> {
        self.troubles.iter().find(|one| one.scope == *scope)
    }

    pub(super) fn with_trouble(&self, next: Trouble) -> Option<Self> {
        if self.known(&next.scope) == Some(&next) {
            return None;
        }
        let others = self.troubles.iter().filter(|one| one.scope != next.scope);
        let mut troubles: Vec<Trouble> = others.cloned().collect();
        troubles.sort_by_key(|one| std::cmp::Reverse(one.at));
        troubles.truncate(MAX_TROUBLES - 1);
        troubles.push(next);
        Some(Self { troubles: troubles.into(), ..self.clone() })
    }

    /// The record without the troubles that are over, if there is one.
    #[must_use]
    pub fn without(&self, is_over: impl Fn(&Trouble) -> bool) -> Option<Self> {
        let left = self.troubles.iter().filter(|one| !is_over(one)).cloned();
        let left: Vec<Trouble> = left.collect();
        (left.len() < self.troubles.len()).then(|| Self { troubles: left.into(), ..self.clone() })
    }
}
