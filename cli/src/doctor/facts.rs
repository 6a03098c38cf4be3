//! What was found out, read from AWS's answers. What could not be found out says why.

pub mod account;
pub mod machines;
pub mod network;

use std::collections::BTreeMap;

use muster_control::admin::answers::StackStatus;
use muster_domain::pool::Pool;
use muster_domain::time::Time;
use serde_json::Value;

use self::account::Account;
use self::machines::Machines;
use self::network::Network;
use super::backlog::Backlog;
use crate::failure::Failure;
use crate::views::alarms::Alarm;

/// Something that was asked.
pub type Fact<T> = Result<T, Unknown>;

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The operator lacks this right.
    MayNot(String),
    /// There was no answer; why.
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

/// All of it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The stack's name.
    pub stack: String,
    /// Where it is.
    pub region: String,
    /// When it was asked.
    pub now: Time,
    /// The account.
    pub account: Account,
    /// What CloudFormation knows of it; none: nothing.
    pub deployed: Fact<Option<Deployed>>,
    /// What only a stack that is there can have; none: there is no admin function.
    pub running: Option<Running>,
}

impl Facts {
    /// The stack's own maximum.
    pub(super) fn max_machines(&self) -> Option<u32> {
        let deployed = self.deployed.as_ref().ok()?.as_ref()?;
        deployed.parameters.get("MaxMachines")?.parse().ok()
    }
}

/// A stack that is there.
#[derive(Clone, Debug)]
pub struct Running {
    /// The admin function's answer to `status`.
    pub status: Fact<StackStatus>,
    /// The pools in force.
    pub pools: Fact<Vec<Pool>>,
    /// The functions.
    pub functions: Vec<(&'static str, Fact<Option<Function>>)>,
    /// As many of them as may run at once, where somebody has said so.
    pub reserved: Fact<Vec<(&'static str, Option<u64>)>>,
    /// The rules of EventBridge, and whether they are enabled.
    pub rules: Fact<Vec<(String, bool)>>,
    /// What is not as the template has it; none where that was not asked.
    pub drift: Option<Fact<Vec<Drifted>>>,
    /// What reads the queues.
    pub mappings: Fact<Vec<Mapping>>,
    /// What the queues gave up.
    pub dead_letters: Fact<u64>,
    /// The queues that hold messages.
    pub backlogs: Fact<Vec<Backlog>>,
    /// The alarms.
    pub alarms: Fact<Vec<Heard>>,
    /// Who hears them.
    pub subscriptions: Fact<Vec<Subscription>>,
    /// The last sweep that is known of.
    pub swept_at: Fact<Option<Time>>,
    /// Where its machines are.
    pub network: Fact<Network>,
    /// What those are made of.
    pub machines: Machines,
}

impl Running {
    /// What the admin function says. Why it does not is told once, of the function itself.
    pub(super) fn said(&self) -> Fact<&StackStatus> {
        self.status.as_ref().map_err(|unknown| match unknown {
            Unknown::NoAnswer(_) => {
                Unknown::NoAnswer("the admin function gives no answer".to_owned())
            }
            unknown @ Unknown::MayNot(_) => unknown.clone(),
        })
    }
}

/// CloudFormation's view of the stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployed {
    /// `UPDATE_COMPLETE`.
    pub status: String,
    /// Why it is that.
    pub reason: Option<String>,
    /// When it was made.
    pub created: Option<Time>,
    /// What was given, and the defaults.
    pub parameters: BTreeMap<String, String>,
    /// What the template tells.
    pub outputs: BTreeMap<String, String>,
}

impl Deployed {
    /// From `DescribeStacks`.
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

    /// A parameter that is a list.
    #[must_use]
    pub fn list(&self, parameter: &str) -> Vec<String> {
        let text = self.parameters.get(parameter).map_or("", String::as_str);
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    }
}

/// A resource that somebody has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drifted {
    /// Its name in the template.
    pub name: String,
    /// `AWS::IAM::Role`
    pub kind: String,
    /// Its name in AWS.
    pub id: String,
    pub is_deleted: bool,
    /// What differs: `/Policies/0`.
    pub differs: Vec<String>,
}

impl Drifted {
    /// From `DescribeStackResourceDrifts`.
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

/// A function as Lambda has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// `Active`, `Failed`.
    pub state: String,
    /// Why.
    pub reason: String,
    /// `Successful`, `Failed`.
    pub update: String,
    /// Why.
    pub update_reason: String,
}

impl Function {
    /// From `GetFunctionConfiguration`.
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

/// What reads a queue for a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Lambda's id of it.
    pub id: String,
    /// The function.
    pub function: String,
    /// The queue's name.
    pub queue: String,
    /// `Enabled`, `Disabled`.
    pub state: String,
    /// `OK`, `No records processed`, or a problem.
    pub last: String,
}

impl Mapping {
    /// From `ListEventSourceMappings`.
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

/// An alarm and where it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The alarm.
    pub alarm: Alarm,
    /// Whether it tells anybody.
    pub is_enabled: bool,
    /// The topics that it tells.
    pub topics: Vec<String>,
}

/// Who hears a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// The address.
    pub endpoint: String,
    /// Whether whoever reads there has said yes.
    pub is_confirmed: bool,
}

impl Subscription {
    /// From `ListSubscriptionsByTopic`.
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
