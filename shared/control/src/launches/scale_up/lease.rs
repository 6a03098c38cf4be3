//! The lease of a pool's launch pass: one invocation at a time, and who comes later leaves word.
//!
//! A pass that finds the pool free takes the lease with the first thing that it commits, mostly
//! its first launch: one write fewer stands between a job and its machine, and a pass that finds
//! nothing to do writes nothing. Of two such passes the commit of one is a conflict.

use muster_domain::ids::PoolName;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};

use super::pool_lease::Lease;
use super::pool_snapshot::PoolSnapshot;
use super::{LaunchReport, ScaleUp};
use crate::ports::Table;
use crate::writes::{self, PassError};

impl<T: Table, C> ScaleUp<'_, T, C> {
    /// Asks for a pass of the pool, whose record was `read`. Takes the lease when it is free, `at
    /// once` or with the first commit of the pass. What comes `again` has asked before, and whoever
    /// asks makes the holder plan anew: it only looks whether the lease is free by now.
    ///
    /// # Errors
    /// A conflict, where somebody else was faster.
    pub(super) async fn ask(
        &self,
        pool: &Pool,
        read: Option<Stored<Capacity>>,
        again: bool,
        at_once: bool,
        now: Time,
    ) -> Result<Lease, PassError> {
        let leased = read.as_ref().filter(|stored| stored.is_leased(now));
        if let Some(leased) = leased.filter(|_| again) {
            return Ok(Lease::Stored(leased.clone()));
        }
        let is_free = leased.is_none();
        let next = known_or_empty(read.as_ref(), &pool.name)
            .woken(self.holder, now, &self.settings.timings)
            .configured(pool.version(), now);
        if is_free && !at_once {
            return Ok(Lease::Planned { read, next: Box::new(next) });
        }
        let change = Change::from_read(read.as_ref(), next);
        let committed = self.table.commit(&[change.clone().into()]).await?;
        Ok(Lease::Stored(change.stored(&committed)))
    }

    /// The same for a record that somebody has written meanwhile. The lease is taken at once.
    pub(super) async fn ask_again(
        &self,
        pool: &Pool,
        again: bool,
        now: Time,
    ) -> Result<Lease, PassError> {
        writes::in_rounds(async || {
            let read = self.table.capacity(&pool.name).await?;
            self.ask(pool, read, again, true, now).await
        })
        .await
    }

    /// Takes the lease if it is only planned. Before everything that a pass writes, except its
    /// first launch, which takes it along.
    ///
    /// # Errors
    /// A conflict, where another pass was faster.
    pub(super) async fn hold(&self, known: &mut PoolSnapshot) -> Result<(), PassError> {
        if let Lease::Planned { next, .. } = &known.capacity {
            let change = known.capacity.change(Capacity::clone(next));
            let committed = self.table.commit(&[change.clone().into()]).await?;
            known.capacity = Lease::Stored(change.stored(&committed));
        }
        Ok(())
    }

    /// Gives the lease back in one write, if nobody has written the record since: then nobody asked
    /// for a pass either.
    pub(super) async fn give_back(
        &self,
        known: &PoolSnapshot,
        report: &mut LaunchReport,
    ) -> Result<bool, PassError> {
        let stored = match &known.capacity {
            Lease::Planned { read, .. } => {
                return self.leave_word(read.clone(), known, report).await;
            }
            Lease::Stored(stored) => stored,
        };
        if !stored.is_held_by(self.holder) {
            return Ok(false);
        }
        let (next, later) = self.given_back(stored, known.waits);
        let is_given_back =
            writes::commit_unless_changed(self.table, &[stored.change(next).into()]).await?;
        if is_given_back {
            report.later = later;
        }
        Ok(is_given_back)
    }

    /// Puts on record what a pass has found that needed no lease: the wake-up that it sends for
    /// later, and which configuration it knows. Mostly that is nothing new.
    async fn leave_word(
        &self,
        read: Option<Stored<Capacity>>,
        known: &PoolSnapshot,
        report: &mut LaunchReport,
    ) -> Result<bool, PassError> {
        let mut read = Some(read);
        let name = &known.capacity.pool;
        writes::in_rounds(async || {
            let stored = match read.take() {
                Some(stored) => stored,
                None => self.table.capacity(name).await?,
            };
            let mut next = known_or_empty(stored.as_ref(), name);
            next.configured.clone_from(&known.capacity.configured);
            let later = known.waits.and_then(|at| next.wake_later(at, (self.clock)()));
            if stored.as_deref() != Some(&next) {
                let change = Change::from_read(stored.as_ref(), next);
                self.table.commit(&[change.into()]).await?;
            }
            report.later = later;
            Ok(true)
        })
        .await
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

fn known_or_empty(stored: Option<&Stored<Capacity>>, name: &PoolName) -> Capacity {
    stored.map_or_else(|| Capacity::empty(name.clone()), |stored| stored.record().clone())
}
