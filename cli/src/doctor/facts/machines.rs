//! What machines are made of: types, images, the launch template.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::pool::Image;
use serde_json::Value;

use super::{Fact, text};

/// All of it.
#[derive(Clone, Debug)]
pub struct Machines {
    /// The stack's launch template.
    pub template: Fact<Template>,
    /// Types of the pools, each in the zones that have it.
    pub offers: Fact<BTreeSet<(String, String)>>,
    /// The parameters of images that are there, with what they hold.
    pub parameters: Fact<BTreeMap<String, String>>,
    /// The images that are there.
    pub images: Fact<Vec<FoundImage>>,
}

/// A launch template, as far as a pool may say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub image: Image,
    /// The device of its disk.
    pub device: Option<String>,
}

impl Template {
    /// From `DescribeLaunchTemplateVersions`.
    #[must_use]
    pub fn read(answer: &Value) -> Option<Self> {
        let data = answer.pointer("/launchTemplateVersionSet/0/launchTemplateData")?;
        let image = data["imageId"].as_str()?;
        Some(Self {
            image: match image.strip_prefix("resolve:ssm:") {
                Some(name) => Image::Ssm(name.to_owned()),
                None => Image::Id(image.to_owned()),
            },
            device: data
                .pointer("/blockDeviceMappingSet/0/deviceName")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }
}

/// From `DescribeInstanceTypeOfferings`, by zone.
#[must_use]
pub fn offers(answer: &Value) -> BTreeSet<(String, String)> {
    let all = answer["instanceTypeOfferingSet"].as_array().into_iter().flatten();
    all.map(|one| (text(one, "instanceType"), text(one, "location"))).collect()
}

/// From `GetParameters`.
#[must_use]
pub fn parameters(answer: &Value) -> BTreeMap<String, String> {
    let all = answer["Parameters"].as_array().into_iter().flatten();
    // As it was asked for: `name:3` is answered as its name and the rest.
    all.map(|one| (text(one, "Name") + &text(one, "Selector"), text(one, "Value"))).collect()
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundImage {
    pub id: String,
    /// `available`.
    pub state: String,
    /// `x86_64`, `arm64`.
    pub arch: String,
    /// The device that it boots from.
    pub root: String,
}

impl FoundImage {
    /// From `DescribeImages`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let one = |one: &Value| Self {
            id: text(one, "imageId"),
            state: text(one, "imageState"),
            arch: text(one, "architecture"),
            root: text(one, "rootDeviceName"),
        };
        answer["imagesSet"].as_array().into_iter().flatten().map(one).collect()
    }
}
