//! EC2: instances, instant fleets, tags, images, eventual consistency and termination.

mod capacity;
mod describe;
mod fleet;
mod images;
mod instance;
mod named;
pub mod network;
mod own_images;
mod place;
pub mod prices;
mod terminate;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::capacity::Capacity;
use self::network::Network;
use super::Millis;

pub use capacity::CapacityRule;
pub use describe::{DescribeRequest, Described, Filter, InstancePage};
pub use fleet::{
    FleetAnswer, FleetConfig, FleetFault, FleetInstances, FleetOptions, FleetRequest, FleetTags,
    Override,
};
pub use images::{Image, ImagePage, ImageRequest};
pub use instance::{End, Instance, InstanceState, Reason};
pub use named::PlacementGroup;
pub use own_images::{CreateImageRequest, Snapshot, SnapshotDeletion};
pub use place::PlaceSpec;
pub use terminate::StateChange;

/// The tag that says which Muster stack an instance belongs to.
pub const STACK_TAG: &str = "muster:stack";

/// An error as EC2 answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ec2Error {
    pub status: u16,
    pub code: String,
    pub message: String,
}

impl Ec2Error {
    /// A client error (400).
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status: 400, code: code.into(), message: message.into() }
    }
}

/// How an instance is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Market {
    OnDemand,
    Spot,
}

impl Market {
    /// The word EC2 uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
        }
    }
}

/// What an operating system's own `shutdown` does to its instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShutdownBehavior {
    /// EC2's default: the instance is stopped and goes on costing money for its disk.
    #[default]
    Stop,
    Terminate,
}

/// The parts of a launch template version that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchTemplate {
    pub id: String,
    pub name: String,
    pub version: u64,
    pub image_id: Option<String>,
    pub instance_type: Option<String>,
    pub instance_profile: Option<String>,
    /// Base64, exactly as stored.
    pub user_data: String,
    pub on_shutdown: ShutdownBehavior,
    pub protected: bool,
    pub instance_tags: BTreeMap<String, String>,
    /// Of the template itself.
    pub tags: BTreeMap<String, String>,
    /// The device that its disk is on.
    pub device: Option<String>,
}

/// A launch template as a request names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TemplateRef {
    pub id: Option<String>,
    pub name: Option<String>,
    pub version: Option<String>,
}

/// What can be changed about EC2's undocumented or eventual side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ec2Toggles {
    /// A replayed `CreateFleet` answers with the instances of the first call.
    pub replay_shows_instances: bool,
    /// How many instances one page holds at most, whatever was asked for.
    pub page_limit: u32,
    /// Images that are created from now on fail, for this reason.
    pub images_fail: Option<String>,
    /// Deregistering an image leaves its snapshots, and the answer says so.
    pub keeps_snapshots: bool,
    /// How long a deregistered image is still listed. AWS calls it a short interval.
    pub deregistered_visible_ms: Millis,
}

impl Default for Ec2Toggles {
    fn default() -> Self {
        Self {
            replay_shows_instances: true,
            page_limit: 1000,
            images_fail: None,
            keeps_snapshots: false,
            deregistered_visible_ms: 60_000,
        }
    }
}

/// All of EC2.
#[derive(Clone, Debug, Default)]
pub struct Ec2 {
    pub toggles: Ec2Toggles,
    instances: Vec<Instance>,
    numbers: HashMap<String, usize>,
    fleets: BTreeMap<String, fleet::Fleet>,
    templates: Vec<Arc<LaunchTemplate>>,
    capacity: Capacity,
    images: Vec<Image>,
    snapshots: BTreeMap<String, Snapshot>,
    placement_groups: BTreeMap<String, PlacementGroup>,
    /// What machines would be in.
    pub network: Network,
    /// Availability zone of a subnet that the network does not have, where it was given; otherwise
    /// it is derived from the id.
    pub subnets: BTreeMap<String, String>,
}

impl Ec2 {
    /// Every instance there ever was, in the order of their launches, whether the API still shows
    /// it or not.
    #[must_use]
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// The truth about the instance that was launched at this place in the order, from 0.
    #[must_use]
    pub fn at(&self, number: usize) -> &Instance {
        &self.instances[number]
    }

    /// The same, to change it as nobody can through the API.
    pub fn at_mut(&mut self, number: usize) -> &mut Instance {
        &mut self.instances[number]
    }

    /// The truth about one instance, whatever the API says.
    #[must_use]
    pub fn instance(&self, id: &str) -> Option<&Instance> {
        self.numbers.get(id).map(|number| &self.instances[*number])
    }

    /// The same, to change it as nobody can through the API.
    pub fn instance_mut(&mut self, id: &str) -> Option<&mut Instance> {
        self.numbers.get(id).map(|number| &mut self.instances[*number])
    }

    fn push(&mut self, instance: Instance) {
        self.numbers.insert(instance.id.clone(), self.instances.len());
        self.instances.push(instance);
    }

    /// Replaces the capacity rules.
    pub fn set_capacity(&mut self, rules: Vec<CapacityRule>) {
        self.capacity = Capacity(rules);
    }

    /// The capacity rules, with what is left.
    #[must_use]
    pub fn capacity(&self) -> &[CapacityRule] {
        &self.capacity.0
    }

    /// Stores a launch template version; the same version again replaces it.
    pub fn put_template(&mut self, template: LaunchTemplate) {
        self.templates.retain(|t| (&t.id, t.version) != (&template.id, template.version));
        self.templates.push(Arc::new(template));
    }

    /// Forgets the versions of a template that are newer than `version`.
    pub fn forget_versions_after(&mut self, id: &str, version: u64) {
        self.templates.retain(|t| t.id != id || t.version <= version);
    }

    /// The stored version that `wanted` names, with `$Latest` and no version meaning the highest.
    #[must_use]
    pub fn template(&self, wanted: &TemplateRef) -> Option<&LaunchTemplate> {
        self.stored(wanted).map(Arc::as_ref)
    }

    fn stored(&self, wanted: &TemplateRef) -> Option<&Arc<LaunchTemplate>> {
        let versions = self.templates.iter().filter(|t| {
            wanted.id.as_ref().is_none_or(|id| *id == t.id)
                && wanted.name.as_ref().is_none_or(|name| *name == t.name)
        });
        match wanted.version.as_deref() {
            None | Some("$Latest" | "$Default") => versions.max_by_key(|t| t.version),
            Some(version) => {
                let version: u64 = version.parse().ok()?;
                versions.into_iter().find(|t| t.version == version)
            }
        }
    }

    /// The instance, if the API admits that it exists.
    fn visible(&self, id: &str, now: Millis, kept_ms: Millis) -> Option<&Instance> {
        self.instance(id).filter(|instance| instance.is_visible(now, kept_ms))
    }

    fn zone_of(&self, subnet: Option<&str>) -> String {
        let Some(subnet) = subnet else { return "us-east-1a".to_owned() };
        let known = self.network.zone_of(subnet);
        if let Some(zone) = known.or_else(|| self.subnets.get(subnet).map(String::as_str)) {
            return zone.to_owned();
        }
        let sum: u32 = subnet.bytes().map(u32::from).sum();
        format!("us-east-1{}", ["a", "b", "c"][sum as usize % 3])
    }
}

/// Refuses what is not an instance id at all.
fn check_id(id: &str) -> Result<(), Ec2Error> {
    let digits = id.strip_prefix("i-").unwrap_or("");
    let shaped = [8, 17].contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if shaped {
        return Ok(());
    }
    Err(Ec2Error::new("InvalidInstanceID.Malformed", format!("Invalid id: \"{id}\"")))
}

fn not_found(ids: &[&str]) -> Ec2Error {
    let message = match ids {
        [id] => format!("The instance ID '{id}' does not exist"),
        _ => format!("The instance IDs '{}' do not exist", ids.join(", ")),
    };
    Ec2Error::new("InvalidInstanceID.NotFound", message)
}
