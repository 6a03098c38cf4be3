//! Recovers jobs whose webhook events were lost. GitHub is queried after each sweep.
//!
//! GitHub does not retry a failed delivery by itself ("Handling failed webhook deliveries" in its
//! documentation): the receiver has to ask for it.

mod redeliver;
mod refused;
mod silent;
mod turn;
mod unreadable;

use std::cell::RefCell;
use std::collections::BTreeSet;

use futures_util::future::join;
use muster_domain::ids::{Entity, EntityKind};
use muster_domain::job::Job;
use muster_domain::launch::trouble::{Trouble, TroubleScope};
use muster_domain::observation::ProviderError;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use crate::Settings;
use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::metrics::{Measure, Metric};
use crate::ports::{Github, Operations as _, Queue, Table};
use crate::writes::PassError;

/// Calls that may fail before the run leaves the others to the next sweep.
const MAX_TROUBLES: usize = 3;

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Events that GitHub delivers once more.
    pub redelivered: usize,
    /// Failed deliveries are left; the next sweep continues.
    pub is_unfinished: bool,
    /// Jobs that GitHub was asked for.
    pub asked: usize,
    /// Those among them that had moved on.
    pub moved_on: usize,
    /// Jobs that were found queued, and of which no event came or could be read.
    pub taken_in: usize,
    /// Parts that failed; the next sweep repeats them.
    pub problems: Vec<String>,
}

impl RecoveryReport {
    /// The metrics of the run.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        vec![Measure::count(Metric::WebhooksRedelivered, self.redelivered)]
    }
}

/// Queries GitHub for what was lost.
pub struct Recover<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
    /// Reads the time.
    pub clock: &'a dyn Fn() -> Time,
    /// No call begins after this time: the invocation ends soon after it.
    pub until: Time,
    /// What the run has done so far. It remains when the run is stopped in the middle.
    pub report: &'a RefCell<RecoveryReport>,
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Redelivers failed webhook deliveries, and queries GitHub for the `silent` jobs that the sweep
    /// found, for the entities among `troubles` that refused us, for repositories whose events cannot
    /// be read, and for the repository whose turn it is. Redelivery runs concurrently with the rest, because a backlog of deliveries
    /// takes all the time there is.
    pub async fn run(&self, silent: &[Stored<Job>], troubles: &[Trouble]) {
        let now = (self.clock)();
        let others = async {
            let mut limited = limited(troubles, now);
            self.note("silent jobs", self.ask_for(silent, &mut limited, now).await);
            self.note("refused entities", self.ask_again(troubles, now).await);
            self.note("repositories", self.ask_repositories(troubles, &limited, now).await);
        };
        let redeliver = async { self.note("deliveries", self.redeliver(now).await) };
        join(redeliver, others).await;
    }

    /// Queries repositories for queued jobs: those of which events cannot be read, and the one whose
    /// turn it is.
    async fn ask_repositories(
        &self,
        troubles: &[Trouble],
        limited: &BTreeSet<String>,
        now: Time,
    ) -> Result<(), PassError> {
        let known = self.context.table.inquiries().await?;
        let known = known.as_deref();
        self.note("jobs never announced", self.ask_in_turn(known, troubles, limited, now).await);
        // Last: the calls of one repository may take all the time that is left.
        self.note("unreadable events", self.take_in(known, limited, now).await);
        Ok(())
    }

    fn note(&self, part: &str, done: Result<(), PassError>) {
        if let Err(error) = done {
            self.problem(format!("{part}: {}", with_causes(&error)));
        }
    }

    fn problem(&self, problem: String) {
        self.report.borrow_mut().problems.push(problem);
    }

    /// Reports a call of GitHub that failed.
    fn failed_call(&self, what: &str, trouble: &ProviderError) {
        tracing::warn!(error = with_causes(trouble), what, "a call of GitHub failed");
        self.problem(what.to_owned());
    }

    fn is_out_of_time(&self) -> bool {
        (self.clock)() >= self.until
    }
}

/// Some of many may refuse us for good, so each run begins elsewhere: a multiplicative hash of its
/// time.
fn somewhere(many: usize, now: Time) -> usize {
    let hash = now.as_millis().unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(hash).unwrap_or(0) % many
}

/// The entity to query for a job.
fn home_of(job: &Job, settings: &Settings) -> Option<Entity> {
    let pool = job.pool.as_ref().and_then(|name| settings.pool(name));
    pool.map_or_else(|| job.home(), |pool| pool.entity_for(job))
}

/// The account whose installation's limit an entity uses up.
fn account(entity: &Entity) -> String {
    let text = entity.as_str();
    let owner = match entity.kind() {
        EntityKind::Repository => text.split_once('/').map_or(text, |(owner, _)| owner),
        EntityKind::Organization | EntityKind::Enterprise => text,
    };
    owner.to_ascii_lowercase()
}

/// The accounts whose rate limit lasts.
pub(crate) fn limited(troubles: &[Trouble], now: Time) -> BTreeSet<String> {
    let lasts = |one: &Trouble| match &one.scope {
        TroubleScope::Limit(entity) if now < one.until => Some(account(entity)),
        _ => None,
    };
    troubles.iter().filter_map(lasts).collect()
}

/// Whether a job is one of these accounts'.
pub(crate) fn is_of(accounts: &BTreeSet<String>, job: &Job, settings: &Settings) -> bool {
    home_of(job, settings).is_some_and(|entity| accounts.contains(&account(&entity)))
}
