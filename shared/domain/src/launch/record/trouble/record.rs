//! The troubles in the record that all launch passes share.

use std::collections::BTreeSet;

use super::{Trouble, TroubleScope};
use crate::ec2::ErrorClass;
use crate::ids::{Entity, PoolName};
use crate::instance::Instance;
use crate::launch::record::Cooldowns;
use crate::launch::record::cooldown::Cooldown;
use crate::pool::Pool;
use crate::time::Time;

/// Maximum number of troubles in the record; those reported longest ago are dropped. DynamoDB
/// limits an item to 400 KB.
const MAX_TROUBLES: usize = 200;

impl Cooldowns {
    /// Returns the troubles that launches of a pool wait for: its own and all entities' troubles.
    pub fn troubles_of(&self, pool: &Pool) -> impl Iterator<Item = &Trouble> {
        self.troubles.iter().filter(|one| one.holds(pool))
    }

    /// Returns the trouble of a pool's machines, if launches wait for it.
    #[must_use]
    pub fn trouble(&self, pool: &Pool) -> Option<&Trouble> {
        self.troubles_of(pool).find(|one| matches!(one.scope, TroubleScope::Pool(_)))
    }

    /// Returns whether GitHub refuses or limits this entity.
    #[must_use]
    pub fn has_entity(&self, entity: &Entity) -> bool {
        self.troubles.iter().any(|one| one.scope.entity().is_some_and(|own| own.same_as(entity)))
    }

    /// Returns the number of consecutive machines of a pool that never ran a job.
    #[must_use]
    pub fn failures(&self, pool: &Pool) -> u32 {
        let own = self.known(&TroubleScope::Pool(pool.name.clone()));
        own.map_or(0, |one| one.failures)
    }

    /// Returns the record after a machine that never ran a job, if that changes it.
    #[must_use]
    pub fn after_failure(&self, instance: &Instance, reason: String, now: Time) -> Option<Self> {
        let known = self.known(&TroubleScope::Pool(instance.pool.clone()));
        self.with_trouble(Trouble::after(known, instance, reason, now)?)
    }

    /// Returns the record after a machine that ran a job, if that ends its pool's trouble.
    #[must_use]
    pub fn after_service(&self, instance: &Instance, now: Time) -> Option<Self> {
        let scope = TroubleScope::Pool(instance.pool.clone());
        self.without(|one| one.scope == scope && one.is_ended_by(instance, now))
    }

    /// Returns the record without the trouble of a pool's machines, if there is one.
    #[must_use]
    pub fn without_trouble(&self, pool: &PoolName) -> Option<Self> {
        let scope = TroubleScope::Pool(pool.clone());
        self.without(|one| one.scope == scope)
    }

    /// Returns the record after a possible fix: a changed pool configuration, a new release or new
    /// stack parameters, or an operator who resumes launches.
    ///
    /// Requests that EC2 rejected as invalid, unauthorized or over a quota are repeated. If
    /// machines failed, a few are launched at once, and the first that works reopens the scope; if
    /// the fix was not effective, none does. `is_opened` is called for each pool, and with `None`
    /// for scopes that belong to no single pool.
    #[must_use]
    pub fn opened(&self, is_opened: impl Fn(Option<&PoolName>) -> bool, now: Time) -> Option<Self> {
        let may_end = |class: ErrorClass| class.is_refusal() || class == ErrorClass::Quota;
        let refused = |one: &&Cooldown| may_end(one.class) && is_opened(one.closed.pool());
        let next = |one: &Trouble| match &one.scope {
            scope if !is_opened(scope.pool()) => Some(one.clone()),
            // Only the end of the limit itself ends it.
            TroubleScope::Limit(_) => Some(one.clone()),
            _ => one.makes_wait().then(|| one.fixed(now)),
        };
        let next = Self {
            list: self.list.iter().filter(|one| !refused(one)).cloned().collect(),
            troubles: self.troubles.iter().filter_map(next).collect(),
            ..self.clone()
        };
        (next != *self).then_some(next)
    }

    /// Returns the record when machines of the pool for these entities are about to be launched, if
    /// one of them is a probe for a trouble.
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

    /// Returns the record without the troubles that have ended, if there are any.
    #[must_use]
    pub fn without(&self, is_over: impl Fn(&Trouble) -> bool) -> Option<Self> {
        let left = self.troubles.iter().filter(|one| !is_over(one)).cloned();
        let left: Vec<Trouble> = left.collect();
        (left.len() < self.troubles.len()).then(|| Self { troubles: left.into(), ..self.clone() })
    }
}
