//! The instance: our record of one slot, its machine and its runner, and the only functions that
//! change it.

mod failure;
mod keep;
mod last_words;
mod listing;
mod machine;
mod phases;
mod record;
pub mod registration;
mod runner;
mod state;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::keep::AfterEnd;
pub use self::last_words::console_text;
pub use self::listing::{Group, Groups};
pub use self::phases::{Ages, Pace, Phase, Phases, paces};
pub use self::record::{
    DeleteMark, DeleteReason, ErrorDetail, Event, Exit, JobTitle, Order, Runner, StartedJob,
    Waiting,
};
pub use self::registration::FailedRegistration;
pub use self::runner::{ReportError, Start, StartReport};
pub use self::state::{RunnerState, State, TRANSITIONS, Transition};

use crate::SCHEMA;
use crate::absence::Absence;
use crate::ec2::{ErrorClass, Make};
use crate::ids::{
    Entity, EntityKind, InstallationId, InstanceName, JobKey, LaunchId, MachineId, PoolName,
};
use crate::pool::Pool;
use crate::pool::limits::Scope;
use crate::text::first;
use crate::time::Time;
use crate::timings::Timings;

/// How many events a record keeps; older ones are in the logs.
const MAX_EVENTS: usize = 30;

/// Longest line of the story, characters: some quote others.
const MAX_EVENT: usize = 1200;

/// How many names of an ended instance GitHub is asked for.
const MAX_NAMES_LEFT: usize = 5;

/// How many of them are counted where a quota is used up: after two a slot has asked on each
/// market.
const QUOTA_ATTEMPTS: u32 = 2;
/// How many launch attempts a slot gets.
pub const LAUNCH_ATTEMPTS: u32 = 5;

/// What a launch plans for one slot.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The record's key.
    pub name: InstanceName,
    /// The pool it counts against.
    pub pool: PoolName,
    /// Where its runner will be registered.
    pub entity: Entity,
    /// The App installation to use.
    pub installation: Option<InstallationId>,
    /// The launch it belongs to.
    pub launch: LaunchId,
    /// The job it is launched for.
    pub claim: Option<JobKey>,
}

/// The record of an instance.
///
/// `state` is private: it changes through the functions of this module alone, and those follow
/// [`TRANSITIONS`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Instance {
    /// Version of the record's form.
    pub schema: u16,
    /// The key.
    pub name: InstanceName,
    state: State,
    since: Time,
    /// When the record was made.
    pub created_at: Time,
    /// The pool it counts against.
    pub pool: PoolName,
    /// Where its runner is registered.
    pub entity: Entity,
    /// The App installation to use.
    pub installation: Option<InstallationId>,
    /// When it joined the launch that it belongs to, where that is not its first.
    pub relaunched_at: Option<Time>,
    /// The launch that its machine comes from.
    pub launch: LaunchId,
    /// The version of that launch's template, where it is known.
    pub template_version: Option<Arc<str>>,
    /// The id of the role that its machine signs with; none for the stack's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Arc<str>>,
    /// The counters of limits that it is counted in, beside its pool's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted_in: Vec<Scope>,
    /// The pool's generation at that launch.
    pub pool_generation: u64,
    /// Launched to find out whether a failure lasts: its success is reported at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_probe: bool,
    machine: Option<MachineId>,
    /// When the machine was bound.
    pub bound_at: Option<Time>,
    /// What the machine is.
    #[serde(default, skip_serializing_if = "Make::is_unknown")]
    pub make: Make,
    /// It was bought for a job: it had a claim when it came.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bought_for_job: bool,
    /// When it stopped costing, by EC2's own event: the earliest that was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// When its machine got how far since then.
    #[serde(default, skip_serializing_if = "Phases::is_empty")]
    pub phases: Phases,
    claim: Option<JobKey>,
    /// When the present claim was made.
    pub claimed_at: Option<Time>,
    /// It sat idle beside the queued job that it claimed: GitHub does not give it such jobs.
    pub passed_over: bool,
    /// The runner on the machine.
    pub runner: Runner,
    /// Registrations of its runner that failed since the last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unregistered: Option<FailedRegistration>,
    mark: Option<DeleteMark>,
    order: Option<Order>,
    /// Failed launch attempts; after binding, failed terminations.
    pub attempts: u32,
    /// What the last refusal of a launch was.
    pub refused: Option<ErrorClass>,
    /// The last error of a provider.
    pub last_error: Option<ErrorDetail>,
    /// EC2 does not know the machine, since when and until which look.
    pub absence: Option<Absence>,
    /// When EC2 announced that it takes the machine back.
    pub spot_notice_at: Option<Time>,
    /// Until when its machine is kept for a look: its job failed, and its pool wants that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Time>,
    /// The end of its console, of a machine whose runner was never there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<String>,
    due_at: Option<Time>,
    wake: Option<u64>,
    /// Newest last.
    pub events: Arc<Vec<Event>>,
}

/// So that a rule takes plain records and stored ones.
impl AsRef<Self> for Instance {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Instance {
    /// A new slot of a launch that is being committed. It passes through `pending_create`: the
    /// commit that makes the record is the one that leases the launch to the caller.
    #[must_use]
    pub fn planned(slot: Slot, now: Time, timings: &Timings) -> Self {
        let claimed_at = slot.claim.map(|_| now);
        // The job's installation is its organization's, and cannot act for the enterprise.
        let is_of_enterprise = slot.entity.kind() == EntityKind::Enterprise;
        let mut instance = Self {
            schema: SCHEMA,
            name: slot.name,
            state: State::PendingCreate,
            since: now,
            created_at: now,
            pool: slot.pool,
            entity: slot.entity,
            installation: slot.installation.filter(|_| !is_of_enterprise),
            relaunched_at: None,
            launch: slot.launch,
            template_version: None,
            role: None,
            counted_in: Vec::new(),
            pool_generation: 0,
            is_probe: false,
            machine: None,
            bound_at: None,
            make: Make::default(),
            bought_for_job: false,
            ended_at: None,
            phases: Phases::default(),
            claim: slot.claim,
            claimed_at,
            passed_over: false,
            runner: Runner {
                state: RunnerState::Pending,
                since: now,
                n: 0,
                asking_since: None,
                id: None,
                agent: None,
                started: None,
                github_job: None,
                ran: None,
                ran_title: None,
                github_completed_at: None,
                failed: false,
                exit: None,
            },
            unregistered: None,
            mark: None,
            order: None,
            attempts: 0,
            refused: None,
            last_error: None,
            absence: None,
            spot_notice_at: None,
            kept_until: None,
            console: None,
            due_at: None,
            wake: None,
            events: Arc::default(),
        };
        instance.tell(
            now,
            match slot.claim {
                Some(job) => format!("pending_create: planned for job {job}"),
                None => "pending_create: planned".to_owned(),
            },
        );
        instance.move_to(State::Creating, now, "launch committed");
        instance.due_at = Some(now + timings.creating_lease_seconds);
        instance
    }

    /// When its launch began: a machine cannot be older. The record may be, by hours, if EC2 had no
    /// capacity.
    #[must_use]
    pub fn launched_at(&self) -> Time {
        self.relaunched_at.unwrap_or(self.created_at)
    }

    /// Where it is in its life.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Since when it is in this state.
    #[must_use]
    pub const fn since(&self) -> Time {
        self.since
    }

    /// The machine bound to it.
    #[must_use]
    pub const fn machine(&self) -> Option<&MachineId> {
        self.machine.as_ref()
    }

    /// The job it claims.
    #[must_use]
    pub const fn claim(&self) -> Option<JobKey> {
        self.claim
    }

    /// The delete mark.
    #[must_use]
    pub const fn mark(&self) -> Option<&DeleteMark> {
        self.mark.as_ref()
    }

    /// The operator's order.
    #[must_use]
    pub const fn order(&self) -> Option<&Order> {
        self.order.as_ref()
    }

    /// When a pass must look at it again. Every live record has such a time.
    #[must_use]
    pub const fn due_at(&self) -> Option<Time> {
        self.due_at
    }

    /// The nonce of the one message that may hide itself for this row, so that wake-up chains never
    /// multiply.
    #[must_use]
    pub const fn wake_nonce(&self) -> Option<u64> {
        self.wake
    }

    /// Gives the right to hide to another message, or to none.
    pub fn set_wake(&mut self, nonce: Option<u64>) {
        if self.wake != nonce {
            self.wake = nonce;
        }
    }

    /// The name of its newest registration.
    #[must_use]
    pub fn runner_name(&self) -> String {
        crate::ids::runner_name(&self.name, self.runner.n)
    }

    /// Ordered with force.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.force)
    }

    /// Ordered to kill a running job, or older than its pool allows: the only two that skip the
    /// kill gate with a job on the machine.
    #[must_use]
    pub fn may_kill_job(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.kill_running_job)
            || self.mark.as_ref().is_some_and(|mark| mark.reason == DeleteReason::MaxLifetime)
    }

    /// Who ends a running job, and why: whoever ordered it, or the machine's age.
    #[must_use]
    pub fn killer(&self) -> (&str, &str) {
        let order = self.order.as_ref().filter(|order| order.kill_running_job);
        order.map_or(("muster", "max lifetime"), |order| (&order.by, &order.reason))
    }

    /// Could take a job that has no claim yet.
    #[must_use]
    pub fn is_free_supply(&self) -> bool {
        self.claim.is_none() && self.may_take_a_job()
    }

    /// Could still take a job, its own or another. While EC2 denies its machine no job is to wait
    /// for it: that the machine is gone takes long to be certain.
    #[must_use]
    pub(crate) fn may_take_a_job(&self) -> bool {
        self.state.is_serving()
            && self.mark.is_none()
            && self.absence.is_none()
            // Active without a known job: GitHub called it busy.
            && self.runner.state <= RunnerState::Idle
            && !self.passed_over
            && self.runner.exit.is_none()
            && !self.runner.has_taken_job()
    }

    /// One of the free runners that its pool wants idle: registered where its runners belong now,
    /// and launched as its machines are now.
    #[must_use]
    pub fn is_kept_idle_by(&self, pool: &Pool) -> bool {
        self.is_free_supply()
            && pool.entity.as_ref() == Some(&self.entity)
            && !self.is_outdated(pool)
    }

    /// Marked because it was idle for long, and nothing is decided: GitHub gives it a job as
    /// before, and another machine for that job would come in vain.
    #[must_use]
    pub fn may_be_kept(&self) -> bool {
        self.state == State::Running
            && self.mark.as_ref().is_some_and(|mark| mark.reason == DeleteReason::Idle)
            && Self { mark: None, ..self.clone() }.is_free_supply()
    }

    /// Its hook has reported a job, and GitHub has not said which one. No claim says so either.
    #[must_use]
    pub fn has_untold_job(&self) -> bool {
        self.state.is_serving()
            && self.claim.is_none()
            && self.mark.is_none()
            && self.runner.exit.is_none()
            && self.runner.started.is_some()
            && self.runner.github_job.is_none()
            && self.runner.github_completed_at.is_none()
    }

    /// The names under which GitHub may still show an instance that has ended. A runner that ran a
    /// job is removed by GitHub itself with the job's end, and only then: one whose agent ended
    /// without a job stays, offline, for a day. An earlier name is one whose registration was never
    /// answered.
    #[must_use]
    pub fn names_left(&self) -> Vec<String> {
        let deregistered = self.mark.as_ref().is_some_and(|mark| mark.deregistered);
        let removed = deregistered || self.runner.has_taken_job();
        let last = if removed { self.runner.n.saturating_sub(1) } else { self.runner.n };
        (1..=last)
            .rev()
            .take(MAX_NAMES_LEFT)
            .map(|n| crate::ids::runner_name(&self.name, n))
            .collect()
    }

    /// What it is launched from, and for: the pool as it stands now.
    pub fn launched_from(&mut self, pool: &Pool) {
        self.template_version = Some(pool.launch_template_version.clone());
        self.role = pool.machine_role().cloned();
        self.pool_generation = pool.generation;
    }

    /// Launched from another version of the launch template than its pool has now, or before the
    /// pool's machines were said to be something else; or its pool serves no job any more.
    #[must_use]
    pub fn is_outdated(&self, pool: &Pool) -> bool {
        let version = &pool.launch_template_version;
        self.template_version.as_ref().is_some_and(|own| own != version)
            || self.pool_generation < pool.machines_since
            || !pool.enabled
            || pool.is_removed()
    }

    /// Claims a job.
    pub fn set_claim(&mut self, job: JobKey, now: Time) {
        self.claim = Some(job);
        self.claimed_at = Some(now);
        self.tell(now, format!("claims job {job}"));
    }

    /// Ends the claim.
    pub fn clear_claim(&mut self, now: Time, why: &str) {
        if let Some(job) = self.claim.take() {
            self.claimed_at = None;
            self.tell(now, format!("claim on job {job} ends: {why}"));
        }
    }

    /// Sets when the next pass is due.
    pub fn set_due(&mut self, at: Time) {
        if self.due_at != Some(at) {
            self.due_at = Some(at);
        }
    }

    /// Makes the next pass due at this time, if it is due later. A row that is not due stays so.
    pub(crate) fn bring_due_forward(&mut self, at: Time) {
        self.due_at = self.due_at.map(|due| due.min(at));
    }

    /// Makes the next pass due at this time, if it is due later or not at all.
    fn set_due_by(&mut self, at: Time) {
        self.due_at = Some(self.due_at.map_or(at, |due| due.min(at)));
    }

    /// Adds a line to the story.
    pub fn tell(&mut self, at: Time, what: String) {
        let events = Arc::make_mut(&mut self.events);
        events.push(Event { at, what: first(&what, MAX_EVENT).into() });
        if events.len() > MAX_EVENTS {
            events.remove(0);
        }
    }

    /// The one place where `state` is written.
    fn move_to(&mut self, to: State, now: Time, why: &str) {
        assert!(
            self.state.may_become(to),
            "instance {}: {} may not become {to} ({why})",
            self.name,
            self.state
        );
        self.state = to;
        self.since = now;
        self.tell(now, format!("{to}: {why}"));
    }
}

#[cfg(test)]
pub(crate) mod tests;
