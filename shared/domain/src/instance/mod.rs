//! The instance: our record of one slot, its machine and its runner, and the only functions that
//! change it.

mod build;
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
mod used;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::build::{Baked, BootMethod, BuildPart};
pub use self::keep::AfterEnd;
pub use self::last_words::console_text;
pub use self::listing::{Group, Groups};
pub use self::phases::{Ages, Pace, Phase, Phases, paces};
pub use self::record::{
    DeleteMark, DeleteOrder, DeleteReason, Event, Exit, JobTitle, Runner, StartedJob, StopCause,
    Waiting,
};
pub use self::registration::FailedRegistration;
pub use self::runner::{ReportError, Start, StartReport};
pub use self::state::{RunnerState, State, TRANSITIONS, Transition};
pub use self::used::Used;

use crate::SCHEMA;
use crate::absence::Absence;
use crate::ec2::{ErrorClass, Make};
use crate::ids::{
    Entity, EntityKind, ImageId, InstallationId, InstanceName, JobKey, LaunchId, MachineId,
    PoolName,
};
use crate::pool::Pool;
use crate::pool::limits::Scope;
use crate::provider::ErrorDetail;
use crate::text::first;
use crate::time::Time;
use crate::timings::Timings;

/// Maximum number of events in a record; older ones are only in the logs.
const MAX_EVENTS: usize = 30;

/// Maximum length of an event, in characters: some events quote external text.
const MAX_EVENT: usize = 1200;

/// Maximum number of an ended instance's runner names to look up at GitHub.
const MAX_NAMES_LEFT: usize = 5;

/// Number of quota refusals that count as launch attempts: after two, a slot has tried each market.
const QUOTA_ATTEMPTS: u32 = 2;
/// Maximum number of launch attempts of a slot.
pub const LAUNCH_ATTEMPTS: u32 = 5;

/// The plan for one slot of a launch.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The instance record's key.
    pub name: InstanceName,
    /// The pool that counts it.
    pub pool: PoolName,
    /// Where to register its runner.
    pub entity: Entity,
    /// The App installation to use.
    pub installation: Option<InstallationId>,
    /// The launch that includes it.
    pub launch: LaunchId,
    /// The job it is launched for.
    pub claim: Option<JobKey>,
}

/// The record of an instance.
///
/// `state` is private: only the functions of this module change it, and they follow
/// [`TRANSITIONS`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Instance {
    /// The record's schema version.
    pub schema: u16,
    /// The record's key.
    pub name: InstanceName,
    state: State,
    since: Time,
    /// When the record was created.
    pub created_at: Time,
    /// The pool that counts it.
    pub pool: PoolName,
    /// Where its runner is registered.
    pub entity: Entity,
    /// The App installation to use.
    pub installation: Option<InstallationId>,
    /// When it joined its current launch, if that is not its first.
    pub relaunched_at: Option<Time>,
    /// The launch that its machine belongs to.
    pub launch: LaunchId,
    /// The version of that launch's template, if known.
    pub template_version: Option<Arc<str>>,
    /// The ID of the role that its machine signs with. `None` means the stack's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Arc<str>>,
    /// The limit counters that include it, in addition to its pool's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted_in: Vec<Scope>,
    /// The pool's generation at that launch.
    pub pool_generation: u64,
    /// Whether the job it was launched for gets an On-Demand machine first ([`Pool::prefers_on_demand`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefers_on_demand: bool,
    /// Whether it was launched to test if a failure persists. Its success is then reported
    /// immediately.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_probe: bool,
    /// The image that it was launched with, if Muster built it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageId>,
    /// Its part in the build of an image, if it was launched for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildPart>,
    machine: Option<MachineId>,
    /// When the machine was bound.
    pub bound_at: Option<Time>,
    /// Instance type, zone and market of the machine.
    #[serde(default, skip_serializing_if = "Make::is_unknown")]
    pub make: Make,
    /// Whether it had a claim when its machine launched, so that the machine was bought for a job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bought_for_job: bool,
    /// When the machine stopped costing money: the earliest end that EC2 reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// When its machine reached each boot phase.
    #[serde(default, skip_serializing_if = "Phases::is_empty")]
    pub phases: Phases,
    claim: Option<JobKey>,
    /// When the current claim was made.
    pub claimed_at: Option<Time>,
    /// Whether it idled while the job that it claimed stayed queued: GitHub does not assign it such
    /// jobs.
    pub passed_over: bool,
    /// The runner on the machine.
    pub runner: Runner,
    /// Failed attempts to register its runner since the last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unregistered: Option<FailedRegistration>,
    mark: Option<DeleteMark>,
    order: Option<DeleteOrder>,
    /// Number of failed launch attempts; after binding, of failed terminations.
    pub attempts: u32,
    /// The class of the last launch refusal.
    pub refused: Option<ErrorClass>,
    /// The last error from EC2 or GitHub.
    pub last_error: Option<ErrorDetail>,
    /// The period in which EC2 has denied knowing the machine.
    pub absence: Option<Absence>,
    /// When EC2 announced a Spot interruption.
    pub spot_notice_at: Option<Time>,
    /// Until when its machine is kept for inspection, because its job failed and its pool asks for
    /// that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Time>,
    /// The end of the console output, for a machine whose runner never came up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<String>,
    due_at: Option<Time>,
    wake: Option<u64>,
    /// The events, newest last.
    pub events: Arc<Vec<Event>>,
}

/// Lets rules accept both plain and stored records.
impl AsRef<Self> for Instance {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Instance {
    /// Creates the record of a new slot in a launch that is being committed. It passes through
    /// `pending_create`: the commit that creates the record also leases the launch to the caller.
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
            prefers_on_demand: false,
            is_probe: false,
            image: None,
            build: None,
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
                interrupted_at: None,
                used: None,
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

    /// Returns when its launch began; its machine cannot be older. The record can be hours older if
    /// EC2 had no capacity.
    #[must_use]
    pub fn launched_at(&self) -> Time {
        self.relaunched_at.unwrap_or(self.created_at)
    }

    /// Returns the state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns when it entered this state.
    #[must_use]
    pub const fn since(&self) -> Time {
        self.since
    }

    /// Returns the bound machine.
    #[must_use]
    pub const fn machine(&self) -> Option<&MachineId> {
        self.machine.as_ref()
    }

    /// Returns the job that it claims.
    #[must_use]
    pub const fn claim(&self) -> Option<JobKey> {
        self.claim
    }

    /// Returns the delete mark.
    #[must_use]
    pub const fn mark(&self) -> Option<&DeleteMark> {
        self.mark.as_ref()
    }

    /// Returns the operator's order.
    #[must_use]
    pub const fn order(&self) -> Option<&DeleteOrder> {
        self.order.as_ref()
    }

    /// Returns when the next pass is due. Every live record has such a time.
    #[must_use]
    pub const fn due_at(&self) -> Option<Time> {
        self.due_at
    }

    /// Returns the nonce of the one message that may re-delay itself for this record. This keeps
    /// wake-up chains from multiplying.
    #[must_use]
    pub const fn wake_nonce(&self) -> Option<u64> {
        self.wake
    }

    /// Sets which message may re-delay itself, if any.
    pub fn set_wake(&mut self, nonce: Option<u64>) {
        if self.wake != nonce {
            self.wake = nonce;
        }
    }

    /// Returns the name of its newest registration.
    #[must_use]
    pub fn runner_name(&self) -> String {
        crate::ids::runner_name(&self.name, self.runner.n)
    }

    /// Returns whether its delete was ordered with force.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.force)
    }

    /// Returns whether a running job may be killed: an operator ordered that, or the machine
    /// exceeds its pool's maximum lifetime. Only then can a machine with a job skip the kill gate.
    #[must_use]
    pub fn may_kill_job(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.kill_running_job)
            || self.mark.as_ref().is_some_and(|mark| mark.reason == DeleteReason::MaxLifetime)
    }

    /// Returns who kills the running job and why: the operator who ordered it, or Muster because of
    /// the machine's age.
    #[must_use]
    pub fn killer(&self) -> (&str, &str) {
        let order = self.order.as_ref().filter(|order| order.kill_running_job);
        order.map_or(("muster", "max lifetime"), |order| (&order.by, &order.reason))
    }

    /// Returns whether it can take a job that has no claim yet.
    #[must_use]
    pub fn is_free_supply(&self) -> bool {
        self.claim.is_none() && self.may_take_a_job()
    }

    /// Returns whether it can still take a job, its claimed one or any other. While EC2 denies
    /// knowing its machine, no job should wait for it, because confirming the machine's end takes
    /// long.
    #[must_use]
    pub(crate) fn may_take_a_job(&self) -> bool {
        self.state.is_serving()
            && self.build.is_none()
            && self.mark.is_none()
            && self.absence.is_none()
            // Active without a known job: GitHub called it busy.
            && self.runner.state <= RunnerState::Idle
            && !self.passed_over
            && self.runner.exit.is_none()
            && !self.runner.has_taken_job()
    }

    /// Returns whether it counts towards the idle runners that its pool keeps: free, registered at
    /// the pool's current entity, and launched with its current machine configuration.
    #[must_use]
    pub fn is_kept_idle_by(&self, pool: &Pool) -> bool {
        self.is_free_supply()
            && pool.entity.as_ref().is_some_and(|entity| entity.same_as(&self.entity))
            && !self.is_outdated(pool)
    }

    /// Returns whether it is marked only for idling too long. GitHub can still give it a job, and a
    /// new machine for that job would be wasted.
    #[must_use]
    pub fn may_be_kept(&self) -> bool {
        self.state == State::Running
            && self.mark.as_ref().is_some_and(|mark| mark.reason == DeleteReason::Idle)
            && Self { mark: None, ..self.clone() }.is_free_supply()
    }

    /// Returns whether its hook reported a job that no claim or GitHub event identifies yet.
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

    /// Returns the runner names that GitHub may still show for an ended instance. GitHub removes a
    /// runner on its own only when its job ends; a runner whose agent ended without a job stays,
    /// offline, for a day. Earlier names belong to registrations whose responses were lost.
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

    /// Records the pool configuration that it is launched from, and the image if Muster built it.
    pub fn launched_from(&mut self, pool: &Pool, image: Option<&ImageId>) {
        self.image = image.cloned();
        self.template_version = Some(pool.launch_template_version.clone());
        self.role = pool.machine_role().cloned();
        self.pool_generation = pool.generation;
    }

    /// Returns whether its machine no longer matches its pool: a different launch template version,
    /// a generation before the last change of machines, or a pool that is disabled or removed.
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

    /// Makes the next pass due at this time, if it is due later. Has no effect if no pass is due.
    pub(crate) fn bring_due_forward(&mut self, at: Time) {
        self.due_at = self.due_at.map(|due| due.min(at));
    }

    /// Makes the next pass due at this time, if it is due later or not at all.
    fn set_due_by(&mut self, at: Time) {
        self.due_at = Some(self.due_at.map_or(at, |due| due.min(at)));
    }

    /// Adds an event.
    pub fn tell(&mut self, at: Time, what: String) {
        let events = Arc::make_mut(&mut self.events);
        events.push(Event { at, what: first(&what, MAX_EVENT).into() });
        if events.len() > MAX_EVENTS {
            events.remove(0);
        }
    }

    /// Changes the state. All writes of `state` go through this function.
    fn move_to(&mut self, to: State, now: Time, why: &str) {
        assert!(
            self.state.may_become(to),
            "instance {}: {} cannot become {to} ({why})",
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
