//! Invocations of the Lambda functions. Like the functions, they only translate: messages of the
//! simulated queues for the batches of `control`, and their answers back.

use std::borrow::Cow;
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use muster_api::{AdminErrorCode, Answer};
use muster_control::Settings;
use muster_control::admin;
use muster_control::context::Context;
use muster_control::jobs::batch::JobsBatch;
use muster_control::launches::wake_up::WakeUp;
use muster_control::metrics::Measure;
use muster_control::notices::Message;
use muster_control::ports::{self, Compute, Github, Queue, Receiver, Unavailable};
use muster_control::reaps::batch::{self, Batch};
use muster_control::runner_api::{Handout, MachineReport, RunnerApi, RunnerApiError, look};
use muster_control::settings_cache::SettingsCache;
use muster_control::tick::{Tick, TickReport, TimeLimit};
use muster_domain::agent::{AgentOffer, AgentReport};
use muster_domain::instance::{AfterEnd, Ages, BootMethod, ReportError};
use muster_domain::message::JobsMessage;
use muster_domain::time::{Seconds, Time};
use serde_json::Value;

use crate::agenda::{Millis, SECOND, Which};
use crate::door::Door;
use crate::executor::{Pause, Sim};
use crate::fault::Fault;
use crate::lambda::{Failing, Function, function_of};
use crate::queue::{Body, Received};
use crate::world::World;

/// The template's `WorkerTimeoutSeconds`.
const TIME_LIMIT: Seconds = Seconds(60);

/// An invocation.
#[derive(Clone, Debug)]
pub enum Call {
    /// A batch of the jobs queue.
    ScaleUp(Rc<Vec<Received>>),
    /// A batch of the launch queue.
    Launch(Rc<Vec<Received>>),
    /// A batch of the reap queue.
    Reap(Rc<Vec<Received>>),
    /// The schedule's minute.
    Sweep,
    /// A machine's request.
    Api(u32),
    /// An operator's request.
    Operator(u32),
    /// A delivery of GitHub.
    Webhook(u32),
}

impl Call {
    /// The function's time-out.
    #[must_use]
    pub const fn time_limit(&self) -> Millis {
        match self {
            Self::ScaleUp(_) | Self::Launch(_) | Self::Reap(_) | Self::Sweep => {
                TIME_LIMIT.0 as Millis * SECOND
            }
            Self::Api(_) | Self::Operator(_) => 30 * SECOND,
            Self::Webhook(_) => 5 * SECOND,
        }
    }

    /// For the trace.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::ScaleUp(batch) => format!("scale-up ({} messages)", batch.len()),
            Self::Launch(batch) => format!("launch ({} messages)", batch.len()),
            Self::Reap(batch) => format!("reaper ({} messages)", batch.len()),
            Self::Sweep => "sweep".to_owned(),
            Self::Api(number) => format!("runner-api (call {number})"),
            Self::Operator(number) => format!("admin (order {number})"),
            Self::Webhook(number) => format!("webhook (delivery {number})"),
        }
    }
}

/// What a machine asks of runner-api.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Its configuration, with what it has of an agent.
    Configuration(Option<AgentReport>),
    /// A report.
    Report(MachineReport),
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The configuration: the runner's name, the registration's number, and the agent to take.
    Configuration(String, u64, Option<AgentOffer>),
    /// Build an image with this agent.
    Build(BootMethod, Option<AgentOffer>),
    /// Noted.
    Noted,
    /// Noted: ask again after this time what comes after the end.
    AskAgain(Seconds),
    /// Noted: stay for so long, for somebody's look.
    Stay(Seconds),
    /// Shut down, or fail the job.
    Refused(String),
    /// Try again after this time.
    Later(Seconds),
    /// A 5xx.
    Broken,
}

/// A call of a machine to runner-api.
#[derive(Debug)]
pub struct ApiCall {
    /// Who calls.
    pub machine: u32,
    /// What for.
    pub ask: Rc<Ask>,
    /// The answer, once it is there.
    pub reply: Option<Reply>,
}

impl World {
    /// Returns the cached settings of scale-up's environment. A new environment has none, and a deployment
    /// replaces all environments.
    fn settings_cache(&mut self, is_cold: bool) -> Rc<SettingsCache> {
        if is_cold || self.settings_cache.0 != self.deployments {
            self.settings_cache = (self.deployments, Rc::default());
        }
        Rc::clone(&self.settings_cache.1)
    }

    /// The answer to a machine's call is on its way.
    pub fn reply(&mut self, number: u32, reply: Reply) {
        if matches!(reply, Reply::Broken) {
            self.count_error(Function::RunnerApi);
        }
        let call = &self.api_calls[number as usize];
        let machine = call.machine;
        if call.reply.is_some() || self.strikes(Fault::ReportLost) {
            return;
        }
        match &reply {
            Reply::Refused(why) => {
                let id = self.ec2.at(machine).id.clone();
                self.narrate(|| format!("{id} is refused: {why}"));
            }
            other => self.say(|| format!("  → machine {machine}: {other:?}")),
        }
        self.api_calls[number as usize].reply = Some(reply);
        self.wake_machine(machine);
    }
}

/// Runs an invocation to its end.
pub async fn run(sim: Rc<Sim>, call: Call, skew: Millis, cold: bool) {
    sim.world.borrow_mut().note_invocation(&call);
    let failing = sim.world.borrow().failing(function_of(&call));
    match failing {
        None => {}
        Some(how @ (Failing::Throttled | Failing::NoStart)) => {
            return sim.world.borrow_mut().is_not_run(&call, how);
        }
        Some(Failing::TimedOut) => Pause::new(&sim, call.time_limit() + SECOND).await,
    }
    let is_api = matches!(call, Call::Api(_));
    let door = Door { sim, skew, cold: Cell::new(cold), is_api };
    let naive = door.sim.world.borrow().naive;
    match naive {
        Some(naive) => Box::pin(naive.run(&door, &call)).await,
        None => ours(&door, &call, &door, &door).await,
    }
}

/// Our own functions. EC2 and GitHub are named apart, so that a naive policy can stand before them.
pub(crate) async fn ours(door: &Door, call: &Call, compute: &impl Compute, github: &impl Github) {
    match call {
        Call::ScaleUp(batch) => Box::pin(jobs(door, batch)).await,
        Call::Launch(batch) => Box::pin(launch(door, batch, compute)).await,
        Call::Reap(batch) => Box::pin(reap(door, batch, compute, github)).await,
        Call::Sweep => Box::pin(sweep(door, door)).await,
        Call::Api(number) => Box::pin(runner_api(door, *number, github)).await,
        Call::Operator(number) => Box::pin(operator(door, *number)).await,
        Call::Webhook(number) => Box::pin(webhook(door, *number)).await,
    }
}

async fn webhook(door: &Door, number: u32) {
    let Some(message) = door.sim.world.borrow().message_of(number) else { return };
    // An error is answered with 5xx, and GitHub does not deliver again by itself.
    let sent = door.send_jobs(&[message]).await;
    let mut world = door.sim.world.borrow_mut();
    world.delivered(number, sent.is_ok());
    if sent.is_err() {
        world.count_error(Function::Webhook);
    }
}

/// A batch of the jobs queue.
async fn jobs(door: &Door, batch: &[Received]) {
    let message = |received: &Received| match &*received.body {
        Body::Jobs(message) => Some(message.clone()),
        Body::Reap(_) => None,
    };
    let messages: Vec<_> = batch.iter().map(|one| handed_over(one, message(one))).collect();
    // This invocation has a request id as well, which nothing asks for: drawn, so that all that is
    // drawn after it stays what the timelines have recorded.
    let _ = door.random();
    let settings = &*door.sim.deployed();
    let cache = &*door.sim.world.borrow_mut().settings_cache(door.cold.get());
    let pass = JobsBatch {
        context: Context::new(door, door, &(), &(), settings),
        cache,
        clock: &|| door.now(),
    };
    let report = pass.run(&messages).await;
    measured(door, || report.measures);
    let acked = batch.iter().zip(report.acked);
    let done: Vec<&Received> = acked.filter_map(|(one, acked)| acked.then_some(one)).collect();
    acknowledge(door, Which::Jobs, &done).await;
}

/// What the launch queue has handed over: one wake-up, in the stack. Where a story hands over more
/// at once, each has an invocation's time after the one before.
async fn launch(door: &Door, batch: &[Received], compute: &impl Compute) {
    let mut done = Vec::new();
    let settings = &*door.sim.deployed();
    for received in batch {
        let Body::Jobs(JobsMessage::WakePool(wake)) = &*received.body else { continue };
        let pass = WakeUp {
            context: Context::new(door, door, compute, &(), settings),
            invocation: &format!("invocation-{:016x}", door.random()),
            deadline: door.now() + TIME_LIMIT,
            clock: &|| door.now(),
        };
        let report = pass.run(&handed_over(received, wake.clone())).await;
        measured(door, || report.measures);
        if let Some(passed) = report.passed {
            note(door, || format!("  launch pass of {}: {passed:?}", wake.pool));
        }
        if report.acked {
            done.push(received);
        }
    }
    acknowledge(door, Which::Launch, &done).await;
}

fn handed_over<M>(received: &Received, message: M) -> ports::Received<M> {
    ports::Received {
        message,
        id: received.id.to_string(),
        receipt: received.receipt(),
        receives: received.receives,
    }
}

async fn reap(door: &Door, batch: &[Received], compute: &impl Compute, github: &impl Github) {
    let (mut messages, mut received) = (Vec::new(), Vec::new());
    for one in batch {
        let Body::Reap(message) = &*one.body else { continue };
        note(door, || format!("  {message:?}"));
        let (id, receipt) = (one.id.to_string(), one.receipt());
        messages.push(batch::ReceivedReap::new(message.clone(), &id, one.receives, receipt));
        received.push(one);
    }
    let settings = &*door.sim.deployed();
    let context = Context::new(door, door, compute, github, settings);
    let deadline = door.now() + TIME_LIMIT;
    let report = Batch { context }.run(&messages, deadline, &|| door.now()).await;
    measured(door, || report.measures);
    let acked = received.into_iter().zip(report.acked);
    let done: Vec<&Received> = acked.filter_map(|(one, acked)| acked.then_some(one)).collect();
    acknowledge(door, Which::Reap, &done).await;
}

/// CloudWatch is told, where somebody looks.
fn measured(door: &Door, measures: impl FnOnce() -> Vec<Measure>) {
    let mut world = door.sim.world.borrow_mut();
    let now = world.now;
    if let Some(all) = &mut world.measures {
        all.extend(measures().into_iter().map(|one| (now, one)));
    }
}

/// Lambda deletes what the answer does not report as failed.
pub(crate) async fn acknowledge(door: &Door, which: Which, done: &[&Received]) {
    door.call(|world| {
        for received in done {
            world.acknowledge(which, received);
        }
    })
    .await;
}

pub(crate) async fn sweep(door: &Door, queue: &impl Queue) {
    let deadline = door.now() + TIME_LIMIT;
    let Some(settings) = &settings(door).await else {
        return door.sim.world.borrow_mut().count_error(Function::Reaper);
    };
    let tick = Tick {
        context: Context::new(door, queue, door, door, settings),
        receiver: None::<&Nobody>,
        limit: &NoLimit,
        clock: &|| door.now(),
        deadline,
    };
    let report = tick.run().await;
    measured(door, || report.measures(settings));
    if report != TickReport::default() {
        note(door, || format!("  swept: {report:?}"));
    }
}

/// Tasks of the simulated tick have all the time that the simulated deadline leaves them.
struct NoLimit;

impl TimeLimit for NoLimit {
    async fn within<R>(&self, _left: Seconds, task: impl Future<Output = R>) -> Option<R> {
        Some(task.await)
    }
}

/// Receives no notices.
struct Nobody;

impl Receiver for Nobody {
    async fn address(&self, _now: Time) -> Result<Option<String>, Unavailable> {
        Ok(None)
    }

    async fn post(&self, message: &Message) -> Result<usize, Unavailable> {
        Ok(message.notices.len())
    }
}

async fn runner_api(door: &Door, number: u32, github: &impl Github) {
    let (machine, ask) = {
        let world = door.sim.world.borrow();
        let call = &world.api_calls[number as usize];
        (world.ec2.at(call.machine).id.clone(), Rc::clone(&call.ask))
    };
    let now = door.now();
    let report = match &*ask {
        Ask::Configuration(_) => None,
        Ask::Report(report) => Some(report),
    };
    let answer = match look(&door.sim.deployed(), door, &machine, report).await {
        Err(denied) => Err(denied),
        Ok((settings, owner)) => {
            let context = Context::new(door, door, &(), github, &settings);
            let pass = RunnerApi { context, owner, role: None };
            match &*ask {
                Ask::Configuration(agent) => pass
                    .configure(*agent, Ages::default(), now)
                    .await
                    .map(|handout| match handout {
                        Handout::Runner(config) => {
                            let number = config.encoded.parse().unwrap_or_default();
                            Reply::Configuration(config.runner_name, number, config.agent)
                        }
                        Handout::Builder(order) => Reply::Build(order.boot, order.agent),
                    }),
                Ask::Report(report) => {
                    pass.report(report, now).await.map(|done| match done.after {
                        AfterEnd::ShutsDown => Reply::Noted,
                        AfterEnd::Asks(after) => Reply::AskAgain(after),
                        AfterEnd::Stays(time) => Reply::Stay(time),
                    })
                }
            }
        }
    };
    let reply = answer.unwrap_or_else(|denied| match denied {
        RunnerApiError::UnknownMachine => Reply::Refused("unknown machine".to_owned()),
        RunnerApiError::Refused(ReportError::OtherRegistration) => {
            Reply::Refused("other".to_owned())
        }
        RunnerApiError::Refused(refused) => Reply::Refused(refused.to_string()),
        RunnerApiError::Later { after, .. } => Reply::Later(after),
        RunnerApiError::Pass(_) => Reply::Broken,
    });
    door.call(|world| world.reply(number, reply)).await;
}

async fn operator(door: &Door, number: u32) {
    let Some(request) = door.sim.world.borrow_mut().order(number) else { return };
    let context = Context::new(door, door, door, door, &door.sim.settings);
    note(door, || format!("  order: {request}"));
    let told = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, by) = (told("name"), told("by"));
    let outcome = admin::answer(context, request, door.now()).await.outcome;
    if outcome.as_ref().is_err_and(|error| error.code == AdminErrorCode::Busy) {
        door.sim.world.borrow_mut().check_refusal(&name, &by);
    }
    if let Ok(Answer::ExplainJob(job)) = &outcome {
        let mut world = door.sim.world.borrow_mut();
        let findings = job.findings.iter().map(|finding| finding.message.clone());
        let lines: Vec<String> = job.explanation.iter().cloned().chain(findings).collect();
        lines.iter().for_each(|line| world.narrate(|| format!("  {line}")));
        world.explained = lines;
        return;
    }
    door.sim.world.borrow_mut().narrate(|| {
        let told = match &outcome {
            Err(error) => &error.message,
            Ok(Answer::Delete(done)) => done.state.as_str(),
            Ok(Answer::DeleteDryRun(done)) => done.state.as_str(),
            Ok(_) => "",
        };
        format!("the operator is answered: {told}")
    });
}

/// The pools as they are now. Without an answer the invocation ends, and its messages stay.
async fn settings(door: &Door) -> Option<Settings> {
    let settings = door.sim.deployed().current(door).await.map(Cow::into_owned);
    if let Err(error) = &settings {
        note(door, || format!("  the set of pools cannot be read: {error}"));
    }
    settings.ok()
}

fn note(door: &Door, line: impl FnOnce() -> String) {
    door.sim.world.borrow_mut().say(line);
}
