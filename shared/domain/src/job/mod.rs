//! Jobs, and the fold that makes one of any number of events in any order.

pub mod claim;
pub mod explain;
pub mod labels;
pub mod untold;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ec2::CooldownScope;
use crate::ids::{Entity, InstallationId, InstanceName, JobKey, PoolName};
use crate::job::labels::Labels;
use crate::time::{Seconds, Time};

/// Where GitHub is with a job. The order is the rank: a job only moves up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Held back by a deployment protection rule; no machine is needed yet.
    Waiting,
    /// Needs a runner.
    Queued,
    /// A runner took it.
    InProgress,
    /// Over, however it ended.
    Completed,
}

/// What one `workflow_job` delivery says. This is also the message on the jobs queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobEvent {
    /// Which job.
    pub key: JobKey,
    /// The status that this event reports.
    pub status: JobStatus,
    /// `owner/repo`, for people and for GitHub's paths.
    pub repository: Arc<str>,
    /// Whether the repository is private. Jobs of public ones are refused by default.
    pub private: bool,
    /// Whether a person rather than an organization owns the repository: its runners can only be
    /// registered at the repository itself.
    #[serde(default)]
    pub user_owned: bool,
    /// The App's installation that sent the event.
    pub installation: Option<InstallationId>,
    /// The workflow run and its attempt.
    pub run: u64,
    /// See `run`.
    pub attempt: u32,
    /// The job's name. Text of the workflow's author: shown, never interpreted.
    pub name: Arc<str>,
    /// The labels of `runs-on`. Empty in some `completed` events (ARC #1370).
    pub labels: Labels,
    /// The runner that took the job, by name.
    pub runner: Option<String>,
    /// How it ended.
    pub conclusion: Option<String>,
    /// When GitHub queued the job.
    pub queued_at: Option<Time>,
    /// When a runner took it.
    pub started_at: Option<Time>,
    /// When it ended.
    pub completed_at: Option<Time>,
}

/// Why no launch is tried for a job right now, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// No launch before this time.
    pub until: Time,
    /// What went wrong, in a sentence.
    pub reason: String,
    /// How many instances were lost for this job so far.
    pub failures: u32,
    /// What EC2 refuses, where that is the reason: the hold is over as soon as that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<CooldownScope>,
}

/// A job that waits for an approval is given up after this long. GitHub itself ends it after 30
/// days (its documentation, "Reviewing deployments"); a day more is no harm.
pub const GATE_EXPIRY: Seconds = Seconds(31 * 24 * 3600);

/// A job that is said to wait for an approval, and of which GitHub could not be asked, is asked for
/// again after this long: until then a machine may come for it in vain.
const DOUBT_LASTS: Seconds = Seconds(300);

/// What is known of the approval that a job waits for. GitHub says `queued` first, then `waiting`,
/// and `queued` again once somebody has approved (RunsOn #539). Deliveries come late and in any
/// order, so one that says `waiting` is a reason to ask; only GitHub's own answer closes the gate.
/// `queued` opens it at once, whatever was said before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// It was said, at this time, that the job waits; GitHub is to be asked. The job is served
    /// meanwhile.
    Told(Time),
    /// GitHub was asked after that, and says so too: the job needs no machine.
    Closed(Time),
}

/// A connected runner idled beside a job in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassedOver {
    /// How many runners did.
    pub times: u32,
    /// When the last one was given up.
    pub at: Time,
}

impl PassedOver {
    /// One more.
    #[must_use]
    pub const fn again(before: Option<Self>, at: Time) -> Self {
        let times = match before {
            Some(before) => before.times + 1,
            None => 1,
        };
        Self { times, at }
    }
}

/// How a job came to a pool that was not the first choice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moved {
    /// The pool that had no room for it.
    pub from: PoolName,
    /// When.
    pub at: Time,
    /// What stood in the way there, in a sentence.
    pub why: String,
}

/// The record of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// Version of the record's form.
    pub schema: u16,
    /// All that GitHub said, merged.
    #[serde(flatten)]
    pub last_event: JobEvent,
    /// When the first event reached us.
    pub seen_at: Time,
    /// The pool that serves the job.
    pub pool: Option<PoolName>,
    /// Why no pool serves it, if none does.
    pub unmatched: Option<String>,
    /// The instance that is to serve it. Not a binding: GitHub gives a job to any matching runner.
    pub claim: Option<InstanceName>,
    /// Set while launching for this job is held back.
    pub hold: Option<Hold>,
    /// Connected runners idled beside it, and GitHub gave it to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<PassedOver>,
    /// Set when the job was given up as expired; it needs no runner any more.
    pub expired: bool,
    /// Its last move to another pool.
    #[serde(default)]
    pub moved: Option<Moved>,
    /// When GitHub was last asked for the job, because nothing had been heard of it for long.
    #[serde(default)]
    pub asked_at: Option<Time>,
    /// When we first heard that it was queued. Before, it may have waited for days for somebody's
    /// approval.
    #[serde(default)]
    pub queued_seen_at: Option<Time>,
    /// Set while it is known or said to wait for an approval, although it was queued before.
    #[serde(default)]
    pub gate: Option<Gate>,
}

/// So that a rule takes plain records and stored ones.
impl AsRef<Self> for Job {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Job {
    /// The job as another pool's. What held it back was about the pool that it leaves.
    #[must_use]
    pub fn moved_to(&self, pool: &PoolName, why: &str, now: Time) -> Self {
        let moved = self.pool.clone().map(|from| Moved { from, at: now, why: why.to_owned() });
        let hold = self.hold.clone().map(|hold| Hold { until: hold.until.min(now), ..hold });
        Self { pool: Some(pool.clone()), hold, passed_over: None, moved, ..self.clone() }
    }

    /// The job's key.
    #[must_use]
    pub const fn key(&self) -> JobKey {
        self.last_event.key
    }

    /// Where GitHub is with it, as far as we were told.
    #[must_use]
    pub const fn status(&self) -> JobStatus {
        self.last_event.status
    }

    /// Queued at GitHub and served by one of our pools: it must end in a runner, an end event or a
    /// reason.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.needs_runner() && self.pool.is_some()
    }

    /// Waits for an approval at GitHub. It needs no machine, is not late, and has 30 days.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        let closed = matches!(self.gate, Some(Gate::Closed(_)));
        let waits = self.status() == JobStatus::Waiting;
        (waits || self.status() == JobStatus::Queued && closed) && !self.expired
    }

    fn needs_runner(&self) -> bool {
        self.status() == JobStatus::Queued && !self.is_gated() && !self.expired
    }

    /// Queued, and no pool served it when it came. A pool that is applied later may.
    #[must_use]
    pub fn is_unmatched(&self) -> bool {
        self.needs_runner() && self.pool.is_none()
    }

    /// Waiting without a claim: the launch pass must find it a runner.
    #[must_use]
    pub fn is_demand(&self) -> bool {
        self.is_waiting() && self.claim.is_none()
    }

    /// Whether the launch pass may act for it now.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        self.is_demand() && self.hold.as_ref().is_none_or(|hold| hold.until <= now)
    }

    /// Whether it has waited for `silence` since anything was heard of it.
    #[must_use]
    pub fn is_silent(&self, silence: Seconds, now: Time) -> bool {
        let served = self.is_waiting() || self.is_gated() && self.pool.is_some();
        served && (self.is_in_doubt(now) || now.is_past(self.heard_at(), silence))
    }

    /// Said to wait for an approval, and GitHub was not asked since, or has not answered.
    fn is_in_doubt(&self, now: Time) -> bool {
        let Some(Gate::Told(at)) = self.gate else { return false };
        self.asked_at.is_none_or(|asked| asked < at || now.is_past(asked, DOUBT_LASTS))
    }

    /// When GitHub was asked about it last; when we heard of it, if it was not.
    #[must_use]
    pub fn heard_at(&self) -> Time {
        self.asked_at.unwrap_or_else(|| self.seen_at.max(self.queued_at()))
    }

    /// Since when it waits for an approval, as far as we know.
    #[must_use]
    pub fn gated_since(&self) -> Time {
        match self.gate {
            Some(Gate::Told(at) | Gate::Closed(at)) => at,
            None => self.seen_at,
        }
    }

    /// The job as GitHub's answer makes it, which calls it waiting. The first such answer is a
    /// reason to ask again: the `queued` of an approval may have come while it was under way, and
    /// have changed nothing. From then on it would open the gate, so a second one is believed.
    #[must_use]
    pub fn found_waiting(&self, now: Time) -> Self {
        let mut next = self.clone();
        if self.status() == JobStatus::Queued && !self.expired {
            next.gate = match self.gate {
                None => Some(Gate::Told(now)),
                Some(Gate::Told(at) | Gate::Closed(at)) => Some(Gate::Closed(at)),
            };
        }
        if next.is_gated() {
            next.asked_at = Some(now);
            // What held a launch back is no reason any more when it is queued again.
            (next.hold, next.passed_over) = (None, None);
        }
        next
    }

    /// When GitHub queued it; when we first heard of it where GitHub did not say.
    #[must_use]
    pub fn queued_at(&self) -> Time {
        self.last_event.queued_at.unwrap_or(self.seen_at)
    }

    /// Since when it could have had a runner: since GitHub queued it, or, after a wait for
    /// somebody's approval, since we heard that this was over. GitHub's own time is that of the
    /// job's creation, also then.
    #[must_use]
    pub fn waits_since(&self) -> Time {
        match self.queued_seen_at {
            Some(queued) if queued > self.seen_at => queued.max(self.queued_at()),
            _ => self.queued_at(),
        }
    }

    /// Where it stands among the waiting jobs of its pool. A job on hold stands where its time
    /// comes: many of them must not hide the others from a listing that is cut.
    #[must_use]
    pub fn listed_at(&self) -> Time {
        self.hold.as_ref().map_or(self.queued_at(), |hold| hold.until.max(self.queued_at()))
    }

    /// The runner that GitHub says took it, as an instance of ours.
    #[must_use]
    pub fn ran_on(&self) -> Option<InstanceName> {
        self.last_event.runner.as_deref().and_then(crate::ids::instance_of_runner)
    }

    /// Where runners for it are registered, unless its pool says otherwise.
    #[must_use]
    pub fn home(&self) -> Option<Entity> {
        let repository = &*self.last_event.repository;
        let (owner, _) = repository.split_once('/')?;
        if self.last_event.user_owned { repository } else { owner }.parse().ok()
    }

    /// The owner of the repository, as an entity.
    #[must_use]
    pub fn repository_entity(&self) -> Option<Entity> {
        self.last_event.repository.parse().ok()
    }
}

/// Merges an event into a job's record. Returns the record unchanged when the event says nothing new.
///
/// Order-free: every field is a join (the larger status, the earlier time, the text that is there),
/// so any order and any repetition of the same events ends in the same record. Deliveries are
/// late, doubled and out of order, and a late `queued` must not revive a job that has ended.
#[must_use]
pub fn fold(job: Option<Job>, event: JobEvent, now: Time) -> Job {
    let is_queued = |job: &Job| job.status() >= JobStatus::Queued;
    let Some(mut job) = job else {
        let queued_seen_at = (event.status >= JobStatus::Queued).then_some(now);
        return Job {
            schema: SCHEMA,
            last_event: event,
            seen_at: now,
            pool: None,
            unmatched: None,
            claim: None,
            hold: None,
            passed_over: None,
            expired: false,
            moved: None,
            asked_at: None,
            queued_seen_at,
            gate: None,
        };
    };
    let status = event.status;
    let said = join(job.last_event.clone(), event);
    if said != job.last_event {
        let was_queued = is_queued(&job);
        job.last_event = said;
        if !was_queued && is_queued(&job) {
            job.queued_seen_at = Some(now);
        }
    }
    if job.status() == JobStatus::Queued {
        turn_gate(&mut job, status, now);
    } else {
        job.gate = None;
    }
    job
}

/// What an event says about the approval of a job that is queued. `queued` is believed at once,
/// also of a job that was given up: at worst GitHub is asked once more. `waiting` may be older than
/// a `queued` that came before, and is a reason to ask.
fn turn_gate(job: &mut Job, said: JobStatus, now: Time) {
    if said == JobStatus::Queued && (job.gate.is_some() || job.expired) {
        if job.is_gated() || job.expired {
            job.queued_seen_at = Some(now);
        }
        if job.expired {
            // Its instance may be gone long since, and told nobody of a job that was given up.
            job.claim = None;
        }
        job.gate = None;
        job.expired = false;
    } else if said == JobStatus::Waiting && job.gate.is_none() && !job.expired {
        job.gate = Some(Gate::Told(now));
    }
}

fn join(a: JobEvent, b: JobEvent) -> JobEvent {
    JobEvent {
        key: a.key,
        status: a.status.max(b.status),
        repository: a.repository.max(b.repository),
        // Public once is public: the stricter reading wins.
        private: a.private && b.private,
        user_owned: a.user_owned || b.user_owned,
        installation: a.installation.max(b.installation),
        run: a.run.max(b.run),
        attempt: a.attempt.max(b.attempt),
        name: a.name.max(b.name),
        labels: a.labels.max(b.labels),
        runner: a.runner.max(b.runner),
        conclusion: a.conclusion.max(b.conclusion),
        queued_at: earlier(a.queued_at, b.queued_at),
        started_at: earlier(a.started_at, b.started_at),
        completed_at: earlier(a.completed_at, b.completed_at),
    }
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(status: JobStatus) -> JobEvent {
        let at = |millis| Some(Time::from_millis(millis));
        let started = status >= JobStatus::InProgress;
        JobEvent {
            key: JobKey { repository: 1, job: 2 },
            status,
            repository: "acme/web".into(),
            private: true,
            user_owned: false,
            installation: Some(InstallationId(7)),
            run: 3,
            attempt: 1,
            name: "build".into(),
            // Some `completed` events carry no labels.
            labels: match status {
                JobStatus::Completed => Labels::default(),
                _ => Labels::new(["linux"]),
            },
            runner: started.then(|| "default-x-0-1".into()),
            conclusion: (status == JobStatus::Completed).then(|| "success".into()),
            queued_at: at(1000),
            started_at: started.then(|| Time::from_millis(2000)),
            completed_at: (status == JobStatus::Completed).then(|| Time::from_millis(3000)),
        }
    }

    fn fold_all(events: &[JobEvent]) -> Job {
        let start = None;
        events
            .iter()
            .fold(start, |job, event| Some(fold(job, event.clone(), Time::from_millis(9000))))
            .expect("at least one event")
    }

    /// Every order of four events, each up to three times, in every interleaving of length twelve
    /// would be 369,600; all sequences of length seven over the four events cover the same joins.
    #[test]
    fn every_order_and_repetition_ends_in_the_same_job() {
        use JobStatus::{Completed, InProgress, Queued, Waiting};
        let events = [Waiting, Queued, InProgress, Completed].map(event);
        let expected = fold_all(&events);
        let mut seen_all = 0;
        for code in 0..4_u32.pow(7) {
            let picks: Vec<usize> = (0..7).map(|i| (code / 4_u32.pow(i) % 4) as usize).collect();
            if (0..4).all(|n| picks.contains(&n)) {
                let sequence: Vec<JobEvent> = picks.iter().map(|n| events[*n].clone()).collect();
                assert_eq!(fold_all(&sequence), expected, "{picks:?}");
                seen_all += 1;
            }
        }
        assert_eq!(seen_all, 8400);
    }

    #[test]
    fn a_repeated_event_changes_nothing() {
        let once = fold(None, event(JobStatus::Queued), Time::from_millis(1));
        let twice = fold(Some(once.clone()), event(JobStatus::Queued), Time::from_millis(2));
        assert_eq!(once, twice);
    }

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn pooled(status: JobStatus, now: Time) -> Job {
        Job { pool: Some("default".parse().expect("a name")), ..fold(None, event(status), now) }
    }

    #[test]
    fn a_delivery_that_says_waiting_is_a_reason_to_ask_and_hides_nothing() {
        let hour = Seconds(3600);
        let queued = pooled(JobStatus::Queued, at(10));
        assert!(!queued.is_silent(hour, at(20)));
        let told = fold(Some(queued), event(JobStatus::Waiting), at(20));
        assert!(told.is_demand() && !told.is_gated(), "it may have come late");
        assert!(told.is_silent(hour, at(21)), "GitHub is asked at once");
        assert_eq!(fold(Some(told.clone()), event(JobStatus::Waiting), at(30)), told);
        let asked = Job { asked_at: Some(at(25)), ..told.clone() };
        assert!(!asked.is_silent(hour, at(26)), "and, without an answer, not again at once");
        assert!(asked.is_silent(hour, at(326)), "but long before a job that is only silent");
        let again = fold(Some(told), event(JobStatus::Queued), at(30));
        assert_eq!((again.gate, again.is_demand()), (None, true));
    }

    #[test]
    fn the_second_answer_of_github_closes_the_gate_and_queued_opens_it() {
        let once = pooled(JobStatus::Queued, at(10)).found_waiting(at(100));
        assert!(once.is_demand() && once.is_silent(Seconds(3600), at(101)));
        // The approval came while GitHub was asked for the first time.
        let approved = fold(Some(once.clone()), event(JobStatus::Queued), at(102));
        assert_ne!(approved, once, "an answer that is older than it must not be stored");
        let hold = Hold { until: at(900), reason: "its machine".into(), failures: 3, closed: None };
        let closed = Job { hold: Some(hold), ..once }.found_waiting(at(160));
        assert!(closed.is_gated() && !closed.is_waiting() && !closed.is_unmatched());
        assert_eq!((closed.hold.clone(), closed.gated_since()), (None, at(100)));
        let open = fold(Some(closed), event(JobStatus::Queued), at(5000));
        assert!(open.is_demand() && !open.is_gated());
        assert_eq!(open.waits_since(), at(5000), "nobody was late before");
    }

    #[test]
    fn a_job_that_was_given_up_is_revived_when_it_is_queued_again() {
        for status in [JobStatus::Waiting, JobStatus::Queued] {
            let gone = Job { expired: true, ..pooled(status, at(10)) };
            assert!(!gone.is_waiting() && !gone.is_gated());
            let back = fold(Some(gone), event(JobStatus::Queued), at(5000));
            assert!(back.is_demand(), "{status:?}");
            assert_eq!(back.waits_since(), at(5000));
        }
    }

    #[test]
    fn a_late_queued_does_not_revive_an_ended_job() {
        let ended = fold(None, event(JobStatus::Completed), Time::from_millis(1));
        let job = fold(Some(ended), event(JobStatus::Queued), Time::from_millis(2));
        assert_eq!(job.status(), JobStatus::Completed);
        assert!(!job.is_waiting());
    }
}
