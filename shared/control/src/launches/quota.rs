//! A quota of the account has room again when a machine of ours ends.

use muster_domain::ec2::CooldownScope;
use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;

use crate::Settings;
use crate::ports::Table;
use crate::writes::{self, PassError};

/// Opens what EC2 refused for a quota that may have counted the machine of an ended instance. The
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
    // Whoever was faster has just heard from EC2, and the wait ends by itself.
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
