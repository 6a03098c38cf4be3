//! Records who owns the GitHub App. A pool without `entity` and `repositories` serves only the
//! owner's account: an App that anyone can install must not give machines to strangers.

use muster_domain::app::AppSettings;
use muster_domain::ids::{AppName, Entity};
use muster_domain::pool::Pool;
use muster_domain::pool_set::PoolSet;

use crate::context::{Context, Wired};
use crate::ports::{Directory, Operations as _, Table};
use crate::writes::{self, PassError};

/// Queries GitHub for the owner after a sweep. An operator's `status` does so too.
pub struct AppOwner<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Github: Directory>> AppOwner<'_, W> {
    /// Records the App's owner if a pool needs it and it is unknown or doubted: the account may
    /// have been renamed, or the App transferred. Jobs that waited for it are served by the next
    /// sweep. If GitHub does not answer, the next sweep queries it again.
    /// # Errors
    /// When the set of pools cannot be read or written.
    pub async fn look(&self, is_doubted: bool) -> Result<(), PassError> {
        if !self.asking().any(|pool| is_doubted || pool.app_owner.is_none()) {
            return Ok(());
        }
        match self.context.github.app(AppName::MAIN).await {
            Ok(app) => self.note(&app).await,
            Err(problem) => {
                let error = problem.sentence(&self.context.settings.stack, AppName::MAIN);
                tracing::info!(error, "failed to read the App's owner from GitHub");
                Ok(())
            }
        }
    }

    /// Records the owner that GitHub reported, if a pool needs it.
    ///
    /// # Errors
    /// As for [`Self::look`].
    pub async fn note(&self, app: &AppSettings) -> Result<(), PassError> {
        if self.asking().next().is_none() {
            return Ok(());
        }
        let Some(owner) = app.owner.as_ref().and_then(|owner| owner.parse::<Entity>().ok()) else {
            tracing::warn!("GitHub reports no owner of the App");
            return Ok(());
        };
        let read = async || self.context.table.pool_set().await;
        let next = |stored: Option<&PoolSet>| {
            let next = PoolSet::owned_by(stored, &owner)?;
            tracing::info!(%owner, "recorded the App's owner");
            Some(next)
        };
        writes::update(self.context.table, read, next).await?;
        Ok(())
    }

    /// Returns the pools that serve the App's owner.
    fn asking(&self) -> impl Iterator<Item = &Pool> {
        let asks = |pool: &&Pool| pool.serves_app_owner() && pool.enabled && !pool.is_removed();
        self.context.settings.pools.iter().filter(asks)
    }
}
