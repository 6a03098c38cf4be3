//! Images of our machines: what befalls the calls that create and delete them.

use muster_cloud::ec2::{
    CreateImageRequest, Ec2Error, Filter, FleetTags, Image, ImageRequest, Snapshot,
};
use muster_control::ports::{CreateImageError, ImageState, ImageStore, NewImage, StackImage};
use muster_domain::ids::{ImageId, MachineId};
use muster_domain::launch::plan::STACK_TAG;
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;

use super::bucket::Call;
use super::port::KEPT;
use super::{Ec2, Machine, Scripted};
use crate::agenda::{HOUR, MINUTE, Millis, SECOND};
use crate::door::Door;
use crate::fault::Fault;
use crate::world::World;

const CREATE: &str = "CreateImage";
const DEREGISTER: &str = "DeregisterImage";

impl Ec2 {
    /// Every image that was created of a machine, with that machine, whether it still exists or
    /// not.
    pub fn images_made(&self) -> impl Iterator<Item = (&Image, &Machine)> {
        self.cloud.images().iter().filter_map(|image| {
            let machine: MachineId = image.source.as_ref()?.parse().ok()?;
            Some((image, self.at(self.number(&machine)?)))
        })
    }

    /// The images of our machines that exist, whatever their state and whatever EC2 shows.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.images_made().map(|(image, _)| image).filter(|image| image.is_registered())
    }

    /// No machine of this image boots.
    ///
    /// # Errors
    /// When there is no such image.
    pub fn break_image(&mut self, number: usize) -> Result<(), String> {
        let id = self.id_of_image(number)?;
        self.broken_images.insert(id);
        Ok(())
    }

    /// Somebody deletes this image.
    ///
    /// # Errors
    /// When there is no such image.
    pub fn reject_image(&mut self, number: usize) -> Result<(), String> {
        let id = self.id_of_image(number)?;
        let image = self.cloud.image_mut(&id).ok_or("no such image")?;
        image.deregistered_at = Some(0);
        Ok(())
    }

    fn id_of_image(&self, number: usize) -> Result<String, String> {
        let id = self.images_made().nth(number).map(|(image, _)| image.id.clone());
        id.ok_or_else(|| "no such image".to_owned())
    }

    /// The snapshots that exist, of existing images and of deleted ones. Each costs money.
    pub fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        self.cloud.snapshots()
    }
}

impl World {
    fn image_call(&mut self, operation: &str) {
        self.calls.looks += 1;
        *self.operations.entry(operation.to_owned()).or_default() += 1;
    }

    fn no_answer(&self, operation: &str, code: &str) -> ProviderError {
        ProviderError::Unavailable(self.told(operation, code))
    }

    /// A call of `CreateImage`.
    fn create_image(
        &mut self,
        machine: &MachineId,
        image: &NewImage,
    ) -> Result<ImageId, CreateImageError> {
        self.image_call(CREATE);
        if let Some(code) = self.images_not() {
            return Err(self.no_answer(CREATE, code).into());
        }
        if self.strikes(Fault::ImageDenied) {
            let detail = self.told(CREATE, "UnauthorizedOperation");
            return Err(ProviderError::Unauthorized(detail).into());
        }
        if let Some(number) = self.ec2.number(machine) {
            self.may_deny(number);
        }
        let created = self.image_of(machine, image);
        if created.is_ok()
            && (self.strikes(Fault::ImageAnswerLost)
                || self.ec2.scripted(Scripted::ImageAnswerLost))
        {
            return Err(self.no_answer(CREATE, "RequestTimeout").into());
        }
        created.map_err(|error| self.image_error(&error))
    }

    /// What fails the call before EC2 carries it out.
    fn images_not(&mut self) -> Option<&'static str> {
        if self.is_away(Fault::OutageEc2)
            || self.strikes(Fault::ImageTimedOut)
            || self.ec2.scripted(Scripted::ImageTimedOut)
        {
            Some("RequestTimeout")
        } else if self.is_bucket_empty(Call::Image) {
            Some("RequestLimitExceeded")
        } else {
            None
        }
    }

    /// Mostly an image takes minutes, and now and then hours. It may fail.
    fn image_of(&mut self, machine: &MachineId, image: &NewImage) -> Result<ImageId, Ec2Error> {
        let tagged = |resource: &str| FleetTags {
            resource_type: resource.to_owned(),
            tags: image.tags.iter().cloned().collect(),
        };
        let request = CreateImageRequest {
            instance: machine.to_string(),
            name: image.name.clone(),
            description: Some(image.description.clone()),
            no_reboot: true,
            tags: ["image", "snapshot"].map(tagged).into(),
        };
        let pending = self.image_takes();
        let fails = self.strikes(Fault::ImageFails) || self.ec2.scripted(Scripted::ImageFails);
        let hidden = self.image_hidden();
        let Ec2 { cloud, ids, .. } = &mut self.ec2;
        cloud.toggles.images_fail =
            fails.then(|| "Client.InternalError: the snapshot failed".to_owned());
        let id = cloud.create_image(ids, &request, self.now, KEPT, pending)?;
        if let Some(created) = cloud.image_mut(&id) {
            created.visible_from = self.now + hidden;
        }
        if self.strikes(Fault::ImageBroken) {
            self.ec2.broken_images.insert(id.clone());
        }
        let made = self.ec2.cloud.images().iter().filter(|image| image.source.is_some()).count();
        self.narrate(|| format!("EC2 begins to create {} of {machine}", image_name(made)));
        let Ok(id) = id.parse() else { unreachable!("EC2 makes image ids") };
        Ok(id)
    }

    fn image_takes(&mut self) -> Millis {
        if self.strikes(Fault::ImageSlow) {
            return self.between(HOUR, 6 * HOUR);
        }
        self.between(2 * MINUTE, 8 * MINUTE)
    }

    fn image_hidden(&mut self) -> Millis {
        if self.strikes(Fault::ImageHidden) { self.between(SECOND, 3 * MINUTE) } else { 0 }
    }

    fn image_error(&self, error: &Ec2Error) -> CreateImageError {
        match error.code.as_str() {
            "InvalidAMIName.Duplicate" => CreateImageError::NameTaken,
            "IncorrectInstanceState" | "InvalidInstanceID.NotFound" => {
                CreateImageError::MachineGone(format!("{}: {}", error.code, error.message))
            }
            code => self.no_answer(CREATE, code).into(),
        }
    }

    /// The stack's images, on as many pages as it takes.
    fn shown_images(&mut self, stack: &str) -> Vec<StackImage> {
        let is_paged = self.strikes(Fault::ListPaged);
        self.ec2.cloud.toggles.page_limit = if is_paged { 2 } else { u32::MAX };
        let tag = Filter { name: format!("tag:{STACK_TAG}"), values: vec![stack.to_owned()] };
        let mut request = ImageRequest {
            owners: vec!["self".to_owned()],
            filters: vec![tag],
            ..ImageRequest::default()
        };
        let mut images = Vec::new();
        loop {
            let Ok(page) = self.ec2.cloud.describe_images(&request, self.now) else {
                unreachable!("EC2 understands the request and its own page token")
            };
            images.extend(page.images.into_iter().filter_map(shown));
            request.next_token = page.next_token;
            if request.next_token.is_none() {
                return images;
            }
        }
    }

    /// A call of `DeregisterImage`, and of `DeleteSnapshot` for what that leaves.
    fn deregister(&mut self, image: &StackImage) -> Result<(), ProviderError> {
        self.image_call(DEREGISTER);
        if self.is_away(Fault::OutageEc2)
            || self.strikes(Fault::DeregisterFailed)
            || self.ec2.scripted(Scripted::DeregisterFails)
        {
            return Err(self.no_answer(DEREGISTER, "InternalError"));
        }
        if self.strikes(Fault::DeregisterDenied) {
            let detail = self.told(DEREGISTER, "UnauthorizedOperation");
            return Err(ProviderError::Unauthorized(detail));
        }
        if self.is_bucket_empty(Call::Image) {
            return Err(self.no_answer(DEREGISTER, "RequestLimitExceeded"));
        }
        let keeps = self.strikes(Fault::SnapshotStays);
        self.ec2.cloud.toggles.keeps_snapshots = keeps;
        let left = match self.ec2.cloud.deregister_image(image.id.as_str(), true, self.now) {
            Ok(deletions) => {
                let left = deletions.into_iter().filter(|deletion| deletion.code != "success");
                left.map(|deletion| deletion.id).collect()
            }
            Err(error) if IS_GONE.contains(&error.code.as_str()) => image.snapshots.clone(),
            Err(error) => return Err(self.no_answer(DEREGISTER, &error.code)),
        };
        if self.strikes(Fault::DeregisterAnswerLost) {
            return Err(self.no_answer(DEREGISTER, "RequestTimeout"));
        }
        left.iter().try_for_each(|id| self.delete_snapshot(id))
    }

    fn delete_snapshot(&mut self, id: &str) -> Result<(), ProviderError> {
        self.image_call("DeleteSnapshot");
        match self.ec2.cloud.delete_snapshot(id) {
            Err(error) if error.code != "InvalidSnapshot.NotFound" => {
                Err(self.no_answer("DeleteSnapshot", &error.code))
            }
            _ => Ok(()),
        }
    }
}

/// How stories call the image that was made as so many.
fn image_name(made: usize) -> String {
    format!("image-{made}")
}

/// Of an image that does not exist any more.
const IS_GONE: [&str; 2] = ["InvalidAMIID.NotFound", "InvalidAMIID.Unavailable"];

fn shown(image: Image) -> Option<StackImage> {
    let state = match image.state.as_str() {
        "available" => ImageState::Available,
        "pending" => ImageState::Pending,
        "deregistered" => return None,
        other => ImageState::Failed(image.reason.unwrap_or_else(|| other.to_owned())),
    };
    Some(StackImage {
        id: image.id.parse().ok()?,
        name: image.name,
        state,
        created_at: Some(Time::from_millis(image.created_at)),
        disk_gib: image.disk_gib,
        snapshots: image.snapshots,
    })
}

/// An answer in a few words.
fn words<T>(answer: &Result<T, impl std::fmt::Display>) -> String {
    answer.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned())
}

impl ImageStore for Door {
    async fn create_image(
        &self,
        machine: &MachineId,
        image: &NewImage,
    ) -> Result<ImageId, CreateImageError> {
        self.call(|world| {
            let answer = world.create_image(machine, image);
            world.note_answer(|| format!("image {machine}"), answer.is_err());
            world.narrate(|| format!("CreateImage {machine} {}: {}", image.name, words(&answer)));
            answer
        })
        .await
    }

    async fn stack_images(&self) -> Result<Vec<StackImage>, ProviderError> {
        self.call(|world| {
            world.ec2_answers("DescribeImages")?;
            let images = world.shown_images(&self.sim.settings.stack);
            world.say(|| format!("  DescribeImages → {images:?}"));
            Ok(images)
        })
        .await
    }

    async fn delete_image(&self, image: &StackImage) -> Result<(), ProviderError> {
        self.call(|world| {
            let answer = world.deregister(image);
            world.note_answer(|| format!("deregister {}", image.id), answer.is_err());
            world.narrate(|| format!("DeregisterImage {}: {}", image.id, words(&answer)));
            answer
        })
        .await
    }
}
