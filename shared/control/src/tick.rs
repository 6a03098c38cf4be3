//! The minute's tick: the sweep, and the tasks that follow it side by side: lost jobs, interrupted jobs, the orphan ledger, the App,
//! images, prices, daily roll-ups and notices. Each task has the same time limit, and a task that fails or takes too long does
//! not keep the others from running.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::{join, join5};
use muster_domain::causes::with_causes;
use muster_domain::time::{Seconds, Time};
use serde_json::{Value, json};

use crate::Settings;
use crate::app_owner::AppOwner;
use crate::app_watch::AppWatch;
use crate::context::{Context, Ports};
use crate::images::{ImageBuilds, ImagesReport};
use crate::jobs::recover::{Recover, RecoveryReport};
use crate::launches::pass::last_call;
use crate::metrics::Measure;
use crate::notifier::Notifier;
use crate::ports::{Compute, Directory, ImageStore, PriceList, Receiver, WorkflowRuns};
use crate::reaps::orphans::{Ledger, LedgerReport};
use crate::reaps::sweep::{Sweep, SweepReport};
use crate::reruns::{RerunReport, Reruns};
use crate::sums::{PriceWatch, RollUp};

/// Time reserved for the response and the metrics, however slow GitHub and EC2 are.
const LAST: Seconds = Seconds(5);

/// Limits the time of a task.
#[expect(async_fn_in_trait, reason = "a tick runs on one thread")]
pub trait TimeLimit {
    /// Runs a task for at most `left`. Returns `None` if it was stopped: as after a crash, it keeps what it has
    /// recorded, and the next tick continues.
    async fn within<R>(&self, left: Seconds, task: impl Future<Output = R>) -> Option<R>;
}

/// A tick.
pub struct Tick<'a, P: Ports, R, L, C> {
    /// The ports, and the settings with the current pools.
    pub context: Context<'a, P>,
    /// Where notices are sent; `None`: nowhere, and the App is not checked.
    pub receiver: Option<&'a R>,
    /// Limits the time of each task.
    pub limit: &'a L,
    /// The current time.
    pub clock: &'a C,
    /// When Lambda stops the invocation.
    pub deadline: Time,
}

/// The result of a tick.
#[derive(Debug, Default, PartialEq)]
pub struct TickReport {
    /// Of the sweep.
    pub sweep: SweepReport,
    /// Of the search for lost jobs.
    pub recovery: RecoveryReport,
    /// Of the orphan ledger.
    pub ledger: LedgerReport,
    /// Of the images.
    pub images: ImagesReport,
    /// Of the interrupted jobs.
    pub reruns: RerunReport,
    /// Problems of the other tasks; no alarm covers them.
    pub problems: Vec<String>,
}

impl TickReport {
    /// Returns the answer to the invocation.
    #[must_use]
    pub fn response(&self) -> Value {
        let Self { sweep, recovery, ledger, images, reruns, problems } = self;
        let (swept, recovered, ended) = (&sweep.problems, &recovery.problems, &ledger.problems);
        let (built, rerun) = (&images.problems, &reruns.problems);
        let problems = [swept.as_slice(), recovered, ended, built, rerun, problems].concat();
        json!({ "sent": sweep.sent, "woken": sweep.woken, "orphans": sweep.orphans,
            "redelivered": recovery.redelivered, "asked": recovery.asked, "problems": problems })
    }

    /// Returns the metrics.
    #[must_use]
    pub fn measures(&self, settings: &Settings) -> Vec<Measure> {
        let (swept, recovered) = (self.sweep.measures(settings), self.recovery.measures());
        [swept, recovered, self.images.measures(), self.reruns.measures(settings)].concat()
    }
}

impl<P, R, L, C> Tick<'_, P, R, L, C>
where
    P: Ports<Github: Directory + WorkflowRuns, Compute: Compute + PriceList + ImageStore>,
    R: Receiver,
    L: TimeLimit,
    C: Fn() -> Time,
{
    /// Runs the sweep, and then all tasks.
    pub async fn run(&self) -> TickReport {
        let Self { context, limit, clock, deadline, .. } = self;
        let context = *context;
        let begun = clock();
        let mut sweep = Sweep { context }.sweep(begun).await;
        let silent = std::mem::take(&mut sweep.silent);
        let orphans = std::mem::take(&mut sweep.ledger);
        let due = std::mem::take(&mut sweep.reruns);
        let kinds = std::mem::take(&mut sweep.kinds);
        tracing::info!(
            report = ?sweep,
            silent = silent.len(),
            orphans = orphans.len(),
            "sweep finished"
        );
        let left = (*deadline - LAST).since(clock());
        let until = last_call(begun, *deadline);
        // What it has counted is kept when it is stopped.
        let recovery = RefCell::new(RecoveryReport::default());
        let recover = Recover { context, clock, until, report: &recovery };
        let reruns = RefCell::new(RerunReport::default());
        let rerun = Reruns { context, clock, until, report: &reruns };
        let (ledger, owner) = (Ledger { context }, AppOwner { context });
        // Side by side, so that no task waits for a different task's service.
        let images = ImageBuilds { context };
        let built = join(
            limit.within(left, images.run(clock())),
            limit.within(left, rerun.run(&due, &sweep.troubles)),
        );
        let others = join5(
            limit.within(left, recover.run(&silent, &sweep.troubles)),
            limit.within(left, ledger.work(orphans, until, clock)),
            limit.within(left, owner.look(sweep.is_owner_doubted)),
            self.sums(&kinds, left),
            limit.within(left, self.notify()),
        );
        let ((built, rerun), (recovered, ended, owned, mut problems, unsent)) =
            join(built, others).await;
        // If GitHub is too slow, the next sweep tries again.
        if let Some(Err(error)) = owned {
            tracing::error!(error = with_causes(&error), "failed to record the App's owner");
            sweep.problems.push("the App's owner".to_owned());
        }
        let mut recovery = recovery.into_inner();
        if recovered.is_none() {
            recovery.problems.push("GitHub takes too long; the next sweep continues".to_owned());
        }
        let mut reruns = reruns.into_inner();
        if rerun.is_none() {
            reruns.problems.push("GitHub takes too long to re-run interrupted jobs".to_owned());
        }
        let late = "EC2 takes too long; the next sweep continues with the orphans";
        let late = || LedgerReport { problems: vec![late.to_owned()], ..LedgerReport::default() };
        let ledger = ended.unwrap_or_else(late);
        let late = || ImagesReport {
            problems: vec![
                "EC2 takes too long; the next sweep continues with the images".to_owned(),
            ],
            ..ImagesReport::default()
        };
        let images = built.unwrap_or_else(late);
        // A silent receiver delays no other work.
        problems.extend(unsent.flatten());
        if (&recovery, &ledger) != (&RecoveryReport::default(), &LedgerReport::default()) {
            tracing::info!(
                ?recovery,
                ?ledger,
                "queried GitHub for lost jobs and processed the orphan ledger"
            );
        }
        TickReport { sweep, recovery, ledger, images, reruns, problems }
    }

    /// Updates prices and rolls up days of usage. Returns the problems.
    async fn sums(&self, kinds: &BTreeSet<Arc<str>>, left: Seconds) -> Vec<String> {
        let Self { context, limit, clock, .. } = self;
        let (prices, days) = (PriceWatch { context: *context }, RollUp { context: *context });
        let (learned, rolled_up) = join(
            limit.within(left, prices.look(kinds, clock())),
            limit.within(left, days.run(clock())),
        )
        .await;
        let mut problems = Vec::new();
        match learned {
            Some(Ok(refused)) => problems.extend(refused),
            Some(Err(error)) => problems.push(format!("prices: {}", with_causes(&error))),
            None => problems.push("prices take too long; the next sweep tries again".to_owned()),
        }
        match rolled_up {
            Some(Ok(_)) => {}
            Some(Err(error)) => problems.push(format!("days of usage: {}", with_causes(&error))),
            None => problems
                .push("the roll-up of costs takes too long; it is repeated in an hour".to_owned()),
        }
        problems
    }

    /// Checks the App, and then sends notices. Returns a problem, if there is one.
    async fn notify(&self) -> Option<String> {
        let Self { context, clock, .. } = self;
        let receiver = self.receiver?;
        if let Err(error) = (AppWatch { context: *context }).check(clock()).await {
            tracing::error!(error = with_causes(&error), "failed to record the check of the App");
        }
        let notifier = Notifier { context: *context, receiver };
        let error = notifier.tell(clock()).await.err()?;
        tracing::error!(error = with_causes(&error), "failed to send notices");
        Some(format!("notices: {}", with_causes(&error)))
    }
}
