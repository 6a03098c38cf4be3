//! The transition from one pool set to the next.

use std::sync::Arc;

use super::{PoolSet, REMOVED_FOR};
use crate::ids::{Entity, PoolName};
use crate::pool::Pool;
use crate::pool_file::PoolFile;
use crate::time::Time;

impl PoolSet {
    /// Returns the set after `by` applied `file`. Restoring an earlier version works like applying
    /// any file, and gets a new version number.
    #[must_use]
    pub fn succeeded_by(&self, file: &PoolFile, by: &str, now: Time) -> Self {
        let version = self.version + 1;
        let mut pools: Vec<Pool> =
            file.pools.iter().map(|pool| self.successor(pool, version)).collect();
        let is_listed = |name: &PoolName| file.pools.iter().any(|pool| pool.name == *name);
        pools.extend(self.pools.iter().filter(|pool| !is_listed(&pool.name)).map(|pool| {
            let removed_at = Some(pool.removed_at.unwrap_or(now));
            let generation = if pool.removed_at.is_none() { version } else { pool.generation };
            without_template(Pool { removed_at, generation, ..pool.clone() })
        }));
        Self {
            version,
            applied_at: now,
            by: by.to_owned(),
            pools,
            limits: file.limits.clone(),
            balance: file.balance,
            ..self.clone()
        }
    }

    /// Returns the file's pool with its generations. A generation is the version of the set that
    /// introduced it, so it is never reused, even if a removed name returns.
    fn successor(&self, listed: &Pool, version: u64) -> Pool {
        let mut next = without_template(listed.clone());
        let Some(before) = self.pool(&listed.name) else {
            (next.generation, next.machines_since) = (version, version);
            return next;
        };
        (next.generation, next.machines_since) = (before.generation, before.machines_since);
        if without_template(before.clone()) != next {
            next.generation = version;
        }
        if machines_differ(before, &next) {
            next.machines_since = version;
        }
        next
    }

    /// Returns the set without a pool whose removal is complete.
    #[must_use]
    pub fn without(&self, name: &PoolName) -> Self {
        let pools = self.pools.iter().filter(|pool| pool.name != *name).cloned().collect();
        Self { pools, ..self.clone() }
    }

    /// Returns the applied file, for applying it again.
    #[must_use]
    pub fn file(&self) -> PoolFile {
        let listed = self.pools.iter().filter(|pool| !pool.is_removed());
        PoolFile {
            pools: listed.cloned().map(without_template).collect(),
            limits: self.limits.clone(),
            balance: self.balance,
        }
    }

    /// Returns the set with the stack's launch template in every pool without its own template, and
    /// with the App's owner in all pools. Both belong to the stack and never to the file.
    #[must_use]
    pub fn with_template(mut self, id: &str, version: &str, device: Option<&str>) -> Self {
        for pool in &mut self.pools {
            let own = pool.own_template.as_ref();
            (pool.launch_template_id, pool.launch_template_version, pool.template_device) =
                match own {
                    Some(own) => (own.id.clone(), own.version.clone(), own.device.clone()),
                    None => (id.into(), version.into(), device.map(Into::into)),
                };
            pool.app_owner.clone_from(&self.app_owner);
        }
        self
    }
}

impl Pool {
    /// Returns whether it is being removed: it serves no new job and launches no machine, and
    /// disappears after its last machine.
    #[must_use]
    pub const fn is_removed(&self) -> bool {
        self.removed_at.is_some()
    }

    /// Returns whether its removal can be completed once it has no machines or jobs.
    #[must_use]
    pub fn may_go(&self, now: Time) -> bool {
        self.removed_at.is_some_and(|at| now.is_past(at, REMOVED_FOR))
    }
}

/// Returns whether the pool's idle machines no longer match its new configuration. Fields that only
/// affect future launches (maxima, market, price, priority, pauses, times) do not cause
/// replacement; fields that are part of a machine, or were passed to it, do.
fn machines_differ(before: &Pool, next: &Pool) -> bool {
    let made_of = |pool: &Pool| {
        (
            (pool.image.clone(), pool.disk.clone(), pool.tags.clone(), pool.arch),
            (pool.instance_types.clone(), pool.requirements.clone(), pool.subnets.clone()),
            (pool.own_template.clone(), pool.placement.clone(), pool.proxy.clone()),
            (
                pool.entity.as_ref().map(Entity::lower_case),
                pool.labels.carried(),
                pool.runner_group_id,
            ),
            (pool.boot_hook.clone(), pool.image_hook.clone(), pool.sudo, pool.environment.clone()),
        )
    };
    made_of(before) != made_of(next)
}

/// Returns the pool without the fields that the set does not store.
fn without_template(pool: Pool) -> Pool {
    Pool {
        launch_template_id: Arc::default(),
        launch_template_version: Arc::default(),
        template_device: None,
        app_owner: None,
        ..pool
    }
}
