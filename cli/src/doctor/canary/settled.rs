//! What a canary shows about each row of "What only AWS can show" (infra/README.md).

use muster_domain::ec2::Market;
use muster_domain::instance::Instance;
use muster_domain::launch::LaunchRequest;
use muster_domain::pool::Image;
use serde::Serialize;

use super::refusal::Decoded;

/// Whether an assumption is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AssumptionResult {
    /// As assumed.
    Yes,
    /// Not as assumed.
    No,
    /// This canary does not show it.
    Open,
}

/// An assumption about AWS: a row of that list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Assumption {
    /// Its text in infra/README.md.
    pub what: &'static str,
    pub answer: AssumptionResult,
    pub sentence: &'static str,
}

/// EC2's error code if it is not allowed to create the Spot role.
const NO_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";

/// Returns each row that one machine can answer. `spot`: whether EC2 reports it as Spot; `None` if
/// it could not be queried.
#[must_use]
pub fn rows(
    one: &Instance,
    request: &LaunchRequest,
    spot: Option<bool>,
    decoded: Option<&Decoded>,
) -> [Assumption; 4] {
    let came = one.machine().is_some();
    let unset = decoded.and_then(Decoded::unset);
    let code = one.last_error.as_ref().map_or("", |error| error.code.as_str());
    let key = |what: &'static str, key: &str, yes, no| {
        if came {
            Assumption { what, answer: AssumptionResult::Yes, sentence: yes }
        } else if unset == Some(key) {
            Assumption { what, answer: AssumptionResult::No, sentence: no }
        } else {
            Assumption {
                what,
                answer: AssumptionResult::Open,
                sentence: "No machine was launched.",
            }
        }
    };
    let is_spot = spot.unwrap_or(request.market == Market::Spot);
    let (role, role_said) = match (came, is_spot) {
        (true, true) => (AssumptionResult::Yes, "EC2 launched a Spot machine: the role exists."),
        (_, false) => (AssumptionResult::Open, "It is an on-demand machine."),
        (false, true) if code == NO_ROLE => (
            AssumptionResult::No,
            "EC2 is not allowed to create it: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
        ),
        (false, true) => (AssumptionResult::Open, "No machine was launched."),
    };
    let (image, image_said) = match (&request.image, came) {
        (Some(Image::Id(_)), _) => (AssumptionResult::Open, "The pool names its image by ID."),
        (_, true) => (AssumptionResult::Yes, "EC2 used the image in its parameter."),
        (_, false) => (AssumptionResult::Open, "No machine was launched."),
    };
    [
        key(
            "ec2:LaunchTemplate under CreateFleet",
            "ec2:LaunchTemplate",
            "The template's role can start only machines of this stack's launch template; one started.",
            "EC2 does not set it, so no launch is allowed.",
        ),
        key(
            "ec2:Subnet of a network interface",
            "ec2:Subnet",
            "The template's role can create interfaces only in the stack's subnets; one was created.",
            "EC2 does not set it, so no launch is allowed.",
        ),
        Assumption { what: "The Spot role", answer: role, sentence: role_said },
        Assumption { what: "The image's parameter", answer: image, sentence: image_said },
    ]
}
