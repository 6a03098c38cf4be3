//! What nobody told us: webhook deliveries that failed, events that cannot be read, and jobs of
//! which nothing was heard for long, or that may be ones that can never run. GitHub is asked, after
//! the sweep.
//!
//! GitHub does not deliver again by itself ("Handling failed webhook deliveries" in its
//! documentation): an event that met a closed door is lost for whoever does not ask. One list every
//! five minutes costs nothing, however many repositories there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join;
use muster_domain::ids::{Entity, EntityKind, PoolName};
use muster_domain::inquiry::{Inquiries, Inquiry};
use muster_domain::job::run::{self, Judgement, RunLook};
use muster_domain::job::{Job, JobEvent, JobStatus};
use muster_domain::launch::trouble::{Asked, Trouble, TroubleScope, question_due};
use muster_domain::observation::ProviderError;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use crate::Settings;
use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::health::note_answer;
use crate::jobs::ingest::{Folded, Ingest};
use crate::jobs::take_in::{TakeIn, TakeInError, TakenIn};
use crate::metrics::{Measure, Metric};
use crate::ports::{
    CommitError, Delivery, Github, JobSeen, Operations as _, Queue, ReadError, Registrar, RunSeen,
    Table,
};
use crate::woken::Woken;
use crate::writes::{self, PassError};

/// Cursor of the deliveries that were looked at.
const DELIVERIES: &str = "deliveries";
/// How often deliveries are looked at.
const EVERY: Seconds = Seconds(300);
/// How far back the first look goes.
const FIRST: Seconds = Seconds(3600);
/// A look begins this long before the end of the last one: an attempt is listed when it is over, at
/// most ten seconds after it began.
const OVERLAP: Seconds = Seconds(60);
/// Most deliveries of one run. The next sweep goes on with the others.
const MAX_REDELIVERED: usize = 100;
/// Cursor of the last question to entities that refuse us.
const REFUSED: &str = "refused";
/// Most such entities that one run asks.
const MAX_REFUSED: usize = 20;
/// No runner has this name: those of ours end in a number.
const NOBODY: &str = "muster-asks";
/// Most repositories whose queued jobs one run asks for.
const MAX_REPOSITORIES: usize = 5;
/// Calls that may fail before the run leaves the others to the next sweep.
const MAX_TROUBLES: usize = 3;

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Events that GitHub delivers once more.
    pub redelivered: usize,
    /// Jobs that GitHub was asked for.
    pub asked: usize,
    /// Those among them that had moved on.
    pub moved_on: usize,
    /// Jobs that were found queued, and of which no event could be read.
    pub taken_in: usize,
    /// Parts that failed; the next sweep repeats them.
    pub problems: Vec<String>,
}

impl RecoveryReport {
    /// What CloudWatch is told.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        vec![Measure::count(Metric::WebhooksRedelivered, self.redelivered)]
    }
}

/// Some of many may refuse us for good, so each run begins elsewhere: a multiplicative hash of its
/// time.
fn somewhere(many: usize, now: Time) -> usize {
    let hash = now.as_millis().unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(hash).unwrap_or(0) % many
}

/// Asks GitHub.
pub struct Recover<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Has failed deliveries repeated, and asks for the `silent` jobs, which the sweep has found.
    /// Asks whether GitHub still refuses the entities among `troubles` as well.
    pub async fn run(
        &self,
        silent: &[Stored<Job>],
        troubles: &[Trouble],
        now: Time,
    ) -> RecoveryReport {
        let mut report = RecoveryReport::default();
        let (redelivered, inquiries) =
            join(self.redeliver(now, &mut report), self.context.table.inquiries()).await;
        if let Err(error) = redelivered {
            report.problems.push(format!("deliveries: {}", with_causes(&error)));
        }
        if let Err(error) = self.ask_for(silent, limited(troubles, now), now, &mut report).await {
            report.problems.push(format!("silent jobs: {}", with_causes(&error)));
        }
        if let Err(error) = self.ask_again(troubles, now).await {
            report.problems.push(format!("refused entities: {}", with_causes(&error)));
        }
        // Last: the calls of one repository may take all the time that is left.
        let limited = limited(troubles, now);
        if let Err(error) = self.take_in(inquiries, &limited, now, &mut report).await {
            report.problems.push(format!("unreadable events: {}", with_causes(&error)));
        }
        report
    }

    /// Asks for the jobs of repositories whose events cannot be read.
    async fn take_in(
        &self,
        inquiries: Result<Option<Stored<Inquiries>>, ReadError>,
        limited: &BTreeSet<String>,
        now: Time,
        report: &mut RecoveryReport,
    ) -> Result<(), PassError> {
        let due = inquiries?.map(|all| all.due(now)).unwrap_or_default();
        let may_be_asked = |(name, _): &(Entity, Inquiry)| !limited.contains(&account(name));
        for (repository, inquiry) in due.into_iter().filter(may_be_asked).take(MAX_REPOSITORIES) {
            let pass = TakeIn { context: self.context };
            let until = match pass.run(&repository, inquiry.installation, now).await {
                Ok(TakenIn { taken, more, .. }) => {
                    report.taken_in += taken.len();
                    tracing::warn!(
                        %repository,
                        taken = taken.len(),
                        more,
                        "asked for the queued jobs of a repository whose event cannot be read"
                    );
                    self.note_inquiry(|all| all.answered(&repository, now, now)).await?;
                    continue;
                }
                Err(TakeInError::Pass(error)) => return Err(error),
                Err(TakeInError::NoRepository(_)) => None,
                Err(TakeInError::Github(trouble)) => {
                    report.problems.push(told("queued jobs could not be asked for", &trouble));
                    match trouble {
                        ProviderError::RateLimited(until) => Some(until),
                        ProviderError::Unauthorized(_) | ProviderError::Unavailable(_) => None,
                    }
                }
            };
            self.note_inquiry(|all| {
                if !all.unanswered(&repository, until, now) {
                    tracing::error!(%repository, "gave up asking for its queued jobs");
                }
            })
            .await?;
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

    /// Whether GitHub still refuses us. Its jobs wait, and a question is cheaper than a machine
    /// that finds it out. Any will do: here it is for a runner that there is not.
    async fn ask_again(&self, troubles: &[Trouble], now: Time) -> Result<(), PassError> {
        let entity = |one: &'_ Trouble| match &one.scope {
            TroubleScope::Entity(entity) => Some(entity.clone()),
            _ => None,
        };
        let mut refused: Vec<Entity> = troubles.iter().filter_map(entity).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let last = self.context.table.cursor(REFUSED).await?;
        if question_due(troubles, last).is_none_or(|due| now < due) {
            return Ok(());
        }
        // Before GitHub is asked: one question that hangs must not be repeated each minute.
        match self.context.table.move_cursor(REFUSED, last, now).await {
            Ok(()) => {}
            Err(CommitError::Conflict) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let first = somewhere(refused.len(), now);
        refused.rotate_left(first);
        for entity in refused.into_iter().take(MAX_REFUSED) {
            let registrar = Registrar { entity: entity.clone(), installation: None };
            let answer = self.context.github.runner_named(&registrar, NOBODY).await;
            note_answer(self.context.table, &entity, Asked::Other, answer.as_ref().err(), now)
                .await?;
        }
        Ok(())
    }

    /// The cursor moves when the work is done: after a crash it is done again, and a doubled
    /// delivery does no harm.
    async fn redeliver(&self, now: Time, report: &mut RecoveryReport) -> Result<(), PassError> {
        let Some(last) = self.context.table.cursor(DELIVERIES).await? else {
            // The next sweep looks. However long GitHub does not answer, the look begins here.
            return self.move_cursor(None, now - FIRST).await;
        };
        if !now.is_past(last, EVERY) {
            return Ok(());
        }
        let since = last - OVERLAP;
        let listed = match self.context.github.deliveries(since).await {
            Ok(listed) => listed,
            Err(trouble) => {
                report.problems.push(told("deliveries could not be listed", &trouble));
                return Ok(());
            }
        };
        let (mut seen_until, mut troubles) = (now, 0);
        for (number, delivery) in failed(&listed).into_iter().enumerate() {
            if number == MAX_REDELIVERED {
                seen_until = seen_until.min(delivery.at);
                break;
            }
            match self.context.github.redeliver(delivery.id).await {
                Ok(true) => report.redelivered += 1,
                Ok(false) => tracing::error!(
                    delivery.guid,
                    "GitHub does not keep a failed delivery any more"
                ),
                Err(trouble) => {
                    report.problems.push(told("a delivery could not be repeated", &trouble));
                    seen_until = seen_until.min(delivery.at);
                    troubles += 1;
                    // One that GitHub cannot repeat must not keep the others back; its limit does.
                    let is_limited = matches!(trouble, ProviderError::RateLimited(_));
                    if is_limited || troubles == MAX_TROUBLES {
                        break;
                    }
                }
            }
        }
        if report.redelivered > 0 {
            tracing::warn!(report.redelivered, "asked GitHub to redeliver failed webhooks");
        }
        self.move_cursor(Some(last), seen_until).await
    }

    async fn move_cursor(&self, from: Option<Time>, to: Time) -> Result<(), PassError> {
        match self.context.table.move_cursor(DELIVERIES, from, to).await {
            // Another invocation has looked as well.
            Ok(()) | Err(CommitError::Conflict) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn ask_for(
        &self,
        silent: &[Stored<Job>],
        mut limited: BTreeSet<String>,
        now: Time,
        report: &mut RecoveryReport,
    ) -> Result<(), PassError> {
        let (mut troubles, mut runs) = (0, Runs::new());
        for job in silent {
            // Its pool may be gone: not asked for, it would have the first turn of each sweep for
            // ever.
            let Some(entity) = home_of(job, self.context.settings) else { continue };
            let account = account(&entity);
            if limited.contains(&account) {
                continue;
            }
            let registrar = Registrar { entity, installation: job.last_event.installation };
            let answer = self.look(&registrar, job, &mut runs).await;
            note_answer(
                self.context.table,
                &registrar.entity,
                Asked::Other,
                answer.as_ref().err(),
                now,
            )
            .await?;
            report.asked += 1;
            match answer {
                Ok(look) => self.heard(job, look, now, report).await?,
                Err(trouble) => {
                    report.problems.push(told("a job could not be asked for", &trouble));
                    match trouble {
                        // Its jobs keep their places, and are asked for when the limit is over.
                        ProviderError::RateLimited(_) => {
                            limited.insert(account);
                            continue;
                        }
                        // One owner's refusal says nothing about the others.
                        ProviderError::Unauthorized(_) => {}
                        ProviderError::Unavailable(_) => troubles += 1,
                    }
                    // It has had its turn: the others must not wait for an answer about it.
                    let next = Job { asked_at: Some(now), ..job.record().clone() };
                    self.note(job, next).await?;
                    if troubles == MAX_TROUBLES {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Asks for a job, and for its run where the job needs a runner still, as far as GitHub says:
    /// it may keep a job queued in a run that has ended. Each run is asked for once.
    async fn look(
        &self,
        registrar: &Registrar,
        job: &Job,
        runs: &mut Runs,
    ) -> Result<Look, ProviderError> {
        let said = &job.last_event;
        let seen = self.context.github.job(registrar, &said.repository, job.key().job).await?;
        if seen.as_ref().is_some_and(|seen| seen.status != JobStatus::Queued) {
            return Ok(Look { seen, run: None });
        }
        let of = (Arc::clone(&said.repository), said.run);
        if !runs.contains_key(&of) {
            let run = self.context.github.run(registrar, &said.repository, said.run).await?;
            runs.insert(of.clone(), run);
        }
        Ok(Look { seen, run: runs.get(&of).cloned().flatten() })
    }

    /// What GitHub showed goes on record.
    async fn heard(
        &self,
        job: &Stored<Job>,
        look: Look,
        now: Time,
        report: &mut RecoveryReport,
    ) -> Result<(), PassError> {
        let Look { seen, run } = look;
        let said = || job.last_event.clone();
        match seen {
            Some(seen) if seen.status > JobStatus::Queued => {
                tracing::warn!(job.id = %job.key(), status = ?seen.status, "found a job whose event was lost");
                report.moved_on += 1;
                return self.woken(self.ingest().fold(&seen.event(said()), now).await?).await;
            }
            Some(seen) if seen.status == JobStatus::Waiting => {
                return unless_changed(self.ingest().found_waiting(job, now).await);
            }
            _ => {}
        }
        let shown = match &run {
            None => RunLook::NotShown,
            Some(run) if run.is_over => RunLook::Over,
            Some(_) => RunLook::GoesOn,
        };
        match run::judge(job, seen.is_some(), shown, now) {
            Judgement::Over(why) => {
                tracing::warn!(job.id = %job.key(), run = job.last_event.run, ?why, "found a job that can never run: it is over");
                report.moved_on += 1;
                let conclusion = run.and_then(|run| run.conclusion);
                let event = JobEvent { status: JobStatus::Completed, conclusion, ..said() };
                self.woken(self.ingest().fold_end(&event, why, now).await?).await
            }
            Judgement::Waits(next) => match seen {
                Some(seen) if job.is_gated() || job.approval.is_some() => {
                    tracing::info!(job.id = %job.key(), "the job does not wait for an approval");
                    report.moved_on += usize::from(job.is_gated());
                    self.woken(self.ingest().fold(&seen.event(said()), now).await?).await
                }
                // A job that is not shown to us may exist all the same.
                _ => self.note(job, *next).await,
            },
        }
    }

    const fn ingest(&self) -> Ingest<'_, W> {
        Ingest { context: self.context }
    }

    /// What GitHub says counts as an event: the pools that it touches are woken, as for any other.
    async fn woken(&self, folded: Folded) -> Result<(), PassError> {
        if let Folded::Stored { wake, jobs, .. } = folded {
            self.wake(&wake, &jobs).await?;
        }
        Ok(())
    }

    async fn wake(&self, pools: &BTreeSet<PoolName>, jobs: &[Job]) -> Result<(), PassError> {
        let mut woken = Woken::default();
        woken.after(pools, jobs);
        Ok(self.context.queue.send_wakes(&woken.messages(), Seconds(0)).await?)
    }

    /// One that was confirmed just now is served at once.
    async fn note(&self, job: &Stored<Job>, next: Job) -> Result<(), PassError> {
        // Somebody who has changed the row meanwhile knows more about it.
        let writes = [job.change(next.clone()).into()];
        let is_noted = writes::commit_unless_changed(self.context.table, &writes).await?;
        if is_noted && next.is_demand() && !job.is_demand() {
            self.wake(&next.pool.iter().cloned().collect(), &[next]).await?;
        }
        Ok(())
    }
}

/// What GitHub showed of a job, and of its run where that was asked for.
struct Look {
    seen: Option<JobSeen>,
    run: Option<RunSeen>,
}

/// The runs that were asked for, by repository and number.
type Runs = BTreeMap<(Arc<str>, u64), Option<RunSeen>>;

/// Where GitHub is asked for a job.
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

/// Somebody who has changed the row meanwhile knows more about it.
fn unless_changed(done: Result<(), PassError>) -> Result<(), PassError> {
    match done {
        Err(PassError::Commit(CommitError::Conflict)) => Ok(()),
        other => other,
    }
}

/// The last attempt of each event of which no attempt arrived, the oldest first.
fn failed(listed: &[Delivery]) -> Vec<&Delivery> {
    let settled: BTreeSet<&str> =
        listed.iter().filter(|one| one.settled).map(|one| one.guid.as_str()).collect();
    let mut seen = BTreeSet::new();
    let mut failed: Vec<&Delivery> = listed
        .iter()
        .filter(|one| !settled.contains(one.guid.as_str()) && seen.insert(one.guid.as_str()))
        .collect();
    failed.reverse();
    failed
}

fn told(what: &str, trouble: &ProviderError) -> String {
    let error = with_causes(trouble);
    tracing::warn!(error, what, "GitHub did not answer a question of the sweep");
    what.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(id: u64, guid: &str, settled: bool) -> Delivery {
        let at = Time::from_millis(i64::try_from(id).expect("small") * 1000);
        Delivery { id, guid: guid.to_owned(), at, settled }
    }

    #[test]
    fn an_event_is_repeated_by_its_last_attempt_unless_one_arrived() {
        let listed = [
            delivery(9, "b", false),
            delivery(8, "a", true),
            delivery(7, "c", false),
            delivery(6, "b", false),
            delivery(5, "a", false),
            // Arrived, and then somebody pressed the button, and that one failed.
            delivery(4, "d", false),
            delivery(3, "d", true),
        ];
        let numbers: Vec<u64> = failed(&listed).iter().map(|one| one.id).collect();
        assert_eq!(numbers, [7, 9]);
    }
}
