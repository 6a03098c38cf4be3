//! Instances that nobody asked this API for: strangers, and machines whose records were lost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Ec2, Instance, InstanceState, Market, ShutdownBehavior};
use crate::{Ids, Millis};

/// An instance that a test puts into the world.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceSpec {
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// How long ago it was launched.
    #[serde(default)]
    pub age_ms: Millis,
    #[serde(default = "PlaceSpec::default_market")]
    pub market: Market,
    #[serde(default = "PlaceSpec::default_state")]
    pub state: InstanceState,
    #[serde(default)]
    pub protected: bool,
    /// Base64. It runs only if there is some and the instance is running.
    #[serde(default)]
    pub user_data: String,
}

impl Default for PlaceSpec {
    fn default() -> Self {
        Self {
            tags: BTreeMap::new(),
            age_ms: 0,
            market: Self::default_market(),
            state: Self::default_state(),
            protected: false,
            user_data: String::new(),
        }
    }
}

impl PlaceSpec {
    fn default_market() -> Market {
        Market::OnDemand
    }

    fn default_state() -> InstanceState {
        InstanceState::Running
    }
}

impl Ec2 {
    /// Puts an instance here that nobody asked this API for.
    pub fn place(&mut self, ids: &mut Ids, spec: &PlaceSpec, now: Millis) -> String {
        let order = 1 + self.instances.len() as u64;
        let id = ids.instance(order);
        let launched_at = now - spec.age_ms;
        let instance = Instance {
            id: id.clone(),
            reservation: ids.resource("r"),
            launch_index: 0,
            order,
            image_id: "ami-00000000000000000".to_owned(),
            instance_type: "t3.micro".to_owned(),
            subnet_id: None,
            zone: self.zone_of(None),
            market: spec.market,
            client_token: ids.uuid(),
            fleet_id: None,
            launched_at,
            state: spec.state,
            previous: spec.state,
            stale_until: launched_at,
            since: launched_at,
            ended_at: None,
            reason: None,
            tags: spec.tags.clone(),
            user_data: spec.user_data.clone(),
            disk_gib: super::instance::DISK_GIB,
            console: String::new(),
            instance_profile: None,
            on_shutdown: ShutdownBehavior::Terminate,
            protected: spec.protected,
            visible_from: launched_at,
            reclaim_at: None,
        };
        self.push(instance);
        id
    }
}
