//! EC2 Query requests, with the parameter names that the AWS SDK for Rust writes.

use std::collections::BTreeMap;

use super::form::Form;
use muster_cloud::ec2::{
    CreateImageRequest, DescribeRequest, Ec2Error, Filter, FleetConfig, FleetOptions, FleetRequest,
    FleetTags, ImageRequest, Market, Override, TemplateRef,
};

/// What an override may say besides type, subnet and priority.
const DETAILS: [&str; 3] = ["BlockDeviceMapping", "InstanceRequirements", "Placement"];

pub(super) fn create_fleet(mut form: Form) -> Result<FleetRequest, Ec2Error> {
    let target = "TargetCapacitySpecification";
    let market = match form.take(&format!("{target}.DefaultTargetCapacityType")).as_deref() {
        None => None,
        Some("on-demand") => Some(Market::OnDemand),
        Some("spot") => Some(Market::Spot),
        Some(other) => {
            return Err(unsupported(&format!("the target capacity type '{other}'")));
        }
    };
    if let Some(unit) = form.take(&format!("{target}.TargetCapacityUnitType"))
        && unit != "units"
    {
        return Err(unsupported(&format!("the target capacity unit '{unit}'")));
    }
    let total = form.take_number(&format!("{target}.TotalTargetCapacity"))?.ok_or_else(|| {
        Ec2Error::new(
            "MissingParameter",
            "The request must contain the parameter TotalTargetCapacity",
        )
    })?;
    let request = FleetRequest {
        client_token: form.take("ClientToken"),
        kind: form.take("Type"),
        total,
        on_demand: form.take_number(&format!("{target}.OnDemandTargetCapacity"))?,
        spot: form.take_number(&format!("{target}.SpotTargetCapacity"))?,
        default_market: market,
        configs: configs(&mut form),
        spot_options: options(&mut form, "SpotOptions")?,
        on_demand_options: options(&mut form, "OnDemandOptions")?,
        tags: tag_specifications(&mut form),
    };
    form.finish()?;
    Ok(request)
}

fn configs(form: &mut Form) -> Vec<FleetConfig> {
    let mut configs = vec![];
    for config in form.members("LaunchTemplateConfigs") {
        let specification = format!("{config}.LaunchTemplateSpecification");
        let template = TemplateRef {
            id: form.take(&format!("{specification}.LaunchTemplateId")),
            name: form.take(&format!("{specification}.LaunchTemplateName")),
            version: form.take(&format!("{specification}.Version")),
        };
        let overrides = form.members(&format!("{config}.Overrides"));
        let overrides = overrides
            .iter()
            .map(|choice| Override {
                instance_type: form.take(&format!("{choice}.InstanceType")),
                subnet_id: form.take(&format!("{choice}.SubnetId")),
                zone: form.take(&format!("{choice}.AvailabilityZone")),
                image_id: form.take(&format!("{choice}.ImageId")),
                max_price: form.take(&format!("{choice}.MaxPrice")),
                priority: form.take(&format!("{choice}.Priority")),
                details: form.take_below(choice, &DETAILS),
            })
            .collect();
        configs.push(FleetConfig { template, overrides });
    }
    configs
}

fn options(form: &mut Form, prefix: &str) -> Result<FleetOptions, Ec2Error> {
    Ok(FleetOptions {
        allocation_strategy: form.take(&format!("{prefix}.AllocationStrategy")),
        single_instance_type: form.take_bool(&format!("{prefix}.SingleInstanceType"))?,
        single_availability_zone: form.take_bool(&format!("{prefix}.SingleAvailabilityZone"))?,
        min_target_capacity: form.take_number(&format!("{prefix}.MinTargetCapacity"))?,
        interruption_behavior: form.take(&format!("{prefix}.InstanceInterruptionBehavior")),
        max_total_price: form.take(&format!("{prefix}.MaxTotalPrice")),
        reservations: form.take(&format!("{prefix}.CapacityReservationOptions.UsageStrategy")),
    })
}

fn tag_specifications(form: &mut Form) -> Vec<FleetTags> {
    let members = form.members("TagSpecification");
    members
        .iter()
        .map(|member| FleetTags {
            resource_type: form.take(&format!("{member}.ResourceType")).unwrap_or_default(),
            tags: form.take_tags(&format!("{member}.Tag")),
        })
        .collect()
}

pub(super) fn describe_instances(mut form: Form) -> Result<DescribeRequest, Ec2Error> {
    let request = DescribeRequest {
        ids: form.take_list("InstanceId"),
        filters: filters(&mut form),
        max_results: form.take_number("MaxResults")?,
        next_token: form.take("NextToken"),
    };
    form.finish()?;
    Ok(request)
}

pub(super) fn describe_images(mut form: Form) -> Result<ImageRequest, Ec2Error> {
    // Here none is called out of date, and none is disabled.
    form.take_bool("IncludeDeprecated")?;
    form.take_bool("IncludeDisabled")?;
    let request = ImageRequest {
        owners: form.take_list("Owner"),
        filters: filters(&mut form),
        max_results: form.take_number("MaxResults")?,
        next_token: form.take("NextToken"),
    };
    form.finish()?;
    Ok(request)
}

pub(super) fn create_image(mut form: Form) -> Result<CreateImageRequest, Ec2Error> {
    let request = CreateImageRequest {
        instance: required(&mut form, "InstanceId")?,
        name: required(&mut form, "Name")?,
        description: form.take("Description"),
        no_reboot: form.take_bool("NoReboot")?,
        tags: tag_specifications(&mut form),
    };
    form.finish()?;
    Ok(request)
}

pub(super) fn deregister_image(mut form: Form) -> Result<(String, bool), Ec2Error> {
    let id = required(&mut form, "ImageId")?;
    let snapshots = form.take_bool("DeleteAssociatedSnapshots")?;
    form.finish()?;
    Ok((id, snapshots))
}

pub(super) fn delete_snapshot(mut form: Form) -> Result<String, Ec2Error> {
    let id = required(&mut form, "SnapshotId")?;
    form.finish()?;
    Ok(id)
}

fn required(form: &mut Form, name: &str) -> Result<String, Ec2Error> {
    form.take(name).ok_or_else(|| {
        let message = format!("The request must contain the parameter {name}");
        Ec2Error::new("MissingParameter", message)
    })
}

pub(super) fn describe_placement_groups(mut form: Form) -> Result<Vec<Filter>, Ec2Error> {
    let filters = filters(&mut form);
    form.finish()?;
    Ok(filters)
}

pub(super) fn filters(form: &mut Form) -> Vec<Filter> {
    let members = form.members("Filter");
    members
        .iter()
        .map(|member| Filter {
            name: form.take(&format!("{member}.Name")).unwrap_or_default(),
            values: form.take_list(&format!("{member}.Value")),
        })
        .collect()
}

pub(super) fn terminate_instances(mut form: Form) -> Result<Vec<String>, Ec2Error> {
    let ids = form.take_list("InstanceId");
    // Both only make the shutdown rougher; a simulated machine loses its power anyway.
    form.take_bool("Force")?;
    form.take_bool("SkipOsShutdown")?;
    form.finish()?;
    Ok(ids)
}

pub(super) fn get_console_output(mut form: Form) -> Result<(String, bool), Ec2Error> {
    let id = required(&mut form, "InstanceId")?;
    let latest = form.take_bool("Latest")?;
    form.finish()?;
    Ok((id, latest))
}

pub(super) fn create_tags(
    mut form: Form,
) -> Result<(Vec<String>, BTreeMap<String, String>), Ec2Error> {
    let ids = form.take_list("ResourceId");
    let tags = form.take_tags("Tag");
    form.finish()?;
    Ok((ids, tags))
}

fn unsupported(what: &str) -> Ec2Error {
    Ec2Error::new("UnsupportedOperation", format!("The simulated cloud does not know {what}."))
}
