//! What a request may name beside images: launch templates, and placement groups.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::describe::wildcard;
use super::{Ec2, Ec2Error, Filter, LaunchTemplate, TemplateRef};

/// A placement group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementGroup {
    pub name: String,
    /// `cluster`, `spread` or `partition`.
    pub strategy: String,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

impl Ec2 {
    /// Puts a placement group into the world; the same name again replaces it.
    pub fn put_placement_group(&mut self, group: PlacementGroup) {
        self.placement_groups.insert(group.name.clone(), group);
    }

    /// The placement groups whose names fit the filters.
    pub fn describe_placement_groups(
        &self,
        filters: &[Filter],
    ) -> Result<Vec<&PlacementGroup>, Ec2Error> {
        if let Some(other) = filters.iter().find(|filter| filter.name != "group-name") {
            let message = format!("The filter '{}' is invalid", other.name);
            return Err(Ec2Error::new("InvalidParameterValue", message));
        }
        let fits = |filter: &Filter, name: &str| {
            filter.values.iter().any(|pattern| wildcard(pattern, name))
        };
        let groups = self.placement_groups.values();
        Ok(groups.filter(|group| filters.iter().all(|one| fits(one, &group.name))).collect())
    }

    /// A launch template by its id; without a version, the newest.
    pub fn describe_template(
        &self,
        id: &str,
        version: Option<&str>,
    ) -> Result<&LaunchTemplate, Ec2Error> {
        let wanted = |version: Option<&str>| TemplateRef {
            id: Some(id.to_owned()),
            name: None,
            version: version.map(str::to_owned),
        };
        if self.template(&wanted(None)).is_none() {
            return Err(Ec2Error::new(
                "InvalidLaunchTemplateId.NotFound",
                format!("The specified launch template, with template ID {id}, does not exist."),
            ));
        }
        self.template(&wanted(version)).ok_or_else(|| {
            Ec2Error::new(
                "InvalidLaunchTemplateId.VersionNotFound",
                format!("Could not find the specified version for the launch template {id}."),
            )
        })
    }
}
