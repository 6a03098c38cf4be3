//! `DescribeImages`: by owner and filter, in pages.

use std::collections::BTreeMap;

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
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The snapshots of its disks.
    #[serde(default)]
    pub snapshots: Vec<String>,
    /// The total size of its disks.
    #[serde(default)]
    pub disk_gib: u32,
    /// The machine that it was created from, if it was created through the API.
    #[serde(default)]
    pub source: Option<String>,
    /// Why it failed.
    #[serde(default)]
    pub reason: Option<String>,
    /// It is shown as pending until then, whatever its state will be.
    #[serde(default)]
    pub pending_until: Millis,
    /// EC2 does not show it before.
    #[serde(default)]
    pub visible_from: Millis,
    /// Since when no machine can be launched from it any more.
    #[serde(default)]
    pub deregistered_at: Option<Millis>,
}

impl Default for Image {
    /// An available image of this account, without an ID and a name.
    fn default() -> Self {
        Self {
            id: String::new(),
            name: String::new(),
            owner: Self::default_owner(),
            architecture: Self::default_architecture(),
            state: Self::default_state(),
            root_device: Self::default_root(),
            created_at: 0,
            tags: BTreeMap::new(),
            snapshots: Vec::new(),
            disk_gib: 0,
            source: None,
            reason: None,
            pending_until: 0,
            visible_from: 0,
            deregistered_at: None,
        }
    }
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

    /// The state that a describe shows.
    #[must_use]
    pub fn shown_state(&self, now: Millis) -> &str {
        if self.deregistered_at.is_some() {
            "deregistered"
        } else if now < self.pending_until {
            "pending"
        } else {
            &self.state
        }
    }

    /// Whether it still exists. A deregistered image is only shown for a while.
    #[must_use]
    pub const fn is_registered(&self) -> bool {
        self.deregistered_at.is_none()
    }

    /// Whether DescribeImages lists it.
    fn is_listed(&self, now: Millis, kept_ms: Millis) -> bool {
        let is_forgotten = self.deregistered_at.is_some_and(|at| now >= at + kept_ms);
        now >= self.visible_from && !is_forgotten
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

/// One page. The state of each image is the one that a describe shows.
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

    /// All images that ever were in the world, whether the API still shows them or not.
    #[must_use]
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// The truth about one image, whatever the API shows.
    #[must_use]
    pub fn image(&self, id: &str) -> Option<&Image> {
        self.images.iter().find(|image| image.id == id)
    }

    /// The same, to change it as nobody can through the API.
    pub fn image_mut(&mut self, id: &str) -> Option<&mut Image> {
        self.images.iter_mut().find(|image| image.id == id)
    }

    /// The images of a request, in the order in which they were put here: in no order that means
    /// anything. Recently deregistered images are listed for a short time.
    /// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html
    pub fn describe_images(
        &self,
        request: &ImageRequest,
        now: Millis,
    ) -> Result<ImagePage, Ec2Error> {
        check(request)?;
        let start = match &request.next_token {
            Some(token) => usize::try_from(parse_token(token)?).unwrap_or(usize::MAX),
            None => 0,
        };
        let kept = self.toggles.deregistered_visible_ms;
        let is_asked_for = |image: &&Image| {
            image.is_listed(now, kept)
                && (request.owners.is_empty() || request.owners.contains(&image.owner))
                && request.filters.iter().all(|filter| matches(image, filter, now))
        };
        let limit = request.max_results.unwrap_or(u32::MAX).min(self.toggles.page_limit) as usize;
        let all: Vec<&Image> = self.images.iter().filter(is_asked_for).collect();
        let end = start.saturating_add(limit);
        let shown =
            |image: &Image| Image { state: image.shown_state(now).to_owned(), ..image.clone() };
        Ok(ImagePage {
            images: all.iter().skip(start).take(limit).map(|image| shown(image)).collect(),
            next_token: (end < all.len()).then(|| format!("page-{end}")),
        })
    }
}

fn check(request: &ImageRequest) -> Result<(), Ec2Error> {
    check_page_size(request.max_results)?;
    match request.filters.iter().find(|filter| !is_known(&filter.name)) {
        None => Ok(()),
        Some(filter) => Err(Ec2Error::new(
            "InvalidParameterValue",
            format!("The filter '{}' is invalid", filter.name),
        )),
    }
}

const FILTERS: [&str; 4] = ["image-id", "name", "architecture", "state"];

fn is_known(name: &str) -> bool {
    name.starts_with("tag:") || FILTERS.contains(&name)
}

fn matches(image: &Image, filter: &Filter, now: Millis) -> bool {
    let value = match filter.name.as_str() {
        "image-id" => Some(image.id.as_str()),
        "name" => Some(image.name.as_str()),
        "architecture" => Some(image.architecture.as_str()),
        "state" => Some(image.shown_state(now)),
        other => {
            let key = other.strip_prefix("tag:");
            key.and_then(|key| image.tags.get(key)).map(String::as_str)
        }
    };
    value.is_some_and(|value| filter.values.iter().any(|pattern| wildcard(pattern, value)))
}
