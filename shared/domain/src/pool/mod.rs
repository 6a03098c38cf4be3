//! Pools: which jobs a set of machines serves, and how they are launched.

mod built_in;
pub mod capacity;
pub mod limits;
pub mod select;
pub mod surplus;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ec2::{ErrorClass, Override};
use crate::hash::{fnv1a, fnv1a_on};
use crate::ids::{Entity, PoolName};
use crate::job::Job;
use crate::job::labels::{LabelRows, Labels};
use crate::time::{Seconds, Time};

/// What EC2 is asked for first, and what next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarketPolicy {
    /// Spot only.
    Spot,
    /// On-demand only.
    #[default]
    OnDemand,
    /// Spot, and on-demand for what spot has no capacity for.
    SpotThenOnDemand,
}

/// How a job's labels are compared with a row of the pool's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelMatch {
    /// The job asks for labels of the row, and need not ask for all: GitHub's own rule.
    #[default]
    Superset,
    /// The job asks for exactly the row.
    Exact,
}

/// How EC2 chooses among types and zones.
/// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-allocation-strategy.html
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// Spot: the lowest price among the pools that are least likely to be reclaimed.
    PriceCapacityOptimized,
    /// Spot: the pools with the most spare capacity.
    CapacityOptimized,
    /// Spot: spare capacity first, then the order of the types.
    CapacityOptimizedPrioritized,
    /// Spot: spread over all pools.
    Diversified,
    /// Either market: the lowest price.
    LowestPrice,
    /// On-demand: the order of the types.
    Prioritized,
}

/// The image that machines boot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// `ami-…`.
    Id(String),
    /// A parameter of Systems Manager that holds the id; EC2 reads it at every launch.
    Ssm(String),
}

/// The processors of a pool's machines. Muster hands it to nobody: the image decides. It is there
/// so that a pool file whose types do not fit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// Intel and AMD.
    X64,
    /// Graviton.
    Arm64,
}

impl Arch {
    /// As GitHub's labels and the pool file spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::X64 => "x64",
            Self::Arm64 => "arm64",
        }
    }

    /// That of an instance type: the letters behind the generation's number have a `g` for
    /// Graviton.
    /// Source: docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
    #[must_use]
    pub fn of_type(instance_type: &str) -> Self {
        let family = instance_type.split(['.', '-']).next().unwrap_or_default();
        let behind = family
            .trim_start_matches(|c: char| c.is_ascii_alphabetic())
            .trim_start_matches(|c: char| c.is_ascii_digit());
        if family == "a1" || behind.contains('g') { Self::Arm64 } else { Self::X64 }
    }
}

/// What a machine must have, instead of a list of types.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceRequirementsRequest.html
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// The fewest vCPUs.
    pub vcpus_min: u32,
    /// The most vCPUs.
    #[serde(default)]
    pub vcpus_max: Option<u32>,
    /// The least memory, in MiB.
    pub memory_mib_min: u32,
    /// The most memory, in MiB.
    #[serde(default)]
    pub memory_mib_max: Option<u32>,
}

/// The disk of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// The image's root device, for example `/dev/xvda`.
    pub device: String,
    /// Its size, in GiB.
    pub size_gib: u32,
    /// Operations a second, beyond gp3's own 3,000.
    #[serde(default)]
    pub iops: Option<u32>,
    /// MiB a second, beyond gp3's own 125.
    #[serde(default)]
    pub throughput_mib: Option<u32>,
}

/// A launch template of a pool's own, as EC2 showed it when the file was applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnTemplate {
    /// `lt-…`.
    pub id: Arc<str>,
    /// Its version, a number.
    pub version: Arc<str>,
    /// The id (`AROA…`) of the role that its machines have.
    pub role: Arc<str>,
    /// The device that its disk is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Arc<str>>,
}

/// Where a machine stands, beside its subnet.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Placement.html
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The name of a placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether it stands on hardware that no other account uses.
    #[serde(default)]
    pub dedicated: bool,
}

/// A pool of runners.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its name, unique in the stack.
    pub name: PoolName,
    /// Where its runners are registered. None: at the organization that owns the job's repository,
    /// or at the repository when a person owns it.
    #[serde(default)]
    pub entity: Option<Entity>,
    /// Its runners carry the labels of all rows; a job is served when it matches one row.
    pub labels: LabelRows,
    /// How a job matches a row.
    #[serde(default, rename = "match")]
    pub label_match: LabelMatch,
    /// Among pools that serve a job the larger number is asked first.
    #[serde(default)]
    pub priority: u32,
    /// GitHub's number of the runner group; 1 is the default group.
    #[serde(default = "default_runner_group")]
    pub runner_group_id: u64,
    /// What the names of its launches, instances and runners begin with; its own name where there
    /// is none.
    #[serde(default)]
    pub name_prefix: Option<PoolName>,
    /// See [`Arch`].
    #[serde(default)]
    pub arch: Option<Arch>,
    /// Its own launch template, where it does not use the stack's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_template: Option<OwnTemplate>,
    /// The EC2 launch template: its own, or the stack's.
    pub launch_template_id: Arc<str>,
    /// Its version, a number: `$Latest` would make a replayed request differ from the first.
    pub launch_template_version: Arc<str>,
    /// The device that the template's own disk is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_device: Option<Arc<str>>,
    /// The account that owns the App, or its enterprise; none until GitHub has said it. The stack's
    /// and not the pool's: every pool of the settings has it, and no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_owner: Option<Entity>,
    /// Instance types, in order of preference. Empty with `requirements`.
    #[serde(default)]
    pub instance_types: Vec<Arc<str>>,
    /// What machines must have, where no types are listed.
    #[serde(default)]
    pub requirements: Option<Requirements>,
    /// Subnets to spread over.
    pub subnets: Vec<Arc<str>>,
    /// Spot, on-demand, or one after the other.
    #[serde(default)]
    pub market: MarketPolicy,
    /// How EC2 chooses. None: `price-capacity-optimized` for spot; `prioritized` for on-demand,
    /// with requirements `lowest-price`.
    #[serde(default)]
    pub allocation: Option<Allocation>,
    /// The most to pay for a spot machine, in US dollars an hour, as EC2 takes it (`0.05`).
    #[serde(default)]
    pub max_price: Option<String>,
    /// The image, where it is not the launch template's.
    #[serde(default)]
    pub image: Option<Image>,
    /// The disk, where it is not the launch template's.
    #[serde(default)]
    pub disk: Option<Disk>,
    /// Where machines stand, where it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Whether machines on demand take reserved capacity before they take other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved_first: bool,
    /// Tags of machine and volume besides our own.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The most live instances.
    pub max: u32,
    /// Runners that wait for a job which nobody has queued yet. Never above `max`.
    #[serde(default)]
    pub min_idle: u32,
    /// How long a job is queued before a machine is launched for it: a runner that comes free may
    /// take it.
    #[serde(default)]
    pub job_age_seconds: Seconds,
    /// How long a machine may take until its runner listens. None: the stack's.
    #[serde(default)]
    pub boot_deadline_seconds: Option<Seconds>,
    /// How long a runner may wait for a job. None: the stack's.
    #[serde(default)]
    pub idle_limit_seconds: Option<Seconds>,
    /// The longest life of a machine, running job or not. A runner without a job goes at half of
    /// it, so that any job may count on the other half: by default the six hours that GitHub gives
    /// a job by default.
    #[serde(default = "default_max_lifetime")]
    pub max_lifetime_seconds: Seconds,
    /// How long the machine of a failed job is kept for a look, from its agent's end. Zero: not at
    /// all.
    #[serde(default)]
    pub keep_failed_seconds: Seconds,
    /// Repositories whose jobs are served, `owner/repo` or `owner/*`, in any case, or `*`: all that
    /// the App is installed for. Empty: all of the entity; without one, those of the App's owner.
    #[serde(default)]
    pub repositories: Vec<String>,
    /// Whether jobs of public repositories are served. Anyone can open a pull request there.
    #[serde(default)]
    pub public_repositories: bool,
    /// Shell text that the machine runs, as root, before the runner starts.
    #[serde(default)]
    pub boot_hook: Option<String>,
    /// A folder with the agents that GitHub lists, by the names of its archives, for machines that do
    /// not reach GitHub's. None: GitHub's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_mirror: Option<String>,
    /// Whether jobs may become root on their machine: `sudo` without a password, and the group
    /// `docker`.
    #[serde(default = "yes")]
    pub sudo: bool,
    /// Handed to the runner's environment by runner-api.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Whether it serves jobs at all. A disabled pool is as good as none for new jobs; its machines
    /// end when idle.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Bumped by whoever changes anything of it: EC2 is given time to see what is new.
    #[serde(default)]
    pub generation: u64,
    /// The generation that last changed what its machines are: idle ones of earlier generations are
    /// replaced.
    #[serde(default)]
    pub machines_since: u64,
    /// Since when it is not in the pool file any more.
    #[serde(default)]
    pub removed_at: Option<Time>,
}

const fn default_runner_group() -> u64 {
    1
}

const fn default_max_lifetime() -> Seconds {
    Pool::MAX_LIFETIME
}

const fn yes() -> bool {
    true
}

/// Why a pool does not serve a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mismatch {
    /// The job asks for labels that the pool's runners do not carry.
    Labels(Vec<String>),
    /// The pool serves jobs that ask for all labels of a row, and this one asks for fewer.
    NotExact,
    /// The job asks for no label.
    NoLabels,
    /// The pool's runners are registered elsewhere.
    Entity(Entity),
    /// The repository is public and the pool refuses those.
    Public,
    /// The pool lists the repositories that it serves, and this is none of them.
    Repository,
    /// The pool says nothing of whom it serves, so it serves the App's owner, and this is another;
    /// or nobody knows yet who that is.
    Owner(Option<Entity>),
    /// The pool is disabled.
    Disabled,
    /// The pool is not in the pool file any more.
    Removed,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Labels(missing) => {
                write!(f, "its runners do not carry the label(s) {}", named(missing))
            }
            Self::NotExact => {
                write!(f, "the job does not ask for exactly the labels of one of its rows")
            }
            Self::NoLabels => write!(f, "the job asks for no label"),
            Self::Entity(entity) => write!(f, "its runners belong to {entity}"),
            Self::Removed => write!(f, "it is being removed"),
            Self::Public => write!(f, "the repository is public and the pool refuses those"),
            Self::Repository => write!(f, "the repository is not among those that it serves"),
            Self::Owner(Some(owner)) => write!(
                f,
                "without entity and repositories it serves only {owner}, which owns the App; list \
                 others under repositories in the pool file"
            ),
            Self::Owner(None) => write!(
                f,
                "without entity and repositories it serves only the App's owner, and GitHub has not \
                 said yet who that is: see status"
            ),
            Self::Disabled => write!(f, "it is disabled"),
        }
    }
}

/// Most labels that a reason names, and most characters of each. Anybody who can write a workflow
/// chooses them, and the reason is stored once for each pool.
const MAX_NAMED: usize = 5;
const MAX_NAMED_LENGTH: usize = 32;

/// The first labels, and how many more there are. In quotes: one label may look like several
/// (terraform-aws-github-runner #4760).
fn named(labels: &[String]) -> String {
    let cut = |label: &String| match label.char_indices().nth(MAX_NAMED_LENGTH) {
        Some((end, _)) => format!("\"{}…\"", &label[..end]),
        None => format!("\"{label}\""),
    };
    let first: Vec<String> = labels.iter().take(MAX_NAMED).map(cut).collect();
    match labels.len().saturating_sub(MAX_NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

impl Pool {
    /// The longest life of a machine where a pool says nothing of it.
    pub const MAX_LIFETIME: Seconds = Seconds(43_200);

    /// As an entry of `repositories`: all that the App is installed for.
    pub const ANY_REPOSITORY: &str = "*";

    /// A pool with this name, everything else at its default, and nothing to launch.
    #[must_use]
    pub fn named(name: PoolName) -> Self {
        Self {
            name,
            entity: None,
            labels: LabelRows::default(),
            label_match: LabelMatch::default(),
            priority: 0,
            runner_group_id: default_runner_group(),
            name_prefix: None,
            arch: None,
            own_template: None,
            launch_template_id: Arc::default(),
            launch_template_version: Arc::default(),
            instance_types: Vec::new(),
            requirements: None,
            subnets: Vec::new(),
            market: MarketPolicy::default(),
            allocation: None,
            max_price: None,
            image: None,
            template_device: None,
            app_owner: None,
            disk: None,
            placement: None,
            reserved_first: false,
            tags: BTreeMap::new(),
            max: 0,
            min_idle: 0,
            job_age_seconds: Seconds(0),
            boot_deadline_seconds: None,
            idle_limit_seconds: None,
            max_lifetime_seconds: default_max_lifetime(),
            keep_failed_seconds: Seconds(0),
            repositories: Vec::new(),
            public_repositories: false,
            boot_hook: None,
            agent_mirror: None,
            sudo: true,
            environment: BTreeMap::new(),
            enabled: true,
            generation: 0,
            machines_since: 0,
            removed_at: None,
        }
    }

    /// Whether the pool serves the job.
    ///
    /// # Errors
    /// The first reason why it does not.
    pub fn serves(&self, job: &Job) -> Result<(), Mismatch> {
        if self.is_removed() {
            return Err(Mismatch::Removed);
        }
        if !self.enabled {
            return Err(Mismatch::Disabled);
        }
        if let Some(entity) = &self.entity
            && !entity.covers(&job.last_event.repository)
        {
            return Err(Mismatch::Entity(entity.clone()));
        }
        if !self.allows(&job.last_event.repository) {
            return Err(Mismatch::Repository);
        }
        if job.last_event.labels.is_empty() {
            return Err(Mismatch::NoLabels);
        }
        self.matches_labels(&job.last_event.labels)?;
        if !job.last_event.private && !self.public_repositories {
            return Err(Mismatch::Public);
        }
        // Last: whoever is told this needs nothing else.
        match &self.app_owner {
            _ if !self.serves_app_owner() => Ok(()),
            Some(owner) if owner.covers(&job.last_event.repository) => Ok(()),
            owner => Err(Mismatch::Owner(owner.clone())),
        }
    }

    /// Whether nothing of the pool says whom it serves. Anybody may have installed the App, so it
    /// serves the App's owner. An enterprise's App is installed nowhere else than there.
    /// Source: docs.github.com/en/apps/maintaining-github-apps/installing-github-apps
    #[must_use]
    pub const fn serves_app_owner(&self) -> bool {
        self.entity.is_none() && self.repositories.is_empty()
    }

    /// Whether a job asks for what its runners carry, where they are registered. The pool may
    /// refuse it all the same, for a reason that an operator can change: it is disabled, removed,
    /// or not for that repository.
    #[must_use]
    pub fn is_meant_by(&self, job: &Job) -> bool {
        let covers = |entity: &Entity| entity.covers(&job.last_event.repository);
        !job.last_event.labels.is_empty()
            && self.entity.as_ref().is_none_or(covers)
            && self.matches_labels(&job.last_event.labels).is_ok()
    }

    /// Whether the repository (`owner/repo`) is among those that the pool serves. GitHub's names
    /// have no case.
    fn allows(&self, repository: &str) -> bool {
        let allows =
            |allowed: &String| match (allowed.strip_suffix("/*"), repository.split_once('/')) {
                _ if allowed == Self::ANY_REPOSITORY => true,
                (Some(owner), Some((of, _))) => owner.eq_ignore_ascii_case(of),
                (Some(_), None) => false,
                (None, _) => allowed.eq_ignore_ascii_case(repository),
            };
        self.repositories.is_empty() || self.repositories.iter().any(allows)
    }

    /// Whether a job of this repository may run on its machines, whatever labels it asks for: GitHub
    /// gives a runner any job of its group with fitting labels, so this is asked again before a
    /// job's first step. Where nobody said whether the repository is private, that refuses nothing.
    ///
    /// # Errors
    /// The first reason why it may not.
    pub fn admits(&self, repository: &str, private: Option<bool>) -> Result<(), Mismatch> {
        if !self.allows(repository) {
            return Err(Mismatch::Repository);
        }
        if private == Some(false) && !self.public_repositories {
            return Err(Mismatch::Public);
        }
        Ok(())
    }

    /// How many runners it keeps for jobs that nobody has queued yet. None where nothing says at
    /// which entity they would be registered.
    #[must_use]
    pub fn idle_wanted(&self) -> u32 {
        let serves = self.enabled && !self.is_removed() && self.entity.is_some();
        if serves { self.min_idle.min(self.max) } else { 0 }
    }

    /// Whether a job has waited long enough that a machine is launched for it.
    #[must_use]
    pub fn is_old_enough(&self, job: &Job, now: Time) -> bool {
        now >= self.launches_at(job)
    }

    /// From when on a machine is launched for a job, unless a runner takes it before.
    #[must_use]
    pub fn launches_at(&self, job: &Job) -> Time {
        job.queued_at() + self.job_age_seconds
    }

    /// Whether a row matches. The row that comes nearest gives the reason.
    fn matches_labels(&self, wanted: &Labels) -> Result<(), Mismatch> {
        let missing = self.labels.iter().map(|row| row.missing_for(wanted)).min_by_key(Vec::len);
        match missing {
            Some(missing) if missing.is_empty() => {}
            missing => return Err(Mismatch::Labels(missing.unwrap_or_default())),
        }
        let exact = self.labels.iter().any(|row| row.is_exactly(wanted));
        match self.label_match {
            LabelMatch::Exact if !exact => Err(Mismatch::NotExact),
            LabelMatch::Exact | LabelMatch::Superset => Ok(()),
        }
    }

    /// The id of the role that its machines sign with. None: the stack's.
    #[must_use]
    pub fn machine_role(&self) -> Option<&Arc<str>> {
        self.own_template.as_ref().map(|own| &own.role)
    }

    /// Names this configuration among all that the pool ever has: the launch template, the pool
    /// file's generation, and a hash of all fields (parameters of the stack have no generation) and
    /// of Muster's release. Who owns the App is learned, not configured.
    #[must_use]
    pub fn version(&self) -> String {
        let Self { launch_template_id, launch_template_version, generation, .. } = self;
        let configured = Self { app_owner: None, ..self.clone() };
        let text = serde_json::to_vec(&configured).unwrap_or_default();
        let hash = fnv1a_on(fnv1a(env!("CARGO_PKG_VERSION").as_bytes()), &text);
        format!("{launch_template_id}:{launch_template_version}:{generation}:{hash:x}")
    }

    /// All that its machines may be: types times subnets, or, with requirements, subnets. In order
    /// of preference.
    #[must_use]
    pub fn places(&self) -> Vec<Override> {
        let any = Arc::default();
        let types = match self.requirements {
            Some(_) => std::slice::from_ref(&any),
            None => self.instance_types.as_slice(),
        };
        let place = |kind: &Arc<str>, subnet: &Arc<str>| Override {
            instance_type: Arc::clone(kind),
            subnet: Arc::clone(subnet),
        };
        types
            .iter()
            .flat_map(|kind| self.subnets.iter().map(move |subnet| place(kind, subnet)))
            .collect()
    }

    /// Whether, with `spot-then-on-demand`, on-demand is asked after such a refusal of spot.
    #[must_use]
    pub fn falls_back_after(&self, class: ErrorClass) -> bool {
        self.market == MarketPolicy::SpotThenOnDemand
            && matches!(class, ErrorClass::Capacity | ErrorClass::Quota)
    }

    /// Where runners for this job are registered.
    #[must_use]
    pub fn entity_for(&self, job: &Job) -> Option<Entity> {
        self.entity.clone().or_else(|| job.home())
    }
}

#[cfg(test)]
mod tests;
