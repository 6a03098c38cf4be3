//! Pools: which jobs a set of machines serves, and how the machines are launched.

mod built_in;
pub mod capacity;
pub mod limits;
pub mod proxy;
pub mod select;
pub mod warm;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ec2::{Arch, ErrorClass, Override};
use crate::hash::{fnv1a, fnv1a_on};
use crate::ids::{AppName, Entity, PoolName};
use crate::job::Job;
use crate::job::labels::{LabelRows, Labels};
use crate::time::{Seconds, Time};

use self::proxy::Proxy;
use self::warm::WarmRule;

/// Which market to request first, and which to fall back to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarketPolicy {
    /// Spot only.
    Spot,
    /// On-Demand only.
    #[default]
    OnDemand,
    /// Spot, with On-Demand as the fallback when Spot has no capacity.
    SpotThenOnDemand,
}

/// Which interrupted jobs to re-run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RerunPolicy {
    /// None.
    Off,
    /// Those that do not deploy: a deployment may be half done.
    Interrupted,
    /// All, including those of a deployment environment.
    All,
}

/// How to launch machines for jobs of a merge queue. GitHub removes a pull request from the queue
/// seconds after a required check fails, so a re-run comes too late there (datafusion #23400).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeQueuePolicy {
    /// On-Demand first.
    #[default]
    OnDemand,
    /// As for other jobs.
    AsOthers,
}

/// How a job's labels are compared with a label row of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelMatch {
    /// The row has all labels that the job requests, and may have more: GitHub's own rule.
    #[default]
    Superset,
    /// The job requests exactly the labels of the row.
    Exact,
}

/// How EC2 chooses among instance types and zones.
/// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-allocation-strategy.html
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// Spot: the lowest price among the capacity pools least likely to be reclaimed.
    PriceCapacityOptimized,
    /// Spot: the capacity pools with the most spare capacity.
    CapacityOptimized,
    /// Spot: spare capacity first, then the order of the types.
    CapacityOptimizedPrioritized,
    /// Spot: spread over all capacity pools.
    Diversified,
    /// Either market: the lowest price.
    LowestPrice,
    /// On-Demand: the order of the types.
    Prioritized,
}

/// The image that machines boot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// `ami-…`.
    Id(String),
    /// The name of a Systems Manager parameter that contains the image ID; EC2 reads it at every
    /// launch.
    Ssm(String),
}

/// Attributes that a machine must have, as an alternative to a list of types.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceRequirementsRequest.html
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// Minimum number of vCPUs.
    pub vcpus_min: u32,
    /// Maximum number of vCPUs.
    #[serde(default)]
    pub vcpus_max: Option<u32>,
    /// Minimum memory, in MiB.
    pub memory_mib_min: u32,
    /// Maximum memory, in MiB.
    #[serde(default)]
    pub memory_mib_max: Option<u32>,
}

/// The disk of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// The image's root device, for example `/dev/xvda`.
    pub device: String,
    /// Size, in GiB.
    pub size_gib: u32,
    /// IOPS, if more than gp3's baseline of 3,000.
    #[serde(default)]
    pub iops: Option<u32>,
    /// Throughput in MiB/s, if more than gp3's baseline of 125.
    #[serde(default)]
    pub throughput_mib: Option<u32>,
}

/// A pool's own launch template, as EC2 described it when the pool file was applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnTemplate {
    /// `lt-…`.
    pub id: Arc<str>,
    /// Its version number.
    pub version: Arc<str>,
    /// The ID (`AROA…`) of its machines' role.
    pub role: Arc<str>,
    /// The device of its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Arc<str>>,
}

/// Placement of a machine in addition to its subnet.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Placement.html
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The name of a placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether the hardware is dedicated to this account.
    #[serde(default)]
    pub dedicated: bool,
}

/// A pool of runners.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The name, unique in the stack.
    pub name: PoolName,
    /// Where its runners are registered. If unset: at the organization that owns the job's
    /// repository, or at the repository if a user owns it.
    #[serde(default)]
    pub entity: Option<Entity>,
    /// Label rows. Its runners carry the labels of all rows; a job must match one row.
    pub labels: LabelRows,
    /// How a job matches a row.
    #[serde(default, rename = "match")]
    pub label_match: LabelMatch,
    /// Priority among pools that serve a job; the highest is tried first.
    #[serde(default)]
    pub priority: u32,
    /// The ID of the runner group at GitHub; 1 is the default group.
    #[serde(default = "default_runner_group")]
    pub runner_group_id: u64,
    /// Prefix of the names of its launches, instances and runners. If unset: the pool's name.
    #[serde(default)]
    pub name_prefix: Option<PoolName>,
    /// See [`Arch`].
    #[serde(default)]
    pub arch: Option<Arch>,
    /// Its own launch template, if it does not use the stack's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_template: Option<OwnTemplate>,
    /// The EC2 launch template in use: its own or the stack's.
    pub launch_template_id: Arc<str>,
    /// The template's version number: `$Latest` would make a replayed request differ from the
    /// first.
    pub launch_template_version: Arc<str>,
    /// The device of the template's disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_device: Option<Arc<str>>,
    /// The account or enterprise that owns the App, once GitHub has reported it. A property of the
    /// stack: all pools in the settings share it, and no record stores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_owner: Option<Entity>,
    /// Instance types, in order of preference. Empty if `requirements` is set.
    #[serde(default)]
    pub instance_types: Vec<Arc<str>>,
    /// Required attributes, if no types are listed.
    #[serde(default)]
    pub requirements: Option<Requirements>,
    /// Subnets to spread machines over.
    pub subnets: Vec<Arc<str>>,
    /// Which market to use.
    #[serde(default)]
    pub market: MarketPolicy,
    /// Which interrupted jobs to re-run. If unset: those that do not deploy, if the market includes
    /// Spot, else none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun_on_interruption: Option<RerunPolicy>,
    /// How to launch machines for jobs of a merge queue.
    #[serde(default)]
    pub merge_queue: MergeQueuePolicy,
    /// EC2's allocation strategy. If unset: `price-capacity-optimized` for Spot; for On-Demand
    /// `prioritized`, or `lowest-price` with requirements.
    #[serde(default)]
    pub allocation: Option<Allocation>,
    /// Maximum Spot price in US dollars per hour, in EC2's notation (`0.05`).
    #[serde(default)]
    pub max_price: Option<String>,
    /// The image, if different from the launch template's.
    #[serde(default)]
    pub image: Option<Image>,
    /// The disk, if different from the launch template's.
    #[serde(default)]
    pub disk: Option<Disk>,
    /// Placement of the machines, if specified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Whether On-Demand machines use reserved capacity first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved_first: bool,
    /// Tags of machines and volumes in addition to Muster's own.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Maximum number of live instances.
    pub max: u32,
    /// Number of idle runners to keep for jobs that are not queued yet. Never above `max`.
    #[serde(default)]
    pub min_idle: u32,
    /// Events that raise that number for some time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warm_on: Vec<WarmRule>,
    /// How long a job must be queued before a machine is launched for it: a runner that becomes
    /// free may take it first.
    #[serde(default)]
    pub job_age_seconds: Seconds,
    /// Maximum time from launch until the runner listens. If unset: the stack's.
    #[serde(default)]
    pub boot_deadline_seconds: Option<Seconds>,
    /// Maximum time that a runner waits for a job. If unset: the stack's.
    #[serde(default)]
    pub idle_limit_seconds: Option<Seconds>,
    /// Maximum lifetime of a machine, whether or not a job runs. A runner without a job ends at
    /// half of it, so that every job has the other half available: by default six hours, GitHub's
    /// default job timeout.
    #[serde(default = "default_max_lifetime")]
    pub max_lifetime_seconds: Seconds,
    /// How long to keep the machine of a failed job for inspection, from the end of its agent. Zero
    /// disables this.
    #[serde(default)]
    pub keep_failed_seconds: Seconds,
    /// Repositories whose jobs are served: `owner/repo` or `owner/*` (case-insensitive), or `*` for
    /// all that the App is installed for. If empty: all of the entity or, without an entity, those
    /// of the App's owner.
    #[serde(default)]
    pub repositories: Vec<String>,
    /// Whether jobs of public repositories are served. Anyone can open a pull request there.
    #[serde(default)]
    pub public_repositories: bool,
    /// Shell script that the machine runs as root before the runner starts.
    #[serde(default)]
    pub boot_hook: Option<String>,
    /// Shell script that runs as root when an image of the pool's machines is built. A machine that boots no such image
    /// runs it before the boot hook, so that its jobs find the same programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_hook: Option<String>,
    /// Base URL of a mirror of the agents that GitHub lists, under their archive names, for
    /// machines that cannot reach GitHub. If unset: GitHub's URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_mirror: Option<String>,
    /// The proxy through which the machines reach the internet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Whether jobs can become root on their machine: passwordless `sudo` and the group `docker`.
    #[serde(default = "yes")]
    pub sudo: bool,
    /// Whether the log of each job shows what it used.
    #[serde(default = "yes")]
    pub log_usage: bool,
    /// Environment variables that runner-api gives the runner.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Whether the pool serves jobs. A disabled pool gets no new jobs, and its machines end when
    /// idle.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Incremented by every change to the pool: EC2 gets time to propagate new resources.
    #[serde(default)]
    pub generation: u64,
    /// The generation that last changed the machines' configuration. Idle machines of earlier
    /// generations are replaced.
    #[serde(default)]
    pub machines_since: u64,
    /// When the pool was removed from the pool file.
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
    /// The job requests labels that the pool's runners do not have.
    Labels(Vec<String>),
    /// The pool serves only jobs that request all labels of a row, and this one requests fewer.
    NotExact,
    /// The job requests no label.
    NoLabels,
    /// The pool's runners are registered at a different entity.
    Entity(Entity),
    /// The repository is public, and the pool refuses public repositories.
    Public,
    /// The pool lists the repositories that it serves, and this one is not among them.
    Repository,
    /// The pool has no entity and no repositories, so it serves only the App's owner. Either the
    /// job belongs to a different owner, or the App's owner is not known yet.
    Owner(Option<Entity>),
    /// The pool is disabled.
    Disabled,
    /// The pool is no longer in the pool file.
    Removed,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Labels(missing) => {
                let labels = if missing.len() == 1 { "label" } else { "labels" };
                write!(f, "its runners lack the {labels} {}", named(missing))
            }
            Self::NotExact => {
                write!(f, "the job does not request exactly the labels of one of its rows")
            }
            Self::NoLabels => write!(f, "the job requests no label"),
            Self::Entity(entity) => write!(f, "its runners belong to {entity}"),
            Self::Removed => write!(f, "it is being removed"),
            Self::Public => write!(f, "the repository is public and the pool refuses those"),
            Self::Repository => write!(f, "the repository is not in the pool's list"),
            Self::Owner(Some(owner)) => write!(
                f,
                "without entity and repositories it serves only {owner}, which owns the App; list \
                 others under repositories in the pool file"
            ),
            Self::Owner(None) => write!(
                f,
                "without entity and repositories it serves only the App's owner, and GitHub has \
                 not reported yet who that is: see status"
            ),
            Self::Disabled => write!(f, "it is disabled"),
        }
    }
}

/// Maximum number of labels in a reason, and maximum characters of each. Anyone who can write a
/// workflow chooses them, and the reason is stored once per pool.
const MAX_NAMED: usize = 5;
const MAX_NAMED_LENGTH: usize = 32;

/// Lists the first labels, and the number of further ones. Quoted: one label can look like several
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
    /// The default maximum lifetime of a machine.
    pub const MAX_LIFETIME: Seconds = Seconds(43_200);

    /// The entry of `repositories` that means all repositories that the App is installed for.
    pub const ANY_REPOSITORY: &str = "*";

    /// Creates a pool with this name, defaults for everything else, and no instance types.
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
            rerun_on_interruption: None,
            merge_queue: MergeQueuePolicy::default(),
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
            warm_on: Vec::new(),
            job_age_seconds: Seconds(0),
            boot_deadline_seconds: None,
            idle_limit_seconds: None,
            max_lifetime_seconds: default_max_lifetime(),
            keep_failed_seconds: Seconds(0),
            repositories: Vec::new(),
            public_repositories: false,
            boot_hook: None,
            image_hook: None,
            agent_mirror: None,
            proxy: None,
            sudo: true,
            log_usage: true,
            environment: BTreeMap::new(),
            enabled: true,
            generation: 0,
            machines_since: 0,
            removed_at: None,
        }
    }

    /// Checks whether the pool serves the job.
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
        // Checked last: an operator who sees this reason has no other problem to fix.
        match &self.app_owner {
            _ if !self.serves_app_owner() => Ok(()),
            Some(owner) if owner.covers(&job.last_event.repository) => Ok(()),
            owner => Err(Mismatch::Owner(owner.clone())),
        }
    }

    /// Returns whether the pool names neither an entity nor repositories. Anyone may have installed
    /// the App, so such a pool serves only the App's owner. An enterprise's App can only be
    /// installed in that enterprise.
    /// Source: docs.github.com/en/apps/maintaining-github-apps/installing-github-apps
    #[must_use]
    pub const fn serves_app_owner(&self) -> bool {
        self.entity.is_none() && self.repositories.is_empty()
    }

    /// Returns whether a job requests labels that the pool's runners have, at an entity where they
    /// are registered. The pool may still refuse the job for a reason that an operator can change:
    /// it is disabled, removed, or does not list the repository.
    #[must_use]
    pub fn is_meant_by(&self, job: &Job) -> bool {
        let covers = |entity: &Entity| entity.covers(&job.last_event.repository);
        !job.last_event.labels.is_empty()
            && self.entity.as_ref().is_none_or(covers)
            && self.matches_labels(&job.last_event.labels).is_ok()
    }

    /// Returns whether the pool serves the repository (`owner/repo`). GitHub's names are
    /// case-insensitive.
    fn allows(&self, repository: &str) -> bool {
        self.repositories.is_empty()
            || self.repositories.iter().any(|allowed| warm::names(allowed, repository))
    }

    /// Checks whether a job of this repository may run on the pool's machines, regardless of its
    /// labels. GitHub gives a runner any job of its group with matching labels, so this is checked
    /// again before a job's first step. An unknown `private` refuses no job.
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

    /// Returns the number of idle runners to keep for jobs that are not queued yet. Zero if the
    /// pool has no entity at which to register them. Events can raise it: [`Self::while_warm`].
    #[must_use]
    pub fn idle_wanted(&self) -> u32 {
        let serves = self.enabled && !self.is_removed() && self.entity.is_some();
        if serves { self.min_idle.min(self.max) } else { 0 }
    }

    /// Returns whether a job has waited long enough to launch a machine for it.
    #[must_use]
    pub fn is_old_enough(&self, job: &Job, now: Time) -> bool {
        now >= self.launches_at(job)
    }

    /// Returns when a machine is launched for a job, unless a runner takes it before. The time before
    /// an approval does not count.
    #[must_use]
    pub fn launches_at(&self, job: &Job) -> Time {
        job.waits_since() + self.job_age_seconds
    }

    /// Checks whether any row matches. The row with the fewest missing labels provides the reason.
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

    /// Returns the ID of the role that the machines sign with, if it is not the stack's.
    #[must_use]
    pub fn machine_role(&self) -> Option<&Arc<str>> {
        self.own_template.as_ref().map(|own| &own.role)
    }

    /// Returns a version that is unique among all configurations of the pool: the launch template,
    /// the pool file's generation, and a hash of all fields (stack parameters have no generation)
    /// and of Muster's release. The App's owner is excluded because it is discovered, not
    /// configured.
    #[must_use]
    pub fn version(&self) -> String {
        let Self { launch_template_id, launch_template_version, generation, .. } = self;
        let configured = Self { app_owner: None, ..self.clone() };
        let text = serde_json::to_vec(&configured).unwrap_or_default();
        let hash = fnv1a_on(fnv1a(env!("CARGO_PKG_VERSION").as_bytes()), &text);
        format!("{launch_template_id}:{launch_template_version}:{generation}:{hash:x}")
    }

    /// Returns all combinations of instance type and subnet (with requirements: the subnets), in
    /// order of preference.
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

    /// Returns whether to request On-Demand after Spot was refused with this class of error.
    #[must_use]
    pub fn falls_back_after(&self, class: ErrorClass) -> bool {
        self.market == MarketPolicy::SpotThenOnDemand
            && matches!(class, ErrorClass::Capacity | ErrorClass::Quota)
    }

    /// Returns whether the pool registers runners with this App, or serves its repositories.
    #[must_use]
    pub fn uses_app(&self, app: AppName) -> bool {
        let of = |pattern: &String| AppName::split(pattern).is_some_and(|(own, _)| own == app);
        match &self.entity {
            Some(entity) => entity.app() == app,
            None if self.repositories.is_empty() => app == AppName::MAIN,
            None => self.repositories.iter().any(of),
        }
    }

    /// Returns which interrupted jobs to re-run.
    #[must_use]
    pub fn reruns(&self) -> RerunPolicy {
        let by_market = match self.market {
            MarketPolicy::OnDemand => RerunPolicy::Off,
            MarketPolicy::Spot | MarketPolicy::SpotThenOnDemand => RerunPolicy::Interrupted,
        };
        self.rerun_on_interruption.unwrap_or(by_market)
    }

    /// Returns whether machines for this job should be On-Demand rather than Spot: an interruption
    /// would cost it more than others. A pool with only Spot stays with Spot.
    #[must_use]
    pub fn prefers_on_demand(&self, job: &Job) -> bool {
        let is_queued = job.is_in_merge_queue() && self.merge_queue == MergeQueuePolicy::OnDemand;
        self.market == MarketPolicy::SpotThenOnDemand && (job.rerun || is_queued)
    }

    /// Returns the entity where runners for this job are registered.
    #[must_use]
    pub fn entity_for(&self, job: &Job) -> Option<Entity> {
        self.entity.clone().or_else(|| job.home())
    }
}

#[cfg(test)]
mod tests;
