//! Requests redelivery of failed webhook deliveries.
//!
//! The position in GitHub's list is recorded as the work proceeds, so an interrupted run continues
//! where it stopped. After a crash up to [`SAVED`] events are redelivered a second time, which is
//! harmless.

use std::borrow::Cow;

use muster_domain::ids::AppName;
use muster_domain::provider::ProviderError;
use muster_domain::redelivery::{Delivery, DeliveryPage, Redeliveries};
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;

use super::{MAX_TROUBLES, Recover, somewhere};
use crate::context::Wired;
use crate::ports::{CommitError, Github, Operations as _, Queue, Table};
use crate::writes::{self, PassError};

/// Maximum number of redeliveries of one run. GitHub's secondary limit is 900 points a minute; a
/// redelivery costs five points and a page of the list one.
/// Source: docs.github.com/en/rest, "Rate limits for the REST API"
const MAX_REDELIVERED: usize = 120;
/// Maximum number of pages that one run reads.
const MAX_PAGES: usize = 40;
/// Redeliveries per run while the webhook is down. With a run every five minutes that still exceeds
/// the alarm `webhooks-failing`: ten within a quarter of an hour.
const PROBES: usize = 5;
/// Cursor of the last overdue reading.
const OVERDUE: &str = "redeliveries";
/// Number of redeliveries after which the record is written.
const SAVED: usize = 25;

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Redelivers an App's failed deliveries within one run's limits.
    pub(super) async fn redeliver(&self, app: AppName, now: Time) -> Result<(), PassError> {
        let table = self.context.table;
        let anew = || Redeliveries::renewed(app, now);
        let stored = writes::renewed(table, table.redeliveries(app).await, anew, now).await?;
        let known = stored.as_deref().cloned().unwrap_or_else(|| Redeliveries::new(app, now));
        if !known.is_due(now) {
            return Ok(());
        }
        let is_overdue = stored.is_some() && known.is_overdue(now);
        if is_overdue && !writes::take_turn(table, &app.qualify(OVERDUE), now).await? {
            return Ok(());
        }
        let (first, limited_until) = match self.context.github.deliveries(app, None).await {
            Ok(page) => (Some(page.unwrap_or_default()), None),
            Err(trouble) => {
                self.failed_call("deliveries could not be listed", &trouble);
                (None, limit(&trouble))
            }
        };
        let is_first = stored.is_none();
        let mut run = RedeliveryPass::new(self, stored, known, now);
        let done = match first {
            Some(first) => run.read(&first).await,
            None if limited_until.is_some() => {
                run.next.release(limited_until, now);
                run.save().await
            }
            // The first round starts at this time even if GitHub does not answer for long.
            None if is_first => run.save().await,
            None => Ok(()),
        };
        match done {
            // A concurrent sweep is redelivering.
            Err(CommitError::Conflict) => Ok(()),
            done => Ok(done?),
        }
    }
}

/// Whether a run continues with the next delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Continue,
    Stop,
}

/// Why a delivery is redelivered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RedeliveryReason {
    /// It failed.
    Failed,
    /// Tests whether the webhook works again.
    Probe,
}

/// The redeliveries of one sweep.
struct RedeliveryPass<'a, 'b, W: Wired> {
    recover: &'a Recover<'b, W>,
    now: Time,
    stored: Option<Stored<Redeliveries>>,
    next: Redeliveries,
    is_claimed: bool,
    calls: usize,
    sent: usize,
    troubles: usize,
    limited_until: Option<Time>,
}

impl<'a, 'b, W: Wired<Table: Table, Queue: Queue, Github: Github>> RedeliveryPass<'a, 'b, W> {
    const fn new(
        recover: &'a Recover<'b, W>,
        stored: Option<Stored<Redeliveries>>,
        next: Redeliveries,
        now: Time,
    ) -> Self {
        Self {
            recover,
            now,
            stored,
            next,
            is_claimed: false,
            calls: 0,
            sent: 0,
            troubles: 0,
            limited_until: None,
        }
    }

    async fn read(&mut self, first: &DeliveryPage) -> Result<(), CommitError> {
        let mut probes = self.next.probes(first, self.now);
        if probes.is_empty() {
            self.continue_round(first).await?;
        } else {
            // Varies the probe: GitHub may be unable to redeliver one of them.
            let most = probes.iter().filter(|one| one.is_queued).count();
            let most = if most == 0 { probes.len() } else { most };
            probes[..most].rotate_left(somewhere(most, self.now));
            probes.truncate(PROBES);
            self.redeliver_all(&probes, RedeliveryReason::Probe).await?;
        }
        let is_unfinished = self.next.is_reading() || self.next.down_since().is_some();
        self.recover.report.borrow_mut().is_unfinished |= is_unfinished;
        self.next.release(self.limited_until, self.now);
        self.save().await?;
        if self.sent > 0 {
            let (redelivered, down_since) = (self.sent, self.next.down_since());
            tracing::warn!(redelivered, ?down_since, "asked GitHub to redeliver failed webhooks");
        }
        Ok(())
    }

    /// Starts or continues a round, page by page.
    async fn continue_round(&mut self, first: &DeliveryPage) -> Result<(), CommitError> {
        if self.next.is_reading() {
            let fresh = self.next.fresh(first);
            if self.redeliver_all(&fresh, RedeliveryReason::Failed).await? == Flow::Stop {
                return Ok(());
            }
        } else {
            if self.next.begin(first, self.now) {
                let gap = "GitHub no longer keeps all deliveries since the last read";
                self.recover.problem(gap.to_owned());
            }
            if self.retry_left().await? == Flow::Stop {
                return Ok(());
            }
        }
        for _ in 0..MAX_PAGES {
            let Some(page) = self.page(first).await else { return Ok(()) };
            let failed = self.next.choose(&page);
            if self.redeliver_all(&failed, RedeliveryReason::Failed).await? == Flow::Stop {
                return Ok(());
            }
            self.next.turn(&page);
            if !self.next.is_reading() || self.recover.is_out_of_time() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Retries deliveries that GitHub did not redeliver in earlier rounds.
    async fn retry_left(&mut self) -> Result<Flow, CommitError> {
        let left = self.next.left(self.now);
        self.redeliver_all(&left.iter().collect::<Vec<_>>(), RedeliveryReason::Failed).await
    }

    /// Returns the round's next page, if GitHub lists it now.
    async fn page<'p>(&mut self, first: &'p DeliveryPage) -> Option<Cow<'p, DeliveryPage>> {
        let Some(cursor) = self.next.cursor() else { return Some(Cow::Borrowed(first)) };
        match self.recover.context.github.deliveries(self.next.app, Some(cursor)).await {
            Ok(Some(page)) => Some(Cow::Owned(page)),
            Ok(None) => {
                tracing::warn!(cursor, "GitHub no longer knows a page of its deliveries");
                self.next.give_up();
                None
            }
            Err(trouble) => {
                self.recover.failed_call("deliveries could not be listed", &trouble);
                self.limited_until = limit(&trouble);
                None
            }
        }
    }

    async fn redeliver_all(
        &mut self,
        failed: &[&Delivery],
        reason: RedeliveryReason,
    ) -> Result<Flow, CommitError> {
        for one in failed {
            if self.calls >= MAX_REDELIVERED || self.recover.is_out_of_time() {
                return Ok(Flow::Stop);
            }
            if !self.is_claimed {
                self.next.claim(self.now);
                self.save().await?;
                self.is_claimed = true;
            }
            if self.redeliver(one, reason).await == Flow::Stop {
                return Ok(Flow::Stop);
            }
            if self.calls.is_multiple_of(SAVED) {
                self.save().await?;
            }
        }
        Ok(Flow::Continue)
    }

    async fn redeliver(&mut self, one: &Delivery, reason: RedeliveryReason) -> Flow {
        self.calls += 1;
        match self.recover.context.github.redeliver(self.next.app, one.id).await {
            Ok(true) => {
                self.sent += 1;
                self.recover.report.borrow_mut().redelivered += 1;
                match reason {
                    RedeliveryReason::Failed => self.next.done(one),
                    RedeliveryReason::Probe => self.next.probed(one),
                }
                Flow::Continue
            }
            Ok(false) => {
                tracing::error!(one.guid, "GitHub no longer keeps a failed delivery");
                self.next.done(one);
                Flow::Continue
            }
            Err(trouble) => {
                self.recover.failed_call("a delivery could not be redelivered", &trouble);
                self.limited_until = limit(&trouble);
                if !matches!(trouble, ProviderError::Unavailable(_)) {
                    return Flow::Stop;
                }
                // A delivery that GitHub cannot redeliver must not block the others.
                self.troubles += 1;
                match self.next.failed(one) && self.troubles < MAX_TROUBLES {
                    true => Flow::Continue,
                    false => Flow::Stop,
                }
            }
        }
    }

    async fn save(&mut self) -> Result<(), CommitError> {
        if self.stored.as_deref() == Some(&self.next) {
            return Ok(());
        }
        let change = Change::from_read(self.stored.as_ref(), self.next.clone());
        let committed = self.recover.context.table.commit(&[change.clone().into()]).await?;
        self.stored = Some(change.stored(&committed));
        Ok(())
    }
}

/// Returns when a rate limit ends.
const fn limit(trouble: &ProviderError) -> Option<Time> {
    match trouble {
        ProviderError::RateLimited(until) => Some(*until),
        ProviderError::Unauthorized(_) | ProviderError::Unavailable(_) => None,
    }
}
