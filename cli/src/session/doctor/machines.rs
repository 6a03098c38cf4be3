//! Queries types and images. The launch template names a parameter that contains the image, so
//! these queries depend on each other.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use muster_domain::pool::{Image, Pool};
use muster_sigv4::Call;
use serde_json::json;
use tokio::join;

use super::super::batch::CallBatch;
use super::network::ec2;
use crate::doctor::facts::Deployed;
use crate::doctor::facts::machines::{ImageFacts, Machines, Template, offers, parameters};
use crate::doctor::machines::may_read;
use crate::doctor::{Fact, Unknown};

/// Maximum number of parameters per call.
const PARAMETERS: usize = 10;

/// Queries the launch template, the zones of the pools' types, and the images that the pools and the template name.
pub(super) async fn facts(
    batch: &CallBatch,
    deployed: Fact<&Deployed>,
    pools: &Fact<Vec<Pool>>,
    stack: &str,
) -> Machines {
    let (deployed, pools) = match (deployed, pools) {
        (Ok(deployed), Ok(pools)) => (deployed, pools),
        (Err(unknown), _) => return self::unknown(&unknown),
        (_, Err(unknown)) => return self::unknown(unknown),
    };
    let (template, offers) = join!(template(batch, deployed), zones(batch, pools));
    let named = pools.iter().filter_map(|pool| pool.image.as_ref());
    let used = template.iter().map(|template| &template.image);
    let mut ids: BTreeSet<String> = BTreeSet::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for image in named.chain(used) {
        match image {
            Image::Id(id) => drop(ids.insert(id.clone())),
            Image::Ssm(name) if may_read(name, stack) => drop(names.insert(name)),
            Image::Ssm(_) => {}
        }
    }
    let parameters = of_parameters(batch, names.into_iter().collect()).await;
    ids.extend(parameters.iter().flatten().map(|(_, id)| id.clone()));
    let images = images(batch, ids.into_iter().collect()).await;
    Machines { template, offers, parameters, images }
}

async fn template(batch: &CallBatch, deployed: &Deployed) -> Fact<Template> {
    let id = deployed.outputs.get("LaunchTemplateId").map_or("", String::as_str);
    let fields = [("LaunchTemplateId", id), ("LaunchTemplateVersion.1", "$Latest")];
    let call = ec2("DescribeLaunchTemplateVersions", &[], &fields);
    let missing = || Unknown::NoAnswer("EC2 shows no image of the launch template".to_owned());
    batch.fact(call, Template::read).await?.ok_or_else(missing)
}

async fn zones(batch: &CallBatch, pools: &[Pool]) -> Fact<BTreeSet<(String, String)>> {
    let types: BTreeSet<&str> =
        pools.iter().flat_map(|pool| pool.instance_types.iter().map(|one| &**one)).collect();
    let types: Vec<String> = types.into_iter().map(str::to_owned).collect();
    let fields = [("LocationType", "availability-zone")];
    let call = ec2("DescribeInstanceTypeOfferings", &[("instance-type", &types)], &fields);
    batch.fact(call, offers).await
}

/// Returns the images that parameters contain.
async fn of_parameters(batch: &CallBatch, names: Vec<&str>) -> Fact<BTreeMap<String, String>> {
    let calls = names.chunks(PARAMETERS).map(|names| {
        batch.fact(
            Call::json("ssm", "AmazonSSM.GetParameters", &json!({ "Names": names })),
            parameters,
        )
    });
    let found: Fact<Vec<_>> = join_all(calls).await.into_iter().collect();
    Ok(found?.into_iter().flatten().collect())
}

async fn images(batch: &CallBatch, ids: Vec<String>) -> Fact<Vec<ImageFacts>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    // EC2 hides deprecated images of other accounts, but still launches them.
    let fields = [("IncludeDeprecated", "true")];
    batch.fact(ec2("DescribeImages", &[("image-id", &ids)], &fields), ImageFacts::read).await
}

/// Returns the facts if the calls could not be made.
fn unknown(unknown: &Unknown) -> Machines {
    let unknown = || unknown.clone();
    Machines {
        template: Err(unknown()),
        offers: Err(unknown()),
        parameters: Err(unknown()),
        images: Err(unknown()),
    }
}
