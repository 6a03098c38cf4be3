//! Whether GitHub lets us work for an entity.

use serde::{Deserialize, Serialize};

use crate::ids::Entity;
use crate::instance::Fault;
use crate::time::Time;

/// The record of an entity that GitHub refused us. There is none while all is well.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EntityHealth {
    /// The entity.
    pub entity: Entity,
    /// Since when GitHub refuses our credentials; none when it heals.
    pub unauthorized_since: Option<Time>,
    /// The last refusal.
    pub last_error: Option<Fault>,
}
