//! Machine images that Muster builds: which one a pool's machines boot, and when the next one is built.
//!
//! A build launches a builder, lets EC2 create an image of its disk, and tries that image with one more machine. The
//! record [`Images`] says what machines boot. A new image is on probation: it is used for three machines, and by all
//! others once one of the three has booted.

mod build;
mod built;
mod family;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::build::{
    Build, BuildReason, BuildStep, EC2_CREATES_FOR, EC2_HIDES_FOR, MAX_TRIALS, MachineEnd,
    TRIED_WITHIN, has_booted,
};
pub use self::built::{BuiltImage, PROBATION, Trust};
pub use self::family::{BuildFailure, Family};
use crate::SCHEMA;
use crate::ec2::Arch;
use crate::hash::fnv1a_on;
use crate::ids::{Entity, EntityKind, FamilyKey, ImageId, InstanceName};
use crate::instance::{BootMethod, Instance};
use crate::pool::{Image, Pool};
use crate::time::{Seconds, Time};

/// Maximum number of families with images in a stack: each costs a build a week and two snapshots.
pub const MAX_FAMILIES: usize = 4;
/// The prefix of Canonical's public parameters: Ubuntu images, which a pool can name as its base.
pub const CANONICAL: &str = "/aws/service/canonical/";
/// How long the images of a family without pools are kept: the pools may return.
const KEPT_WITHOUT_POOLS: Seconds = Seconds(14 * 24 * 3600);
/// How long a replaced image is kept, so that launches that named it can be repeated.
const KEPT_AFTER_USE: Seconds = Seconds(24 * 3600);

/// How a build ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildEnd {
    /// With an image that machines boot from now on.
    Made(Box<BuiltImage>),
    /// With a failure, for this reason. The next build waits.
    Failed(String),
    /// The trial did not boot by the unit. The next build starts at once, and uses cloud-init.
    UnitFailed,
    /// For a reason outside of the build, for example a Spot interruption. The next build starts soon.
    Lost,
    /// Because images were turned off, or the family has no pools left.
    Cancelled,
}

/// What the machines of an image on probation show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One has booted.
    Proven(ImageId),
    /// None boots, for this reason.
    Rejected(ImageId, String),
}

/// The record of images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Images {
    /// The record's schema version.
    pub schema: u16,
    /// Whether images are built and used.
    pub on: bool,
    /// The families that have, had or are getting an image.
    pub families: BTreeMap<FamilyKey, Family>,
    /// Images that no family uses any longer, until they are deleted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unused: BTreeMap<ImageId, UnusedImage>,
}

/// An image that is going to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedImage {
    /// When.
    pub at: Time,
    /// Its snapshots, once EC2 has listed it: EC2 stops listing an image before its snapshots are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<String>,
}

impl Default for Images {
    fn default() -> Self {
        Self { schema: SCHEMA, on: false, families: BTreeMap::new(), unused: BTreeMap::new() }
    }
}

/// Which image to launch a pool's machines with. `None` is the image of the launch template, or the pool's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageChoice {
    /// The image.
    pub image: Option<ImageId>,
    /// Maximum number of machines to launch with it, while it is on probation.
    pub left: Option<usize>,
    /// The image of all other machines.
    pub otherwise: Option<ImageId>,
}

impl ImageChoice {
    /// Returns the image for a launch of this many machines, and counts them.
    pub fn take(&mut self, machines: usize) -> Option<ImageId> {
        match &mut self.left {
            None => self.image.clone(),
            Some(left) if machines <= *left => {
                *left -= machines;
                self.image.clone()
            }
            Some(_) => self.otherwise.clone(),
        }
    }

    /// Returns the maximum number of slots of the next launch, given that it is `most` otherwise. A launch has one
    /// image, so the machines of an image on probation get a launch of their own.
    #[must_use]
    pub fn most_slots(&self, most: usize) -> usize {
        match self.left {
            Some(left) if left > 0 => most.min(left),
            _ => most,
        }
    }
}

/// Returns the family that a pool's machines belong to. `None` if the pool has its own launch template or names an
/// image of somebody else.
#[must_use]
pub fn family_of(pool: &Pool) -> Option<FamilyKey> {
    let base = match &pool.image {
        None => "",
        Some(Image::Ssm(name)) if name.starts_with(CANONICAL) => name,
        Some(Image::Id(_) | Image::Ssm(_)) => return None,
    };
    if pool.own_template.is_some() {
        return None;
    }
    let first = pool.instance_types.first();
    let arch = pool.arch.or_else(|| first.map(|kind| Arch::of_type(kind))).unwrap_or(Arch::X64);
    let hook = pool.image_hook.as_deref().unwrap_or_default();
    let key = match (base, hook) {
        ("", "") => arch.as_str().to_owned(),
        _ => {
            let hash = fnv1a_on(fnv1a_on(0xcbf2_9ce4_8422_2325, base.as_bytes()), hook.as_bytes());
            format!("{}-{:08x}", arch.as_str(), hash >> 32)
        }
    };
    key.parse().ok()
}

/// Returns the pools whose machines can use each family's images, in the order of the pool file. Families with an image
/// hook come first when there are more than [`MAX_FAMILIES`]; the others get no images.
#[must_use]
pub fn families(pools: &[Pool]) -> Vec<(FamilyKey, Vec<&Pool>)> {
    let mut all: Vec<(FamilyKey, Vec<&Pool>)> = Vec::new();
    for pool in pools.iter().filter(|pool| pool.enabled && !pool.is_removed()) {
        let Some(key) = family_of(pool) else { continue };
        match all.iter_mut().find(|(known, _)| *known == key) {
            Some((_, pools)) => pools.push(pool),
            None => all.push((key, vec![pool])),
        }
    }
    all.sort_by_key(|(_, pools)| pools.iter().all(|pool| pool.image_hook.is_none()));
    all.truncate(MAX_FAMILIES);
    all
}

/// Returns the pool whose settings a family's builder is launched with: the one with the smallest disk, because no
/// machine can have a smaller disk than its image. Among equals, a pool whose entity is known.
#[must_use]
pub fn building_pool<'a>(pools: &[&'a Pool]) -> Option<&'a Pool> {
    let disk = |pool: &Pool| disk_gib(pool);
    let rank = |pool: &&Pool| (disk(pool), home(pool).is_none());
    pools.iter().copied().min_by_key(rank)
}

/// Returns the size of a pool's disks, in GiB.
fn disk_gib(pool: &Pool) -> u32 {
    pool.disk.as_ref().map_or(Pool::TEMPLATE_DISK_GIB, |disk| disk.size_gib)
}

/// Returns where a machine without a job registers its runner. `None` if only a job shows that.
#[must_use]
pub fn home(pool: &Pool) -> Option<Entity> {
    let owner = |repository: &String| {
        let (owner, name) = repository.split_once('/')?;
        // A user's runners are registered at the repository; an organization accepts that too.
        let at = if name == "*" { owner } else { repository };
        at.parse::<Entity>().ok()
    };
    pool.entity
        .clone()
        .or_else(|| pool.repositories.iter().find_map(owner))
        .or_else(|| pool.app_owner.clone())
        .filter(|entity| entity.kind() != EntityKind::Enterprise || pool.entity.is_some())
}

impl Images {
    /// Returns the image that a pool's machines are launched with.
    #[must_use]
    pub fn choice(&self, pool: &Pool) -> ImageChoice {
        let key = family_of(pool).filter(|_| self.on);
        let Some(family) = key.and_then(|key| self.families.get(&key)) else {
            return ImageChoice::default();
        };
        let fits = |image: &&BuiltImage| image.disk_gib <= disk_gib(pool);
        let previous = family.previous.as_ref().filter(fits).map(|image| image.id.clone());
        match family.current.as_ref().filter(fits) {
            None => ImageChoice::default(),
            Some(current) => match &current.trust {
                Trust::Proven => {
                    ImageChoice { image: Some(current.id.clone()), ..ImageChoice::default() }
                }
                Trust::Probation(machines) => ImageChoice {
                    image: Some(current.id.clone()),
                    left: Some(PROBATION.saturating_sub(machines.len())),
                    otherwise: previous,
                },
            },
        }
    }

    /// Returns the record after machines are launched with an image. `None` if the image is not on probation.
    #[must_use]
    pub fn launched(&self, image: &ImageId, machines: &[InstanceName]) -> Option<Self> {
        let mut next = self.clone();
        let current = next.families.values_mut().filter_map(|family| family.current.as_mut());
        let current = current.into_iter().find(|current| current.id == *image)?;
        let Trust::Probation(launched) = &mut current.trust else { return None };
        for name in machines {
            // A slot that is launched again is one machine.
            if !launched.contains(name) {
                launched.push(name.clone());
            }
        }
        Some(next)
    }

    /// Returns the family whose current or previous image this is.
    #[must_use]
    pub fn family_with(&self, image: &ImageId) -> Option<&FamilyKey> {
        let uses = |family: &Family| family.images().any(|one| one.id == *image);
        self.families.iter().find(|(_, family)| uses(family)).map(|(key, _)| key)
    }

    /// Returns a family, and creates it if it is new.
    pub fn family_mut(&mut self, key: &FamilyKey) -> &mut Family {
        self.families.entry(key.clone()).or_default()
    }

    /// Ends a family's build. Images that are no longer used are deleted later, and a failed candidate at once.
    pub fn end_build(&mut self, key: &FamilyKey, end: BuildEnd, now: Time) {
        let family = self.family_mut(key);
        let Some(build) = family.build.take() else { return };
        let candidate = build.image().cloned();
        match end {
            BuildEnd::Made(made) => {
                let left = family.previous.take();
                family.previous = family.current.replace(*made);
                // The failures remain until a machine has booted it: on probation it may still fail.
                family.losses = 0;
                family.not_before = None;
                return self.disuse(left.map(|image| image.id), now + KEPT_AFTER_USE);
            }
            BuildEnd::Failed(why) => family.fails(&why, now),
            BuildEnd::UnitFailed => family.does_not_boot_by_unit(&build.scripts),
            BuildEnd::Lost => family.retries(build.reason, build.by, now),
            BuildEnd::Cancelled => {}
        }
        self.disuse(candidate, now);
    }

    /// Goes back to the family's previous image, or without one to the image of the launch template. Returns the image
    /// that was current. Builds start again after `quiet`.
    pub fn roll_back(&mut self, key: &FamilyKey, quiet: Seconds, now: Time) -> Option<BuiltImage> {
        let family = self.families.get_mut(key)?;
        let left = family.current.take()?;
        family.current = family.previous.take();
        family.not_before = Some(now + quiet);
        self.disuse(Some(left.id.clone()), now + KEPT_AFTER_USE);
        Some(left)
    }

    /// Stops using an image that EC2 rejects or whose machines do not boot.
    pub fn reject(&mut self, image: &ImageId, why: &str, now: Time) -> Option<BuiltImage> {
        let key = self.family_with(image)?.clone();
        let family = self.families.get_mut(&key)?;
        if family.current.as_ref().is_none_or(|current| current.id != *image) {
            let previous = family.previous.take()?;
            self.disuse(Some(previous.id.clone()), now + KEPT_AFTER_USE);
            return Some(previous);
        }
        let rejected = self.roll_back(&key, Seconds(0), now)?;
        self.family_mut(&key).fails(why, now);
        Some(rejected)
    }

    /// Deletes an image at a time unless something uses it then.
    pub fn disuse(&mut self, image: Option<ImageId>, at: Time) {
        let unused = UnusedImage { at, snapshots: Vec::new() };
        self.unused.extend(image.map(|image| (image, unused)));
    }

    /// Returns whether an image is in use: a family launches machines with it, could go back to it, or builds it.
    #[must_use]
    pub fn uses(&self, image: &ImageId) -> bool {
        let builds = |family: &Family| {
            family.build.as_ref().is_some_and(|build| build.image() == Some(image))
        };
        self.families
            .values()
            .any(|family| builds(family) || family.images().any(|one| one.id == *image))
    }

    /// Forgets families whose pools were removed long ago, and records when a family lost its last pool.
    pub fn note_pools(&mut self, pools: &[Pool], now: Time) {
        let with_pools: Vec<FamilyKey> =
            pools.iter().filter(|pool| !pool.is_removed()).filter_map(family_of).collect();
        let mut gone = Vec::new();
        self.families.retain(|key, family| {
            if with_pools.contains(key) {
                family.without_pools_since = None;
                return true;
            }
            let since = *family.without_pools_since.get_or_insert(now);
            let ends = now.is_past(since, KEPT_WITHOUT_POOLS) && family.build.is_none();
            if ends {
                gone.extend(family.images().map(|image| image.id.clone()));
            }
            !ends
        });
        for image in gone {
            self.disuse(Some(image), now);
        }
    }

    /// Returns the largest number of failures in a row of a family, for an alarm. Zero while images are off.
    #[must_use]
    pub fn failures(&self) -> u32 {
        let counts = self.families.values().filter(|_| self.on);
        counts.filter_map(|family| Some(family.failure.as_ref()?.count)).max().unwrap_or(0)
    }

    /// Returns the pool, if a build is in progress for a family. At most one is.
    #[must_use]
    pub fn build(&self) -> Option<(&FamilyKey, &Build)> {
        self.families.iter().find_map(|(key, family)| Some((key, family.build.as_ref()?)))
    }

    /// Checks the machines that were launched with images on probation; `machine` returns an instance's record, if it
    /// exists. One that booted proves its image. If [`PROBATION`] machines failed, the image is rejected. A machine that
    /// ended for a different reason no longer counts, nor does a slot that was launched again with a different image.
    /// Returns the changed families, each with what happened.
    pub fn judge<'a>(
        &mut self,
        machine: impl Fn(&InstanceName) -> Option<&'a Instance>,
        now: Time,
    ) -> Vec<(FamilyKey, Verdict)> {
        let mut verdicts = Vec::new();
        for (key, family) in &mut self.families {
            let Some(current) = &mut family.current else { continue };
            let Trust::Probation(machines) = &mut current.trust else { continue };
            let boots_other = |one: &Instance| one.image.as_ref() != Some(&current.id);
            machines.retain(|name| !machine(name).is_some_and(boots_other));
            if machines.iter().any(|name| machine(name).is_some_and(has_booted)) {
                current.trust = Trust::Proven;
                family.failure = None;
                verdicts.push((key.clone(), Verdict::Proven(current.id.clone())));
                continue;
            }
            let end = |name: &InstanceName| MachineEnd::of(machine(name));
            machines.retain(|name| !matches!(end(name), Some(MachineEnd::Lost(_))));
            let failures = machines.iter().filter_map(|name| match end(name) {
                Some(MachineEnd::Failed(why)) => Some(why),
                Some(MachineEnd::Lost(_)) | None => None,
            });
            let failures: Vec<String> = failures.collect();
            if let (PROBATION.., Some(why)) = (failures.len(), failures.last()) {
                verdicts.push((key.clone(), Verdict::Rejected(current.id.clone(), why.clone())));
            }
        }
        for (key, verdict) in &verdicts {
            let Verdict::Rejected(image, why) = verdict else { continue };
            let rejected = self.reject(image, why, now);
            if let Some(rejected) = rejected.filter(|image| image.boot == BootMethod::Unit) {
                self.family_mut(key).unit_fails = Some(rejected.scripts);
            }
        }
        verdicts
    }
}

#[cfg(test)]
mod tests;
