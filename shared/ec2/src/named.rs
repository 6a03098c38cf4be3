//! Launch templates and placement groups that a pool file names.

use aws_sdk_ec2::types::{LaunchTemplateVersion, PlacementStrategy, Tag};
use muster_domain::launch::plan::STACK_TAG;
use muster_domain::pool_file::{FoundPlacement, FoundTemplate, NamedTemplate};
use muster_domain::provider::ProviderError;

use crate::machines::{filter, trouble};
use crate::{Ec2, classified};

/// The tag of a launch template with its machines' role. `infra/machine.yaml` sets it.
const ROLE_TAG: &str = "muster:role";

/// EC2's error codes for a missing launch template or version.
/// Source: docs.aws.amazon.com/ec2/latest/devguide/ec2-api-errors.html
const NO_TEMPLATE: [&str; 4] = [
    "InvalidLaunchTemplateId.NotFound",
    "InvalidLaunchTemplateId.NotFoundException",
    "InvalidLaunchTemplateId.VersionNotFound",
    "InvalidLaunchTemplateId.VersionNotFoundException",
];

/// Reads a launch template with two calls: a version's description has no tags, and a template's
/// has only the numbers of its versions.
pub(crate) async fn template(
    ec2: &Ec2,
    named: &NamedTemplate,
) -> Result<Option<FoundTemplate>, ProviderError> {
    let version = named.version.map_or_else(|| "$Latest".to_owned(), |number| number.to_string());
    let call = ec2.client.describe_launch_template_versions();
    let answer = match call.launch_template_id(&named.id).versions(version).send().await {
        Ok(answer) => answer,
        Err(error) => {
            let (class, fault) = classified("DescribeLaunchTemplateVersions", &error);
            if NO_TEMPLATE.contains(&fault.code.as_str()) {
                return Ok(None);
            }
            return Err(trouble((class, fault)));
        }
    };
    let Some(found) = answer.launch_template_versions().first() else { return Ok(None) };
    let call = ec2.client.describe_launch_templates().launch_template_ids(&named.id);
    let told = call.send().await;
    let told = told.map_err(|error| trouble(classified("DescribeLaunchTemplates", &error)))?;
    let tags = match told.launch_templates() {
        [one, ..] => one.tags(),
        [] => &[],
    };
    Ok(Some(read(ec2, found, tags)))
}

fn read(ec2: &Ec2, found: &LaunchTemplateVersion, tags: &[Tag]) -> FoundTemplate {
    let data = found.launch_template_data();
    let disks = match data {
        Some(data) => data.block_device_mappings(),
        None => &[],
    };
    let disk = disks.iter().find(|mapping| mapping.ebs().is_some());
    let encoded = data.and_then(|data| data.user_data()).unwrap_or_default();
    let user_data = aws_smithy_types::base64::decode(encoded).unwrap_or_default();
    FoundTemplate {
        version: found
            .version_number()
            .and_then(|number| number.try_into().ok())
            .unwrap_or_default(),
        is_ours: value(tags, STACK_TAG) == Some(&ec2.stack),
        role: value(tags, ROLE_TAG).map(str::to_owned),
        device: disk.and_then(|mapping| mapping.device_name()).map(str::to_owned),
        user_data: String::from_utf8_lossy(&user_data).into_owned(),
    }
}

/// Looks up a placement group by a filter, because a call that names an unknown group fails.
pub(crate) async fn placement(
    ec2: &Ec2,
    group: &str,
) -> Result<Option<FoundPlacement>, ProviderError> {
    let named = filter("group-name", [group]);
    let answer = ec2.client.describe_placement_groups().filters(named).send().await;
    let answer = answer.map_err(|error| trouble(classified("DescribePlacementGroups", &error)))?;
    // The name may contain characters that the filter interprets as wildcards.
    let found = answer.placement_groups().iter().find(|one| one.group_name() == Some(group));
    Ok(found.map(|one| FoundPlacement {
        is_ours: value(one.tags(), STACK_TAG) == Some(&ec2.stack),
        is_cluster: one.strategy() == Some(&PlacementStrategy::Cluster),
    }))
}

fn value<'a>(tags: &'a [Tag], key: &str) -> Option<&'a str> {
    tags.iter().find(|tag| tag.key() == Some(key)).and_then(Tag::value)
}
