//! The runner-api Lambda: handles machines' requests, which are signed with their instance role.

mod network;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use muster_control::context::{Context, Wired};
use muster_control::images::BAKE;
use muster_control::metrics::{Measure, Metric};
use muster_control::ports::{Github, Queue, Table};
use muster_control::runner_api::{
    BuildOrder, Configuration, Handout, Hindrance, MachineReport, Reported, RunnerApi,
    RunnerApiError, look,
};
use muster_domain::agent::{AgentDownload, AgentOffer, AgentReport};
use muster_domain::causes::with_causes;
use muster_domain::ec2::Arch;
use muster_domain::ids::MachineId;
use muster_domain::instance::{
    AfterEnd, Ages, BootMethod, ReportError, StartReport, StopCause, Used,
};
use muster_domain::time::Time;
use muster_domain::usage::JobFacts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

pub use self::network::NetworkSource;
use self::network::{PROGRAM, with_network};

/// The version of requests and responses.
const VERSION: u64 = 1;
/// Maximum length of a failed boot's log in the record, in bytes.
const MAX_LOG: usize = 4096;

/// A report from the boot script or the hooks.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum MachineEvent {
    RunnerStarted {
        runner_name: String,
    },
    JobStarted {
        runner_name: String,
        #[serde(default)]
        repository: String,
        #[serde(default)]
        private: Option<bool>,
        #[serde(default)]
        run_id: u64,
        #[serde(default)]
        job_name: String,
        #[serde(default, rename = "ref")]
        git_ref: String,
    },
    JobCompleted {
        runner_name: String,
        #[serde(default, deserialize_with = "if_readable")]
        used: Option<Used>,
    },
    Interrupted {
        runner_name: String,
    },
    Exited {
        #[serde(default)]
        runner_name: String,
        #[serde(default)]
        code: i32,
        #[serde(default)]
        stopped_for: Option<String>,
        #[serde(default, deserialize_with = "if_readable")]
        used: Option<Used>,
    },
    Baked {
        #[serde(default)]
        agent: Option<String>,
        #[serde(default)]
        boot: Option<String>,
        #[serde(default)]
        why: Option<String>,
        #[serde(default)]
        disk_bytes: u64,
    },
    BootFailed {
        #[serde(default)]
        log: String,
    },
}

/// Reads what a job used. A machine can send anything, and its report counts without the numbers too.
fn if_readable<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Used>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

/// Printed to the log of a job that the machine stops because of an interruption. Without it, machine.py
/// prints that the job is not re-run.
const RERUN: &str = "Muster re-runs it when this workflow run has ended, unless it deploys or other jobs failed by themselves.";

/// A request for a configuration.
#[derive(Default, Deserialize)]
struct Register {
    /// The machine's architecture, `x64` or `arm64`. Machines of an older launch template do not
    /// report it, and always use their own agent.
    #[serde(default)]
    arch: Option<String>,
    /// The version of its agent.
    #[serde(default)]
    agent: Option<String>,
    /// How long ago the machine reached each boot phase, in seconds. Machines of an older launch
    /// template do not report this.
    #[serde(default)]
    ages: RegisterAges,
}

impl Register {
    /// Returns the report about the agent. An unreadable version counts as unknown to GitHub.
    fn agent(&self) -> Option<AgentReport> {
        let version = self.agent.as_deref().and_then(|text| text.parse().ok());
        let arch = [Arch::X64, Arch::Arm64]
            .into_iter()
            .find(|one| Some(one.as_str()) == self.arch.as_deref())?;
        Some(AgentReport { arch, version })
    }
}

/// Time since the kernel and the supervisor started, and since the agent was installed.
#[derive(Default, Deserialize)]
struct RegisterAges {
    kernel: Option<f64>,
    supervisor: Option<f64>,
    agent: Option<f64>,
}

impl From<RegisterAges> for Ages {
    fn from(RegisterAges { kernel, supervisor, agent }: RegisterAges) -> Self {
        // The cast saturates values that are not valid durations.
        let millis = |age: Option<f64>| age.map(|seconds| (seconds * 1000.0).round() as u32);
        Self { running: millis(kernel), booted: millis(supervisor), prepared: millis(agent) }
    }
}

/// A machine's request.
enum MachineRequest {
    Configuration(Option<AgentReport>, Ages),
    Report(MachineReport),
}

/// The result of an invocation.
#[derive(Debug)]
pub struct RunnerApiOutcome {
    /// The response to the machine.
    pub response: ApiGatewayV2httpResponse,
    /// Metrics for CloudWatch.
    pub measures: Vec<Measure>,
}

impl From<ApiGatewayV2httpResponse> for RunnerApiOutcome {
    fn from(response: ApiGatewayV2httpResponse) -> Self {
        Self { response, measures: Vec::new() }
    }
}

/// Handles a request, in a context with the settings from the stack's parameters. `instance_role`:
/// the ID (`AROA…`) of the stack's instance role; a pool may have a different one.
pub async fn handle<W: Wired<Table: Table, Queue: Queue, Github: Github>>(
    context: Context<'_, W>,
    network: &impl NetworkSource,
    instance_role: &str,
    request: &ApiGatewayV2httpRequest,
    now: Time,
) -> RunnerApiOutcome {
    let Caller { role, machine } = match admit(request) {
        Ok(caller) => caller,
        Err(refusal) => return (*refusal).into(),
    };
    let role = Some(role).filter(|role| *role != instance_role);
    let route = request.route_key.as_deref().unwrap_or_default();
    let read = match route {
        "POST /runner/register" => body(request)
            .map(|asked: Register| MachineRequest::Configuration(asked.agent(), asked.ages.into())),
        "POST /runner/events" | "POST /runner/job-started" => {
            read(request).map(MachineRequest::Report)
        }
        _ => {
            return answer(404, &problem("not_found", "no such route", MachineAction::Shutdown))
                .into();
        }
    };
    let asked = match read {
        Ok(asked) => asked,
        Err(why) => {
            let why = problem("bad_request", &why.to_string(), MachineAction::Shutdown);
            return answer(400, &why).into();
        }
    };
    // Boxed, so that the compiler computes the pass's layout separately.
    let result = Box::pin(act(context, network, role, &machine, &asked, now)).await;
    match result {
        Ok((body, measures)) => RunnerApiOutcome { response: answer(200, &body), measures },
        Err(denied) => {
            let is_foreign = matches!(denied, RunnerApiError::Refused(ReportError::ForeignJob));
            let measures = is_foreign.then(|| Measure::new(Metric::JobsRefused, 1.0));
            let measures = measures.into_iter().collect();
            RunnerApiOutcome { response: refusal(&machine, route, &denied), measures }
        }
    }
}

/// Returns a configuration, or records a report.
async fn act<W: Wired<Table: Table, Queue: Queue, Github: Github>>(
    context: Context<'_, W>,
    network: &impl NetworkSource,
    role: Option<&str>,
    machine: &MachineId,
    asked: &MachineRequest,
    now: Time,
) -> Result<(Value, Vec<Measure>), RunnerApiError> {
    let report = match asked {
        MachineRequest::Configuration(..) => None,
        MachineRequest::Report(report) => Some(report),
    };
    let (settings, owner) = look(context.settings, context.table, machine, report).await?;
    let pass = RunnerApi { context: context.with(&settings), owner, role };
    match asked {
        MachineRequest::Configuration(agent, ages) => {
            let (body, proxy) = match pass.configure(*agent, *ages, now).await? {
                Handout::Runner(config) => (configuration(&config), config.proxy),
                Handout::Builder(order) => (build_order(&order), order.proxy),
            };
            let body = with_network(body, proxy.as_ref(), &settings.stack, network).await?;
            Ok((body, Vec::new()))
        }
        MachineRequest::Report(report) => {
            let Reported { after, facts, measures } = pass.report(report, now).await?;
            Ok((taken(after, facts.as_ref()), measures))
        }
    }
}

/// The signer of a request.
#[derive(Debug, PartialEq, Eq)]
struct Caller<'a> {
    /// The ID (`AROA…`) of the role.
    role: &'a str,
    /// The machine that its session is named after.
    machine: MachineId,
}

/// Returns the caller, or the response that rejects a caller that is not a machine.
fn admit(request: &ApiGatewayV2httpRequest) -> Result<Caller<'_>, Box<ApiGatewayV2httpResponse>> {
    let why = "only machines of this stack may call, signed with their instance role";
    let refusal = || answer(403, &problem("not_a_machine", why, MachineAction::Shutdown));
    caller(request).ok_or_else(|| Box::new(refusal()))
}

/// Returns the caller. The gateway has verified the signature. The trust policy of a machine's role
/// lets only EC2 assume it, and EC2 names the session after the machine. So the session identifies
/// the caller, provided that the role is the one that this machine was launched with, which its
/// record contains.
fn caller(request: &ApiGatewayV2httpRequest) -> Option<Caller<'_>> {
    let iam = request.request_context.authorizer.as_ref()?.iam.as_ref()?;
    let (role, session) = iam.user_id.as_deref()?.split_once(':')?;
    // Only roles: the ID of a user is never accepted.
    let machine = session.parse().ok().filter(|_| role.starts_with("AROA"))?;
    Some(Caller { role, machine })
}

/// The error for an unreadable report.
#[derive(Debug, thiserror::Error)]
enum ReportBodyError {
    #[error(transparent)]
    Base64(#[from] base64::DecodeError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

fn body<T: DeserializeOwned>(request: &ApiGatewayV2httpRequest) -> Result<T, ReportBodyError> {
    let body = request.body.as_deref().unwrap_or_default();
    Ok(if request.is_base64_encoded {
        use base64::Engine as _;
        serde_json::from_slice(&base64::engine::general_purpose::STANDARD.decode(body)?)?
    } else {
        serde_json::from_str(body)?
    })
}

fn read(request: &ApiGatewayV2httpRequest) -> Result<MachineReport, ReportBodyError> {
    Ok(match body::<MachineEvent>(request)? {
        MachineEvent::RunnerStarted { runner_name } => {
            MachineReport::RunnerStarted { runner: runner_name }
        }
        MachineEvent::JobStarted {
            runner_name,
            repository,
            private,
            run_id,
            job_name,
            git_ref,
        } => MachineReport::JobStarted {
            runner: runner_name,
            job: StartReport::new(&repository, private, run_id, &job_name, &git_ref),
        },
        MachineEvent::JobCompleted { runner_name, used } => {
            MachineReport::JobCompleted { runner: runner_name, used }
        }
        MachineEvent::Interrupted { runner_name } => {
            MachineReport::Interrupted { runner: runner_name }
        }
        MachineEvent::Exited { runner_name, code, stopped_for, used } => {
            // An unknown reason does not invalidate the report: the agent has ended.
            let stopped_for: Option<StopCause> = stopped_for.and_then(|why| why.parse().ok());
            MachineReport::Exited { runner: runner_name, code, stopped_for, used }
        }
        MachineEvent::Baked { agent, boot, why, disk_bytes } => MachineReport::Baked {
            agent: agent.and_then(|agent| agent.parse().ok()),
            // An unknown method is not the unit.
            boot: boot.and_then(|boot| boot.parse().ok()).unwrap_or(BootMethod::CloudInit),
            why,
            disk_bytes,
        },
        MachineEvent::BootFailed { log } => MachineReport::BootFailed { log: last(&log, MAX_LOG) },
    })
}

/// Returns the last `most` bytes, cut to whole characters.
fn last(text: &str, most: usize) -> String {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

/// Builds the response to a report: after the agent's end with the machine's next step, and after
/// the job's end with what its log shows.
fn taken(after: AfterEnd, facts: Option<&JobFacts>) -> Value {
    let mut body = json!({ "version": VERSION });
    if let Some(facts) = facts {
        body["facts"] = json!(facts);
    }
    match after {
        AfterEnd::ShutsDown => {}
        AfterEnd::Asks(after) => body["ask_again_seconds"] = json!(after),
        AfterEnd::Stays(time) => body["stay_seconds"] = json!(time),
    }
    body
}

fn configuration(config: &Configuration) -> Value {
    json!({
        "version": VERSION,
        "program": PROGRAM,
        "runner_name": config.runner_name,
        "encoded_jit_config": config.encoded,
        "environment": config.environment,
        "boot_hook": config.boot_hook,
        "sudo": config.sudo,
        "agent": config.agent.as_ref().map(agent),
        "rerun": config.reruns.then_some(RERUN),
    })
}

fn build_order(order: &BuildOrder) -> Value {
    json!({
        "version": VERSION,
        "builder": { "script": BAKE, "boot": order.boot.as_str() },
        "environment": order.environment,
        "boot_hook": order.image_hook,
        "sudo": order.sudo,
        "agent": order.agent.as_ref().map(agent),
    })
}

/// Builds an agent's URL and digest; empty if the machine should find the newest itself.
fn agent(offer: &AgentOffer) -> Value {
    match offer {
        AgentOffer::Newest => json!({}),
        AgentOffer::Download(AgentDownload { version, url, sha256, .. }) => {
            json!({ "version": version, "url": url, "sha256": sha256 })
        }
    }
}

/// The action that the machine must take.
enum MachineAction {
    Shutdown,
    Retry(u32),
}

fn problem(code: &str, message: &str, action: MachineAction) -> Value {
    let mut body = json!({ "version": VERSION, "error": { "code": code, "message": message } });
    match action {
        MachineAction::Shutdown => body["action"] = json!("shutdown"),
        MachineAction::Retry(after) => {
            body["action"] = json!("retry");
            body["retry_after_seconds"] = json!(after);
        }
    }
    body
}

fn refusal(machine: &MachineId, route: &str, denied: &RunnerApiError) -> ApiGatewayV2httpResponse {
    let message = denied.to_string();
    let error = with_causes(denied);
    tracing::warn!(machine.id = %machine, route, error, "refused a machine's request");
    match denied {
        RunnerApiError::UnknownMachine => {
            answer(403, &problem("unknown_machine", &message, MachineAction::Shutdown))
        }
        RunnerApiError::Refused(refused) => {
            let code = match refused {
                ReportError::Draining => "draining",
                ReportError::AlreadyStarted => "already_started",
                ReportError::Ended => "ended",
                ReportError::OtherRegistration => "other_registration",
                ReportError::ForeignJob => "foreign_job",
                ReportError::BuildsImage => "builds_image",
            };
            answer(409, &problem(code, &message, MachineAction::Shutdown))
        }
        RunnerApiError::Later { after, hindrance, .. } => {
            let problem = problem(hindrance.as_str(), &message, MachineAction::Retry(after.0));
            answer(status(*hindrance), &problem)
        }
        RunnerApiError::Pass(_) => {
            answer(503, &problem("unavailable", &message, MachineAction::Retry(5)))
        }
    }
}

/// Returns the status of a response that makes the machine retry. Never 5xx, which the alarm
/// api-5xx counts as failures of the function; 429 only for a rate limit.
const fn status(hindrance: Hindrance) -> i64 {
    match hindrance {
        Hindrance::NotKnownYet | Hindrance::Overtaken | Hindrance::RemovalPending => 425,
        Hindrance::NameTaken
        | Hindrance::Refused
        | Hindrance::Unavailable
        | Hindrance::NoPassword => 424,
        Hindrance::RateLimit => 429,
    }
}

fn answer(status: i64, body: &Value) -> ApiGatewayV2httpResponse {
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = status;
    response.headers.insert(
        "content-type",
        aws_lambda_events::http::HeaderValue::from_static("application/json"),
    );
    response.body = Some(body.to_string().into());
    response
}

#[cfg(test)]
mod tests;
