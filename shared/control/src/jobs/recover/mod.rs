//! Recovers jobs whose webhook events were lost. GitHub is queried after each sweep.
//!
//! GitHub does not retry failed deliveries by itself; the receiver has to request redelivery.
//! Source: docs.github.com/en/webhooks, "Handling failed webhook deliveries"

mod redeliver;
mod refused;
mod silent;
mod turn;
mod unreadable;

use std::cell::RefCell;
use std::collections::BTreeSet;

use futures_util::future::{join, join_all};
use muster_domain::causes::with_causes;
use muster_domain::ids::{Entity, EntityKind};
use muster_domain::inquiry::Inquiries;
use muster_domain::job::Job;
use muster_domain::launch::record::trouble::{Trouble, TroubleScope};
use muster_domain::provider::ProviderError;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use crate::Settings;
use crate::context::{Context, Wired};
use crate::metrics::{Measure, Metric};
use crate::ports::{Github, Operations as _, Queue, Table};
use crate::writes::{self, PassError};

/// Number of failed calls after which a run leaves the rest to the next sweep.
const MAX_TROUBLES: usize = 3;

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Events that GitHub was asked to redeliver.
    pub redelivered: usize,
    /// Whether failed deliveries are left; the next sweep continues.
    pub is_unfinished: bool,
    /// Jobs that GitHub was queried for.
    pub asked: usize,
    /// Queried jobs whose status on GitHub was newer than our record.
    pub moved_on: usize,
    /// Queued jobs that were imported because no readable event of them arrived.
    pub taken_in: usize,
    /// Parts that failed; the next sweep repeats them.
    pub problems: Vec<String>,
}

impl RecoveryReport {
    /// Returns the run's metrics.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        vec![Measure::count(Metric::WebhooksRedelivered, self.redelivered)]
    }
}

/// Recovers lost events from GitHub.
pub struct Recover<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
    /// Returns the current time.
    pub clock: &'a dyn Fn() -> Time,
    /// No call starts after this time, shortly before the invocation ends.
    pub until: Time,
    /// The results so far. They remain if the run is stopped in the middle.
    pub report: &'a RefCell<RecoveryReport>,
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Redelivers failed webhook deliveries, and queries GitHub for the `silent` jobs that the
    /// sweep found, for the entities among `troubles` that denied us access, for repositories whose
    /// events cannot be parsed, and for the repository whose turn it is. Redelivery runs
    /// concurrently with the rest, because a backlog of deliveries takes all the time there is.
    pub async fn run(&self, silent: &[Stored<Job>], troubles: &[Trouble]) {
        let now = (self.clock)();
        let redeliver = async {
            let each = async |app| self.note("deliveries", self.redeliver(app, now).await);
            join_all(self.context.settings.apps().into_iter().map(each)).await;
        };
        if self.context.settings.unknown_pools().is_some() {
            // Which pool serves a job is unknown. Events wait in their queue.
            return redeliver.await;
        }
        let others = async {
            let mut limited = limited(troubles, now);
            self.note("silent jobs", self.ask_for(silent, &mut limited, now).await);
            self.note("refused entities", self.ask_again(troubles, now).await);
            self.note("repositories", self.ask_repositories(troubles, &limited, now).await);
        };
        join(redeliver, others).await;
    }

    /// Queries repositories for queued jobs: those whose events cannot be parsed, and the one whose
    /// turn it is.
    async fn ask_repositories(
        &self,
        troubles: &[Trouble],
        limited: &BTreeSet<String>,
        now: Time,
    ) -> Result<(), PassError> {
        let table = self.context.table;
        let known =
            writes::renewed(table, table.inquiries().await, Inquiries::default, now).await?;
        let known = known.as_deref();
        self.note("jobs never announced", self.ask_in_turn(known, troubles, limited, now).await);
        // Last, because the calls for one repository may take all the time that is left.
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

    /// Logs a failed GitHub call and adds it to the report.
    fn failed_call(&self, what: &str, trouble: &ProviderError) {
        tracing::warn!(error = with_causes(trouble), what, "a GitHub call failed");
        self.problem(what.to_owned());
    }

    fn is_out_of_time(&self) -> bool {
        (self.clock)() >= self.until
    }
}

/// Returns a starting index that varies with the time (a multiplicative hash): some entries may
/// fail permanently, and must not keep the others from their turn.
fn somewhere(many: usize, now: Time) -> usize {
    let hash = now.as_millis().unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(hash).unwrap_or(0) % many
}

/// Returns the entity to query for a job: an enterprise's installation may not have access to the
/// repository.
fn home_of(job: &Job, settings: &Settings) -> Option<Entity> {
    let pool = job.pool.as_ref().and_then(|name| settings.pool(name));
    let entity = pool.map_or_else(|| job.home(), |pool| pool.entity_for(job));
    match entity.as_ref().map(Entity::kind) {
        Some(EntityKind::Enterprise) => job.home(),
        Some(EntityKind::Organization | EntityKind::Repository) | None => entity,
    }
}

/// Returns the account whose installation's rate limit an entity uses.
pub(crate) fn account(entity: &Entity) -> String {
    let text = entity.as_str();
    let owner = match entity.kind() {
        EntityKind::Repository => text.split_once('/').map_or(text, |(owner, _)| owner),
        EntityKind::Organization | EntityKind::Enterprise => text,
    };
    owner.to_ascii_lowercase()
}

/// Returns the accounts that are still rate limited.
pub(crate) fn limited(troubles: &[Trouble], now: Time) -> BTreeSet<String> {
    let lasts = |one: &Trouble| match &one.scope {
        TroubleScope::Limit(entity) if now < one.until => Some(account(entity)),
        _ => None,
    };
    troubles.iter().filter_map(lasts).collect()
}

/// Whether a job belongs to one of these accounts.
pub(crate) fn is_of(accounts: &BTreeSet<String>, job: &Job, settings: &Settings) -> bool {
    home_of(job, settings).is_some_and(|entity| accounts.contains(&account(&entity)))
}
