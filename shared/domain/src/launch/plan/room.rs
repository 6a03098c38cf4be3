//! What pool, limits and GitHub leave for a plan, and the jobs that get a share of it.

use std::collections::{BTreeMap, VecDeque};

use super::{Plan, Unplaced, View, hold};
use crate::entity::Allowance;
use crate::ids::Entity;
use crate::job::Job;
use crate::launch::cooldown::LaunchBlock;
use crate::pool::limits::{Full, Headroom, Scope};
use crate::stored::Stored;

/// What pool and limits leave while a plan is made.
pub(super) struct PoolHeadroom {
    pub(super) left: u32,
    pub(super) limits: Headroom,
    pub(super) allowances: BTreeMap<Entity, Allowance>,
    /// How many machines may find out whether the pool's machines serve again.
    pub(super) trouble: Option<(u32, LaunchBlock)>,
}

impl PoolHeadroom {
    pub(super) fn take(&mut self, entity: &Entity) -> Result<(), Full> {
        if self.left == 0 {
            return Err(Full::Pool);
        }
        self.limits.take(entity)?;
        self.left -= 1;
        if let Some((most, _)) = &mut self.trouble {
            *most = most.saturating_sub(1);
        }
        if let Some(allowance) = self.allowances.get_mut(entity) {
            allowance.most = allowance.most.saturating_sub(1);
        }
        Ok(())
    }

    /// Why GitHub's part keeps a machine of this entity from being launched.
    fn held(&self, entity: &Entity) -> Option<&Allowance> {
        self.allowances.get(entity).filter(|allowance| allowance.most == 0)
    }
}

/// The jobs that a machine is launched for now. A job that is too young waits for a runner that
/// comes free; one for which there is no room is left over, and a younger one of another entity may
/// pass it.
pub(super) fn launched_for(
    view: &View<'_>,
    demand: VecDeque<Stored<Job>>,
    room: &mut PoolHeadroom,
    plan: &mut Plan,
) -> Vec<Stored<Job>> {
    let mut launched_for = Vec::new();
    for job in demand {
        let entity = view.pool.entity_for(&job);
        // Where the pool is full, another one may have room.
        let is_served = view.pool.serves(&job).is_ok() && view.held.is_none() && room.left > 0;
        let held = entity.as_ref().and_then(|entity| room.held(entity));
        if let Some(held) = held.filter(|_| is_served && view.pool.is_old_enough(&job, view.now)) {
            plan.held.push(hold(&job, &held.held, view));
            if held.elsewhere {
                let why = held.held.reason.clone();
                plan.left.push(Unplaced { job, slot: None, why, waits_for_room: false });
            }
            continue;
        }
        let obstacle = match (view.pool.serves(&job), &view.held) {
            (Err(mismatch), _) => Some((mismatch.to_string(), false)),
            (Ok(()), _) if !view.pool.is_old_enough(&job, view.now) => continue,
            (Ok(()), Some(held)) => Some((held.clone(), false)),
            (Ok(()), None) if let Some((0, block)) = &room.trouble => {
                Some((block.reason.clone(), false))
            }
            (Ok(()), None) => entity.and_then(|entity| {
                let full = room.take(&entity).err()?;
                plan.over_maximum += 1;
                plan.entity_full |= matches!(full, Full::Limit(Scope::Entity(_)));
                Some((full.to_string(), true))
            }),
        };
        match obstacle {
            Some((why, waits_for_room)) => {
                plan.left.push(Unplaced { job, slot: None, why, waits_for_room });
            }
            None => launched_for.push(job),
        }
    }
    launched_for
}
