//! What a canary settles of "What only AWS can show" (infra/README.md), row by row.

use muster_domain::ec2::Market;
use muster_domain::instance::Instance;
use muster_domain::launch::LaunchRequest;
use muster_domain::pool::Image;
use serde::Serialize;

use super::refusal::Decoded;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It is as it was assumed.
    Yes,
    /// It is not.
    No,
    /// This canary does not show it.
    Open,
}

/// A row of that list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// As it stands there.
    pub what: &'static str,
    pub answer: Answer,
    pub sentence: &'static str,
}

/// The code of a Spot role that may not be made.
const NO_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";

/// Each row that one machine can show. `spot`: whether EC2 calls it that, where it may be asked.
#[must_use]
pub fn rows(
    one: &Instance,
    request: &LaunchRequest,
    spot: Option<bool>,
    decoded: Option<&Decoded>,
) -> [Row; 4] {
    let came = one.machine().is_some();
    let unset = decoded.and_then(Decoded::unset);
    let code = one.last_error.as_ref().map_or("", |error| error.code.as_str());
    let key = |what: &'static str, key: &str, yes, no| {
        if came {
            Row { what, answer: Answer::Yes, sentence: yes }
        } else if unset == Some(key) {
            Row { what, answer: Answer::No, sentence: no }
        } else {
            Row { what, answer: Answer::Open, sentence: "Nothing was launched." }
        }
    };
    let is_spot = spot.unwrap_or(request.market == Market::Spot);
    let (role, role_said) = match (came, is_spot) {
        (true, true) => (Answer::Yes, "EC2 sold a Spot machine: the role is there."),
        (_, false) => (Answer::Open, "It was bought on demand."),
        (false, true) if code == NO_ROLE => (
            Answer::No,
            "EC2 may not make it: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
        ),
        (false, true) => (Answer::Open, "Nothing was launched."),
    };
    let (image, image_said) = match (&request.image, came) {
        (Some(Image::Id(_)), _) => (Answer::Open, "The pool names its image by its id."),
        (_, true) => (Answer::Yes, "EC2 took the image that its parameter names."),
        (_, false) => (Answer::Open, "Nothing was launched."),
    };
    [
        key(
            "ec2:LaunchTemplate under CreateFleet",
            "ec2:LaunchTemplate",
            "The role, as the template has it, starts machines of this stack's launch template alone; one started.",
            "EC2 does not set it, so no launch is allowed.",
        ),
        key(
            "ec2:Subnet of a network interface",
            "ec2:Subnet",
            "The role, as the template has it, makes interfaces in the stack's subnets alone; one was made.",
            "EC2 does not set it, so no launch is allowed.",
        ),
        Row { what: "The Spot role", answer: role, sentence: role_said },
        Row { what: "The image's parameter", answer: image, sentence: image_said },
    ]
}
