//! Reads of orphans, switches, pools, the audit trail and cursors.

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

use super::{CommitError, ReadError};
use crate::notices::Notices;

/// Reads of orphans, switches, pools, the audit trail and cursors.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Operations {
    /// Returns the orphan ledger.
    async fn orphans(&self) -> Result<Vec<Stored<Orphan>>, ReadError>;
    /// Returns a machine's entry in the orphan ledger.
    async fn orphan(&self, machine: &MachineId) -> Result<Option<Stored<Orphan>>, ReadError>;
    /// Returns the record of a workflow run with interrupted jobs.
    async fn rerun(&self, run: RunKey) -> Result<Option<Stored<Rerun>>, ReadError>;
    /// Returns the open records of workflow runs with interrupted jobs, the earliest due first, at
    /// most `limit`.
    async fn open_reruns(&self, limit: u32) -> Result<Vec<Stored<Rerun>>, ReadError>;
    /// Returns the records of workflow runs with interrupted jobs that were closed since a time, the
    /// latest first, at most `limit`.
    async fn closed_reruns(&self, since: Time, limit: u32)
    -> Result<Vec<Stored<Rerun>>, ReadError>;
    /// Returns the switches, if they were ever used.
    async fn switches(&self) -> Result<Option<Stored<Switches>>, ReadError>;
    /// Returns the repositories to query GitHub about, if an event was ever unreadable.
    async fn inquiries(&self) -> Result<Option<Stored<Inquiries>>, ReadError>;
    /// Returns how far GitHub's list of webhook deliveries was read, if it ever was.
    async fn redeliveries(&self, app: AppName) -> Result<Option<Stored<Redeliveries>>, ReadError>;
    /// Returns which notices the receiver knows about, if any were ever sent.
    async fn notices(&self) -> Result<Option<Stored<Notices>>, ReadError>;
    /// Returns the set of pools that was applied last, if any was.
    async fn pool_set(&self) -> Result<Option<Stored<PoolSet>>, ReadError>;
    /// Returns stored versions of the set, in no order; missing ones are left out.
    async fn pool_versions(&self, versions: &[u64]) -> Result<Vec<PoolSet>, ReadError>;
    /// Returns the audit trail of a subject, newest first.
    async fn audit(&self, subject: &str, limit: u32) -> Result<Vec<Audit>, ReadError>;
    /// Returns the audit trail of all subjects between two times, inclusive, newest first.
    async fn audit_between(
        &self,
        from: Time,
        to: Time,
        limit: u32,
    ) -> Result<Vec<Audit>, ReadError>;
    /// Returns a named time that is kept across invocations, for example that of the last
    /// reconciliation.
    async fn cursor(&self, name: &str) -> Result<Option<Time>, ReadError>;
    /// Moves a cursor from its previous value; a conflict means that another invocation moved it.
    async fn move_cursor(
        &self,
        name: &str,
        from: Option<Time>,
        to: Time,
    ) -> Result<(), CommitError>;
}
