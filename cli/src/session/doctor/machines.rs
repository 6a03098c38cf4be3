//! Queries types and images. The launch template names a parameter that contains the image, so
//! these queries depend on each other.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::pool::{Image, Pool};
use muster_sigv4::Call;
use serde_json::{Value, json};

use super::network::ec2;
use super::{Answer, Session, World, fact, next};
use crate::doctor::facts::Deployed;
use crate::doctor::facts::machines::{FoundImage, Machines, Template, offers, parameters};
use crate::doctor::machines::may_read;
use crate::doctor::{Fact, Unknown};
use crate::failure::Failure;

/// Maximum number of parameters per call.
const PARAMETERS: usize = 10;

/// Returns the calls for the launch template and for the zones of the pools' types.
pub(super) fn calls(deployed: &Deployed, pools: &[Pool]) -> [Call; 2] {
    let template = deployed.outputs.get("LaunchTemplateId").map_or("", String::as_str);
    let types: BTreeSet<&str> =
        pools.iter().flat_map(|pool| pool.instance_types.iter().map(|one| &**one)).collect();
    let types: Vec<String> = types.into_iter().map(str::to_owned).collect();
    [
        ec2(
            "DescribeLaunchTemplateVersions",
            &[],
            &[("LaunchTemplateId", template), ("LaunchTemplateVersion.1", "$Latest")],
        ),
        ec2(
            "DescribeInstanceTypeOfferings",
            &[("instance-type", &types)],
            &[("LocationType", "availability-zone")],
        ),
    ]
}

/// Reads their answers.
pub(super) fn read(answers: &mut impl Iterator<Item = Answer>) -> Machines {
    let template = fact(next(answers), |answer| Template::read(&answer)).and_then(|template| {
        template.ok_or_else(|| {
            Unknown::NoAnswer("EC2 shows no image of the launch template".to_owned())
        })
    });
    let offers = fact(next(answers), |answer| offers(&answer));
    Machines { template, offers, parameters: Ok(BTreeMap::new()), images: Ok(Vec::new()) }
}

/// Returns the facts if the calls could not be made.
pub(super) fn unknown(unknown: &Unknown) -> Machines {
    let unknown = || unknown.clone();
    Machines {
        template: Err(unknown()),
        offers: Err(unknown()),
        parameters: Err(unknown()),
        images: Err(unknown()),
    }
}

impl<W: World> Session<'_, W> {
    /// Looks up the images that the pools and the template name.
    pub(super) async fn look_up_images(
        &mut self,
        machines: &mut Machines,
        pools: &[Pool],
        stack: &str,
    ) -> Result<(), Failure> {
        let named = pools.iter().filter_map(|pool| pool.image.as_ref());
        let all: Vec<&Image> =
            named.chain(machines.template.as_ref().ok().map(|template| &template.image)).collect();
        let mut ids: BTreeSet<String> = BTreeSet::new();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for image in all {
            match image {
                Image::Id(id) => drop(ids.insert(id.clone())),
                Image::Ssm(name) if may_read(name, stack) => drop(names.insert(name)),
                Image::Ssm(_) => {}
            }
        }
        let names: Vec<&str> = names.into_iter().collect();
        let calls = names
            .chunks(PARAMETERS)
            .map(|names| Call::json("ssm", "AmazonSSM.GetParameters", &json!({ "Names": names })));
        let answers = self.asked_of_aws(calls.collect()).await?.into_iter();
        let found: Vec<Fact<BTreeMap<String, String>>> =
            answers.map(|answer| fact(answer, |answer| parameters(&answer))).collect();
        let found: Fact<Vec<_>> = found.into_iter().collect();
        machines.parameters = found.map(|all| all.into_iter().flatten().collect());
        ids.extend(machines.parameters.iter().flatten().map(|(_, id)| id.clone()));
        if ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = ids.into_iter().collect();
        let mut answers = self
            .asked_of_aws(vec![ec2(
                "DescribeImages",
                &[("image-id", &ids)],
                // EC2 hides deprecated images of other accounts, but still launches them.
                &[("IncludeDeprecated", "true")],
            )])
            .await?;
        let answer = answers.pop().unwrap_or(Ok(Value::Null));
        machines.images = fact(answer, |answer| FoundImage::read(&answer));
        Ok(())
    }
}
