//! What a `CreateFleet` says, and what is answered.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::{Ec2Error, Market, TemplateRef, terminate};

/// One override of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Override {
    pub instance_type: Option<String>,
    pub subnet_id: Option<String>,
    pub zone: Option<String>,
    pub image_id: Option<String>,
    pub max_price: Option<String>,
    /// As written in the request: a decimal number.
    pub priority: Option<String>,
    /// Whatever else it says (disks, requirements, placement): part of what makes two requests the same, and
    /// without effect here.
    pub details: BTreeMap<String, String>,
}

/// A launch template and its overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetConfig {
    pub template: TemplateRef,
    pub overrides: Vec<Override>,
}

/// `SpotOptions` or `OnDemandOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetOptions {
    pub allocation_strategy: Option<String>,
    pub single_instance_type: bool,
    pub single_availability_zone: bool,
    pub min_target_capacity: Option<u32>,
    pub interruption_behavior: Option<String>,
    pub max_total_price: Option<String>,
    /// `use-capacity-reservations-first`: on demand alone, and without effect here.
    pub reservations: Option<String>,
}

/// Tags for one type of resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetTags {
    pub resource_type: String,
    pub tags: BTreeMap<String, String>,
}

/// A `CreateFleet` request. Two requests are the same if and only if these are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetRequest {
    pub client_token: Option<String>,
    pub kind: Option<String>,
    pub total: u32,
    pub on_demand: Option<u32>,
    pub spot: Option<u32>,
    pub default_market: Option<Market>,
    pub configs: Vec<FleetConfig>,
    pub spot_options: FleetOptions,
    pub on_demand_options: FleetOptions,
    pub tags: Vec<FleetTags>,
}

impl Override {
    /// What the template says, and nothing else.
    pub(super) const NONE: Self = Self {
        instance_type: None,
        subnet_id: None,
        zone: None,
        image_id: None,
        max_price: None,
        priority: None,
        details: BTreeMap::new(),
    };
}

impl FleetRequest {
    /// The tags that go on every instance.
    #[must_use]
    pub fn instance_tags(&self) -> BTreeMap<String, String> {
        let of_instances = self.tags.iter().filter(|spec| spec.resource_type == "instance");
        of_instances.flat_map(|spec| spec.tags.clone()).collect()
    }
}

/// Instances of one override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetInstances {
    pub template: TemplateRef,
    pub choice: Override,
    pub market: Market,
    pub instance_type: String,
    pub ids: Vec<String>,
}

/// Why one override launched nothing, or too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetFault {
    pub template: TemplateRef,
    pub choice: Override,
    pub market: Market,
    pub code: String,
    pub message: String,
}

/// The answer: both lists may be filled at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetAnswer {
    pub fleet_id: String,
    pub instances: Vec<FleetInstances>,
    pub errors: Vec<FleetFault>,
    /// The client token had been used before: nothing was launched by this call.
    pub replayed: bool,
}

/// AWS states this for fleets of the types `request` and `maintain`, and says nothing of `instant`:
/// here they are refused as well, so that nothing depends on it.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_FleetLaunchTemplateConfigRequest.html
const MAX_OVERRIDES: usize = 300;

/// EC2 takes each type once in a zone, whatever the subnet.
/// Source: github-aws-runners/terraform-aws-github-runner#5297
pub(super) fn check_pools(
    request: &FleetRequest,
    zone_of: impl Fn(&str) -> String,
) -> Result<(), Ec2Error> {
    let mut pools = BTreeSet::new();
    for choice in request.configs.iter().flat_map(|config| &config.overrides) {
        let of_subnet = choice.subnet_id.as_deref().map(&zone_of);
        // What has no type has requirements, which are among the details.
        let kind = choice.instance_type.as_ref().ok_or(&choice.details);
        if !pools.insert((kind, of_subnet.or_else(|| choice.zone.clone()))) {
            return Err(Ec2Error::new(
                "InvalidFleetConfig",
                "The fleet configuration contains duplicate instance pools.",
            ));
        }
    }
    Ok(())
}

pub(super) fn check(request: &FleetRequest) -> Result<(), Ec2Error> {
    if request.kind.as_deref() != Some("instant") {
        // EC2's own default is `maintain`, which is a standing fleet and nothing Muster may want.
        return Err(Ec2Error::new(
            "UnsupportedOperation",
            "The simulated cloud only creates fleets of type 'instant'.",
        ));
    }
    if let Some(token) = &request.client_token
        && (token.is_empty() || token.len() > 64 || !token.is_ascii())
    {
        return Err(Ec2Error::new(
            "InvalidParameterValue",
            "Invalid value for parameter clientToken: at most 64 ASCII characters.",
        ));
    }
    if request.configs.is_empty() {
        return Err(Ec2Error::new(
            "MissingParameter",
            "The request must contain the parameter LaunchTemplateConfigs",
        ));
    }
    if request.total == 0
        || request.on_demand.unwrap_or(0) + request.spot.unwrap_or(0) > request.total
    {
        return Err(Ec2Error::new(
            "InvalidTargetCapacitySpecification",
            "TotalTargetCapacity must be positive and cover the on-demand and spot targets.",
        ));
    }
    if request.configs.iter().map(|config| config.overrides.len()).sum::<usize>() > MAX_OVERRIDES {
        return Err(Ec2Error::new(
            "InvalidParameterValue",
            format!("A fleet request takes at most {MAX_OVERRIDES} overrides."),
        ));
    }
    let reservations = |options: &FleetOptions| options.reservations.clone();
    if reservations(&request.spot_options).is_some() {
        return Err(Ec2Error::new(
            "UnknownParameter",
            "SpotOptions have no CapacityReservationOptions.",
        ));
    }
    if let Some(other) = reservations(&request.on_demand_options)
        .filter(|strategy| strategy != "use-capacity-reservations-first")
    {
        return Err(Ec2Error::new(
            "InvalidParameterValue",
            format!("'{other}' is not a valid usage strategy."),
        ));
    }
    for spec in &request.tags {
        if !["fleet", "instance", "volume", "network-interface"]
            .contains(&spec.resource_type.as_str())
        {
            return Err(Ec2Error::new(
                "InvalidParameterValue",
                format!("'{}' is not a valid taggable resource type.", spec.resource_type),
            ));
        }
        terminate::check_tags(&spec.tags)?;
    }
    Ok(())
}
