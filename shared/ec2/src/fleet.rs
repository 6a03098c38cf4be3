//! Launching machines with CreateFleet of type `instant`.

use std::collections::BTreeMap;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{
    CapacityReservationOptionsRequest, CreateFleetError, CreateFleetInstance,
    DefaultTargetCapacityType, FleetBlockDeviceMappingRequest,
    FleetCapacityReservationUsageStrategy, FleetEbsBlockDeviceRequest,
    FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy, FleetType,
    InstanceLifecycle, InstanceRequirementsRequest, InstanceType, MemoryMiBRequest,
    OnDemandOptionsRequest, Placement as Ec2Placement, ResourceType, SpotAllocationStrategy,
    SpotOptionsRequest, Tag, TagSpecification, TargetCapacitySpecificationRequest, Tenancy,
    VCpuCountRangeRequest, VolumeType,
};
use muster_domain::causes::with_causes;
use muster_domain::ec2::classify::classify_part;
use muster_domain::ec2::{ErrorClass, LaunchError, Make, Market, Override};
use muster_domain::ids::LaunchId;
use muster_domain::launch::{LaunchAnswer, LaunchRequest};
use muster_domain::pool::{Allocation, Disk, Image, Placement, Requirements};

use crate::{NO_ANSWER, classified, once};

/// Sends the request of a launch. An equal ID and request produce an equal call, byte for byte,
/// because EC2 compares them under the client token.
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
        // The resource types that an instant fleet can tag. The fleet itself is only a request, and
        // tagging it would need a further permission.
        .tag_specifications(tagged(ResourceType::Instance, request))
        .tag_specifications(tagged(ResourceType::Volume, request));
    let call = match (spot_allocation(request), on_demand_allocation(request)) {
        (Some(strategy), _) => {
            call.spot_options(SpotOptionsRequest::builder().allocation_strategy(strategy).build())
        }
        (None, strategy) => call.on_demand_options(
            OnDemandOptionsRequest::builder()
                .set_allocation_strategy(strategy)
                .set_capacity_reservation_options(request.reserved_first.then(reserved_first))
                .build(),
        ),
    };
    let answer = call.customize().config_override(once()).send().await.map_err(|error| {
        let (class, fault) = classified("CreateFleet", &error);
        LaunchError::new(class, fault.code, fault.message)
    })?;
    let mut machines = BTreeMap::new();
    let of_groups = answer.instances().iter();
    let ids = of_groups.flat_map(|group| group.instance_ids().iter().map(move |id| (group, id)));
    for (group, id) in ids {
        match id.parse() {
            Ok(machine) => drop(machines.insert(machine, make(group))),
            // Missing from this response, but not lost: the sweep finds machines by their tag.
            Err(error) => tracing::error!(
                error = with_causes(&error),
                "CreateFleet answered with an unexpected id"
            ),
        }
    }
    Ok(LaunchAnswer { machines, errors: answer.errors().iter().map(part).collect() })
}

fn template(request: &LaunchRequest) -> FleetLaunchTemplateConfigRequest {
    let specification = FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_id(&*request.template_id)
        .version(&*request.template_version)
        .build();
    FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(specification)
        .set_overrides(Some(overrides(request)))
        .build()
}

/// Returns the Spot allocation strategy. `None` for On-Demand.
fn spot_allocation(request: &LaunchRequest) -> Option<SpotAllocationStrategy> {
    if request.market != Market::Spot {
        return None;
    }
    Some(match request.allocation {
        Allocation::CapacityOptimized => SpotAllocationStrategy::CapacityOptimized,
        Allocation::CapacityOptimizedPrioritized => {
            SpotAllocationStrategy::CapacityOptimizedPrioritized
        }
        Allocation::Diversified => SpotAllocationStrategy::Diversified,
        Allocation::LowestPrice => SpotAllocationStrategy::LowestPrice,
        Allocation::PriceCapacityOptimized | Allocation::Prioritized => {
            SpotAllocationStrategy::PriceCapacityOptimized
        }
    })
}

/// Returns the On-Demand allocation strategy. `None` for Spot.
fn on_demand_allocation(request: &LaunchRequest) -> Option<FleetOnDemandAllocationStrategy> {
    (request.market == Market::OnDemand).then_some(match request.allocation {
        Allocation::LowestPrice => FleetOnDemandAllocationStrategy::LowestPrice,
        _ => FleetOnDemandAllocationStrategy::Prioritized,
    })
}

fn overrides(request: &LaunchRequest) -> Vec<FleetLaunchTemplateOverridesRequest> {
    let spot = request.market == Market::Spot;
    let one = |choice: &Override| {
        let kind = Some(&*choice.instance_type).filter(|name| !name.is_empty());
        FleetLaunchTemplateOverridesRequest::builder()
            .set_instance_type(kind.map(InstanceType::from))
            .set_instance_requirements(request.requirements.as_ref().map(requirements))
            .subnet_id(&*choice.subnet)
            .set_priority(request.priority(choice).map(f64::from))
            .set_max_price(request.max_price.clone().filter(|_| spot))
            .set_image_id(request.image.as_ref().map(image))
            .set_block_device_mappings(disks(request))
            .set_placement(request.placement.as_ref().map(placement))
            .build()
    };
    request.overrides.iter().map(one).collect()
}

/// EC2 itself reads the parameter, at every launch.
fn image(image: &Image) -> String {
    match image {
        Image::Id(id) => id.clone(),
        Image::Ssm(parameter) => format!("resolve:ssm:{parameter}"),
    }
}

fn placement(wanted: &Placement) -> Ec2Placement {
    Ec2Placement::builder()
        .set_group_name(wanted.group.clone())
        .set_tenancy(wanted.dedicated.then_some(Tenancy::Dedicated))
        .build()
}

fn reserved_first() -> CapacityReservationOptionsRequest {
    let first = FleetCapacityReservationUsageStrategy::UseCapacityReservationsFirst;
    CapacityReservationOptionsRequest::builder().usage_strategy(first).build()
}

fn requirements(wanted: &Requirements) -> InstanceRequirementsRequest {
    let vcpus = VCpuCountRangeRequest::builder()
        .min(number(wanted.vcpus_min))
        .set_max(wanted.vcpus_max.map(number));
    let memory = MemoryMiBRequest::builder()
        .min(number(wanted.memory_mib_min))
        .set_max(wanted.memory_mib_max.map(number));
    InstanceRequirementsRequest::builder()
        .v_cpu_count(vcpus.build())
        .memory_mib(memory.build())
        .build()
}

/// Returns the block device mappings that replace those of the launch template, or `None` to leave
/// them unchanged. A device that the template does not map is added to the template's, so the
/// template's must be removed by name.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_FleetBlockDeviceMappingRequest.html
fn disks(request: &LaunchRequest) -> Option<Vec<FleetBlockDeviceMappingRequest>> {
    let own = disk(request.disk.as_ref()?);
    let omitted = request.omitted_device.as_deref().map(|device| {
        FleetBlockDeviceMappingRequest::builder().device_name(device).no_device("").build()
    });
    Some([own].into_iter().chain(omitted).collect())
}

/// Repeats every property of the launch template's mapping: a mapping for one device replaces it
/// completely.
fn disk(disk: &Disk) -> FleetBlockDeviceMappingRequest {
    let volume = FleetEbsBlockDeviceRequest::builder()
        .volume_type(VolumeType::Gp3)
        .volume_size(number(disk.size_gib))
        .set_iops(disk.iops.map(number))
        .set_throughput(disk.throughput_mib.map(number))
        .encrypted(true)
        .delete_on_termination(true);
    FleetBlockDeviceMappingRequest::builder().device_name(&disk.device).ebs(volume.build()).build()
}

fn number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn target(request: &LaunchRequest) -> TargetCapacitySpecificationRequest {
    let market = match request.market {
        Market::Spot => DefaultTargetCapacityType::Spot,
        Market::OnDemand => DefaultTargetCapacityType::OnDemand,
    };
    TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(number(request.capacity))
        .default_target_capacity_type(market)
        .build()
}

fn tagged(kind: ResourceType, request: &LaunchRequest) -> TagSpecification {
    let tags = request.tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build());
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags.collect())).build()
}

/// Returns the make of the machines in a group of the response. The response of an instant fleet
/// has the zone; older ones had it only if the request named it.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleetInstance.html
fn make(group: &CreateFleetInstance) -> Make {
    let choice = group.launch_template_and_overrides().and_then(|both| both.overrides());
    let asked = choice.and_then(|choice| choice.availability_zone());
    Make {
        kind: group.instance_type().map(|kind| kind.as_str().into()),
        zone: group.availability_zone().or(asked).map(Into::into),
        subnet: choice.and_then(|choice| choice.subnet_id()).map(Into::into),
        market: match group.lifecycle() {
            Some(InstanceLifecycle::Spot) => Some(Market::Spot),
            Some(InstanceLifecycle::OnDemand) => Some(Market::OnDemand),
            _ => None,
        },
    }
}

/// Converts an error of one type in one subnet.
fn part(error: &CreateFleetError) -> LaunchError {
    let message = error.error_message().unwrap_or_default();
    let class: ErrorClass = classify_part(error.error_code(), message);
    let choice = error.launch_template_and_overrides().and_then(|both| both.overrides());
    let place = choice.and_then(|choice| {
        let kind = choice.instance_type().map_or("", InstanceType::as_str);
        Some(Override { instance_type: kind.into(), subnet: choice.subnet_id()?.into() })
    });
    LaunchError {
        place,
        ..LaunchError::new(class, error.error_code().unwrap_or(NO_ANSWER), message)
    }
}
