//! Responses about machine images.

use muster_domain::agent::AgentVersion;
use muster_domain::ids::{FamilyKey, ImageId, InstanceName, PoolName};
use muster_domain::image::BuildFailure;
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// The machine images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagesStatus {
    /// Whether images are built and used.
    pub on: bool,
    /// The families of pools, in the order of the pool file, followed by those without pools.
    pub families: Vec<FamilyStatus>,
    /// Number of images that are no longer used and not deleted yet.
    pub unused: usize,
    /// What the order changed, or would change in a dry run; empty without an order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// The images of a family: of pools whose machines can boot the same image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyStatus {
    /// The family.
    pub family: FamilyKey,
    /// Its pools.
    pub pools: Vec<PoolName>,
    /// The image that its machines boot; absent: the launch template's.
    pub current: Option<ImageStatus>,
    /// The image before it.
    pub previous: Option<ImageStatus>,
    /// The build in progress.
    pub build: Option<ImageBuildStatus>,
    /// The operator who ordered a build that has not started yet.
    pub ordered_by: Option<String>,
    /// Why a build that is due does not start.
    #[serde(default)]
    pub blocked: Option<String>,
    /// The failures since the last success.
    pub failure: Option<BuildFailure>,
    /// When the next build starts by itself, if that is known.
    pub next_build_at: Option<Time>,
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageStatus {
    /// Its ID.
    pub id: ImageId,
    /// When its disk was ready.
    pub built_at: Time,
    /// The agent on it, if known.
    pub agent: Option<AgentVersion>,
    /// How its machines boot: `unit` or `cloud-init`.
    pub boot: String,
    /// Why they do not boot by the unit.
    pub why: Option<String>,
    /// The minimum size of its machines' disks, in GiB.
    pub disk_gib: u32,
    /// The used space when it was built, in bytes.
    pub used_bytes: u64,
    /// Number of machines launched with it before one has booted; absent once one has.
    pub on_probation: Option<usize>,
    /// Why its trial proved nothing.
    pub untried: Option<String>,
}

/// A build in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageBuildStatus {
    /// Why it was started.
    pub reason: String,
    /// The operator who ordered it.
    pub by: Option<String>,
    /// When it was started.
    pub since: Time,
    /// What it waits for, in a few words.
    pub waits_for: String,
    /// The pool that its machines are launched with.
    pub pool: PoolName,
    /// The builder.
    pub builder: InstanceName,
    /// The machine that tries the image.
    pub trial: Option<InstanceName>,
    /// The image, once EC2 has returned its ID.
    pub image: Option<ImageId>,
}
