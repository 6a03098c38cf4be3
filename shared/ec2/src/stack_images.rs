//! The stack's machine images: creating, listing and deleting them.

use aws_sdk_ec2::operation::describe_images::DescribeImagesOutput;
use aws_sdk_ec2::types::{
    EbsBlockDevice, Image, ImageState as Ec2State, ResourceType, SnapshotReturnCodes, Tag,
    TagSpecification,
};
use muster_control::ports::{CreateImageError, ImageState, NewImage, StackImage};
use muster_domain::ids::{ImageId, MachineId};
use muster_domain::launch::plan::STACK_TAG;
use muster_domain::provider::{ErrorDetail, ProviderError};

use crate::machines::{PAGE, fault, filter, trouble};
use crate::{Ec2, classified, once};

const CREATE: &str = "CreateImage";
const DESCRIBE: &str = "DescribeImages";
const DEREGISTER: &str = "DeregisterImage";
const DELETE_SNAPSHOT: &str = "DeleteSnapshot";

/// Images the machine while it runs. The snapshots get the image's tags, so that the stack's
/// permissions and cost reports cover them.
///
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateImage.html
pub(crate) async fn create(
    ec2: &Ec2,
    machine: &MachineId,
    image: &NewImage,
) -> Result<ImageId, CreateImageError> {
    let tag = |(key, value): &(String, String)| Tag::builder().key(key).value(value).build();
    let tags: Vec<Tag> = image.tags.iter().map(tag).collect();
    let tagged = |resource: ResourceType| {
        TagSpecification::builder().resource_type(resource).set_tags(Some(tags.clone())).build()
    };
    let call = ec2
        .client
        .create_image()
        .instance_id(machine.as_str())
        .name(&image.name)
        .description(&image.description)
        .no_reboot(true)
        .tag_specifications(tagged(ResourceType::Image))
        .tag_specifications(tagged(ResourceType::Snapshot));
    match call.customize().config_override(once()).send().await {
        Ok(answer) => answer.image_id().and_then(|id| id.parse().ok()).ok_or_else(|| {
            ProviderError::Unavailable(fault(CREATE, "OddAnswer", "EC2 returned no image ID"))
                .into()
        }),
        Err(error) => {
            let (class, detail) = classified(CREATE, &error);
            Err(refusal(&detail).unwrap_or_else(|| trouble((class, detail)).into()))
        }
    }
}

/// Returns what a refusal means for the image. `None` for an error of the call itself.
fn refusal(detail: &ErrorDetail) -> Option<CreateImageError> {
    match detail.code.as_str() {
        "InvalidAMIName.Duplicate" => Some(CreateImageError::NameTaken),
        "InvalidInstanceID.NotFound" | "InvalidInstanceID.Malformed" | "IncorrectInstanceState" => {
            let message = format!("{}: {}", detail.code, detail.message);
            Some(CreateImageError::MachineGone(message))
        }
        _ => None,
    }
}

/// Returns the stack's images from all pages. Disabled and deprecated ones are included, because
/// their snapshots cost money.
pub(crate) async fn list(ec2: &Ec2) -> Result<Vec<StackImage>, ProviderError> {
    let mut images = Vec::new();
    let mut page = None;
    loop {
        let answer = describe(ec2, page).await?;
        images.extend(answer.images().iter().filter_map(stack_image));
        page = answer.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if page.is_none() {
            return Ok(images);
        }
    }
}

async fn describe(ec2: &Ec2, page: Option<String>) -> Result<DescribeImagesOutput, ProviderError> {
    ec2.client
        .describe_images()
        .owners("self")
        .filters(filter(&format!("tag:{STACK_TAG}"), [ec2.stack.as_str()]))
        .include_deprecated(true)
        .include_disabled(true)
        .max_results(PAGE)
        .set_next_token(page)
        .send()
        .await
        .map_err(|error| trouble(classified(DESCRIBE, &error)))
}

/// Converts an image. `None` for a deregistered one, which EC2 lists for a short time.
fn stack_image(image: &Image) -> Option<StackImage> {
    let disks = || image.block_device_mappings().iter().filter_map(|disk| disk.ebs());
    let gib = disks().filter_map(EbsBlockDevice::volume_size);
    Some(StackImage {
        id: image.image_id()?.parse().ok()?,
        name: image.name().unwrap_or_default().to_owned(),
        state: state(image)?,
        created_at: image.creation_date().and_then(|at| at.parse().ok()),
        disk_gib: gib.filter_map(|gib| u32::try_from(gib).ok()).sum(),
        snapshots: disks().filter_map(|disk| disk.snapshot_id()).map(str::to_owned).collect(),
    })
}

/// Returns the state of an image. An unknown state counts as pending, so that the image is neither
/// used nor deleted because of it.
fn state(image: &Image) -> Option<ImageState> {
    match image.state() {
        Some(Ec2State::Available) => Some(ImageState::Available),
        Some(Ec2State::Deregistered) => None,
        Some(
            failed @ (Ec2State::Failed | Ec2State::Error | Ec2State::Invalid | Ec2State::Disabled),
        ) => {
            let reason = image.state_reason();
            let reason = reason.and_then(|reason| reason.message().or(reason.code()));
            Some(ImageState::Failed(reason.unwrap_or(failed.as_str()).to_owned()))
        }
        _ => Some(ImageState::Pending),
    }
}

/// Deregisters an image with its snapshots. EC2 deletes the snapshots in the same call and reports
/// those that it could not delete. If the image is gone already, its snapshots may remain from an
/// earlier call.
///
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeregisterImage.html
pub(crate) async fn delete(ec2: &Ec2, image: &StackImage) -> Result<(), ProviderError> {
    let call =
        ec2.client.deregister_image().image_id(image.id.as_str()).delete_associated_snapshots(true);
    let remaining: Vec<String> = match call.customize().config_override(once()).send().await {
        Ok(answer) => {
            let left = answer.delete_snapshot_results().iter().filter(|result| {
                // EC2 skips snapshots that another image uses.
                use SnapshotReturnCodes::{Success, WarnSkipped};
                !matches!(result.return_code(), Some(Success | WarnSkipped))
            });
            left.filter_map(|result| result.snapshot_id()).map(str::to_owned).collect()
        }
        Err(error) => {
            let (class, detail) = classified(DEREGISTER, &error);
            let is_gone =
                ["InvalidAMIID.NotFound", "InvalidAMIID.Unavailable"].contains(&&*detail.code);
            if !is_gone {
                return Err(trouble((class, detail)));
            }
            image.snapshots.clone()
        }
    };
    for snapshot in &remaining {
        delete_snapshot(ec2, snapshot).await?;
    }
    Ok(())
}

async fn delete_snapshot(ec2: &Ec2, snapshot: &str) -> Result<(), ProviderError> {
    let call = ec2.client.delete_snapshot().snapshot_id(snapshot);
    match call.customize().config_override(once()).send().await {
        Ok(_) => Ok(()),
        Err(error) => match classified(DELETE_SNAPSHOT, &error) {
            (_, detail) if detail.code == "InvalidSnapshot.NotFound" => Ok(()),
            failure => Err(trouble(failure)),
        },
    }
}
