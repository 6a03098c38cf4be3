//! Records of operators and the sweep: orphans, switches, pools, the audit log, cursors.

use muster_control::notices::Notices;
use muster_control::ports::{CommitError, Operations, ReadError};
use muster_domain::SCHEMA;
use muster_domain::audit::Audit;
use muster_domain::causes::Cause;
use muster_domain::ids::{AppName, MachineId, RunKey};
use muster_domain::inquiry::Inquiries;
use muster_domain::orphan::Orphan;
use muster_domain::pool_set::PoolSet;
use muster_domain::redelivery::Redeliveries;
use muster_domain::rerun::Rerun;
use muster_domain::stored::Stored;
use muster_domain::switches::Switches;
use muster_domain::time::Time;

use super::commit::Condition;
use super::keys::{self, AT, TableKind, n, s};
use super::{DynamoTable, kind, records, row};
use crate::error::text;
use crate::item::Item;

impl Operations for DynamoTable {
    async fn orphans(&self) -> Result<Vec<Stored<Orphan>>, ReadError> {
        self.listed(kind(keys::ORPHANS.to_owned()), None).await
    }

    async fn orphan(&self, machine: &MachineId) -> Result<Option<Stored<Orphan>>, ReadError> {
        self.reader().record(keys::orphan(machine)).await
    }

    async fn rerun(&self, run: RunKey) -> Result<Option<Stored<Rerun>>, ReadError> {
        self.reader().record(keys::rerun(run)).await
    }

    async fn open_reruns(&self, limit: u32) -> Result<Vec<Stored<Rerun>>, ReadError> {
        self.listed(kind(keys::RERUNS.to_owned()), Some(limit)).await
    }

    async fn closed_reruns(
        &self,
        since: Time,
        limit: u32,
    ) -> Result<Vec<Stored<Rerun>>, ReadError> {
        // A tilde sorts after every time.
        let closed =
            kind(keys::CLOSED_RERUNS.to_owned()).between(keys::SORT, &since.to_string(), "~");
        self.listed(closed.newest_first(), Some(limit)).await
    }

    async fn switches(&self) -> Result<Option<Stored<Switches>>, ReadError> {
        self.reader().record(keys::SWITCHES.to_owned()).await
    }

    async fn inquiries(&self) -> Result<Option<Stored<Inquiries>>, ReadError> {
        self.reader().record(keys::INQUIRIES.to_owned()).await
    }

    async fn redeliveries(&self, app: AppName) -> Result<Option<Stored<Redeliveries>>, ReadError> {
        self.reader().record(keys::redeliveries(app)).await
    }

    async fn notices(&self) -> Result<Option<Stored<Notices>>, ReadError> {
        self.reader().record(keys::NOTICES.to_owned()).await
    }

    async fn pool_set(&self) -> Result<Option<Stored<PoolSet>>, ReadError> {
        self.reader().record(keys::POOLS.to_owned()).await
    }

    async fn pool_versions(&self, versions: &[u64]) -> Result<Vec<PoolSet>, ReadError> {
        let keys = versions.iter().map(|version| keys::pools_version(*version)).collect();
        let kept: Vec<Stored<row::KeptPoolSet>> = self.reader().records(keys).await?;
        Ok(kept.into_iter().map(|kept| kept.into_record().0).collect())
    }

    async fn audit(&self, subject: &str, limit: u32) -> Result<Vec<Audit>, ReadError> {
        let trail = kind(keys::audit_trail(subject)).newest_first();
        Ok(records(self.listed(trail, Some(limit)).await?))
    }

    async fn audit_between(
        &self,
        from: Time,
        to: Time,
        limit: u32,
    ) -> Result<Vec<Audit>, ReadError> {
        let mut lines: Vec<Audit> = Vec::new();
        for month in keys::months(from, to) {
            let left = limit.saturating_sub(u32::try_from(lines.len()).unwrap_or(u32::MAX));
            if left == 0 {
                break;
            }
            let range = kind(keys::audit_month(&month))
                .between(keys::SORT, &from.to_string(), &to.to_string())
                .newest_first();
            let found: Vec<Stored<row::ByTime>> = self.listed(range, Some(left)).await?;
            lines.extend(found.into_iter().map(|line| line.into_record().0));
        }
        Ok(lines)
    }

    async fn cursor(&self, name: &str) -> Result<Option<Time>, ReadError> {
        let key = keys::cursor(name);
        let Some(item) = self.reader().item(TableKind::Control, key.clone()).await? else {
            return Ok(None);
        };
        match text(item.get(AT)).map(str::parse) {
            Some(Ok(at)) => Ok(Some(at)),
            _ => Err(ReadError::Unreadable { key, why: Cause::new("it contains no time") }),
        }
    }

    async fn move_cursor(
        &self,
        name: &str,
        from: Option<Time>,
        to: Time,
    ) -> Result<(), CommitError> {
        let item = Item::from([
            (TableKind::Control.key().to_owned(), s(keys::cursor(name))),
            (keys::SCHEMA.to_owned(), n(SCHEMA)),
            (AT.to_owned(), s(to.to_string())),
        ]);
        let condition = match from {
            Some(from) => Condition::Is(AT, s(from.to_string())),
            None => Condition::Absent,
        };
        self.put(item, condition).await
    }
}
