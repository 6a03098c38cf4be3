//! Finds jobs that GitHub never announced: queries one of the App's repositories for queued jobs
//! per sweep.

use std::cell::Cell;
use std::collections::BTreeSet;

use muster_domain::ids::{AppName, Entity, EntityKind, InstallationId};
use muster_domain::inquiry::{Inquiries, InquiryStep, ListPosition, Turn};
use muster_domain::launch::record::trouble::{RequestKind, Trouble, TroubleScope};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;

use super::{Recover, account};
use crate::Settings;
use crate::context::Wired;
use crate::health::note_answer;
use crate::jobs::take_in::{TakeIn, TakeInError};
use crate::ports::{Github, Operations as _, Queue, RepositoryPage, Table};
use crate::writes::{self, PassError};

/// Cursor of the last overdue listing.
const LISTED: &str = "repositories";

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Queries the repository whose turn it is and imports jobs without a record, or lists the next
    /// page of repositories.
    pub(super) async fn ask_in_turn(
        &self,
        known: Option<&Inquiries>,
        troubles: &[Trouble],
        limited: &BTreeSet<String>,
        now: Time,
    ) -> Result<(), PassError> {
        let turn = known.map(|known| known.turn.clone()).unwrap_or_default();
        let before = super::limited(troubles, now);
        match turn.step(now) {
            _ if self.is_out_of_time() => Ok(()),
            InquiryStep::Wait => Ok(()),
            // This sweep just hit a rate limit, which may include the listing.
            InquiryStep::List(..) if limited.len() > before.len() => Ok(()),
            InquiryStep::List(app, place) => self.list_repositories(&turn, app, place, now).await,
            InquiryStep::Query => {
                let mut next = turn.clone();
                let one = next.take(|repository| !is_skipped(repository, troubles, limited));
                // The turn is recorded before the query: a repository whose query never returns
                // must not get the next turn too.
                let is_ours = self.note_turn(&turn, next).await?;
                let Some((repository, installation)) = one.filter(|_| is_ours) else {
                    return Ok(());
                };
                self.ask_one(&repository, installation, now).await
            }
        }
    }

    async fn list_repositories(
        &self,
        turn: &Turn,
        app: AppName,
        place: Option<ListPosition>,
        now: Time,
    ) -> Result<(), PassError> {
        let is_overdue = turn.is_listing_overdue(now);
        if is_overdue && !writes::take_turn(self.context.table, LISTED, now).await? {
            return Ok(());
        }
        let page = match self.context.github.repositories_from(app, place).await {
            Ok(page) => page,
            Err(trouble) => {
                self.failed_call("the App's repositories could not be listed", &trouble);
                // The next sweep lists it again, unless other Apps would wait for this one.
                if self.context.settings.other_apps.is_empty() {
                    return Ok(());
                }
                RepositoryPage::default()
            }
        };
        if let Some(trouble) = &page.passed_over {
            self.failed_call("an installation's repositories could not be listed", trouble);
        }
        let mut served = page.repositories;
        served.retain(|name| is_served(name, self.context.settings));
        let mut next = turn.clone();
        next.listed(served, page.installation, page.next, &self.context.settings.apps(), now);
        self.note_turn(turn, next).await?;
        Ok(())
    }

    /// Records the next turn. Returns false if a concurrent sweep was faster.
    async fn note_turn(&self, from: &Turn, to: Turn) -> Result<bool, PassError> {
        let (none, is_ours) = (Inquiries::default(), Cell::new(false));
        let next = |all: Option<&Inquiries>| {
            let all = all.unwrap_or(&none);
            is_ours.set(all.turn == *from);
            is_ours.get().then(|| Inquiries { turn: to.clone(), ..all.clone() })
        };
        let read = async || self.context.table.inquiries().await;
        writes::update(self.context.table, read, next).await?;
        Ok(is_ours.get())
    }

    /// Imports the jobs of one repository that have no record.
    async fn ask_one(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        now: Time,
    ) -> Result<(), PassError> {
        let pass = TakeIn { context: self.context };
        match pass.new_ones(repository, installation, now).await {
            Ok(found) if found.is_empty() => Ok(()),
            Ok(found) => {
                self.report.borrow_mut().taken_in += found.len();
                tracing::warn!(%repository, jobs = found.len(), "imported queued jobs that GitHub never announced");
                Ok(())
            }
            Err(TakeInError::NoRepository(_)) => Ok(()),
            Err(TakeInError::Github(trouble)) => {
                self.failed_call("queued jobs could not be queried", &trouble);
                // A rate limit applies to the account's other calls too. A refusal to show jobs
                // says nothing about runners.
                if matches!(trouble, ProviderError::RateLimited(_)) {
                    let table = self.context.table;
                    note_answer(table, repository, RequestKind::Other, Some(&trouble), now).await?;
                }
                Ok(())
            }
            Err(TakeInError::Pass(error)) => Err(error),
        }
    }
}

/// Returns whether a repository is not queried: its account is rate limited, or the account or the
/// repository itself denies us access.
fn is_skipped(repository: &Entity, troubles: &[Trouble], limited: &BTreeSet<String>) -> bool {
    let own = account(repository);
    let refuses = |one: &Trouble| match &one.scope {
        TroubleScope::Entity(entity) => match entity.kind() {
            EntityKind::Repository => entity.same_as(repository),
            EntityKind::Organization | EntityKind::Enterprise => account(entity) == own,
        },
        _ => false,
    };
    limited.contains(&own) || troubles.iter().any(refuses)
}

/// Whether a pool may serve jobs of the repository.
fn is_served(repository: &Entity, settings: &Settings) -> bool {
    let name = repository.as_str();
    settings.pools.iter().filter(|pool| pool.enabled && !pool.is_removed()).any(|pool| {
        let owner = if pool.serves_app_owner() { &pool.app_owner } else { &pool.entity };
        let is_owners = owner.as_ref().map_or(!pool.serves_app_owner(), |owner| owner.covers(name));
        is_owners && pool.admits(name, None).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use muster_domain::launch::record::Cooldowns;
    use muster_domain::provider::ErrorDetail;

    use super::*;

    /// Columns: what GitHub refuses; whether two repositories of one account are skipped.
    #[test]
    fn a_refused_repository_is_skipped_alone_and_a_refused_account_entirely() {
        let now = Time::from_millis(0);
        let refused = ProviderError::Unauthorized(ErrorDetail {
            at: now,
            operation: "generate-jitconfig".to_owned(),
            code: "403".to_owned(),
            message: "no".to_owned(),
        });
        let rows = [
            ("acme/web", [true, false]),
            ("acme", [true, true]),
            ("zoo", [false, false]),
            ("zoo/web", [false, false]),
        ];
        for (entity, wanted) in rows {
            let asked = RequestKind::Registration;
            let entity: Entity = entity.parse().expect("an entity");
            let record = Cooldowns::default().after_answer(&entity, asked, Some(&refused), now);
            let troubles = record.expect("a trouble").troubles;
            let found = ["Acme/Web", "acme/api"].map(|name| {
                let repository: Entity = name.parse().expect("a repository");
                is_skipped(&repository, &troubles, &BTreeSet::new())
            });
            assert_eq!(found, wanted, "{entity}");
        }
    }
}
