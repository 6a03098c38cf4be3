//! EC2's refusal for a missing right, decoded.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::doctor::{Finding, Group, Wrong, found};

/// What stands before the encoded part.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/CommonErrors.html
const MARK: &str = "Encoded authorization failure message:";
/// No code is shorter.
const SHORTEST: usize = 40;

/// The encoded part of EC2's sentence.
#[must_use]
pub fn code(message: &str) -> Option<&str> {
    let behind = message.split_once(MARK)?.1.split_whitespace().next()?;
    (behind.len() >= SHORTEST).then_some(behind)
}

/// EC2's sentence without it: nobody reads that.
#[must_use]
pub fn without_code(message: &str) -> &str {
    message.split_once(MARK).map_or(message, |(before, _)| before).trim_end()
}

/// What the encoded part says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// `RunInstances`.
    pub action: String,
    /// Its ARN.
    pub resource: String,
    /// A statement forbids it; otherwise none allows it.
    pub is_forbidden: bool,
    /// The condition keys that were set.
    pub keys: BTreeSet<String>,
}

impl Decoded {
    /// From `DecodeAuthorizationMessage`.
    #[must_use]
    pub fn read(answer: &Value) -> Option<Self> {
        let text = answer.pointer("/DecodeAuthorizationMessageResult/DecodedMessage")?.as_str()?;
        let said: Value = serde_json::from_str(text).ok()?;
        let context = &said["context"];
        let word = |name: &str| context[name].as_str().unwrap_or_default().to_owned();
        let forbids = &said["explicitDeny"];
        let items = context.pointer("/conditions/items").and_then(Value::as_array);
        let keys = items.into_iter().flatten().filter_map(|item| item["key"].as_str());
        Some(Self {
            action: word("action"),
            resource: word("resource"),
            is_forbidden: *forbids == true || forbids == "true",
            keys: keys.map(str::to_owned).collect(),
        })
    }

    /// What EC2 was asked about: `instance`, `network-interface`.
    fn kind(&self) -> &str {
        let resource = self.resource.splitn(6, ':').nth(5).unwrap_or_default();
        resource.split('/').next().unwrap_or_default()
    }

    /// The condition key that the template asks for of this kind, where EC2 did not set it.
    #[must_use]
    pub fn unset(&self) -> Option<&'static str> {
        let (_, key, ..) = ASKED.iter().find(|(kind, ..)| *kind == self.kind())?;
        let is_set = self.keys.iter().any(|set| set.eq_ignore_ascii_case(key));
        (!self.is_forbidden && !is_set).then_some(*key)
    }

    /// Why, and what to do.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let Self { action, resource, is_forbidden, .. } = self;
        let action = action.strip_prefix("ec2:").unwrap_or(action);
        let why = match (is_forbidden, self.unset()) {
            (true, _) => "a statement forbids it".to_owned(),
            (false, Some(key)) => format!("no statement allows it, and EC2 did not set {key}"),
            (false, None) => "no statement allows it".to_owned(),
        };
        let wrong = Wrong::error(format!("Decoded: ec2:{action} on {resource}: {why}."));
        let asked = ASKED.iter().find(|(_, key, _)| self.unset() == Some(*key));
        let remedy = match asked {
            Some((_, _, remedy)) => (*remedy).to_owned(),
            None if *is_forbidden => {
                "what forbids it: a policy of the organization, or a permissions boundary"
                    .to_owned()
            }
            None => "the policy of the role scale-up, and a permissions boundary".to_owned(),
        };
        found(Group::Canary, "refusal", vec![wrong.remedy(remedy)])
    }
}

/// Condition keys that the template asks for, each with its resource, and what to do where EC2 does not set it.
const ASKED: [(&str, &str, &str); 2] = [
    (
        "instance",
        "ec2:LaunchTemplate",
        "take the ArnEquals of the statement MachinesAreTaggedAndFromOurTemplate out of template.yaml and deploy",
    ),
    (
        "network-interface",
        "ec2:Subnet",
        "take the Condition of the statement NetworkInterfacesAreInOurSubnets out of template.yaml and deploy",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_code_is_taken_for_one() {
        let code = |text: &str| super::code(text).map(str::len);
        let long = "a".repeat(50);
        let said = format!("You may not. Encoded authorization failure message: {long} (x)");
        assert_eq!(code(&said), Some(50));
        assert_eq!(without_code(&said), "You may not.");
        assert_eq!(code("You may not."), None);
        assert_eq!(code("Encoded authorization failure message: short"), None);
    }
}
