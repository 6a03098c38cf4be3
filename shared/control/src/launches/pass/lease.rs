//! The lease of a pool's launch pass: one invocation at a time; later ones leave a request for one
//! more round.
//!
//! A pass that finds the pool free takes the lease with its first commit, usually its first launch:
//! that saves a write between a job and its machine, and a pass with nothing to do writes nothing.
//! If two such passes overlap, one of their commits conflicts.

use muster_domain::ids::PoolName;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};

use super::pool_lease::Lease;
use super::{LaunchPass, RunningPass};
use crate::context::Wired;
use crate::ports::{Launches as _, Table};
use crate::writes::{self, PassError};

impl<W: Wired<Table: Table>> LaunchPass<'_, W> {
    /// Requests a pass of the pool whose record was `read`. Takes the lease if it is free:
    /// immediately with `at_once`, otherwise with the pass's first commit. With `again`, the
    /// wake-up was received before: it does not make the holder plan once more, and only checks
    /// whether the lease is free.
    ///
    /// # Errors
    /// A conflict if a concurrent writer was faster.
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
            .woken(self.holder, now, &self.context.settings.timings)
            .configured(pool.version(), now);
        if is_free && !at_once {
            return Ok(Lease::Planned { read, next: Box::new(next) });
        }
        let change = Change::from_read(read.as_ref(), next);
        let committed = self.context.table.commit(&[change.clone().into()]).await?;
        Ok(Lease::Stored(change.stored(&committed)))
    }

    /// Like [`Self::ask`], after a concurrent write to the record. Takes the lease immediately.
    pub(super) async fn ask_again(
        &self,
        pool: &Pool,
        again: bool,
        now: Time,
    ) -> Result<Lease, PassError> {
        writes::in_rounds(async || {
            let read = self.context.table.capacity(&pool.name).await?;
            self.ask(pool, read, again, true, now).await
        })
        .await
    }
}

impl<W: Wired<Table: Table>> RunningPass<'_, W> {
    /// Takes the lease if that is only planned. Precedes every write of a pass except its first
    /// launch, which takes the lease itself.
    ///
    /// # Errors
    /// A conflict if a different pass was faster.
    pub(super) async fn hold(&mut self) -> Result<(), PassError> {
        if self.known.capacity.is_planned() { self.write_capacity().await } else { Ok(()) }
    }

    /// Records what the pool's events require, if no other write did.
    ///
    /// # Errors
    /// A conflict if the record has changed.
    pub(super) async fn record_warm(&mut self) -> Result<(), PassError> {
        if self.known.warm.is_some() { self.write_capacity().await } else { Ok(()) }
    }

    async fn write_capacity(&mut self) -> Result<(), PassError> {
        let known = &mut self.known;
        let change = known.capacity.change(known.with_warm());
        let committed = self.pass.context.table.commit(&[change.clone().into()]).await?;
        known.capacity = Lease::Stored(change.stored(&committed));
        known.warm = None;
        Ok(())
    }

    /// Releases the lease in one write, provided the record is unchanged: then no pass was
    /// requested either.
    pub(super) async fn give_back(&mut self) -> Result<bool, PassError> {
        if let Lease::Planned { read, .. } = &self.known.capacity {
            return self.leave_word(read.clone()).await;
        }
        let Some((change, later)) = self.returned_lease() else { return Ok(false) };
        let is_given_back =
            writes::commit_unless_changed(self.pass.context.table, &[change.into()]).await?;
        if is_given_back {
            self.report.later = later;
        }
        Ok(is_given_back)
    }

    /// Records the results of a pass without a lease: the delayed wake-up that it sends, and the
    /// configuration that it saw. Usually there is nothing new.
    async fn leave_word(&mut self, read: Option<Stored<Capacity>>) -> Result<bool, PassError> {
        let mut read = Some(read);
        let Self { pass, pool, known, report, .. } = self;
        let (table, name) = (pass.context.table, &pool.name);
        writes::in_rounds(async || {
            let stored = match read.take() {
                Some(stored) => stored,
                None => table.capacity(name).await?,
            };
            let mut next = known_or_empty(stored.as_ref(), name);
            next.configured.clone_from(&known.capacity.configured);
            let later = known.waits.and_then(|at| next.wake_later(at, (pass.clock)()));
            if stored.as_deref() != Some(&next) {
                let change = Change::from_read(stored.as_ref(), next);
                table.commit(&[change.into()]).await?;
            }
            report.later = later;
            Ok(true)
        })
        .await
    }

    /// Builds the change that returns the lease, if this pass holds it.
    pub(super) fn returned_lease(&self) -> Option<(Change<Capacity>, Option<Seconds>)> {
        let Lease::Stored(stored) = &self.known.capacity else { return None };
        stored.is_held_by(self.pass.holder).then(|| {
            let (next, later) = self.given_back(stored);
            (stored.change(next), later)
        })
    }

    /// Returns the record without the lease, and the delay of the wake-up to send along with it.
    fn given_back(&self, stored: &Capacity) -> (Capacity, Option<Seconds>) {
        let mut next = stored.released();
        let later = self.known.waits.and_then(|at| next.wake_later(at, (self.pass.clock)()));
        (next, later)
    }

    /// Releases the lease unless a pass was requested since; in that case keeps it and returns the
    /// record.
    pub(super) async fn release(&mut self) -> Result<Option<Stored<Capacity>>, PassError> {
        let (table, mut later) = (self.pass.context.table, None);
        let held = writes::in_rounds(async || {
            let Some(stored) = table.capacity(&self.pool.name).await? else {
                return Ok::<_, PassError>(None);
            };
            if !stored.is_held_by(self.pass.holder) {
                return Ok(None);
            }
            if self.known.wakes != stored.wakes {
                return Ok(Some(stored));
            }
            let (next, wait) = self.given_back(&stored);
            table.commit(&[stored.change(next).into()]).await?;
            later = wait;
            Ok(None)
        })
        .await?;
        self.report.later = later;
        Ok(held)
    }

    /// Releases the lease, even if a pass was requested.
    pub(super) async fn leave(&self) -> Result<(), PassError> {
        let released = |stored: Option<&Capacity>| {
            let held = stored.filter(|stored| stored.is_held_by(self.pass.holder));
            held.map(Capacity::released)
        };
        let (table, name) = (self.pass.context.table, &self.pool.name);
        writes::update(table, async || table.capacity(name).await, released).await?;
        Ok(())
    }
}

fn known_or_empty(stored: Option<&Stored<Capacity>>, name: &PoolName) -> Capacity {
    stored.map_or_else(|| Capacity::empty(name.clone()), |stored| stored.record().clone())
}
