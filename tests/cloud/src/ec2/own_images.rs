//! `CreateImage`, `DeregisterImage` and `DeleteSnapshot`: the images of this account.

use std::collections::BTreeMap;

use serde::Serialize;

use super::terminate::check_tags;
use super::{Ec2, Ec2Error, FleetRequest, FleetTags, Image, InstanceState, check_id, not_found};
use crate::{Ids, Millis};

/// A `CreateImage` request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateImageRequest {
    pub instance: String,
    pub name: String,
    pub description: Option<String>,
    pub no_reboot: bool,
    pub tags: Vec<FleetTags>,
}

impl CreateImageRequest {
    /// The tags for a type of resource: `image` or `snapshot`.
    #[must_use]
    pub fn tags_of(&self, resource: &str) -> BTreeMap<String, String> {
        let of_type = self.tags.iter().filter(|spec| spec.resource_type == resource);
        of_type.flat_map(|spec| spec.tags.clone()).collect()
    }
}

/// A snapshot of a disk. It costs money until it is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    pub id: String,
    /// The image that it belongs to.
    pub image: String,
    pub tags: BTreeMap<String, String>,
    pub disk_gib: u32,
    pub created_at: Millis,
}

/// What became of one snapshot of an image that was deregistered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotDeletion {
    pub id: String,
    /// `success`, `skipped`, `missing-permissions`, `internal-error` or `client-error`.
    pub code: String,
}

impl Ec2 {
    /// Creates an image of a machine's disks, which is available (or has failed) once so much time
    /// has passed. Names are unique among the images that are registered.
    /// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateImage.html
    pub fn create_image(
        &mut self,
        ids: &mut Ids,
        request: &CreateImageRequest,
        now: Millis,
        kept_ms: Millis,
        pending_ms: Millis,
    ) -> Result<String, Ec2Error> {
        self.check_image_request(request, now, kept_ms)?;
        let instance = self
            .instance(&request.instance)
            .ok_or_else(|| not_found(&[request.instance.as_str()]))?;
        let disk_gib = instance.disk_gib;
        let base = self.image(&instance.image_id).cloned().unwrap_or_default();
        let (id, snapshot) = (ids.resource("ami"), ids.resource("snap"));
        let failure = self.toggles.images_fail.clone();
        let image = Image {
            id: id.clone(),
            name: request.name.clone(),
            state: if failure.is_some() { "failed" } else { "available" }.to_owned(),
            created_at: now,
            tags: request.tags_of("image"),
            snapshots: vec![snapshot.clone()],
            disk_gib,
            source: Some(request.instance.clone()),
            reason: failure,
            pending_until: now + pending_ms,
            architecture: base.architecture,
            root_device: base.root_device,
            ..Image::default()
        };
        self.images.push(image);
        let tags = request.tags_of("snapshot");
        let image = id.clone();
        let taken = Snapshot { id: snapshot.clone(), image, tags, disk_gib, created_at: now };
        self.snapshots.insert(snapshot, taken);
        Ok(id)
    }

    fn check_image_request(
        &self,
        request: &CreateImageRequest,
        now: Millis,
        kept_ms: Millis,
    ) -> Result<(), Ec2Error> {
        check_id(&request.instance)?;
        let unknown = || not_found(&[request.instance.as_str()]);
        let instance = self.visible(&request.instance, now, kept_ms).ok_or_else(unknown)?;
        if !matches!(instance.state, InstanceState::Running | InstanceState::Stopped) {
            return Err(Ec2Error::new(
                "IncorrectInstanceState",
                format!(
                    "The instance '{}' is not in the 'running' or 'stopped' state.",
                    instance.id
                ),
            ));
        }
        if !request.no_reboot {
            return Err(Ec2Error::new(
                "UnsupportedOperation",
                "The simulated cloud only creates images without a reboot.",
            ));
        }
        check_name(&request.name)?;
        for spec in &request.tags {
            if !["image", "snapshot"].contains(&spec.resource_type.as_str()) {
                return Err(Ec2Error::new(
                    "InvalidParameterValue",
                    format!("'{}' is not a valid taggable resource type.", spec.resource_type),
                ));
            }
            check_tags(&spec.tags)?;
        }
        let is_same = |image: &&Image| {
            image.owner == "self" && image.is_registered() && image.name == request.name
        };
        match self.images.iter().find(is_same) {
            None => Ok(()),
            Some(other) => Err(Ec2Error::new(
                "InvalidAMIName.Duplicate",
                format!("AMI name {} is already in use by AMI {}", request.name, other.id),
            )),
        }
    }

    /// Deregisters an image, whatever its state. Answers what became of its snapshots if they are
    /// to be deleted.
    /// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeregisterImage.html
    pub fn deregister_image(
        &mut self,
        id: &str,
        deletes_snapshots: bool,
        now: Millis,
    ) -> Result<Vec<SnapshotDeletion>, Ec2Error> {
        check_image_id(id)?;
        let Some(image) = self.image_mut(id) else { return Err(no_image(id)) };
        if image.owner != "self" {
            return Err(Ec2Error::new("AuthFailure", format!("Not authorized for image:{id}")));
        }
        if !image.is_registered() {
            return Err(unavailable(id));
        }
        image.deregistered_at = Some(now);
        let snapshots = image.snapshots.clone();
        if !deletes_snapshots {
            return Ok(Vec::new());
        }
        let kept = self.toggles.keeps_snapshots;
        let deletion = |id: String| {
            let code = if kept { "internal-error" } else { "success" };
            SnapshotDeletion { id, code: code.to_owned() }
        };
        if !kept {
            snapshots.iter().for_each(|id| drop(self.snapshots.remove(id)));
        }
        Ok(snapshots.into_iter().map(deletion).collect())
    }

    /// Deletes a snapshot that belongs to no registered image.
    pub fn delete_snapshot(&mut self, id: &str) -> Result<(), Ec2Error> {
        let Some(snapshot) = self.snapshots.get(id) else {
            return Err(Ec2Error::new(
                "InvalidSnapshot.NotFound",
                format!("The snapshot '{id}' does not exist."),
            ));
        };
        if self.image(&snapshot.image).is_some_and(Image::is_registered) {
            return Err(Ec2Error::new(
                "InvalidSnapshot.InUse",
                format!("The snapshot {id} is currently in use by {}", snapshot.image),
            ));
        }
        self.snapshots.remove(id);
        Ok(())
    }

    /// Every snapshot that exists, in no order that means anything.
    pub fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        self.snapshots.values()
    }

    /// Refuses a fleet whose overrides name an image from which no machine can be launched.
    pub(super) fn check_images(&self, request: &FleetRequest, now: Millis) -> Result<(), Ec2Error> {
        let overrides = request.configs.iter().flat_map(|config| &config.overrides);
        // Parameters are resolved by EC2; the simulated cloud has none.
        let named = overrides.filter_map(|choice| choice.image_id.as_deref());
        for id in named.filter(|id| !id.starts_with("resolve:")) {
            check_image_id(id)?;
            let image = self.image(id).ok_or_else(|| no_image(id))?;
            if image.shown_state(now) != "available" {
                return Err(unavailable(id));
            }
        }
        Ok(())
    }
}

/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateImage.html ("Name")
fn check_name(name: &str) -> Result<(), Ec2Error> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "()[] ./-'@_".contains(c);
    if (3..=128).contains(&name.len()) && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(Ec2Error::new(
        "InvalidAMIName.Malformed",
        "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, \
         '(', ')', '.', '-', '/' and '_'",
    ))
}

fn check_image_id(id: &str) -> Result<(), Ec2Error> {
    if id.strip_prefix("ami-").is_some_and(|digits| !digits.is_empty()) {
        return Ok(());
    }
    Err(Ec2Error::new(
        "InvalidAMIID.Malformed",
        format!("Invalid id: \"{id}\" (expecting \"ami-...\")"),
    ))
}

fn no_image(id: &str) -> Ec2Error {
    Ec2Error::new("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist"))
}

fn unavailable(id: &str) -> Ec2Error {
    let message = format!("The image ID '{id}' is no longer available");
    Ec2Error::new("InvalidAMIID.Unavailable", message)
}
