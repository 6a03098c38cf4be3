//! What operators and the sweep keep: orphans, switches, pools, the audit trail, cursors.

use muster_domain::audit::Audit;
use muster_domain::ids::MachineId;
use muster_domain::inquiry::Inquiries;
use muster_domain::orphan::Orphan;
use muster_domain::pool_set::PoolSet;
use muster_domain::redelivery::Redeliveries;
use muster_domain::stored::Stored;
use muster_domain::switches::Switches;
use muster_domain::time::Time;

use super::{CommitError, ReadError};
use crate::notices::Notices;

/// What operators and the sweep keep: orphans, switches, pools, the audit trail, cursors.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Operations {
    /// The orphan ledger.
    async fn orphans(&self) -> Result<Vec<Stored<Orphan>>, ReadError>;
    /// An entry of the ledger.
    async fn orphan(&self, machine: &MachineId) -> Result<Option<Stored<Orphan>>, ReadError>;
    /// What operators have switched off; none while nobody ever did.
    async fn switches(&self) -> Result<Option<Stored<Switches>>, ReadError>;
    /// Which repositories GitHub is to be asked about; none while no event was unreadable.
    async fn inquiries(&self) -> Result<Option<Stored<Inquiries>>, ReadError>;
    /// How far GitHub's list of webhook deliveries was read; none before the first time.
    async fn redeliveries(&self) -> Result<Option<Stored<Redeliveries>>, ReadError>;
    /// What was told to whoever is told notices; none while nothing ever was.
    async fn notices(&self) -> Result<Option<Stored<Notices>>, ReadError>;
    /// The set of pools that was applied last; none while none ever was.
    async fn pool_set(&self) -> Result<Option<Stored<PoolSet>>, ReadError>;
    /// Versions of the set that are kept, in no order; missing ones are left out.
    async fn pool_versions(&self, versions: &[u64]) -> Result<Vec<PoolSet>, ReadError>;
    /// The audit trail about a subject, newest first.
    async fn audit(&self, subject: &str, limit: u32) -> Result<Vec<Audit>, ReadError>;
    /// The audit trail of all subjects between two times, both included, newest first.
    async fn audit_between(
        &self,
        from: Time,
        to: Time,
        limit: u32,
    ) -> Result<Vec<Audit>, ReadError>;
    /// A named point in time kept across invocations, for example of the last reconciliation.
    async fn cursor(&self, name: &str) -> Result<Option<Time>, ReadError>;
    /// Moves a cursor from what it was; a conflict means that another invocation did.
    async fn move_cursor(
        &self,
        name: &str,
        from: Option<Time>,
        to: Time,
    ) -> Result<(), CommitError>;
}
