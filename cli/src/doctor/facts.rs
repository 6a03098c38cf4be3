//! Facts that doctor reads from AWS's answers, or the reason why a fact is unknown.

pub mod account;
pub mod machines;
pub mod network;

use std::collections::BTreeMap;

use muster_api::answers::StackStatus;
use muster_domain::pool::Pool;
use muster_domain::time::Time;
use serde_json::Value;

use self::account::AccountFacts;
use self::machines::Machines;
use self::network::{FunctionNetwork, NetworkFacts};
use super::backlog::Backlog;
use crate::alarms::Alarm;
use crate::failure::Failure;

/// The result of one query.
pub type Fact<T> = Result<T, Unknown>;

/// The reason why something is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The operator lacks this permission.
    MayNot(String),
    /// The call failed, with the reason.
    NoAnswer(String),
}

impl From<Failure> for Unknown {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Service { ref action, .. } if failure.is_denied() => {
                Self::MayNot(action.clone())
            }
            Failure::Denied { .. } => Self::MayNot("lambda:InvokeFunction".to_owned()),
            failure => Self::NoAnswer(failure.sentence()),
        }
    }
}

/// Everything that the rules need.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The stack's name.
    pub stack: String,
    /// The stack's region.
    pub region: String,
    /// The time of the queries.
    pub now: Time,
    /// The account.
    pub account: AccountFacts,
    /// CloudFormation's description of the stack. `None` if it has no such stack.
    pub deployed: Fact<Option<Deployed>>,
    /// Facts of a deployed stack. `None` without an admin function.
    pub running: Option<Running>,
}

impl Facts {
    /// Returns the stack parameter `MaxMachines`.
    pub(super) fn max_machines(&self) -> Option<u32> {
        let deployed = self.deployed.as_ref().ok()?.as_ref()?;
        deployed.parameters.get("MaxMachines")?.parse().ok()
    }
}

/// A deployed stack.
#[derive(Clone, Debug)]
pub struct Running {
    /// The admin function's answer to `status`.
    pub status: Fact<StackStatus>,
    /// The pools in force.
    pub pools: Fact<Vec<Pool>>,
    /// The functions.
    pub functions: Vec<(&'static str, Fact<Option<Function>>)>,
    /// Its reserved concurrency, if set.
    pub reserved: Fact<Vec<(&'static str, Option<u64>)>>,
    /// EventBridge's rules, and whether each is enabled.
    pub rules: Fact<Vec<(String, bool)>>,
    /// Resources that differ from the template. `None` if that was not queried.
    pub drift: Option<Fact<Vec<Drifted>>>,
    /// The queues' event source mappings.
    pub mappings: Fact<Vec<Mapping>>,
    /// Number of messages in the dead-letter queues.
    pub dead_letters: Fact<u64>,
    /// The queues that contain messages.
    pub backlogs: Fact<Vec<Backlog>>,
    /// The alarms.
    pub alarms: Fact<Vec<AlarmFacts>>,
    /// The subscriptions of the alarms' topics.
    pub subscriptions: Fact<Vec<Subscription>>,
    /// The last known sweep.
    pub swept_at: Fact<Option<Time>>,
    /// The network of its machines.
    pub network: Fact<NetworkFacts>,
    /// The network of its functions, if they are in one.
    pub function_network: Option<Fact<FunctionNetwork>>,
    /// The machines' images, types and launch template.
    pub machines: Machines,
}

impl Running {
    /// Returns the answer of the admin function. If it failed, only the check of that function
    /// reports why.
    pub(super) fn said(&self) -> Fact<&StackStatus> {
        self.status.as_ref().map_err(|unknown| match unknown {
            Unknown::NoAnswer(_) => {
                Unknown::NoAnswer("the admin function does not respond".to_owned())
            }
            unknown @ Unknown::MayNot(_) => unknown.clone(),
        })
    }
}

/// CloudFormation's view of the stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployed {
    /// For example `UPDATE_COMPLETE`.
    pub status: String,
    /// The reason for the status.
    pub reason: Option<String>,
    /// When it was created.
    pub created: Option<Time>,
    /// The parameters, including defaults.
    pub parameters: BTreeMap<String, String>,
    /// The template's outputs.
    pub outputs: BTreeMap<String, String>,
}

impl Deployed {
    /// Parses the answer to `DescribeStacks`.
    #[must_use]
    pub fn read(answer: &Value) -> Option<Self> {
        let stack = answer.pointer("/DescribeStacksResult/Stacks/0")?;
        let pairs = |list: &str, key: &str, value: &str| {
            let all = stack[list].as_array().into_iter().flatten();
            all.map(|one| (text(one, key), text(one, value))).collect()
        };
        Some(Self {
            status: text(stack, "StackStatus"),
            reason: stack["StackStatusReason"].as_str().map(str::to_owned),
            created: text(stack, "CreationTime").parse().ok(),
            parameters: pairs("Parameters", "ParameterKey", "ParameterValue"),
            outputs: pairs("Outputs", "OutputKey", "OutputValue"),
        })
    }

    /// Returns the values of a list parameter.
    #[must_use]
    pub fn list(&self, parameter: &str) -> Vec<String> {
        let text = self.parameters.get(parameter).map_or("", String::as_str);
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    }
}

/// A resource that was changed outside CloudFormation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drifted {
    /// Its name in the template.
    pub name: String,
    /// For example `AWS::IAM::Role`.
    pub kind: String,
    /// Its name in AWS.
    pub id: String,
    pub is_deleted: bool,
    /// Paths of the differences, for example `/Policies/0`.
    pub differs: Vec<String>,
}

impl Drifted {
    /// Parses the answer to `DescribeStackResourceDrifts`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let all =
            |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        let one = |one: &Value| Self {
            name: text(one, "LogicalResourceId"),
            kind: text(one, "ResourceType"),
            id: text(one, "PhysicalResourceId"),
            is_deleted: one["StackResourceDriftStatus"] == "DELETED",
            differs: all(one.get("PropertyDifferences"))
                .iter()
                .map(|property| text(property, "PropertyPath"))
                .collect(),
        };
        let drifts = answer.pointer("/DescribeStackResourceDriftsResult/StackResourceDrifts");
        all(drifts).iter().map(one).collect()
    }
}

/// A function, as reported by Lambda.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// For example `Active` or `Failed`.
    pub state: String,
    /// The reason for the state.
    pub reason: String,
    /// For example `Successful` or `Failed`.
    pub update: String,
    /// The reason for the update's result.
    pub update_reason: String,
}

impl Function {
    /// Parses the answer to `GetFunctionConfiguration`.
    #[must_use]
    pub fn read(answer: &Value) -> Self {
        Self {
            state: text(answer, "State"),
            reason: text(answer, "StateReason"),
            update: text(answer, "LastUpdateStatus"),
            update_reason: text(answer, "LastUpdateStatusReason"),
        }
    }
}

/// An event source mapping: reads a queue for a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its ID at Lambda.
    pub id: String,
    /// The function.
    pub function: String,
    /// The queue's name.
    pub queue: String,
    /// For example `Enabled` or `Disabled`.
    pub state: String,
    /// Result of the last read: `OK`, `No records processed`, or a problem.
    pub last: String,
}

impl Mapping {
    /// Parses the answer to `ListEventSourceMappings`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let last_part = |text: String| text.rsplit(':').next().unwrap_or_default().to_owned();
        let one = |one: &Value| Self {
            id: text(one, "UUID"),
            function: last_part(text(one, "FunctionArn")),
            queue: last_part(text(one, "EventSourceArn")),
            state: text(one, "State"),
            last: text(one, "LastProcessingResult"),
        };
        answer["EventSourceMappings"].as_array().into_iter().flatten().map(one).collect()
    }
}

/// An alarm and its receivers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlarmFacts {
    /// The alarm.
    pub alarm: Alarm,
    /// Whether it sends notifications.
    pub is_enabled: bool,
    /// The SNS topics that it notifies.
    pub topics: Vec<String>,
}

/// A subscription of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// The receiver's address.
    pub endpoint: String,
    /// Whether the receiver confirmed the subscription.
    pub is_confirmed: bool,
}

impl Subscription {
    /// Parses the answer to `ListSubscriptionsByTopic`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let all = answer.pointer("/ListSubscriptionsByTopicResult/Subscriptions");
        let one = |one: &Value| Self {
            endpoint: text(one, "Endpoint"),
            is_confirmed: text(one, "SubscriptionArn").starts_with("arn:"),
        };
        all.and_then(Value::as_array).into_iter().flatten().map(one).collect()
    }
}

pub(super) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
