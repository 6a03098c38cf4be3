//! `doctor`: queries all services concurrently, then applies the rules.

pub(super) mod account;
mod drift;
mod machines;
pub(super) mod network;

use muster_api::answers::{ShownPools, StackStatus};
use muster_api::{PoolsRequest, Request};
use muster_domain::pool::Pool;
use muster_domain::pool_file::{self, Answers};
use muster_domain::time::{Seconds, Time};
use muster_sigv4::{Call, encoded};
use serde_json::{Value, json};

use super::alarms::{of_stack, time};
use super::{Session, World, pretty};
use crate::args::Dead;
use crate::doctor::backlog::Backlog;
use crate::doctor::facts::network::Given;
use crate::doctor::facts::{Deployed, Function, Heard, Mapping, Running, Subscription};
use crate::doctor::stack::{FUNCTIONS, topics};
use crate::doctor::{Fact, Facts, Unknown, checks, has_errors};
use crate::failure::{Failure, parsed};
use crate::views;

/// Period in which to look for the last sweep.
const SWEEPS: Seconds = Seconds(3600);

/// An answer, or why it is missing.
type Answer = Result<Value, Failure>;

impl<W: World> Session<'_, W> {
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
        let stack = self.world.stack().await?;
        let describe = [
            ("Action", "DescribeStacks"),
            ("Version", "2010-05-15"),
            ("StackName", stack.as_str()),
        ];
        let mut calls = vec![Call::query("cloudformation", &describe)];
        calls.extend(account::calls());
        if status.is_some() {
            calls.extend(of_functions(&stack));
            calls.extend(of_reserves(&stack));
            calls.push(Call::json(
                "events",
                "AWSEvents.ListRules",
                &json!({ "NamePrefix": format!("{stack}-") }),
            ));
            calls.extend(of_mappings(&stack));
            calls.push(of_sweeps(&stack, self.world.now()));
        }
        let mut answers = self.asked_of_aws(calls).await?.into_iter();
        let deployed = deployed(next(&mut answers));
        let account = account::read(&mut answers);
        let running = match status {
            Some(status) => Some(self.running(&stack, (status, pools), &deployed, answers).await?),
            None => None,
        };
        let (region, now) = (self.world.region(), self.world.now());
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

    /// Gathers the facts of a deployed stack. `answers`: of the calls that need only the stack's
    /// name.
    async fn running(
        &mut self,
        stack: &str,
        (status, pools): (Fact<StackStatus>, Fact<Vec<Pool>>),
        deployed: &Fact<Option<Deployed>>,
        mut answers: impl Iterator<Item = Answer>,
    ) -> Result<Running, Failure> {
        let functions = FUNCTIONS.map(|name| (name, function(next(&mut answers)))).into();
        let reserved = FUNCTIONS.map(|name| reserved(name, next(&mut answers)));
        let reserved = reserved.into_iter().collect();
        let rules = fact(next(&mut answers), |answer| rules(&answer));
        let mappings = mappings([next(&mut answers), next(&mut answers)]);
        let swept_at = fact(next(&mut answers), |answer| last_sweep(&answer));
        let alarms = match self.described(stack).await {
            Ok(all) => Ok(all.iter().filter_map(|alarm| heard(alarm, stack)).collect()),
            Err(failure @ Failure::NoCredentials { .. }) => return Err(failure),
            Err(failure) => Err(failure.into()),
        };
        let queues = queues(deployed);
        let topics = topics(&alarms);
        let work = work_queues(deployed);
        let mut calls: Vec<Call> = queues.iter().flatten().map(|url| of_queue(url)).collect();
        calls.extend(work.iter().flatten().map(|(_, url)| of_queue(url)));
        calls.extend(topics.iter().map(|topic| of_topic(topic)));
        let given = known(deployed).map(Given::read);
        calls.extend(given.iter().flat_map(|given| network::calls(given, stack)));
        let wanted = known(deployed)
            .and_then(|deployed| Ok((deployed, pools.as_ref().map_err(Clone::clone)?)));
        calls.extend(wanted.iter().flat_map(|(deployed, pools)| machines::calls(deployed, pools)));
        let mut answers = self.asked_of_aws(calls).await?.into_iter();
        let dead_letters = queues.and_then(|urls| {
            let counts: Vec<Fact<u64>> =
                urls.iter().map(|_| fact(next(&mut answers), |answer| messages(&answer))).collect();
            counts.into_iter().sum()
        });
        let backlogs = work.and_then(|queues| {
            let read = |(queue, _): &(Dead, String)| {
                fact(next(&mut answers), |answer| Backlog::read(*queue, &answer))
            };
            let counted: Vec<Fact<Backlog>> = queues.iter().map(read).collect();
            counted.into_iter().collect::<Fact<Vec<_>>>()
        });
        // Reads every answer, also after one that failed: answers are matched by their order.
        let subscriptions: Vec<Fact<Vec<Subscription>>> = topics
            .iter()
            .map(|_| fact(next(&mut answers), |answer| Subscription::read(&answer)))
            .collect();
        let subscriptions: Fact<Vec<_>> = subscriptions.into_iter().collect();
        let subscriptions = subscriptions.map(|all| all.into_iter().flatten().collect());
        let network = given.map(|given| network::read(given, &mut answers));
        let machines = match wanted {
            Ok((_, pools)) => {
                let mut machines = machines::read(&mut answers);
                self.look_up_images(&mut machines, pools, stack).await?;
                machines
            }
            Err(unknown) => machines::unknown(&unknown),
        };
        let backlogs = match backlogs {
            Ok(all) => self.with_errors(stack, all).await.map_err(Unknown::from),
            unknown => unknown,
        };
        Ok(Running {
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
            subscriptions,
            swept_at,
            network,
            machines,
        })
    }

    /// Calls AWS. Fails without valid credentials, because every call would fail.
    pub(super) async fn asked_of_aws(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>, Failure> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.world.aws(calls).await?;
        let of_credentials =
            |answer: &&Answer| matches!(answer, Err(Failure::NoCredentials { .. }));
        match answers.iter().find(of_credentials) {
            Some(Err(failure)) => Err(failure.clone()),
            _ => Ok(answers),
        }
    }
}

fn next(answers: &mut impl Iterator<Item = Answer>) -> Answer {
    answers.next().unwrap_or(Ok(Value::Null))
}

fn fact<T>(answer: Answer, told: impl FnOnce(Value) -> T) -> Fact<T> {
    answer.map(told).map_err(Unknown::from)
}

pub(super) fn deployed(answer: Answer) -> Fact<Option<Deployed>> {
    match answer {
        // AWS's code for a stack that does not exist.
        Err(Failure::Service { said, .. }) if said.contains("does not exist") => Ok(None),
        answer => fact(answer, |answer| Deployed::read(&answer)),
    }
}

fn of_functions(stack: &str) -> impl Iterator<Item = Call> {
    FUNCTIONS.into_iter().map(move |name| {
        Call::get("lambda", &format!("/2015-03-31/functions/{stack}-{name}/configuration"))
    })
}

fn function(answer: Answer) -> Fact<Option<Function>> {
    match answer {
        Err(failure) if failure.is_missing() => Ok(None),
        answer => fact(answer, |answer| Some(Function::read(&answer))),
    }
}

pub(super) fn of_reserves(stack: &str) -> impl Iterator<Item = Call> {
    FUNCTIONS.into_iter().map(move |name| {
        Call::get("lambda", &format!("/2019-09-30/functions/{stack}-{name}/concurrency"))
    })
}

/// Reads a function's reserved concurrency. If the function does not exist, a different check
/// reports it.
pub(super) fn reserved(name: &'static str, answer: Answer) -> Fact<(&'static str, Option<u64>)> {
    match answer {
        Err(failure) if failure.is_missing() => Ok((name, None)),
        answer => fact(answer, |answer| (name, answer["ReservedConcurrentExecutions"].as_u64())),
    }
}

fn rules(answer: &Value) -> Vec<(String, bool)> {
    let all = answer["Rules"].as_array().into_iter().flatten();
    let name = |one: &Value| one["Name"].as_str().map(str::to_owned);
    all.filter_map(|one| Some((name(one)?, one["State"] != "DISABLED"))).collect()
}

fn of_mappings(stack: &str) -> impl Iterator<Item = Call> {
    ["scale-up", "reaper"].into_iter().map(move |name| {
        let function = encoded(&format!("{stack}-{name}"));
        Call::get("lambda", &format!("/2015-03-31/event-source-mappings?FunctionName={function}"))
    })
}

fn mappings(answers: [Answer; 2]) -> Fact<Vec<Mapping>> {
    let all = answers.into_iter().map(|answer| fact(answer, |answer| Mapping::read(&answer)));
    Ok(all.collect::<Fact<Vec<_>>>()?.into_iter().flatten().collect())
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

fn heard(alarm: &Value, stack: &str) -> Option<Heard> {
    let topics = alarm["AlarmActions"].as_array().into_iter().flatten();
    let topics = topics.filter_map(Value::as_str).filter(|action| action.contains(":sns:"));
    Some(Heard {
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

/// Returns the URLs of the dead-letter queues.
fn queues(deployed: &Fact<Option<Deployed>>) -> Fact<Vec<String>> {
    let deployed = known(deployed)?;
    let names = ["JobsDeadLettersUrl", "LaunchDeadLettersUrl", "ReapDeadLettersUrl"];
    Ok(names.iter().filter_map(|name| deployed.outputs.get(*name).cloned()).collect())
}

/// Returns the URLs of the queues that functions read.
fn work_queues(deployed: &Fact<Option<Deployed>>) -> Fact<Vec<(Dead, String)>> {
    let deployed = known(deployed)?;
    let names = [
        (Dead::Jobs, "JobsQueueUrl"),
        (Dead::Launches, "LaunchQueueUrl"),
        (Dead::Reaps, "ReapQueueUrl"),
    ];
    let of = |(queue, name): (Dead, &str)| Some((queue, deployed.outputs.get(name)?.clone()));
    Ok(names.into_iter().filter_map(of).collect())
}

pub(super) fn of_queue(url: &str) -> Call {
    let names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
    let body = json!({ "QueueUrl": url, "AttributeNames": names });
    Call::json("sqs", "AmazonSQS.GetQueueAttributes", &body)
}

fn messages(answer: &Value) -> u64 {
    let count = answer.pointer("/Attributes/ApproximateNumberOfMessages").and_then(Value::as_str);
    count.and_then(|count| count.parse().ok()).unwrap_or_default()
}

fn of_topic(topic: &str) -> Call {
    let fields =
        [("Action", "ListSubscriptionsByTopic"), ("Version", "2010-03-31"), ("TopicArn", topic)];
    Call::query("sns", &fields)
}
