//! The stack as a whole.

use std::borrow::Cow;
use std::collections::BTreeMap;

use muster_domain::agent::AgentVersion;
use muster_domain::app::AppCheck;
use muster_domain::audit::Audit;
use muster_domain::ids::{Entity, InstanceName, LaunchId, MachineId, PoolName};
use muster_domain::instance::{ErrorDetail, Groups, Waiting};
use muster_domain::job::labels::LabelRows;
use muster_domain::launch::cooldown::Cooldown;
use muster_domain::launch::trouble::Trouble;
use muster_domain::orphan::Orphan;
use muster_domain::pool::limits::Scope;
use muster_domain::switches::SwitchedOff;
use muster_domain::time::{Seconds, Time};
use serde::{Deserialize, Serialize};

use super::orders::ShownSwitches;
use super::wants::{Severity, Want};

/// The stack in short, without a call to GitHub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overview {
    /// The stack's name.
    pub stack: String,
    /// The release that answers.
    pub release: Cow<'static, str>,
    /// The form in which it writes records.
    pub record_version: u16,
    /// When this was asked.
    pub now: Time,
    /// In order of the pool file.
    pub pools: Vec<PoolStatus>,
    /// Jobs that no pool serves.
    pub unserved: UnservedJobs,
    /// Jobs that wait for an approval at GitHub.
    pub waiting_for_approval: UnservedJobs,
    /// Of stack and entities.
    pub limits: Vec<LimitStatus>,
    /// What is switched off.
    pub switches: ShownSwitches,
    /// The agents that run jobs.
    #[serde(default)]
    pub agents: AgentsStatus,
    /// What somebody should look at, what concerns most jobs first.
    pub wants: Vec<Want>,
}

/// The stack, its pools, entities, orphans and switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackStatus {
    /// What is told in short.
    #[serde(flatten)]
    pub overview: Overview,
    /// What EC2 refuses and is not asked for now; none while it never refused anything.
    pub cooldowns: Option<Vec<Cooldown>>,
    /// The last lines of the audit trail about switches, newest first.
    pub switched: Vec<Audit>,
    /// The App at GitHub; none where GitHub was not asked.
    pub app: Option<AppStatus>,
    /// Those that a pool names, and those that GitHub refuses.
    pub entities: Vec<EntityStatus>,
    /// The orphan ledger.
    pub orphans: Vec<OrphanStatus>,
}

/// The agents, as far as machines have told of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentsStatus {
    /// The newest that GitHub lists.
    pub newest: Option<AgentVersion>,
    /// Those of images that are not the newest.
    pub images: Vec<ImageAgent>,
}

/// The agent of a pool's image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageAgent {
    /// The pool.
    pub pool: PoolName,
    /// Its version.
    pub version: AgentVersion,
    /// GitHub takes it until then at most; none: no more, and each machine takes the newest in its
    /// place before it starts.
    pub until: Option<Time>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: PoolName,
    /// Its labels, one row for each kind of job.
    pub labels: LabelRows,
    /// The entity whose runners these are; none where the job decides.
    pub entity: Option<Entity>,
    /// Higher ones are chosen first.
    pub priority: u32,
    /// Whether it takes new jobs.
    pub enabled: bool,
    /// Most live instances.
    pub max: u32,
    /// How many idle runners it keeps.
    pub min_idle: u32,
    /// The machines that served nothing, where its jobs wait for that.
    pub trouble: Option<Trouble>,
    /// Live instances, by the counter that holds to the maximum.
    pub live: u32,
    /// How many of them the listing of the pool has in each group; it may be a little late.
    #[serde(flatten)]
    pub groups: Groups,
    /// The first of those whose end takes long, and that no job holds up.
    pub late_end: Option<EndingStatus>,
    /// The machines that EC2 refuses to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_ends: Option<RefusedEnds>,
    /// Jobs that wait, with and without a claim.
    pub waiting_jobs: usize,
    /// How long the oldest of them could have had a runner, seconds.
    pub oldest_waiting_job_seconds: Option<Seconds>,
    /// The switch that holds its launches back.
    pub launches_off: Option<SwitchedOff>,
    /// When it was taken out of the pool file.
    pub removed_at: Option<Time>,
    /// What keeps it from launching, in a few words; the first of these.
    pub note: Option<Note>,
}

/// A few words, and how bad it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// How bad it is.
    pub severity: Severity,
    /// The words.
    pub said: String,
}

/// Machines of a pool that EC2 refuses to end: they take room that no higher maximum should replace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedEnds {
    /// How many, of the first that are listed.
    pub count: usize,
    /// One of them.
    pub instance: InstanceName,
    /// EC2's last error about it.
    pub error: Option<ErrorDetail>,
}

impl RefusedEnds {
    /// Returns what operators read, without its full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { count, instance, error } = self;
        let machines = if *count == 1 { "1 machine" } else { &format!("{count} machines") };
        let error = error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
        format!("{machines} of it should end, but EC2 refuses, for example {instance}{error}")
    }
}

/// An instance on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndingStatus {
    /// Its name.
    pub instance: InstanceName,
    /// Since when.
    pub since: Time,
    /// What its end waits for.
    pub waiting_for: Option<Waiting>,
}

/// Jobs that nobody launches for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnservedJobs {
    /// How many.
    pub count: usize,
    /// How long the first of them has waited like this, seconds.
    pub oldest_seconds: Option<Seconds>,
    /// How many of them were looked at for their reasons: the first ones.
    pub looked_at: usize,
    /// How many of those for each reason, the most frequent ones.
    pub reasons: BTreeMap<String, usize>,
}

/// A limit of the stack or of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// What it counts.
    pub of: Scope,
    /// Most live instances.
    pub max: Option<u32>,
    /// Live instances that count.
    pub live: u32,
}

/// What is wrong with the App at GitHub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppStatus {
    /// What is wrong and how it is mended, each in a sentence.
    pub lacks: Vec<String>,
    /// Which mistake each of them is, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<AppCheck>,
    /// Why something could not be found out, each in a sentence.
    pub unknown: Vec<String>,
}

/// An entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityStatus {
    /// Its name.
    pub entity: Entity,
    /// The pools that name it.
    pub pools: Vec<PoolName>,
    /// Whether GitHub lets us launch for it.
    pub healthy: bool,
    /// Since when GitHub refuses our credentials.
    pub unauthorized_since: Option<Time>,
    /// Why nothing is launched for it now, in a sentence.
    pub launches_held: Option<String>,
    /// What GitHub refuses or limits, with its own sentences.
    pub troubles: Vec<Trouble>,
}

/// A machine of the orphan ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanStatus {
    /// The machine.
    pub machine: MachineId,
    /// The instance that gave it up; none for one that EC2 lists and no record knows.
    pub instance: Option<InstanceName>,
    /// The launch that made it; none for a machine that carries the stack's tag alone, which is not
    /// ended.
    pub launch: Option<LaunchId>,
    /// When it was entered.
    pub since: Time,
    /// How often its termination has failed since then.
    pub attempts: u32,
    /// The last of those failures.
    pub last_error: Option<ErrorDetail>,
}

impl From<Orphan> for OrphanStatus {
    fn from(orphan: Orphan) -> Self {
        let Orphan { machine, instance, launch, since, attempts, last_error, .. } = orphan;
        Self { machine, instance, launch, since, attempts, last_error }
    }
}
