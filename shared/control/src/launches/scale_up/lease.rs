//! The lease of a pool's launch pass: one invocation at a time, and who comes later leaves word.

use muster_domain::ids::PoolName;
use muster_domain::job::Job;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::time::{Seconds, Time};

use super::allowances::first_entities;
use super::pool_snapshot::PoolSnapshot;
use super::{LaunchReport, ScaleUp};
use crate::ports::{CommitError, Standing, Table, Write};
use crate::writes::{CONFLICT_ROUNDS, PassError};

impl<T: Table, C> ScaleUp<'_, T, C> {
    /// Asks for a pass and takes the lease when it is free. What comes `again` has asked before,
    /// and whoever asks makes the holder plan anew: it only looks whether the lease is free by now.
    pub(super) async fn wake(
        &self,
        pool: &Pool,
        jobs: &[Job],
        again: bool,
        now: Time,
    ) -> Result<PoolSnapshot, PassError> {
        let entities = first_entities(pool, jobs);
        for _ in 0..CONFLICT_ROUNDS {
            let standing = self.table.standing(&pool.name, &entities).await?;
            let replaces = standing.capacity.as_ref().map(|capacity| capacity.generation);
            let stored = standing.capacity.clone();
            let stored = stored.unwrap_or_else(|| Capacity::empty(pool.name.clone()));
            if again && stored.is_leased(now) {
                return Ok(PoolSnapshot::new(stored, standing, entities));
            }
            let next = stored
                .woken(self.holder, now, &self.settings.timings)
                .configured(pool.version(), now);
            let write = Write::Capacity { next: next.clone(), replaces };
            match self.table.commit(&[write]).await {
                Ok(()) => {
                    let rest = Standing { capacity: None, ..standing };
                    return Ok(PoolSnapshot::new(next, rest, entities));
                }
                Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommitError::Conflict.into())
    }

    /// Gives the lease back in one write, if nobody has written the record since: then nobody asked
    /// for a pass either.
    pub(super) async fn give_back(
        &self,
        known: &PoolSnapshot,
        report: &mut LaunchReport,
    ) -> Result<bool, PassError> {
        if !known.capacity.is_held_by(self.holder) {
            return Ok(false);
        }
        let (next, later) = self.given_back(&known.capacity, known.waits);
        let write = Write::Capacity { next, replaces: Some(known.capacity.generation) };
        match self.table.commit(&[write]).await {
            Ok(()) => {
                report.later = later;
                Ok(true)
            }
            Err(CommitError::Conflict) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The record without the lease, and the delay of the wake-up that is to be sent with that.
    fn given_back(&self, stored: &Capacity, waits: Option<Time>) -> (Capacity, Option<Seconds>) {
        let mut next = stored.released();
        let later = waits.and_then(|at| next.wake_later(at, (self.clock)()));
        (next, later)
    }

    /// Gives the lease back, but only if nobody asked for a pass since; otherwise answers with the
    /// record, and the lease is kept.
    pub(super) async fn release(
        &self,
        name: &PoolName,
        known: &PoolSnapshot,
        report: &mut LaunchReport,
    ) -> Result<Option<Capacity>, PassError> {
        for _ in 0..CONFLICT_ROUNDS {
            let Some(stored) = self.table.capacity(name).await? else {
                return Ok(None);
            };
            if !stored.is_held_by(self.holder) {
                return Ok(None);
            }
            if known.wakes != stored.wakes {
                return Ok(Some(stored));
            }
            let (next, later) = self.given_back(&stored, known.waits);
            let write = Write::Capacity { next, replaces: Some(stored.generation) };
            match self.table.commit(&[write]).await {
                Ok(()) => {
                    report.later = later;
                    return Ok(None);
                }
                Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommitError::Conflict.into())
    }

    /// Gives the lease back, whoever asked for a pass.
    pub(super) async fn leave(&self, name: &PoolName) -> Result<(), PassError> {
        for _ in 0..CONFLICT_ROUNDS {
            let stored = self.table.capacity(name).await?;
            let Some(stored) = stored.filter(|stored| stored.is_held_by(self.holder)) else {
                return Ok(());
            };
            let (next, replaces) = (stored.released(), Some(stored.generation));
            match self.table.commit(&[Write::Capacity { next, replaces }]).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommitError::Conflict.into())
    }
}
