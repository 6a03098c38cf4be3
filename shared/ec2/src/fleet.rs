//! Launching: CreateFleet of type `instant`.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{
    CreateFleetError, CreateFleetInstance, DefaultTargetCapacityType,
    FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy, FleetType,
    InstanceType, OnDemandOptionsRequest, ResourceType, SpotAllocationStrategy, SpotOptionsRequest,
    Tag, TagSpecification, TargetCapacitySpecificationRequest,
};
use domain::ids::LaunchId;
use domain::launch::{ErrorClass, LaunchAnswer, LaunchError, LaunchRequest, Market};

use crate::classify::classify_part;
use crate::{NO_ANSWER, classified, once};

/// Sends the request of a launch. The same id and request make the same call, byte for byte: EC2
/// compares them under the client token.
pub(crate) async fn create(
    client: &Client,
    id: &LaunchId,
    request: &LaunchRequest,
) -> Result<LaunchAnswer, LaunchError> {
    let call = client
        .create_fleet()
        .r#type(FleetType::Instant)
        .client_token(id.as_str())
        .launch_template_configs(template(request))
        .target_capacity_specification(target(request))
        // The kinds that an instant fleet can tag beside itself; the fleet is only a request, and
        // tagging it would take one permission more.
        .tag_specifications(tagged(ResourceType::Instance, request))
        .tag_specifications(tagged(ResourceType::Volume, request));
    let call = match request.market {
        Market::Spot => call.spot_options(
            SpotOptionsRequest::builder()
                .allocation_strategy(SpotAllocationStrategy::PriceCapacityOptimized)
                .build(),
        ),
        Market::OnDemand => call.on_demand_options(
            OnDemandOptionsRequest::builder()
                .allocation_strategy(FleetOnDemandAllocationStrategy::Prioritized)
                .build(),
        ),
    };
    let answer = call.customize().config_override(once()).send().await.map_err(|error| {
        let (class, fault) = classified("CreateFleet", &error);
        LaunchError { class, code: fault.code, message: fault.message }
    })?;
    let mut machines = Vec::new();
    for id in answer.instances().iter().flat_map(CreateFleetInstance::instance_ids) {
        match id.parse() {
            Ok(machine) => machines.push(machine),
            // Lost for this answer, not for good: the sweep finds machines by their tag.
            Err(error) => tracing::error!(%error, "CreateFleet answered with an odd id"),
        }
    }
    Ok(LaunchAnswer { machines, errors: answer.errors().iter().map(part).collect() })
}

fn template(request: &LaunchRequest) -> FleetLaunchTemplateConfigRequest {
    let specification = FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_id(&request.template_id)
        .version(&request.template_version)
        .build();
    FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(specification)
        .set_overrides(Some(overrides(request)))
        .build()
}

/// Types in order of preference. Spot goes by price and free capacity instead, as AWS advises: the
/// preferred type alone would be reclaimed more often.
fn overrides(request: &LaunchRequest) -> Vec<FleetLaunchTemplateOverridesRequest> {
    let mut types: Vec<&str> = Vec::new();
    let mut overrides = Vec::with_capacity(request.overrides.len());
    for choice in &request.overrides {
        let name = choice.instance_type.as_str();
        let rank = types.iter().position(|known| *known == name).unwrap_or_else(|| {
            types.push(name);
            types.len() - 1
        });
        let on_demand = request.market == Market::OnDemand;
        let priority = u32::try_from(rank).ok().filter(|_| on_demand).map(f64::from);
        overrides.push(
            FleetLaunchTemplateOverridesRequest::builder()
                .instance_type(InstanceType::from(name))
                .subnet_id(&choice.subnet)
                .set_priority(priority)
                .build(),
        );
    }
    overrides
}

fn target(request: &LaunchRequest) -> TargetCapacitySpecificationRequest {
    let market = match request.market {
        Market::Spot => DefaultTargetCapacityType::Spot,
        Market::OnDemand => DefaultTargetCapacityType::OnDemand,
    };
    TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(i32::try_from(request.capacity).unwrap_or(i32::MAX))
        .default_target_capacity_type(market)
        .build()
}

fn tagged(kind: ResourceType, request: &LaunchRequest) -> TagSpecification {
    let tags = request.tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build());
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags.collect())).build()
}

/// An error of one type in one subnet.
fn part(error: &CreateFleetError) -> LaunchError {
    let message = error.error_message().unwrap_or_default();
    let class: ErrorClass = classify_part(error.error_code(), message);
    let place = error.launch_template_and_overrides().and_then(|both| both.overrides());
    let place = place.map(|place| {
        let kind = place.instance_type().map_or("any type", InstanceType::as_str);
        format!("{kind} in {}: ", place.subnet_id().unwrap_or("any subnet"))
    });
    LaunchError {
        class,
        code: error.error_code().unwrap_or(NO_ANSWER).to_owned(),
        message: format!("{}{message}", place.unwrap_or_default()),
    }
}
