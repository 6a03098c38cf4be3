//! The deployment of a stack: its state, its progress, and the cause of a failure.

use muster_sigv4::Call;
use serde_json::Value;

/// The API version of CloudFormation's query protocol.
const VERSION: (&str, &str) = ("Version", "2010-05-15");

/// Returns a CloudFormation call.
#[must_use]
pub fn call(action: &str, fields: &[(&str, &str)]) -> Call {
    let fields = [&[("Action", action), VERSION], fields].concat();
    Call::query("cloudformation", &fields)
}

/// An existing stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExistingStack {
    /// Identifies the stack even after its deletion, unlike its name.
    pub id: String,
    pub status: String,
    pub reason: String,
    pub outputs: Value,
    pub parameters: Value,
}

impl ExistingStack {
    /// Reads the answer to DescribeStacks.
    #[must_use]
    pub fn read(answer: &Value) -> Option<Self> {
        let one = answer["DescribeStacksResult"]["Stacks"].get(0)?;
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        Some(Self {
            id: text("StackId"),
            status: text("StackStatus"),
            reason: text("StackStatusReason"),
            outputs: one["Outputs"].clone(),
            parameters: one["Parameters"].clone(),
        })
    }

    #[must_use]
    pub fn output(&self, name: &str) -> Option<&str> {
        let all = self.outputs.as_array()?;
        all.iter().find(|one| one["OutputKey"] == name)?["OutputValue"].as_str()
    }

    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let all = self.parameters.as_array()?;
        all.iter().find(|one| one["ParameterKey"] == name)?["ParameterValue"].as_str()
    }

    /// Returns whether an operation on the stack is in progress.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.status.ends_with("_IN_PROGRESS") && self.status != "REVIEW_IN_PROGRESS"
    }

    /// Returns whether the stack serves; after a rolled-back update the previous version does.
    #[must_use]
    pub fn is_there(&self) -> bool {
        matches!(
            self.status.as_str(),
            "CREATE_COMPLETE" | "UPDATE_COMPLETE" | "UPDATE_ROLLBACK_COMPLETE" | "IMPORT_COMPLETE"
        )
    }

    /// Returns whether something in the stack may launch machines.
    #[must_use]
    pub fn may_launch(&self) -> bool {
        let dead = ["DELETE", "ROLLBACK", "CREATE_FAILED", "REVIEW"];
        !dead.iter().any(|start| self.status.starts_with(start))
    }

    /// Returns whether the stack never existed: it has only a change set, or its first deployment was rolled back
    /// entirely.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self.status.as_str(), "REVIEW_IN_PROGRESS" | "DELETE_COMPLETE")
    }
}

/// The progress of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentProgress {
    pub done: usize,
    /// The resources that are being created, changed or deleted.
    pub now: Vec<String>,
}

impl DeploymentProgress {
    /// Adds a page of ListStackResources. Returns the token of the next page.
    pub fn add(&mut self, answer: &Value) -> Option<String> {
        let result = &answer["ListStackResourcesResult"];
        for one in result["StackResourceSummaries"].as_array().into_iter().flatten() {
            let status = one["ResourceStatus"].as_str().unwrap_or_default();
            if status.ends_with("_COMPLETE") && !status.starts_with("DELETE") {
                self.done += 1;
            } else if status.ends_with("_IN_PROGRESS") {
                self.now.extend(one["LogicalResourceId"].as_str().map(str::to_owned));
            }
        }
        result["NextToken"].as_str().map(str::to_owned)
    }

    /// Returns the resources in progress, for people.
    #[must_use]
    pub fn in_progress(&self) -> String {
        const SHOWN: usize = 4;
        let shown: Vec<&str> = self.now.iter().take(SHOWN).map(String::as_str).collect();
        let more = if self.now.len() > SHOWN { ", …" } else { "" };
        format!("{}{more}", shown.join(", "))
    }

    /// Returns the progress with the number of finished resources.
    #[must_use]
    pub fn summary(&self) -> String {
        let now = self.in_progress();
        let now = if now.is_empty() { String::new() } else { format!("; now {now}") };
        format!("{} done{now}", crate::words::count(self.done, "resource"))
    }
}

/// One change of a change set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceChange {
    /// `Add`, `Modify` or `Remove`.
    pub action: String,
    pub resource: String,
    pub kind: String,
    /// Whether the resource is replaced.
    pub is_replaced: bool,
}

impl ResourceChange {
    /// Reads an element of `Changes`.
    #[must_use]
    pub fn read(change: &Value) -> Self {
        let one = &change["ResourceChange"];
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        Self {
            action: text("Action"),
            resource: text("LogicalResourceId"),
            kind: text("ResourceType"),
            is_replaced: one["Replacement"] == "True",
        }
    }

    /// Returns what is lost if the resource is replaced or removed; `None` if that does not matter.
    #[must_use]
    pub fn loses(&self) -> Option<&'static str> {
        let goes = self.is_replaced || self.action == "Remove";
        let lost = match (self.resource.as_str(), self.kind.as_str()) {
            ("InstanceRole", _) => "machines that are running lose their access",
            ("Api", _) => "the webhook gets a new address: muster github hook set",
            ("AppKey", _) => "the App's key is lost: muster github connect",
            ("WebhookSecret", _) => "the webhook gets a new secret: muster github hook set",
            (_, "AWS::DynamoDB::Table") => "its records stay in the old table",
            _ => return None,
        };
        goes.then_some(lost)
    }
}

/// Returns the resource that failed first in the last deployment, and why; resources that were cancelled because of it
/// are skipped.
#[must_use]
pub fn cause(events: &[Value]) -> Option<(String, String)> {
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    // Events are newest first, back to the one that a user started.
    let is_of_it = |event: &&Value| text(event, "ResourceStatusReason") != "User Initiated";
    let failed = events.iter().take_while(is_of_it).filter(|event| {
        text(event, "ResourceStatus").ends_with("_FAILED")
            && !text(event, "ResourceStatusReason").contains("cancelled")
    });
    let first = failed.last()?;
    Some((text(first, "LogicalResourceId"), text(first, "ResourceStatusReason")))
}

/// Returns the cause as a sentence, with advice.
#[must_use]
pub fn failed_at(resource: &str, reason: &str) -> String {
    let said = format!("The deployment failed at {resource}: {}", reason.trim_end());
    let is_denied = ["AccessDenied", "not authorized", "UnauthorizedOperation"]
        .iter()
        .any(|word| reason.contains(word));
    if is_denied {
        return format!(
            "{said}\nThis needs permission to create roles, functions, tables and queues. If roles \
            need a permissions boundary: --boundary ARN"
        );
    }
    said
}

/// Returns `sam`'s error from its output, or its last lines.
#[must_use]
pub fn sam_error(said: &str) -> String {
    const LAST: usize = 6;
    let lines: Vec<&str> =
        said.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let from = lines.iter().rposition(|line| line.starts_with("Error:"));
    let from = from.unwrap_or_else(|| lines.len().saturating_sub(LAST));
    lines[from..].join("\n")
}

/// Returns the change set that `sam` created and did not execute.
#[must_use]
pub fn change_set(said: &str) -> Option<String> {
    let mut words = said.split_whitespace().rev();
    let found = words.find(|word| word.starts_with("arn:") && word.contains(":changeSet/"));
    found.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_failure_of_this_deployment_is_the_cause() {
        let event = |id: &str, status: &str, why: &str| json!({ "LogicalResourceId": id, "ResourceStatus": status, "ResourceStatusReason": why });
        let events = [
            event("muster", "ROLLBACK_IN_PROGRESS", "The following resource(s) failed to create"),
            event("Api", "CREATE_FAILED", "Resource creation cancelled"),
            event("Queue", "CREATE_FAILED", "too late"),
            event("InstanceRole", "CREATE_FAILED", "not authorized to perform iam:CreateRole"),
            event("InstanceRole", "CREATE_IN_PROGRESS", ""),
            event("muster", "CREATE_IN_PROGRESS", "User Initiated"),
            event("Old", "UPDATE_FAILED", "long ago"),
        ];
        let (resource, reason) = cause(&events).expect("a cause");
        let told = failed_at(&resource, &reason);
        assert!(
            told.starts_with("The deployment failed at InstanceRole: not authorized"),
            "{told}"
        );
        assert!(told.contains("--boundary"), "{told}");
        assert!(!failed_at("A", "quota").contains("--boundary"));
        assert_eq!(cause(&events[4..]), None);
    }

    #[test]
    fn sams_error_is_told_and_its_change_set_found() {
        let said = "Uploading…\n\nError: Failed to create changeset for the stack: muster, Rule: each of Subnets\n  must be …\n\n";
        assert_eq!(
            sam_error(said),
            "Error: Failed to create changeset for the stack: muster, Rule: each of Subnets\n  must be …"
        );
        assert_eq!(sam_error("a\nb\nc\nd\ne\nf\ng\nh"), "c\nd\ne\nf\ng\nh");
        let arn = "arn:aws:cloudformation:us-east-1:1:changeSet/samcli-deploy1/9";
        assert_eq!(
            change_set(&format!("Changeset created successfully. {arn}\n")),
            Some(arn.to_owned())
        );
        assert_eq!(change_set("No changes to deploy."), None);
    }
}
