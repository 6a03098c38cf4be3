//! What operators and the sweep keep: orphans, switches, pools, the audit trail, cursors.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_control::notices::Notices;
use muster_control::ports::{CommitError, Operations, ReadError};
use muster_domain::audit::Audit;
use muster_domain::ids::{AppName, MachineId, RunKey};
use muster_domain::inquiry::Inquiries;
use muster_domain::orphan::Orphan;
use muster_domain::pool_set::PoolSet;
use muster_domain::redelivery::Redeliveries;
use muster_domain::rerun::Rerun;
use muster_domain::stored::Stored;
use muster_domain::switches::Switches;
use muster_domain::time::Time;

use crate::door::Door;
use crate::fault::Fault;

impl Operations for Door {
    async fn orphans(&self) -> Result<Vec<Stored<Orphan>>, ReadError> {
        let listed = self.list(|tables| tables.index.orphans.values().cloned().collect()).await;
        self.readable(listed, |orphan: &Orphan| format!("orphan#{}", orphan.machine))
    }

    async fn orphan(&self, machine: &MachineId) -> Result<Option<Stored<Orphan>>, ReadError> {
        let key = format!("orphan#{machine}");
        self.read_of(&key, |tables| tables.orphans.get(machine).cloned()).await
    }

    async fn rerun(&self, run: RunKey) -> Result<Option<Stored<Rerun>>, ReadError> {
        self.read_of(&format!("rerun#{run}"), |tables| tables.reruns.get(&run).cloned()).await
    }

    async fn open_reruns(&self, limit: u32) -> Result<Vec<Stored<Rerun>>, ReadError> {
        let listed = self.list(|tables| {
            let mut open: Vec<_> = tables.index.reruns.values().cloned().collect();
            open.sort_by_key(|one| one.turn());
            open.truncate(limit as usize);
            open
        });
        self.readable(listed.await, |one: &Rerun| format!("rerun#{}", one.key()))
    }

    async fn closed_reruns(
        &self,
        since: Time,
        limit: u32,
    ) -> Result<Vec<Stored<Rerun>>, ReadError> {
        let listed = self.list(|tables| {
            let at = |one: &Stored<Rerun>| one.outcome().map(|(at, _)| at);
            let closed = tables.reruns.values().filter(|one| at(one).is_some_and(|at| at >= since));
            let mut closed: Vec<_> = closed.cloned().collect();
            closed.sort_by_key(|one| Reverse((at(one), one.run)));
            closed.truncate(limit as usize);
            closed
        });
        self.readable(listed.await, |one: &Rerun| format!("rerun#{}", one.key()))
    }

    async fn switches(&self) -> Result<Option<Stored<Switches>>, ReadError> {
        self.read_of("switches", |tables| tables.switches.clone()).await
    }

    async fn inquiries(&self) -> Result<Option<Stored<Inquiries>>, ReadError> {
        self.read_of("inquiries", |tables| tables.inquiries.clone()).await
    }

    async fn redeliveries(&self, app: AppName) -> Result<Option<Stored<Redeliveries>>, ReadError> {
        self.read_of("redeliveries", |tables| tables.redeliveries.get(&app).cloned()).await
    }

    async fn notices(&self) -> Result<Option<Stored<Notices>>, ReadError> {
        self.read_of("notices", |tables| tables.notices.clone()).await
    }

    async fn pool_set(&self) -> Result<Option<Stored<PoolSet>>, ReadError> {
        self.read_of("pools", |tables| tables.pools.clone()).await
    }

    async fn pool_versions(&self, versions: &[u64]) -> Result<Vec<PoolSet>, ReadError> {
        let key = |version: &u64| format!("pools#{version}");
        let key = self.broken_of(versions.iter().map(key));
        self.read_of(&key, |tables| {
            let wanted: BTreeSet<&u64> = versions.iter().collect();
            wanted
                .into_iter()
                .filter_map(|version| tables.pool_versions.get(version))
                .cloned()
                .collect()
        })
        .await
    }

    async fn audit(&self, subject: &str, limit: u32) -> Result<Vec<Audit>, ReadError> {
        self.list(|tables| {
            let lines = tables.audits.iter().rev().filter(|line| line.subject == subject);
            let mut lines: Vec<Audit> = lines.cloned().collect();
            lines.sort_by_key(|line| std::cmp::Reverse(line.at));
            lines.truncate(limit as usize);
            lines
        })
        .await
    }

    async fn audit_between(
        &self,
        from: Time,
        to: Time,
        limit: u32,
    ) -> Result<Vec<Audit>, ReadError> {
        self.list(|tables| {
            let lines = tables.audits.iter().rev().filter(|line| (from..=to).contains(&line.at));
            let mut lines: Vec<Audit> = lines.cloned().collect();
            lines.sort_by_key(|line| std::cmp::Reverse(line.at));
            lines.truncate(limit as usize);
            lines
        })
        .await
    }

    async fn cursor(&self, name: &str) -> Result<Option<Time>, ReadError> {
        self.read(|tables| tables.cursors.get(name).copied()).await
    }

    async fn move_cursor(
        &self,
        name: &str,
        from: Option<Time>,
        to: Time,
    ) -> Result<(), CommitError> {
        self.write(|world| {
            let is_moved = world.tables.cursors.get(name).copied() != from;
            if is_moved || world.is_chosen(Fault::CommitCollided) {
                return Err(CommitError::Conflict);
            }
            world.tables.cursors.insert(name.to_owned(), to);
            Ok(())
        })
        .await
    }
}
