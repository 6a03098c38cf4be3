//! Whose the GitHub App is. A pool that says nothing of whom it serves serves that account alone:
//! with an App that anybody may install, strangers would get machines.

use muster_domain::app::AppSettings;
use muster_domain::ids::Entity;
use muster_domain::pool::Pool;
use muster_domain::pool_set::PoolSet;

use crate::context::{Context, Wired};
use crate::ports::{Directory, Operations as _, Table};
use crate::writes::{self, PassError};

/// Asks GitHub, after a sweep. An operator's `status` asks it too.
pub struct AppOwner<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Github: Directory>> AppOwner<'_, W> {
    /// Puts the App's owner on record where a pool asks for it and nobody knows it, or where it is
    /// doubted: the account may be called otherwise by now, or have given the App away. The next
    /// sweep serves what waited for it. Without an answer that sweep asks again.
    ///
    /// # Errors
    /// When the set of pools cannot be read or written.
    pub async fn look(&self, is_doubted: bool) -> Result<(), PassError> {
        if !self.asking().any(|pool| is_doubted || pool.app_owner.is_none()) {
            return Ok(());
        }
        match self.context.github.app().await {
            Ok(app) => self.note(&app).await,
            Err(problem) => {
                let error = problem.sentence(&self.context.settings.stack);
                tracing::info!(error, "GitHub does not say whose the App is");
                Ok(())
            }
        }
    }

    /// Puts on record what GitHub has said, where a pool asks for it.
    ///
    /// # Errors
    /// As for [`Self::look`].
    pub async fn note(&self, app: &AppSettings) -> Result<(), PassError> {
        if self.asking().next().is_none() {
            return Ok(());
        }
        let Some(owner) = app.owner.as_ref().and_then(|owner| owner.parse::<Entity>().ok()) else {
            tracing::warn!("GitHub names no owner of the App");
            return Ok(());
        };
        let read = async || self.context.table.pool_set().await;
        let next = |stored: Option<&PoolSet>| {
            let next = PoolSet::owned_by(stored, &owner)?;
            tracing::info!(%owner, "notes whose the App is");
            Some(next)
        };
        writes::update(self.context.table, read, next).await?;
        Ok(())
    }

    /// Pools that serve whoever that is.
    fn asking(&self) -> impl Iterator<Item = &Pool> {
        let asks = |pool: &&Pool| pool.serves_app_owner() && pool.enabled && !pool.is_removed();
        self.context.settings.pools.iter().filter(asks)
    }
}
