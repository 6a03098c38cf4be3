//! `DescribeImages`: by owner and filter, in pages.

use serde::{Deserialize, Serialize};

use super::describe::{check_page_size, parse_token, wildcard};
use super::{Ec2, Ec2Error, Filter};
use crate::Millis;

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    pub id: String,
    pub name: String,
    /// Whose it is, as a request says it: `self`, `amazon`, or an account.
    #[serde(default = "Image::default_owner")]
    pub owner: String,
    #[serde(default = "Image::default_architecture")]
    pub architecture: String,
    #[serde(default = "Image::default_state")]
    pub state: String,
    /// The device that it boots from.
    #[serde(default = "Image::default_root")]
    pub root_device: String,
    #[serde(default)]
    pub created_at: Millis,
}

impl Image {
    fn default_owner() -> String {
        "self".to_owned()
    }

    fn default_architecture() -> String {
        "x86_64".to_owned()
    }

    fn default_state() -> String {
        "available".to_owned()
    }

    fn default_root() -> String {
        "/dev/sda1".to_owned()
    }
}

/// A `DescribeImages` request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRequest {
    pub owners: Vec<String>,
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
    pub next_token: Option<String>,
}

/// One page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagePage {
    pub images: Vec<Image>,
    pub next_token: Option<String>,
}

impl Ec2 {
    /// Puts an image into the world; the same id again replaces it.
    pub fn put_image(&mut self, image: Image) {
        self.images.retain(|other| other.id != image.id);
        self.images.push(image);
    }

    /// The images of a request, in the order in which they were put here: in no order that means
    /// anything.
    pub fn describe_images(&self, request: &ImageRequest) -> Result<ImagePage, Ec2Error> {
        check(request)?;
        let start = match &request.next_token {
            Some(token) => usize::try_from(parse_token(token)?).unwrap_or(usize::MAX),
            None => 0,
        };
        let is_asked_for = |image: &&Image| {
            (request.owners.is_empty() || request.owners.contains(&image.owner))
                && request.filters.iter().all(|filter| matches(image, filter))
        };
        let limit = request.max_results.unwrap_or(u32::MAX).min(self.toggles.page_limit) as usize;
        let all: Vec<&Image> = self.images.iter().filter(is_asked_for).collect();
        let end = start.saturating_add(limit);
        Ok(ImagePage {
            images: all.iter().skip(start).take(limit).map(|image| (*image).clone()).collect(),
            next_token: (end < all.len()).then(|| format!("page-{end}")),
        })
    }
}

fn check(request: &ImageRequest) -> Result<(), Ec2Error> {
    check_page_size(request.max_results)?;
    let unknown = request.filters.iter().find(|filter| value(None, filter).is_none());
    match unknown {
        None => Ok(()),
        Some(filter) => Err(Ec2Error::new(
            "InvalidParameterValue",
            format!("The filter '{}' is invalid", filter.name),
        )),
    }
}

/// What of an image a filter is about; empty for no image, and none for a filter that is not known.
fn value<'a>(image: Option<&'a Image>, filter: &Filter) -> Option<&'a str> {
    let of = |field: fn(&Image) -> &String| image.map_or("", |image| field(image));
    match filter.name.as_str() {
        "image-id" => Some(of(|image| &image.id)),
        "name" => Some(of(|image| &image.name)),
        "architecture" => Some(of(|image| &image.architecture)),
        "state" => Some(of(|image| &image.state)),
        _ => None,
    }
}

fn matches(image: &Image, filter: &Filter) -> bool {
    let value = value(Some(image), filter).unwrap_or_default();
    filter.values.iter().any(|pattern| wildcard(pattern, value))
}
