//! Queries GitHub for the queued jobs of repositories whose events cannot be parsed.

use std::collections::BTreeSet;

use muster_domain::ids::Entity;
use muster_domain::inquiry::{Inquiries, Inquiry};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;

use super::{Recover, account};
use crate::context::Wired;
use crate::jobs::take_in::{ImportedJobs, TakeIn, TakeInError};
use crate::ports::{Github, Operations as _, Queue, Table};
use crate::writes::{self, PassError};

/// Maximum number of repositories queried per run.
const MAX_REPOSITORIES: usize = 5;
/// Cursor of the last queries.
const UNREADABLE: &str = "unreadable";

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Imports the queued jobs of repositories whose events cannot be parsed.
    pub(super) async fn take_in(
        &self,
        known: Option<&Inquiries>,
        limited: &BTreeSet<String>,
        now: Time,
    ) -> Result<(), PassError> {
        let due = known.map(|all| all.due(now)).unwrap_or_default();
        let may_be_asked = |(name, _): &(Entity, Inquiry)| !limited.contains(&account(name));
        let due: Vec<_> = due.into_iter().filter(may_be_asked).take(MAX_REPOSITORIES).collect();
        if due.is_empty() || !writes::take_turn(self.context.table, UNREADABLE, now).await? {
            return Ok(());
        }
        for (repository, inquiry) in due {
            if self.is_out_of_time() {
                return Ok(());
            }
            let pass = TakeIn { context: self.context };
            let (until, stops) = match pass.run(&repository, inquiry.installation, now).await {
                Ok(ImportedJobs { taken, more, .. }) => {
                    self.report.borrow_mut().taken_in += taken.len();
                    tracing::warn!(
                        %repository,
                        taken = taken.len(),
                        more,
                        "queried the queued jobs of a repository whose event cannot be read"
                    );
                    self.note_inquiry(|all| all.answered(&repository, now, now)).await?;
                    continue;
                }
                // Recorded too: the next sweep would repeat all calls for it, before any other.
                Err(TakeInError::Pass(error)) => (None, Some(error)),
                Err(TakeInError::NoRepository(_)) => (None, None),
                Err(TakeInError::Github(trouble)) => {
                    self.failed_call("queued jobs could not be queried", &trouble);
                    match trouble {
                        ProviderError::RateLimited(until) => (Some(until), None),
                        ProviderError::Unauthorized(_) | ProviderError::Unavailable(_) => {
                            (None, None)
                        }
                    }
                }
            };
            self.note_inquiry(|all| {
                if !all.unanswered(&repository, until, now) {
                    tracing::error!(%repository, "stopped querying a repository for queued jobs");
                }
            })
            .await?;
            if let Some(error) = stops {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn note_inquiry(&self, note: impl Fn(&mut Inquiries)) -> Result<(), PassError> {
        let next = |all: Option<&Inquiries>| {
            let mut next = all?.clone();
            note(&mut next);
            Some(next)
        };
        writes::update(self.context.table, async || self.context.table.inquiries().await, next)
            .await?;
        Ok(())
    }
}
