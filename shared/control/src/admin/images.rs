//! The machine images: what they are, and the orders about them.

use muster_api::answers::{Answer, FamilyStatus, ImageBuildStatus, ImageStatus, ImagesStatus};
use muster_api::{AdminError, AdminErrorCode, ImageOrder, ImagesRequest};
use muster_domain::ids::FamilyKey;
use muster_domain::image::{self, Build, BuildStep, BuiltImage, Family, Images, Trust};
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use super::Admin;
use crate::context::Ports;
use crate::image_record::{boots, entry};
use crate::ports::{Launches as _, Table as _};
use crate::writes::{self, Before};

/// How long builds do not start without an order after a rollback.
const QUIET: Seconds = Seconds(7 * 24 * 3600);

impl<P: Ports> Admin<'_, P> {
    pub(super) async fn images(
        &self,
        request: &ImagesRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let table = self.context.table;
        let Some(order) = request.order else {
            let stored = table.images().await?;
            let none = Images::default();
            return Ok(
                self.images_status(stored.as_ref().map_or(&none, Stored::record), Vec::new())
            );
        };
        writes::in_rounds(async || {
            let stored = Before::of(table.images().await)?;
            let before = match (&stored, order) {
                (Before::Unreadable, ImageOrder::On | ImageOrder::Off) => Images::default(),
                // The error names the record and its repair.
                (Before::Unreadable, _) => {
                    return Err(table.images().await.map(drop).err().map_or_else(
                        || {
                            AdminError::new(
                                AdminErrorCode::BusyRecord,
                                "the record of images has changed; try again",
                            )
                        },
                        AdminError::from,
                    ));
                }
                (Before::Read(_), _) => stored.record().cloned().unwrap_or_default(),
            };
            let mut next = before.clone();
            let changes = self.ordered(&mut next, order, request, now)?;
            let is_same = next == before && !matches!(stored, Before::Unreadable);
            if request.dry_run || is_same {
                return Ok(self.images_status(&before, changes));
            }
            let by = request.by.as_deref().unwrap_or("operator");
            let reason =
                request.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let audit = entry(by, &format!("{}{why}", changes.join("; ")), now);
            table.commit(&[stored.change(next.clone(), now).into(), audit]).await?;
            tracing::warn!(?order, by, "operator changed images");
            Ok(self.images_status(&next, changes))
        })
        .await
    }

    /// Applies an order. Returns what changes, in sentences.
    fn ordered(
        &self,
        images: &mut Images,
        order: ImageOrder,
        request: &ImagesRequest,
        now: Time,
    ) -> Result<Vec<String>, AdminError> {
        let families = image::families(&self.context.settings.pools);
        let named = request.family.as_ref();
        if let Some(key) = named
            && !images.families.contains_key(key)
            && !families.iter().any(|(own, _)| own == key)
        {
            let known: Vec<&str> = families.iter().map(|(key, _)| key.as_str()).collect();
            let message =
                format!("there is no image family {key}; there are: {}", known.join(", "));
            return Err(AdminError::new(AdminErrorCode::NotFound, message));
        }
        match order {
            ImageOrder::On | ImageOrder::Off if named.is_some() => {
                Err(bad("images are turned on and off for all pools; omit \"family\"".to_owned()))
            }
            ImageOrder::On => {
                let is_new = !std::mem::replace(&mut images.on, true);
                let what =
                    "images are on: a build starts within a minute for each family without one";
                Ok(is_new.then(|| what.to_owned()).into_iter().collect())
            }
            ImageOrder::Off => {
                let was_on = std::mem::replace(&mut images.on, false);
                let what = "images are off: machines boot the launch template's image, and existing images are kept";
                Ok(was_on.then(|| what.to_owned()).into_iter().collect())
            }
            ImageOrder::Build => {
                if !images.on {
                    return Err(bad(
                        "images are off; turn them on first: muster image on".to_owned()
                    ));
                }
                let by = request.by.as_deref().unwrap_or("operator");
                let wanted = families
                    .iter()
                    .map(|(key, _)| key)
                    .filter(|key| named.is_none_or(|own| own == *key));
                Ok(wanted.filter_map(|key| order_build(images.family_mut(key), key, by)).collect())
            }
            ImageOrder::Rollback => {
                let key = the_family(images, named)?;
                not_built(images, &key)?;
                let left = images.roll_back(&key, QUIET, now);
                let left =
                    left.ok_or_else(|| bad(format!("family {key} has no image to go back from")))?;
                let until = (now + QUIET).clock(now);
                Ok(vec![format!(
                    "machines of {key} boot {} instead of {}; no build starts by itself before {until}",
                    boots(images, &key),
                    left.id
                )])
            }
            ImageOrder::Delete => delete(images, named, now),
        }
    }

    /// Shows the images.
    fn images_status(&self, images: &Images, changes: Vec<String>) -> Answer {
        let wanted = image::families(&self.context.settings.pools);
        let without_pools =
            images.families.keys().filter(|key| wanted.iter().all(|(own, _)| own != *key));
        let all = wanted.iter().map(|(key, pools)| (key, pools.as_slice()));
        let all = all.chain(without_pools.map(|key| (key, [].as_slice())));
        let none = Family::default();
        let families = all
            .map(|(key, pools)| family(key, pools, images.families.get(key).unwrap_or(&none)))
            .collect();
        Answer::Images(Box::new(ImagesStatus {
            on: images.on,
            families,
            unused: images.unused.len(),
            changes,
        }))
    }
}

/// Orders a build of a family, unless one is in progress or ordered.
fn order_build(family: &mut Family, key: &FamilyKey, by: &str) -> Option<String> {
    if family.build.is_some() || family.ordered_by.is_some() {
        return None;
    }
    family.ordered_by = Some(by.to_owned());
    Some(format!("an image for {key} is built as soon as a machine is available"))
}

/// Refuses an order that the end of a family's build would undo.
fn not_built(images: &Images, key: &FamilyKey) -> Result<(), AdminError> {
    match images.families.get(key).is_some_and(|family| family.build.is_some()) {
        true => {
            Err(bad(format!("family {key} is being built; wait for its end, or turn images off")))
        }
        false => Ok(()),
    }
}

/// Deletes the images of one family, or of all.
fn delete(
    images: &mut Images,
    named: Option<&FamilyKey>,
    now: Time,
) -> Result<Vec<String>, AdminError> {
    let mut changes = Vec::new();
    if let Some(key) = named {
        not_built(images, key)?;
    }
    if named.is_none() && std::mem::replace(&mut images.on, false) {
        changes.push("images are off".to_owned());
    }
    let keys: Vec<FamilyKey> =
        images.families.keys().filter(|key| named.is_none_or(|own| own == *key)).cloned().collect();
    for key in keys {
        let family = images.family_mut(&key);
        let gone: Vec<_> =
            family.current.take().into_iter().chain(family.previous.take()).collect();
        for image in gone {
            changes.push(format!("image {} of {key} is deleted", image.id));
            images.disuse(Some(image.id), now);
        }
    }
    // Those that were kept for a while too.
    for (image, unused) in &mut images.unused {
        if named.is_none() && unused.at > now {
            changes.push(format!("image {image}, which is no longer used, is deleted"));
            unused.at = now;
        }
    }
    Ok(changes)
}

/// Returns the named family, or the only one with an image.
fn the_family(images: &Images, named: Option<&FamilyKey>) -> Result<FamilyKey, AdminError> {
    if let Some(key) = named {
        return Ok(key.clone());
    }
    let with_image = images.families.iter().filter(|(_, family)| family.current.is_some());
    let keys: Vec<&FamilyKey> = with_image.map(|(key, _)| key).collect();
    match keys.as_slice() {
        [only] => Ok((*only).clone()),
        [] => Err(bad("no family has an image".to_owned())),
        several => {
            let names: Vec<&str> = several.iter().map(|key| key.as_str()).collect();
            Err(bad(format!("name a \"family\": {}", names.join(", "))))
        }
    }
}

fn family(key: &FamilyKey, pools: &[&Pool], family: &Family) -> FamilyStatus {
    FamilyStatus {
        family: key.clone(),
        pools: pools.iter().map(|pool| pool.name.clone()).collect(),
        current: family.current.as_ref().map(built),
        previous: family.previous.as_ref().map(built),
        build: family.build.as_ref().map(build),
        ordered_by: family.ordered_by.clone(),
        blocked: family.blocked.clone(),
        failure: family.failure.clone(),
        next_build_at: family.next_build_at(),
    }
}

fn built(image: &BuiltImage) -> ImageStatus {
    ImageStatus {
        id: image.id.clone(),
        built_at: image.built_at,
        agent: image.agent,
        boot: image.boot.as_str().to_owned(),
        why: image.why.clone(),
        disk_gib: image.disk_gib,
        used_bytes: image.used_bytes,
        on_probation: match &image.trust {
            Trust::Proven => None,
            Trust::Probation(machines) => Some(machines.len()),
        },
        untried: image.untried.clone(),
    }
}

fn build(build: &Build) -> ImageBuildStatus {
    ImageBuildStatus {
        reason: build.reason.sentence().to_owned(),
        by: build.by.clone(),
        since: build.since,
        waits_for: build.waits_for().to_owned(),
        pool: build.pool.clone(),
        builder: build.builder.clone(),
        trial: match &build.step {
            BuildStep::Trying { trial, .. } => trial.clone(),
            BuildStep::Preparing | BuildStep::Creating { .. } => None,
        },
        image: build.image().cloned(),
    }
}

fn bad(message: String) -> AdminError {
    AdminError::new(AdminErrorCode::BadRequest, message)
}
