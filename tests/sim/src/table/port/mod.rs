//! The tables' door: every call takes a moment, and may fail.

mod instances;
mod jobs;
mod launches;
mod operations;
mod usage;

use muster_control::ports::{CommitError, Page, ReadError, Table, Unavailable, Write};
use muster_domain::causes::Cause;
use muster_domain::ids::PoolName;
use muster_domain::instance::Groups;
use muster_domain::stored::{Committed, Stored};

use super::Tables;
use super::index::OfPool;
use crate::door::Door;
use crate::fault::Fault;
use crate::world::World;

fn unavailable() -> ReadError {
    ReadError::Unavailable(Unavailable::new("no answer"))
}

fn unreadable(key: &str) -> ReadError {
    let why = Cause::new(Unavailable::new("schema 9"));
    ReadError::Unreadable { key: key.to_owned(), why }
}

/// An answer to a listing.
trait Rows {
    /// How many records it holds.
    fn rows(&self) -> usize;
}

impl<T> Rows for Vec<T> {
    fn rows(&self) -> usize {
        self.len()
    }
}

impl<T> Rows for Page<T> {
    fn rows(&self) -> usize {
        self.items.len() + self.unreadable.len()
    }
}

/// A count.
impl Rows for usize {
    fn rows(&self) -> usize {
        0
    }
}

impl Rows for Groups {
    fn rows(&self) -> usize {
        0
    }
}

impl Door {
    /// Reads the record of this key.
    async fn read_of<R>(&self, key: &str, read: impl FnOnce(&Tables) -> R) -> Result<R, ReadError> {
        let found = self.read(|tables| match tables.broken.contains(key) {
            true => Err(unreadable(key)),
            false => Ok(read(tables)),
        });
        found.await?
    }

    /// The rows of a listing without those that cannot be read, as the real table lists them.
    fn readable<T>(
        &self,
        listed: Result<Vec<Stored<T>>, ReadError>,
        key: impl Fn(&T) -> String,
    ) -> Result<Vec<Stored<T>>, ReadError> {
        let broken = &self.sim.world.borrow().tables.broken;
        listed.map(|mut rows| {
            rows.retain(|row| broken.is_empty() || !broken.contains(&key(row)));
            rows
        })
    }

    /// The first of these keys whose record cannot be read.
    fn broken_of(&self, keys: impl IntoIterator<Item = String>) -> String {
        let broken = &self.sim.world.borrow().tables.broken;
        keys.into_iter().find(|key| broken.contains(key)).unwrap_or_default()
    }

    async fn read<R>(&self, read: impl FnOnce(&Tables) -> R) -> Result<R, ReadError> {
        self.call(|world| {
            world.calls.reads += 1;
            if world.is_away(Fault::OutageTable) || world.strikes(Fault::ReadFailed) {
                return Err(unavailable());
            }
            if world.is_unreadable() {
                return Err(unreadable("a record"));
            }
            Ok(read(&world.tables))
        })
        .await
    }

    async fn list<R: Rows>(&self, read: impl FnOnce(&Tables) -> R) -> Result<R, ReadError> {
        self.list_by(1, read).await
    }

    /// A listing that the real table makes of some queries.
    async fn list_by<R: Rows>(
        &self,
        queries: u64,
        read: impl FnOnce(&Tables) -> R,
    ) -> Result<R, ReadError> {
        self.call(|world| {
            world.calls.reads += queries;
            if world.is_away(Fault::OutageTable) || world.strikes(Fault::ReadFailed) {
                return Err(unavailable());
            }
            world.tables.index.catch_up(world.now);
            let answer = read(&world.tables);
            world.calls.rows += answer.rows() as u64;
            Ok(answer)
        })
        .await
    }

    async fn of_pool<R: Rows + Default>(
        &self,
        pool: &PoolName,
        read: impl FnOnce(&OfPool) -> R,
    ) -> Result<R, ReadError> {
        self.list(|tables| tables.index.pool(pool).map(read).unwrap_or_default()).await
    }

    async fn write(
        &self,
        write: impl FnOnce(&mut World) -> Result<(), CommitError>,
    ) -> Result<(), CommitError> {
        self.call(|world| {
            if world.is_away(Fault::OutageTable) || world.strikes(Fault::CommitRefused) {
                return Err(CommitError::Unavailable(Unavailable::new("throttled")));
            }
            write(world)
        })
        .await
    }
}

impl Table for Door {
    async fn commit(&self, writes: &[Write]) -> Result<Committed, CommitError> {
        self.call(|world| match world.naive {
            None => world.commit(writes),
            Some(_) => world.commit(&world.naive_writes(writes)),
        })
        .await
    }
}
