//! Launch templates and placement groups, described. Where there is an emulator the templates are
//! its own.

use super::super::gate::Reply;
use super::super::xml::{list, text, wrap};
use super::form::Form;
use super::write::answer;
use std::collections::BTreeMap;

use muster_cloud::World;
use muster_cloud::ec2::{Ec2Error, LaunchTemplate, PlacementGroup};

/// The answer to `DescribeLaunchTemplates` or `DescribeLaunchTemplateVersions`.
pub(super) fn templates(world: &World, body: &str) -> Result<Reply, Ec2Error> {
    let mut form = Form::parse(body.as_bytes());
    if form.peek("Action") == Some("DescribeLaunchTemplates") {
        let ids = form.take_list("LaunchTemplateId");
        form.finish()?;
        let found = ids.iter().map(|id| world.ec2.describe_template(id, None));
        let found: Vec<&LaunchTemplate> = found.collect::<Result<_, _>>()?;
        let items = found.into_iter().map(template);
        return Ok(answer("DescribeLaunchTemplates", &list("launchTemplates", items)));
    }
    let id = form.take("LaunchTemplateId").unwrap_or_default();
    let versions = form.take_list("LaunchTemplateVersion");
    form.finish()?;
    let found = versions.iter().map(|version| world.ec2.describe_template(&id, Some(version)));
    let found: Vec<&LaunchTemplate> = found.collect::<Result<_, _>>()?;
    let items = found.into_iter().map(version);
    Ok(answer("DescribeLaunchTemplateVersions", &list("launchTemplateVersionSet", items)))
}

fn template(template: &LaunchTemplate) -> String {
    text("launchTemplateId", &template.id)
        + &text("launchTemplateName", &template.name)
        + &text("latestVersionNumber", &template.version.to_string())
        + &tags(&template.tags)
}

fn version(template: &LaunchTemplate) -> String {
    let disk = template
        .device
        .iter()
        .map(|device| text("deviceName", device) + &wrap("ebs", &text("volumeSize", "40")));
    let data = list("blockDeviceMappingSet", disk) + &text("userData", &template.user_data);
    text("launchTemplateId", &template.id)
        + &text("versionNumber", &template.version.to_string())
        + &wrap("launchTemplateData", &data)
}

/// The answer to `DescribePlacementGroups`.
pub(super) fn placement_groups(groups: &[&PlacementGroup]) -> Reply {
    let items = groups.iter().map(|group| {
        text("groupName", &group.name)
            + &text("strategy", &group.strategy)
            + &text("state", "available")
            + &tags(&group.tags)
    });
    answer("DescribePlacementGroups", &list("placementGroupSet", items))
}

fn tags(tags: &BTreeMap<String, String>) -> String {
    let items = tags.iter().map(|(key, value)| text("key", key) + &text("value", value));
    list("tagSet", items)
}
