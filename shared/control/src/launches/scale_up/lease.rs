//! The lease of a pool's launch pass: one invocation at a time, and who comes later leaves word.

use muster_domain::ids::PoolName;
use muster_domain::job::Job;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};

use super::allowances::first_entities;
use super::pool_snapshot::PoolSnapshot;
use super::{LaunchReport, ScaleUp};
use crate::ports::Table;
use crate::writes::{self, PassError};

impl<T: Table, C> ScaleUp<'_, T, C> {
    /// Asks for a pass and takes the lease when it is free. What comes `again` has asked before,
    /// and whoever asks makes the holder plan anew: it only looks whether the lease is free by now.
    pub(super) async fn wake(
        &self,
        pool: &Pool,
        jobs: &[Stored<Job>],
        again: bool,
        now: Time,
    ) -> Result<PoolSnapshot, PassError> {
        let entities = first_entities(pool, jobs);
        writes::in_rounds(async || {
            let mut conditions = self.table.launch_conditions(&pool.name, &entities).await?;
            let stored = conditions.capacity.take();
            if let Some(leased) = stored.as_ref().filter(|one| again && one.is_leased(now)) {
                return Ok(PoolSnapshot::new(leased.clone(), conditions, entities.clone()));
            }
            let empty = || Capacity::empty(pool.name.clone());
            let next = stored
                .as_deref()
                .map_or_else(empty, Capacity::clone)
                .woken(self.holder, now, &self.settings.timings)
                .configured(pool.version(), now);
            let change = Change::from_read(stored.as_ref(), next);
            let committed = self.table.commit(&[change.clone().into()]).await?;
            Ok(PoolSnapshot::new(change.stored(&committed), conditions, entities.clone()))
        })
        .await
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
        let write = known.capacity.change(next).into();
        let is_given_back = writes::commit_unless_changed(self.table, &[write]).await?;
        if is_given_back {
            report.later = later;
        }
        Ok(is_given_back)
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
    ) -> Result<Option<Stored<Capacity>>, PassError> {
        writes::in_rounds(async || {
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
            self.table.commit(&[stored.change(next).into()]).await?;
            report.later = later;
            Ok(None)
        })
        .await
    }

    /// Gives the lease back, whoever asked for a pass.
    pub(super) async fn leave(&self, name: &PoolName) -> Result<(), PassError> {
        let released = |stored: Option<&Capacity>| {
            let held = stored.filter(|stored| stored.is_held_by(self.holder));
            held.map(Capacity::released)
        };
        writes::update(self.table, async || self.table.capacity(name).await, released).await?;
        Ok(())
    }
}
