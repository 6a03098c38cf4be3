//! Pools: which jobs a set of machines serves, and how they are launched.

use serde::{Deserialize, Serialize};

use crate::ids::{Entity, PoolName};
use crate::job::Job;
use crate::labels::Labels;
use crate::time::Seconds;

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

/// A pool of runners.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its name, unique in the stack.
    pub name: PoolName,
    /// Where its runners are registered. None: at the organization that owns the job's repository, or
    /// at the repository when a person owns it.
    #[serde(default)]
    pub entity: Option<Entity>,
    /// The labels its runners carry.
    pub labels: Labels,
    /// GitHub's number of the runner group; 1 is the default group.
    #[serde(default = "default_runner_group")]
    pub runner_group_id: u64,
    /// The EC2 launch template.
    pub launch_template_id: String,
    /// Its version, a number: `$Latest` would make a replayed request differ from the first.
    pub launch_template_version: String,
    /// Instance types, in order of preference.
    pub instance_types: Vec<String>,
    /// Subnets to spread over.
    pub subnets: Vec<String>,
    /// Spot, on-demand, or one after the other.
    #[serde(default)]
    pub market: MarketPolicy,
    /// The most live instances.
    pub max: u32,
    /// Whether jobs of public repositories are served. Anyone can open a pull request there.
    #[serde(default)]
    pub public_repositories: bool,
    /// The longest life of a machine, running job or not.
    #[serde(default = "default_max_lifetime")]
    pub max_lifetime_seconds: Seconds,
    /// Handed to the runner's environment by runner-api.
    #[serde(default)]
    pub environment: std::collections::BTreeMap<String, String>,
}

const fn default_runner_group() -> u64 {
    1
}

const fn default_max_lifetime() -> Seconds {
    Seconds(43_200)
}

/// Why a pool does not serve a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mismatch {
    /// The job asks for labels that the pool's runners do not carry.
    Labels(Vec<String>),
    /// The job asks for no label.
    NoLabels,
    /// The pool's runners are registered elsewhere.
    Entity(Entity),
    /// The repository is public and the pool refuses those.
    Public,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Labels(missing) => {
                write!(f, "its runners do not carry the label(s) {}", missing.join(", "))
            }
            Self::NoLabels => write!(f, "the job asks for no label"),
            Self::Entity(entity) => write!(f, "its runners belong to {entity}"),
            Self::Public => write!(f, "the repository is public and the pool refuses those"),
        }
    }
}

impl Pool {
    /// Whether the pool serves the job.
    ///
    /// # Errors
    /// The first reason why it does not.
    pub fn serves(&self, job: &Job) -> Result<(), Mismatch> {
        if let Some(entity) = &self.entity
            && !entity.covers(&job.said.repository)
        {
            return Err(Mismatch::Entity(entity.clone()));
        }
        if job.said.labels.is_empty() {
            return Err(Mismatch::NoLabels);
        }
        let missing = self.labels.missing_for(&job.said.labels);
        if !missing.is_empty() {
            return Err(Mismatch::Labels(missing));
        }
        if !job.said.private && !self.public_repositories {
            return Err(Mismatch::Public);
        }
        Ok(())
    }

    /// Where runners for this job are registered.
    #[must_use]
    pub fn entity_for(&self, job: &Job) -> Option<Entity> {
        self.entity.clone().or_else(|| {
            let repository = job.said.repository.as_str();
            let (owner, _) = repository.split_once('/')?;
            if job.said.user_owned { repository } else { owner }.parse().ok()
        })
    }
}

/// The pool for a job: the most specific entity first (repository, organization, enterprise, then
/// pools without one), and in order of the list among equals.
///
/// # Errors
/// Why no pool serves it, pool by pool.
pub fn choose<'a>(pools: &'a [Pool], job: &Job) -> Result<&'a Pool, String> {
    let rank = |pool: &&Pool| pool.entity.as_ref().map_or(u8::MAX, |entity| entity.kind() as u8);
    // `min_by_key` keeps the first of equals, which is the stated rule.
    pools.iter().filter(|pool| pool.serves(job).is_ok()).min_by_key(rank).ok_or_else(|| {
        let reasons: Vec<String> = pools
            .iter()
            .filter_map(|pool| {
                pool.serves(job).err().map(|why| format!("pool {}: {why}", pool.name))
            })
            .collect();
        match reasons.len() {
            0 => "no pool is configured".to_owned(),
            _ => reasons.join("; "),
        }
    })
}

#[cfg(test)]
mod tests;
