//! The record that all launch passes share: a small one, so that concurrent Lambdas do not repeat
//! requests that one of them has just found refused.
//!
//! The record is advice: a pass that misses an entry only makes a call that EC2 refuses. So its
//! write is never waited for.

pub mod cooldown;
pub mod foreign_runners;
pub mod reclaimed;
pub mod registrations;
pub mod trouble;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::cooldown::Cooldown;
use self::foreign_runners::ForeignRunners;
use self::reclaimed::ReclaimedPlace;
use self::registrations::FailingRegistrations;
use self::trouble::Trouble;
use crate::SCHEMA;
use crate::agent::Agents;

/// The record of refusals and wasted launches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cooldowns {
    /// The record's schema version.
    pub schema: u16,
    /// The refusals, at most one per scope.
    pub list: Arc<[Cooldown]>,
    /// The failures that waste machines, at most one per scope.
    pub troubles: Arc<[Trouble]>,
    /// Sets of subnets that EC2 rejected in one request, each sorted: two of them are in one zone.
    /// Permanent, because that does not change.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub apart: Arc<[Arc<[Arc<str>]>]>,
    /// The agent versions that GitHub lists and accepts.
    #[serde(default, skip_serializing_if = "Agents::is_empty")]
    pub agents: Agents,
    /// Entities whose registrations fail without a refusal.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub failing: Arc<[FailingRegistrations]>,
    /// Pools whose jobs run on runners of another fleet.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub foreign: Arc<[ForeignRunners]>,
    /// Types and subnets of which EC2 has reclaimed Spot capacity lately.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub reclaimed: Arc<[ReclaimedPlace]>,
}

impl Default for Cooldowns {
    /// Creates an empty record.
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            list: Arc::default(),
            troubles: Arc::default(),
            apart: Arc::default(),
            agents: Agents::default(),
            failing: Arc::default(),
            foreign: Arc::default(),
            reclaimed: Arc::default(),
        }
    }
}

impl Cooldowns {
    /// Returns the record with new information about agents, if there is any.
    #[must_use]
    pub fn with_agents(&self, agents: Option<Agents>) -> Option<Self> {
        agents.map(|agents| Self { agents, ..self.clone() })
    }
}
