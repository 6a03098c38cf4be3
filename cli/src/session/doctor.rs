//! `doctor`: queries all services concurrently, then applies the rules.

pub(super) mod account;
mod drift;
mod machines;
pub(super) mod network;

use futures_util::future::join_all;
use muster_api::answers::{ShownPools, StackStatus};
use muster_api::{PoolsRequest, Request};
use muster_domain::pool::Pool;
use muster_domain::pool_file::{self, Answers};
use muster_domain::time::{Seconds, Time};
use muster_sigv4::{Call, encoded};
use serde_json::{Value, json};
use tokio::join;

use super::alarms::{described, of_stack, time};
use super::backlog::{of_queue, reserved, with_errors};
use super::batch::CallBatch;
use super::{Session, pretty};
use crate::args::Dead;
use crate::doctor::backlog::Backlog;
use crate::doctor::facts::network::NetworkParameters;
use crate::doctor::facts::{AlarmFacts, Deployed, Function, Mapping, Running, Subscription};
use crate::doctor::stack::{FUNCTIONS, topics};
use crate::doctor::{Fact, Facts, Unknown, checks, has_errors};
use crate::failure::{Failure, parsed};
use crate::views;
use crate::world::{Cloud, Console};

/// Period in which to look for the last sweep.
const SWEEPS: Seconds = Seconds(3600);

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn doctor(&mut self, deep: bool) -> Result<String, Failure> {
        let mut facts = self.facts().await?;
        if let Some(running) = facts.running.as_mut().filter(|_| deep) {
            running.drift = Some(self.drift(&facts.stack).await?);
        }
        let checks = checks(&facts);
        let text = if self.json {
            let ok = !has_errors(&checks);
            let caller = facts.account.caller.as_ref().ok();
            pretty(&json!({
                "version": 1, "ok": ok, "checks": checks, "stack": facts.stack,
                "region": facts.region, "account": caller.map(|caller| &caller.account),
                "caller": caller.map(|caller| &caller.arn),
            }))
        } else {
            views::doctor::page(&facts, &checks, self.screen)
        };
        if has_errors(&checks) { Err(Failure::Unwell(text)) } else { Ok(text) }
    }

    async fn facts(&mut self) -> Result<Facts, Failure> {
        let status = self.status_fact().await?;
        let pools = match &status {
            Some(Ok(_)) => self.pools_fact().await?,
            // It failed once, so it is not called again.
            Some(Err(unknown)) => Err(unknown.clone()),
            None => Ok(Vec::new()),
        };
        let (stack, now) = (self.world.stack().await?, self.world.now());
        let batch = CallBatch::default();
        let facts = async {
            let by_name = async {
                match &status {
                    Some(_) => Some(ByName::facts(&batch, &stack, now).await),
                    None => None,
                }
            };
            let (deployed, account, by_name) =
                join!(deployed(&batch, &stack), account::facts(&batch), by_name);
            let running = match (status, by_name) {
                (Some(status), Some(by_name)) => {
                    let described = known(&deployed);
                    Some(running(&batch, &stack, now, (status, pools), described, by_name).await)
                }
                _ => None,
            };
            (account, deployed, running)
        };
        let (account, deployed, running) = self.together(&batch, facts).await?;
        let region = self.world.region();
        Ok(Facts { stack, region, now, account, deployed, running })
    }

    /// Queries the stack's status. Returns `None` if there is no stack.
    async fn status_fact(&mut self) -> Result<Option<Fact<StackStatus>>, Failure> {
        let asked = self.answer(&json!(Request::Status { github: true })).await;
        match asked.and_then(|answer| parsed("status", answer)) {
            Ok(status) => Ok(Some(Ok(status))),
            Err(Failure::NoFunction { stacks: None, .. }) => Ok(None),
            Err(Failure::NoFunction { stacks: Some(others), .. }) if others.is_empty() => Ok(None),
            Err(
                failure @ (Failure::NoFunction { .. }
                | Failure::NoCredentials { .. }
                | Failure::NoRegion),
            ) => Err(failure),
            Err(failure) => Ok(Some(Err(failure.into()))),
        }
    }

    async fn pools_fact(&mut self) -> Result<Fact<Vec<Pool>>, Failure> {
        let asked =
            self.asked::<ShownPools>("pools", Request::Pools(PoolsRequest::default())).await;
        match asked {
            // The file in force has no names that must be resolved.
            Ok(shown) => Ok(match pool_file::read(shown.file, &Answers::default()) {
                Ok(read) => Ok(read.file.pools),
                Err(unread) => {
                    let why: Vec<String> =
                        unread.problems.iter().map(ToString::to_string).collect();
                    let why =
                        format!("this command cannot read the pools in force: {}", why.join("; "));
                    Err(Unknown::NoAnswer(why))
                }
            }),
            Err(failure @ Failure::NoCredentials { .. }) => Err(failure),
            Err(failure) => Ok(Err(failure.into())),
        }
    }
}

/// Facts of a deployed stack that only its name is needed for.
struct ByName {
    functions: Vec<(&'static str, Fact<Option<Function>>)>,
    reserved: Fact<Vec<(&'static str, Option<u64>)>>,
    rules: Fact<Vec<(String, bool)>>,
    mappings: Fact<Vec<Mapping>>,
    swept_at: Fact<Option<Time>>,
    alarms: Fact<Vec<AlarmFacts>>,
}

impl ByName {
    async fn facts(batch: &CallBatch, stack: &str, now: Time) -> Self {
        let prefix = json!({ "NamePrefix": format!("{stack}-") });
        let (functions, reserved, rules, mappings, swept_at, alarms) = join!(
            join_all(
                FUNCTIONS.map(|name| async move { (name, function(batch, stack, name).await) })
            ),
            join_all(FUNCTIONS.map(|name| reserved(batch, stack, name))),
            batch.fact(Call::json("events", "AWSEvents.ListRules", &prefix), rules),
            join_all(["scale-up", "reaper"].map(|name| mappings(batch, stack, name))),
            batch.fact(of_sweeps(stack, now), last_sweep),
            described(batch, stack),
        );
        let alarms = alarms.map_err(Unknown::from);
        Self {
            functions,
            reserved: reserved.into_iter().collect(),
            rules,
            mappings: mappings.into_iter().collect::<Fact<Vec<_>>>().map(|all| all.concat()),
            swept_at,
            alarms: alarms.map(|all| all.iter().filter_map(|one| heard(one, stack)).collect()),
        }
    }
}

/// Gathers the facts of a deployed stack.
async fn running(
    batch: &CallBatch,
    stack: &str,
    now: Time,
    (status, pools): (Fact<StackStatus>, Fact<Vec<Pool>>),
    deployed: Fact<&Deployed>,
    by_name: ByName,
) -> Running {
    let network = async {
        match deployed.clone() {
            Ok(deployed) => {
                Ok(network::facts(batch, NetworkParameters::read(deployed), stack).await)
            }
            Err(unknown) => Err(unknown),
        }
    };
    let function_network = async {
        let subnets = deployed.as_ref().map(|deployed| deployed.list("FunctionSubnets"));
        network::of_functions(batch, subnets.unwrap_or_default()).await
    };
    let (dead_letters, backlogs, subscriptions, network, function_network, machines) = join!(
        dead_letters(batch, deployed.clone()),
        backlogs(batch, stack, now, deployed.clone()),
        join_all(topics(&by_name.alarms).into_iter().map(|topic| subscriptions(batch, topic))),
        network,
        function_network,
        machines::facts(batch, deployed.clone(), &pools, stack),
    );
    let ByName { functions, reserved, rules, mappings, swept_at, alarms } = by_name;
    let subscriptions = subscriptions.into_iter().collect::<Fact<Vec<_>>>();
    Running {
        status,
        pools,
        functions,
        drift: None,
        reserved,
        rules,
        mappings,
        dead_letters,
        backlogs,
        alarms,
        subscriptions: subscriptions.map(|all| all.concat()),
        swept_at,
        network,
        function_network,
        machines,
    }
}

pub(super) async fn deployed(batch: &CallBatch, stack: &str) -> Fact<Option<Deployed>> {
    let fields = [("Action", "DescribeStacks"), ("Version", "2010-05-15"), ("StackName", stack)];
    match batch.ask(Call::query("cloudformation", &fields)).await {
        // AWS's code for a stack that does not exist.
        Err(Failure::Service { said, .. }) if said.contains("does not exist") => Ok(None),
        answer => Ok(Deployed::read(&answer?)),
    }
}

async fn function(batch: &CallBatch, stack: &str, name: &str) -> Fact<Option<Function>> {
    let path = format!("/2015-03-31/functions/{stack}-{name}/configuration");
    match batch.ask(Call::get("lambda", &path)).await {
        Err(failure) if failure.is_missing() => Ok(None),
        answer => Ok(Some(Function::read(&answer?))),
    }
}

async fn mappings(batch: &CallBatch, stack: &str, name: &str) -> Fact<Vec<Mapping>> {
    let function = encoded(&format!("{stack}-{name}"));
    let path = format!("/2015-03-31/event-source-mappings?FunctionName={function}");
    batch.fact(Call::get("lambda", &path), Mapping::read).await
}

async fn subscriptions(batch: &CallBatch, topic: String) -> Fact<Vec<Subscription>> {
    let version = ("Version", "2010-03-31");
    let fields = [("Action", "ListSubscriptionsByTopic"), version, ("TopicArn", topic.as_str())];
    batch.fact(Call::query("sns", &fields), Subscription::read).await
}

/// Counts the messages of the dead-letter queues.
async fn dead_letters(batch: &CallBatch, deployed: Fact<&Deployed>) -> Fact<u64> {
    let outputs = &deployed?.outputs;
    let names = ["JobsDeadLettersUrl", "LaunchDeadLettersUrl", "ReapDeadLettersUrl"];
    let urls = names.iter().filter_map(|name| outputs.get(*name));
    join_all(urls.map(|url| batch.fact(of_queue(url), messages))).await.into_iter().sum()
}

/// Counts the messages of the queues that functions read, with the last errors of these functions.
async fn backlogs(
    batch: &CallBatch,
    stack: &str,
    now: Time,
    deployed: Fact<&Deployed>,
) -> Fact<Vec<Backlog>> {
    let outputs = &deployed?.outputs;
    let names = [
        (Dead::Jobs, "JobsQueueUrl"),
        (Dead::Launches, "LaunchQueueUrl"),
        (Dead::Reaps, "ReapQueueUrl"),
    ];
    let queues = names.into_iter().filter_map(|(queue, name)| Some((queue, outputs.get(name)?)));
    let counted = queues
        .map(|(queue, url)| batch.fact(of_queue(url), move |answer| Backlog::read(queue, answer)));
    let counted: Fact<Vec<_>> = join_all(counted).await.into_iter().collect();
    Ok(with_errors(batch, stack, now, counted?).await?)
}

fn rules(answer: &Value) -> Vec<(String, bool)> {
    let all = answer["Rules"].as_array().into_iter().flatten();
    let name = |one: &Value| one["Name"].as_str().map(str::to_owned);
    all.filter_map(|one| Some((name(one)?, one["State"] != "DISABLED"))).collect()
}

fn of_sweeps(stack: &str, now: Time) -> Call {
    let seconds = |at: Time| at.as_millis() / 1000;
    let body = json!({
        "Namespace": "Muster", "MetricName": "ReaperTick", "Period": 60, "Statistics": ["Sum"],
        "Dimensions": [{ "Name": "Stack", "Value": stack }],
        "StartTime": seconds(now - SWEEPS), "EndTime": seconds(now),
    });
    Call::json("monitoring", "GraniteServiceVersion20100801.GetMetricStatistics", &body)
}

fn last_sweep(answer: &Value) -> Option<Time> {
    answer["Datapoints"].as_array()?.iter().filter_map(|point| time(&point["Timestamp"])).max()
}

fn heard(alarm: &Value, stack: &str) -> Option<AlarmFacts> {
    let topics = alarm["AlarmActions"].as_array().into_iter().flatten();
    let topics = topics.filter_map(Value::as_str).filter(|action| action.contains(":sns:"));
    Some(AlarmFacts {
        alarm: of_stack(alarm, stack)?,
        is_enabled: alarm["ActionsEnabled"] != false,
        topics: topics.map(str::to_owned).collect(),
    })
}

/// Returns the parameters and outputs of a deployed stack.
pub(super) fn known(deployed: &Fact<Option<Deployed>>) -> Fact<&Deployed> {
    match deployed {
        Ok(Some(deployed)) => Ok(deployed),
        Ok(None) => Err(Unknown::NoAnswer("CloudFormation does not know the stack".to_owned())),
        Err(unknown) => Err(unknown.clone()),
    }
}

fn messages(answer: &Value) -> u64 {
    let count = answer.pointer("/Attributes/ApproximateNumberOfMessages").and_then(Value::as_str);
    count.and_then(|count| count.parse().ok()).unwrap_or_default()
}
