//! The lease of a pool's launch pass: one invocation at a time, and who comes later leaves word.

use domain::capacity::Capacity;
use domain::ids::PoolName;
use domain::pool::Pool;
use domain::time::Time;

use super::ScaleUp;
use super::known::Known;
use crate::ports::{CommitError, Standing, Table, Write};
use crate::writes::{CONFLICT_ROUNDS, PassError};

impl<T: Table, C> ScaleUp<'_, T, C> {
    /// Asks for a pass and takes the lease when it is free.
    pub(super) async fn wake(&self, pool: &Pool, now: Time) -> Result<Known, PassError> {
        for _ in 0..CONFLICT_ROUNDS {
            let standing = self.table.standing(&pool.name).await?;
            let replaces = standing.capacity.as_ref().map(|capacity| capacity.generation);
            let stored = standing.capacity.clone();
            let stored = stored.unwrap_or_else(|| Capacity::empty(pool.name.clone()));
            let next = stored
                .woken(self.holder, now, &self.settings.timings)
                .configured(pool.version(), now);
            let write = Write::Capacity { next: next.clone(), replaces };
            match self.table.commit(&[write]).await {
                Ok(()) => {
                    let rest = Standing { capacity: None, ..standing };
                    return Ok(Known::of(next, rest));
                }
                Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommitError::Conflict.into())
    }

    /// Gives the lease back in one write, if nobody has written the record since: then nobody asked for a pass either.
    pub(super) async fn give_back(&self, known: &Capacity) -> Result<bool, PassError> {
        if !known.is_held_by(self.holder) {
            return Ok(false);
        }
        let write = Write::Capacity { next: known.released(), replaces: Some(known.generation) };
        match self.table.commit(&[write]).await {
            Ok(()) => Ok(true),
            Err(CommitError::Conflict) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the lease back. With `seen` wakes: only if nobody asked for a pass since; otherwise answers with
    /// the record, and the lease is kept.
    pub(super) async fn release(
        &self,
        name: &PoolName,
        seen: Option<u64>,
    ) -> Result<Option<Capacity>, PassError> {
        for _ in 0..CONFLICT_ROUNDS {
            let Some(stored) = self.table.capacity(name).await? else {
                return Ok(None);
            };
            if !stored.is_held_by(self.holder) {
                return Ok(None);
            }
            if seen.is_some_and(|wakes| wakes != stored.wakes) {
                return Ok(Some(stored));
            }
            let next = stored.released();
            let write = Write::Capacity { next, replaces: Some(stored.generation) };
            match self.table.commit(&[write]).await {
                Ok(()) => return Ok(None),
                Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommitError::Conflict.into())
    }
}
