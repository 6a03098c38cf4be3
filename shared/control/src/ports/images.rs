//! The port to the stack's machine images in EC2.

use muster_domain::ids::{ImageId, MachineId};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;

/// An image to create of a machine's disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewImage {
    /// Its name, which is unique in the account and region.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The tags of the image and its snapshots.
    pub tags: Vec<(String, String)>,
}

/// Why EC2 did not create an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateImageError {
    /// An image has this name already, most likely from an earlier call whose answer was lost.
    #[error("an image has this name already")]
    NameTaken,
    /// EC2 does not know the machine, or the machine is ending.
    #[error("the machine is gone: {0}")]
    MachineGone(String),
    /// The call failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// The state of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageState {
    /// EC2 is still copying the disks.
    Pending,
    /// Machines can be launched from it.
    Available,
    /// EC2 could not create it, or has invalidated it; with EC2's reason.
    Failed(String),
}

/// An image of the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackImage {
    /// Its ID.
    pub id: ImageId,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ImageState,
    /// When it was created, if EC2 reports it.
    pub created_at: Option<Time>,
    /// The total size of its disks, in GiB.
    pub disk_gib: u32,
    /// Its snapshots.
    pub snapshots: Vec<String>,
}

/// The stack's machine images: those of this account with the tag `muster:stack`.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait ImageStore {
    /// Calls CreateImage for a running machine, without rebooting it.
    async fn create_image(
        &self,
        machine: &MachineId,
        image: &NewImage,
    ) -> Result<ImageId, CreateImageError>;
    /// Lists all images of the stack, in no order, whatever their state. EC2 is eventually
    /// consistent: a missing image proves nothing.
    async fn stack_images(&self) -> Result<Vec<StackImage>, ProviderError>;
    /// Deregisters an image and deletes its snapshots. An image that does not exist is deleted.
    async fn delete_image(&self, image: &StackImage) -> Result<(), ProviderError>;
}
