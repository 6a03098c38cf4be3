//! Decodes EC2's refusal for a missing permission.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::doctor::{Check, CheckGroup, error, found};

/// The text before the encoded part.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/CommonErrors.html
const MARK: &str = "Encoded authorization failure message:";
/// Minimum length of an encoded part.
const SHORTEST: usize = 40;

/// Returns the encoded part of EC2's message.
#[must_use]
pub fn code(message: &str) -> Option<&str> {
    let behind = message.split_once(MARK)?.1.split_whitespace().next()?;
    (behind.len() >= SHORTEST).then_some(behind)
}

/// Returns EC2's message without the encoded part, which people cannot read.
#[must_use]
pub fn without_code(message: &str) -> &str {
    message.split_once(MARK).map_or(message, |(before, _)| before).trim_end()
}

/// The decoded part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// For example `RunInstances`.
    pub action: String,
    /// ARN of the resource.
    pub resource: String,
    /// Whether a statement denies it. If not, no statement allows it.
    pub is_forbidden: bool,
    /// The condition keys that EC2 set.
    pub keys: BTreeSet<String>,
}

impl Decoded {
    /// Parses the answer to `DecodeAuthorizationMessage`.
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

    /// Returns the resource's type, for example `instance` or `network-interface`.
    fn kind(&self) -> &str {
        let resource = self.resource.splitn(6, ':').nth(5).unwrap_or_default();
        resource.split('/').next().unwrap_or_default()
    }

    /// Returns the condition key that the template requires for this type of resource, if EC2 did
    /// not set it.
    #[must_use]
    pub fn unset(&self) -> Option<&'static str> {
        let (_, key, ..) = ASKED.iter().find(|(kind, ..)| *kind == self.kind())?;
        let is_set = self.keys.iter().any(|set| set.eq_ignore_ascii_case(key));
        (!self.is_forbidden && !is_set).then_some(*key)
    }

    /// Returns the reason and the fix.
    #[must_use]
    pub fn findings(&self) -> Vec<Check> {
        let Self { action, resource, is_forbidden, .. } = self;
        let action = action.strip_prefix("ec2:").unwrap_or(action);
        let why = match (is_forbidden, self.unset()) {
            (true, _) => "a statement forbids it".to_owned(),
            (false, Some(key)) => format!("no statement allows it, and EC2 did not set {key}"),
            (false, None) => "no statement allows it".to_owned(),
        };
        let wrong = error(format!("Decoded: ec2:{action} on {resource}: {why}."));
        let asked = ASKED.iter().find(|(_, key, _)| self.unset() == Some(*key));
        let remedy = match asked {
            Some((_, _, remedy)) => (*remedy).to_owned(),
            None if *is_forbidden => {
                "check the organization's policies and the permissions boundaries".to_owned()
            }
            None => "check the scale-up role's policy and its permissions boundary".to_owned(),
        };
        found(CheckGroup::Canary, "refusal", vec![wrong.fix(remedy)])
    }
}

/// Condition keys that the template requires, each with its type of resource and the fix if EC2
/// does not set it.
const ASKED: [(&str, &str, &str); 2] = [
    (
        "instance",
        "ec2:LaunchTemplate",
        "remove the ArnEquals of the statement MachinesAreTaggedAndFromOurTemplate from template.yaml and deploy",
    ),
    (
        "network-interface",
        "ec2:Subnet",
        "remove the Condition of the statement NetworkInterfacesAreInOurSubnets from template.yaml and deploy",
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
