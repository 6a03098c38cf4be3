//! What machines are launched from: types, images, the launch template.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::pool::Image;
use serde_json::Value;

use super::{Fact, text};

/// Facts about machines.
#[derive(Clone, Debug)]
pub struct Machines {
    /// The stack's launch template.
    pub template: Fact<Template>,
    /// The pools' types, each with the zones that offer it.
    pub offers: Fact<BTreeSet<(String, String)>>,
    /// The image parameters that exist, with their values.
    pub parameters: Fact<BTreeMap<String, String>>,
    /// The images that exist.
    pub images: Fact<Vec<ImageFacts>>,
}

/// The fields of a launch template that a pool can override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub image: Image,
    /// Device name of its disk.
    pub device: Option<String>,
}

impl Template {
    /// Parses the answer to `DescribeLaunchTemplateVersions`.
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

/// Parses the answer to `DescribeInstanceTypeOfferings`, by zone.
#[must_use]
pub fn offers(answer: &Value) -> BTreeSet<(String, String)> {
    let all = answer["instanceTypeOfferingSet"].as_array().into_iter().flatten();
    all.map(|one| (text(one, "instanceType"), text(one, "location"))).collect()
}

/// Parses the answer to `GetParameters`.
#[must_use]
pub fn parameters(answer: &Value) -> BTreeMap<String, String> {
    let all = answer["Parameters"].as_array().into_iter().flatten();
    // The name as requested: the answer splits `name:3` into name and selector.
    all.map(|one| (text(one, "Name") + &text(one, "Selector"), text(one, "Value"))).collect()
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFacts {
    pub id: String,
    /// For example `available`.
    pub state: String,
    /// `x86_64` or `arm64`.
    pub arch: String,
    /// The root device.
    pub root: String,
}

impl ImageFacts {
    /// Parses the answer to `DescribeImages`.
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
