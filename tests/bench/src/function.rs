//! The functions: their environment, and the events that they are measured with.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use muster_aws::clock;
use serde_json::{Value, json};
use sha2::Sha256;

/// The secret that the stub of Secrets Manager tells.
pub(crate) const WEBHOOK_SECRET: &str = "sample-secret-of-the-muster-events-folder";

const QUEUED: &str = include_str!("../../../events/webhook-queued.json");
const TICK: &str = include_str!("../../../events/reaper-tick.json");
const JOBS: &str = include_str!("../../../events/scale-up-jobs.json");
const WAKE: &str = include_str!("../../../events/scale-up-wake-pool.json");
const STARTED: &str = include_str!("../../../events/runner-api-runner-started.json");
const STATUS: &str = include_str!("../../../events/admin-status.json");

/// A function, and how it is measured.
pub(crate) struct Function {
    /// What is measured.
    pub(crate) name: &'static str,
    /// Its binary.
    pub(crate) binary: &'static str,
    /// The profile that it is built in.
    pub(crate) profile: &'static str,
    /// An event of its daily work.
    pub(crate) event: Arc<[u8]>,
    /// The least CPU that a stranger can cost.
    pub(crate) unwanted: Option<Arc<[u8]>>,
    pub(crate) goals: Goals,
}

/// What the numbers should be at most. Sources: the project's performance goals.
#[derive(Clone, Copy, Default)]
pub(crate) struct Goals {
    pub(crate) init_ms: Option<f64>,
    pub(crate) init_and_first_ms: Option<f64>,
    pub(crate) cpu_ms: Option<f64>,
    pub(crate) unwanted_cpu_ms: Option<f64>,
    pub(crate) memory_mb: Option<f64>,
    pub(crate) zip_mb: Option<f64>,
}

pub(crate) fn all() -> Vec<Function> {
    let plain = |name, sample: &str| Function {
        name,
        binary: name,
        profile: "release",
        event: Arc::from(sample.as_bytes()),
        unwanted: None,
        goals: Goals::default(),
    };
    vec![
        Function {
            profile: "fast",
            unwanted: Some(forged()),
            goals: Goals {
                init_and_first_ms: Some(12.0),
                cpu_ms: Some(0.35),
                unwanted_cpu_ms: Some(0.1),
                memory_mb: Some(12.0),
                zip_mb: Some(4.0),
                ..Goals::default()
            },
            ..plain("webhook", QUEUED)
        },
        Function {
            goals: Goals { init_ms: Some(15.0), memory_mb: Some(20.0), ..Goals::default() },
            ..plain("scale-up", &served())
        },
        // A launch pass that finds nothing to do.
        Function { binary: "scale-up", ..plain("scale-up, wake-up", &whole_pool()) },
        plain("reaper", TICK),
        // A machine that no record knows yet, and is told to ask again.
        Function { profile: "fast", ..plain("runner-api", STARTED) },
        plain("admin", STATUS),
    ]
}

/// The sample without its jobs: for named ones that do not wait, a pass ends at once.
fn whole_pool() -> String {
    let mut event: Value = serde_json::from_str(WAKE).unwrap_or_default();
    event["Records"][0]["body"] =
        json!(json!({"type": "wake_pool", "pool": "default"}).to_string());
    event.to_string()
}

/// The sample with a signature that is none.
fn forged() -> Arc<[u8]> {
    let mut event: Value = serde_json::from_str(QUEUED).unwrap_or_default();
    let signature = sign(b"a-secret-that-the-app-never-had-at-any-time", &body(&event));
    event["headers"]["x-hub-signature-256"] = json!(signature);
    Arc::from(event.to_string().into_bytes())
}

/// Builds the sample job, queued now and with the stack's name as a label, so that the built-in pool
/// serves it. A job as old as the sample would wake no pool.
fn served() -> String {
    let mut event: Value = serde_json::from_str(JOBS).unwrap_or_default();
    let body = event["Records"][0]["body"].as_str().unwrap_or_default();
    let mut message: Value = serde_json::from_str(body).unwrap_or_default();
    message["event"]["labels"] = json!(["bench", "self-hosted"]);
    message["event"]["queued_at"] = json!(clock::now().to_string());
    event["Records"][0]["body"] = json!(message.to_string());
    event.to_string()
}

/// The body of a delivery.
pub(crate) fn body(event: &Value) -> Vec<u8> {
    event["body"].as_str().unwrap_or_default().as_bytes().to_vec()
}

fn sign(secret: &[u8], body: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else {
        unreachable!("HMAC takes keys of any length")
    };
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// The sample delivery.
pub(crate) fn delivery() -> Arc<[u8]> {
    Arc::from(QUEUED.as_bytes())
}

/// What the template writes for a function, what Lambda adds, and where the stubs are.
pub(crate) fn environment(
    name: &str,
    runtime: &str,
    stubs: &str,
    roots: &str,
) -> Vec<(String, String)> {
    let queue = |name: &str| format!("https://sqs.us-east-1.amazonaws.com/123456789012/{name}");
    let variables = [
        ("MUSTER_STACK", "bench".to_owned()),
        ("MUSTER_INSTANCES_TABLE", "bench-instances".to_owned()),
        ("MUSTER_JOBS_TABLE", "bench-jobs".to_owned()),
        ("MUSTER_CONTROL_TABLE", "bench-control".to_owned()),
        ("MUSTER_USAGE_TABLE", "bench-usage".to_owned()),
        ("MUSTER_JOBS_QUEUE_URL", queue("bench-jobs")),
        ("MUSTER_LAUNCH_QUEUE_URL", queue("bench-launch")),
        ("MUSTER_REAP_QUEUE_URL", queue("bench-reap")),
        ("MUSTER_WEBHOOK_SECRET", "bench/webhook-secret".to_owned()),
        ("MUSTER_APP_KEY", "bench/app-key".to_owned()),
        ("MUSTER_LAUNCH_TEMPLATE", "lt-0a1b2c3d4e5f60718".to_owned()),
        ("MUSTER_LAUNCH_TEMPLATE_VERSION", "3".to_owned()),
        ("MUSTER_SUBNETS", "subnet-0a1b2c3d,subnet-4e5f6071".to_owned()),
        ("MUSTER_MAX_MACHINES", "20".to_owned()),
        ("MUSTER_TIMINGS", "{}".to_owned()),
        ("MUSTER_INSTANCE_ROLE_ID", "AROAEXAMPLEROLEID0001".to_owned()),
        ("AWS_ENDPOINT_URL", stubs.to_owned()),
        ("SSL_CERT_FILE", roots.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "no-secret".to_owned()),
        ("AWS_SESSION_TOKEN", "no-token".to_owned()),
        ("AWS_LAMBDA_RUNTIME_API", runtime.to_owned()),
        ("AWS_LAMBDA_FUNCTION_NAME", format!("bench-{name}")),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128".to_owned()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        ("AWS_LAMBDA_LOG_FORMAT", "JSON".to_owned()),
        ("AWS_LAMBDA_LOG_LEVEL", "INFO".to_owned()),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).into()
}
