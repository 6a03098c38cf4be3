//! Lookup of the newest image with a name.

use aws_sdk_ec2::operation::describe_images::DescribeImagesOutput;
use aws_sdk_ec2::types::Image;
use muster_domain::ec2::Arch;
use muster_domain::pool_file::{FoundImage, ImageFilter};
use muster_domain::provider::ProviderError;

use crate::machines::{PAGE, filter, trouble};
use crate::{Ec2, classified};

/// Returns the newest matching image by creation date; EC2 lists images in no order. Deprecated and
/// disabled images of other accounts are not listed.
///
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html
pub(crate) async fn newest(
    ec2: &Ec2,
    wanted: &ImageFilter,
) -> Result<Option<FoundImage>, ProviderError> {
    let mut newest = None;
    let mut page = None;
    loop {
        let answer = describe(ec2, wanted, page).await?;
        newest = answer.images().iter().filter_map(dated).chain(newest).max();
        page = answer.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if page.is_none() {
            return Ok(newest.map(|(_, image)| image));
        }
    }
}

async fn describe(
    ec2: &Ec2,
    wanted: &ImageFilter,
    page: Option<String>,
) -> Result<DescribeImagesOutput, ProviderError> {
    let architecture = match wanted.arch {
        Arch::X64 => "x86_64",
        Arch::Arm64 => "arm64",
    };
    let filters = vec![
        // The pattern uses EC2's own wildcards.
        filter("name", [wanted.name.as_str()]),
        filter("architecture", [architecture]),
        filter("state", ["available"]),
    ];
    ec2.client
        .describe_images()
        .owners(&wanted.owner)
        .set_filters(Some(filters))
        .max_results(PAGE)
        .set_next_token(page)
        .send()
        .await
        .map_err(|error| trouble(classified("DescribeImages", &error)))
}

/// Returns the image with its creation date, whose text sorts chronologically:
/// `2026-11-01T08:15:00.000Z`.
fn dated(image: &Image) -> Option<(String, FoundImage)> {
    let found = FoundImage { id: image.image_id()?.to_owned(), name: image.name()?.to_owned() };
    Some((image.creation_date()?.to_owned(), found))
}
