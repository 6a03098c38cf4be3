//! Frees up an account quota when one of our machines ends.

use muster_domain::ec2::CooldownScope;
use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::launch::record::Cooldowns;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;

use crate::Settings;
use crate::ports::Table;
use crate::writes::{self, PassError};

/// Ends the back-off of quotas that may have counted the machine of an ended instance. Returns the
/// pools whose jobs and slots may wait for that.
pub(crate) async fn reopen<T: Table>(
    table: &T,
    settings: &Settings,
    ended: &Instance,
    stored: &Stored<Cooldowns>,
) -> Result<Vec<PoolName>, PassError> {
    let Some(pool) = settings.pool(&ended.pool).filter(|_| ended.machine().is_some()) else {
        return Ok(Vec::new());
    };
    let Some(next) = stored.after_end(pool) else { return Ok(Vec::new()) };
    let opened = |closed: &CooldownScope| next.list.iter().all(|one| one.closed != *closed);
    let opened: Vec<CooldownScope> =
        stored.list.iter().map(|one| one.closed.clone()).filter(opened).collect();
    // A faster writer has a newer answer from EC2, and the back-off ends by itself.
    if !writes::commit_unless_changed(table, &[stored.change(next).into()]).await? {
        return Ok(Vec::new());
    }
    let waits = |pool: &&Pool| {
        opened.iter().any(|closed| match closed {
            CooldownScope::Quota { market, bucket } => pool.may_be_counted_in(*market, bucket),
            _ => false,
        })
    };
    Ok(settings.pools.iter().filter(waits).map(|pool| pool.name.clone()).collect())
}
