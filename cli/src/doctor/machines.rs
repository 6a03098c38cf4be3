//! Checks whether EC2 can launch the machines of the pools: problems that applying a pool file does
//! not detect.

use std::collections::BTreeSet;

use muster_api::answers::Finding;
use muster_domain::ec2::Arch;
use muster_domain::pool::{Image, Pool};

use super::facts::Running;
use super::facts::machines::{ImageFacts, Machines, Template};
use super::{Check, CheckGroup, Fact, Facts, error, found, judge, unasked, warn};

/// The tags that Muster sets itself.
const OWN_TAGS: [&str; 4] = ["Name", "muster:launch", "muster:pool", "muster:stack"];

pub(super) fn check(facts: &Facts) -> Vec<Check> {
    let Some(running) = &facts.running else { return Vec::new() };
    let pools: Vec<&Pool> = match &running.pools {
        Ok(pools) => pools.iter().filter(|pool| pool.enabled && !pool.is_removed()).collect(),
        Err(unknown) => return vec![unasked(CheckGroup::Machines, "pools", unknown)],
    };
    let Machines { offers, .. } = &running.machines;
    let mut all = images(&pools, running, facts);
    all.extend(judge(CheckGroup::Machines, "types", offers, |offers| {
        pools.iter().flat_map(|pool| types(pool, offers, running)).collect()
    }));
    if let Ok(Some(deployed)) = &facts.deployed {
        let tags = deployed.list("MachineTagKeys");
        let wrongs = pools.iter().flat_map(|pool| self::tags(pool, &tags));
        all.extend(found(CheckGroup::Machines, "tags", wrongs.collect()));
        let subnets = deployed.list("Subnets");
        let wrongs = pools.iter().flat_map(|pool| self::subnets(pool, &subnets));
        all.extend(found(CheckGroup::Machines, "places", wrongs.collect()));
    }
    all
}

/// The image of a pool, if it is known.
enum PoolImage<'a> {
    Found(&'a ImageFacts),
    Wrong(Finding),
}

fn images(pools: &[&Pool], running: &Running, facts: &Facts) -> Vec<Check> {
    let (mut images, mut disks) = (Vec::new(), Vec::new());
    for pool in pools {
        let known = match image(pool, &running.machines, &facts.stack) {
            Ok(known) => known,
            Err(unknown) => {
                return ["image", "disk"]
                    .map(|id| unasked(CheckGroup::Machines, id, &unknown))
                    .into();
            }
        };
        match known {
            PoolImage::Wrong(wrong) => images.push(wrong),
            PoolImage::Found(image) => {
                images.extend(processor(pool, image));
                disks.extend(disk(pool, image, running.machines.template.as_ref().ok()));
            }
        }
    }
    [found(CheckGroup::Machines, "image", images), found(CheckGroup::Machines, "disk", disks)]
        .concat()
}

fn image<'a>(pool: &Pool, machines: &'a Machines, stack: &str) -> Fact<PoolImage<'a>> {
    let Pool { name, .. } = pool;
    let wrong = |said: String, remedy: &str| Ok(PoolImage::Wrong(error(said).fix(remedy)));
    let wanted = match &pool.image {
        Some(image) => image,
        None => &machines.template.as_ref().map_err(Clone::clone)?.image,
    };
    let id = match wanted {
        Image::Id(id) => id,
        Image::Ssm(parameter) => {
            if !may_read(parameter, stack) {
                let own = format!("/{stack}/images/*");
                return wrong(
                    format!(
                        "The stack cannot read {parameter}, the image of pool {name}: only \
                         /aws/service/* and {own}."
                    ),
                    &format!("use a parameter below /{stack}/images/, and muster pools edit"),
                );
            }
            match machines.parameters.as_ref().map_err(Clone::clone)?.get(parameter) {
                Some(id) => id,
                None => {
                    return wrong(
                        format!(
                            "There is no parameter {parameter}, which should contain the image of \
                             pool {name}."
                        ),
                        "aws ssm put-parameter, or choose a different image: muster pools edit",
                    );
                }
            }
        }
    };
    let images = machines.images.as_ref().map_err(Clone::clone)?;
    match images.iter().find(|image| image.id == *id) {
        Some(image) if image.state == "available" => Ok(PoolImage::Found(image)),
        Some(image) => wrong(
            format!("{id}, the image of pool {name}, is in state {}.", image.state),
            "choose a different image: muster pools edit",
        ),
        None => wrong(
            format!(
                "{id}, the image of pool {name}, does not exist: it was deregistered, is in another \
                 region, or is not shared with this account."
            ),
            "choose a different image: muster pools edit",
        ),
    }
}

/// Returns whether the scale-up role can read a parameter (template.yaml, `ReadImageParameters`).
#[must_use]
pub fn may_read(parameter: &str, stack: &str) -> bool {
    parameter.starts_with("/aws/service/") || parameter.starts_with(&format!("/{stack}/images/"))
}

fn processor(pool: &Pool, image: &ImageFacts) -> Option<Finding> {
    let arch = match image.arch.as_str() {
        "x86_64" => Arch::X64,
        "arm64" => Arch::Arm64,
        // A Mac's or a 32-bit image: EC2's own error explains it.
        _ => return None,
    };
    let Pool { name, .. } = pool;
    let other = pool.instance_types.iter().find(|of_pool| Arch::of_type(of_pool) != arch);
    let what = match (other, pool.arch) {
        (Some(other), _) => format!("{other} is {}", Arch::of_type(other).as_str()),
        (None, Some(own)) if pool.instance_types.is_empty() && own != arch => {
            format!("the pool's arch is {}", own.as_str())
        }
        (None, _) => return None,
    };
    let said = format!(
        "The image of pool {name} ({}) is {}, and {what}: EC2 refuses its launches.",
        image.id,
        arch.as_str()
    );
    Some(error(said).fix("choose an image for these types, or other types: muster pools edit"))
}

fn disk(pool: &Pool, image: &ImageFacts, template: Option<&Template>) -> Option<Finding> {
    let Pool { name, .. } = pool;
    let root = &image.root;
    let (whose, device) = match &pool.disk {
        Some(disk) => ("the pool's disk", &disk.device),
        None => ("the disk of the stack's launch template", template?.device.as_ref()?),
    };
    let said = format!(
        "The image of pool {name} boots from {root}, and {whose} is on {device}: each \
         machine gets a second disk, and its first one stays as small as the image."
    );
    let remedy = format!("set disk: {{ device: {root} }}: muster pools edit");
    (device != root).then(|| warn(said).fix(remedy))
}

fn types(pool: &Pool, offers: &BTreeSet<(String, String)>, running: &Running) -> Vec<Finding> {
    let Pool { name, instance_types, .. } = pool;
    let Ok(Ok(subnets)) = running.network.as_ref().map(|network| &network.subnets) else {
        return Vec::new();
    };
    let own = |zone: &&str| !zone.is_empty();
    let zones: Vec<&str> = pool
        .subnets
        .iter()
        .filter_map(|id| subnets.iter().find(|subnet| *subnet.id == **id))
        .map(|subnet| subnet.zone.as_str())
        .filter(own)
        .collect();
    if zones.is_empty() || instance_types.is_empty() {
        return Vec::new();
    }
    let has = |of_pool: &str, zone: &str| offers.contains(&(of_pool.to_owned(), zone.to_owned()));
    let serves = |zone: &&&str| instance_types.iter().any(|one| has(one, zone));
    let serving = zones.iter().filter(serves).count();
    let all: BTreeSet<&str> = zones.iter().filter(|zone| !serves(zone)).copied().collect();
    let missing: Vec<&str> = all.into_iter().collect();
    let missing = missing.join(", ");
    if serving == 0 {
        let said =
            format!("No type of pool {name} is offered in the zones of its subnets ({missing}).");
        return vec![error(said).fix("choose other types or subnets: muster pools edit")];
    }
    let mut wrongs = Vec::new();
    if serving < zones.len() {
        let all = zones.len();
        let said = format!(
            "No type of pool {name} is offered in {missing}: {serving} of its {all} subnets serve."
        );
        wrongs.push(warn(said).fix("add types: muster pools edit"));
    }
    let nowhere = instance_types.iter().filter(|one| !zones.iter().any(|zone| has(one, zone)));
    wrongs.extend(nowhere.map(|one| {
        warn(format!("{one} of pool {name} is not offered in the zones of its subnets."))
            .fix("replace it with a different type: muster pools edit")
    }));
    wrongs
}

fn tags(pool: &Pool, allowed: &[String]) -> Vec<Finding> {
    let is_foreign = |key: &&String| !OWN_TAGS.contains(&key.as_str()) && !allowed.contains(key);
    let wrongs = pool.tags.keys().filter(is_foreign).map(|key| {
        let mut all = allowed.to_vec();
        all.push(key.clone());
        let said = format!(
            "Tag \"{key}\" of pool {} is not among the stack's MachineTagKeys: EC2 refuses \
             its launches.",
            pool.name
        );
        let all = all.join(",");
        error(said).fix(format!("sam deploy --parameter-overrides MachineTagKeys={all}"))
    });
    wrongs.collect()
}

fn subnets(pool: &Pool, allowed: &[String]) -> Vec<Finding> {
    let is_foreign = |id: &&str| !allowed.iter().any(|one| one == id);
    let wrongs = pool.subnets.iter().map(|id| &**id).filter(is_foreign).map(|id| {
        let said = format!(
            "{id} of pool {} is not one of the stack's Subnets: EC2 refuses launches there.",
            pool.name
        );
        let remedy =
            format!("muster upgrade --subnets {},{id}, or muster pools edit", allowed.join(","));
        error(said).fix(remedy)
    });
    wrongs.collect()
}
