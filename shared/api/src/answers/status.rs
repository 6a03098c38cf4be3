//! Responses about the stack as a whole.

use std::borrow::Cow;
use std::collections::BTreeMap;

use muster_domain::agent::AgentVersion;
use muster_domain::app::AppCheck;
use muster_domain::audit::Audit;
use muster_domain::ids::{AppName, Entity, InstanceName, LaunchId, MachineId, PoolName};
use muster_domain::instance::{Groups, Waiting};
use muster_domain::job::labels::LabelRows;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::launch::record::trouble::Trouble;
use muster_domain::orphan::Orphan;
use muster_domain::pool::limits::Scope;
use muster_domain::provider::ErrorDetail;
use muster_domain::switches::SwitchedOff;
use muster_domain::time::{Seconds, Time};
use serde::{Deserialize, Serialize};

use super::finding::{Finding, Severity};
use super::orders::ShownSwitches;

/// A summary of the stack, without a call to GitHub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overview {
    /// The stack's name.
    pub stack: String,
    /// The release of the function that answered.
    pub release: Cow<'static, str>,
    /// The version of the records that it writes.
    pub record_version: u16,
    /// When this was read.
    pub now: Time,
    /// The pools, in the order of the pool file.
    pub pools: Vec<PoolStatus>,
    /// Jobs that no pool serves.
    pub unserved: UnservedJobs,
    /// Jobs that wait for an approval on GitHub.
    pub waiting_for_approval: UnservedJobs,
    /// The limits of stack and entities.
    pub limits: Vec<LimitStatus>,
    /// The switches that are off.
    pub switches: ShownSwitches,
    /// The agents that run jobs.
    #[serde(default)]
    pub agents: AgentsStatus,
    /// When the App was last checked. `None` before the first check.
    #[serde(default)]
    pub app_checked_at: Option<Time>,
    /// Findings that need attention, errors first.
    pub findings: Vec<Finding>,
}

/// The stack, its pools, entities, orphans and switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackStatus {
    /// The summary.
    #[serde(flatten)]
    pub overview: Overview,
    /// EC2's current refusals, which pause launches; absent if it never refused one.
    pub cooldowns: Option<Vec<Cooldown>>,
    /// The latest audit lines about switches, newest first.
    pub switched: Vec<Audit>,
    /// Entities that a pool names or that GitHub denies or limits.
    pub entities: Vec<EntityStatus>,
    /// The orphan ledger.
    pub orphans: Vec<OrphanStatus>,
}

/// The agents that machines have reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentsStatus {
    /// The newest agent that GitHub lists.
    pub newest: Option<AgentVersion>,
    /// Images whose agent is not the newest.
    pub images: Vec<ImageAgent>,
}

/// The agent in a pool's image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageAgent {
    /// The pool.
    pub pool: PoolName,
    /// The agent's version.
    pub version: AgentVersion,
    /// When GitHub stops accepting it at the latest; absent if it has stopped already, so that each
    /// machine installs the newest agent before its runner starts.
    pub until: Option<Time>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: PoolName,
    /// Its sets of labels, one for each kind of job.
    pub labels: LabelRows,
    /// The entity its runners register with; absent if that depends on the job.
    pub entity: Option<Entity>,
    /// Pools with a higher priority are chosen first.
    pub priority: u32,
    /// Whether it accepts new jobs.
    pub enabled: bool,
    /// Maximum number of live instances.
    pub max: u32,
    /// Number of idle runners that it keeps.
    pub min_idle: u32,
    /// Until when an event keeps more of them, and which: `kept warm until 10:15:00 for a push to
    /// main of acme/app`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<String>,
    /// Number of live instances, from the counter that enforces the maximum.
    pub live: u32,
    /// Live instances by group, from the pool's listing, which may be slightly stale.
    #[serde(flatten)]
    pub groups: Groups,
    /// The first instance whose end takes long and that does not wait for a job.
    pub late_end: Option<EndingStatus>,
    /// The machines that EC2 refuses to terminate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_ends: Option<RefusedEnds>,
    /// Number of waiting jobs, with and without a claim.
    pub waiting_jobs: usize,
    /// Seconds since when the oldest of them could have had a runner.
    pub oldest_waiting_job_seconds: Option<Seconds>,
    /// The switch that pauses its launches.
    pub launches_off: Option<SwitchedOff>,
    /// When it was removed from the pool file.
    pub removed_at: Option<Time>,
    /// The first reason why it launches no machine now.
    pub note: Option<Note>,
}

/// Why a pool launches no machine, in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Which reason.
    pub kind: NoteKind,
    /// The severity.
    pub severity: Severity,
    /// The text.
    pub message: String,
}

/// Why a pool launches no machine: the verdict's reasons, and settings of the pool file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum NoteKind {
    /// It was removed from the pool file.
    Removed,
    /// It is not enabled.
    Disabled,
    /// It no longer serves its first job.
    Unserved,
    /// An operator paused its launches.
    Paused,
    /// Its first job is younger than it requires, or a runner may have taken the job.
    JobAge,
    /// It is at its maximum.
    Maximum,
    /// A limit of the stack or of an entity is reached.
    Limit,
    /// Its machines never run a job.
    Failing,
    /// GitHub refuses or limits it.
    Github,
    /// GitHub does not assign its jobs to its idle runners.
    Withheld,
    /// EC2 refuses its launches.
    Ec2,
}

/// Machines that EC2 refuses to terminate: they use capacity that a higher maximum should not
/// replace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedEnds {
    /// Number of them among the instances that were read.
    pub count: usize,
    /// One of them.
    pub instance: InstanceName,
    /// EC2's last error about it.
    pub error: Option<ErrorDetail>,
}

impl RefusedEnds {
    /// Returns the sentence for operators, without a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { count, instance, error } = self;
        let machines = if *count == 1 { "1 machine" } else { &format!("{count} machines") };
        let error = error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
        format!("{machines} of it should end, but EC2 refuses, for example {instance}{error}")
    }
}

/// An instance that is ending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndingStatus {
    /// Its name.
    pub instance: InstanceName,
    /// When its end started.
    pub since: Time,
    /// What its end waits for.
    pub waiting_for: Option<Waiting>,
}

/// Jobs without a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnservedJobs {
    /// How many there are.
    pub count: usize,
    /// Seconds since when the first of them has waited for this.
    pub oldest_seconds: Option<Seconds>,
    /// Number of jobs, oldest first, whose reasons were read.
    pub looked_at: usize,
    /// Number of those jobs by reason, for the most frequent reasons.
    pub reasons: BTreeMap<String, usize>,
}

/// A limit of the stack or of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// The limited scope.
    pub of: Scope,
    /// Maximum number of live instances.
    pub max: Option<u32>,
    /// Number of live instances that count against it.
    pub live: u32,
}

/// Problems of the App on GitHub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppStatus {
    /// Problems, each a sentence with its fix.
    pub lacks: Vec<String>,
    /// The check that found each problem, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<AppCheck>,
    /// The App of each problem, in the same order. Without one, the main App.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apps: Vec<AppName>,
    /// Checks that failed, each a sentence with the reason.
    pub unknown: Vec<String>,
}

impl FromIterator<Self> for AppStatus {
    /// Joins the problems of several Apps.
    fn from_iter<I: IntoIterator<Item = Self>>(all: I) -> Self {
        let mut joined = Self::default();
        for Self { lacks, checks, apps, unknown } in all {
            joined.lacks.extend(lacks);
            joined.checks.extend(checks);
            joined.apps.extend(apps);
            joined.unknown.extend(unknown);
        }
        joined
    }
}

/// An entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityStatus {
    /// Its name.
    pub entity: Entity,
    /// The pools that name it.
    pub pools: Vec<PoolName>,
    /// Whether GitHub allows launches for it.
    pub healthy: bool,
    /// Since when GitHub denies our credentials.
    pub unauthorized_since: Option<Time>,
    /// GitHub's denials and limits, with its own messages.
    pub troubles: Vec<Trouble>,
}

/// A machine in the orphan ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanStatus {
    /// The machine.
    pub machine: MachineId,
    /// The instance that abandoned it; absent for a machine that EC2 lists and that has no record.
    pub instance: Option<InstanceName>,
    /// The launch that created it; absent for a machine that only has the stack's tag, which is
    /// never terminated.
    pub launch: Option<LaunchId>,
    /// When it was added.
    pub since: Time,
    /// Failed terminations since then.
    pub attempts: u32,
    /// The last error.
    pub last_error: Option<ErrorDetail>,
}

impl From<Orphan> for OrphanStatus {
    fn from(orphan: Orphan) -> Self {
        let Orphan { machine, instance, launch, since, attempts, last_error, .. } = orphan;
        Self { machine, instance, launch, since, attempts, last_error }
    }
}
