//! An image that Muster built.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::AgentVersion;
use crate::ids::{ImageId, InstanceName};
use crate::instance::BootMethod;
use crate::time::Time;

/// Number of machines that are launched with an image before one of them has booted.
pub const PROBATION: usize = 3;

/// Whether machines of an image have booted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// One has.
    Proven,
    /// These machines were launched with it, and have not booted yet. Does not include the trial.
    Probation(Vec<InstanceName>),
}

/// An image that Muster built.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BuiltImage {
    /// Its ID.
    pub id: ImageId,
    /// Its name at EC2, which is the ID of its builder's launch.
    pub name: String,
    /// When its disk was ready.
    pub built_at: Time,
    /// The agent on it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentVersion>,
    /// The version of the scripts that prepared it.
    pub scripts: Arc<str>,
    /// How its machines boot.
    pub boot: BootMethod,
    /// Why they do not boot by the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The minimum size of its machines' disks, in GiB.
    pub disk_gib: u32,
    /// The used space of the disk when it was built, in bytes.
    pub used_bytes: u64,
    /// Why it was not tried, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untried: Option<String>,
    /// Whether machines of it have booted.
    pub trust: Trust,
}
