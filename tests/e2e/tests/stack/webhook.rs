//! The webhook's answers, one by one.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_e2e::github::{sample, signature};
use muster_e2e::wait::when;
use muster_e2e::{Stack, Test, wait_for};
use serde_json::{Value, json};

/// The secret after it was changed; the stack's env file has the one before.
const CURRENT: &str = "5b1f0f3cf5a24de59a55d6b1d0c1f2a35b1f0f3cf5a24de59a55d6b1d0c1f2a3";
const JSON: (&str, &str) = ("content-type", "application/json");
const JOB: (&str, &str) = ("x-github-event", "workflow_job");
const SIGNATURE: &str = "x-hub-signature-256";

/// A delivery and the status it must be answered with.
struct Case {
    what: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    status: u16,
}

fn case(
    what: &'static str,
    headers: &[(&'static str, &str)],
    body: impl Into<Vec<u8>>,
    status: u16,
) -> Case {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Case { what, headers, body: body.into(), status }
}

pub(super) async fn conformance(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    // Before the first delivery, so that the function reads both when it starts.
    let secret =
        json!({ "SecretId": format!("{}/webhook-secret", stack.name), "SecretString": CURRENT });
    stack.aws.json("secretsmanager", "secretsmanager.PutSecretValue", &secret).await?;

    let payload = payload()?;
    let mut unsigned_bodies = Vec::new();
    let cases: Vec<Case> = unsigned(&payload).into_iter().chain(signed(&payload)?).collect();
    for case in &cases {
        let headers: Vec<(&str, &str)> =
            case.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = stack.knock(&headers, case.body.clone()).await?;
        ensure!(
            answer.status == case.status,
            "{}: {} instead of {}: {}",
            case.what,
            answer.status,
            case.status,
            answer.body
        );
        match answer.status {
            401 => unsigned_bodies.push(answer.body),
            415 => ensure!(answer.body.contains("content_type"), "no advice: {}", answer.body),
            _ => {}
        }
    }
    unsigned_bodies.dedup();
    ensure!(unsigned_bodies.len() == 1, "401 tells more than it should: {unsigned_bodies:?}");
    test.shows(format!("{} deliveries answered as documented; one body for all 401", cases.len()));
    wrong_paths(&stack, &payload).await?;
    base64(&stack, &payload, false).await?;
    no_job_was_queued(&stack).await?;
    test.shows("nothing was queued: no message, no invocation of scale-up, no record");

    right_ones_are_queued(&test, &stack, &payload).await?;
    queue_is_gone(&test, &stack, &payload).await
}

/// A job that no pool serves: it is kept for `explain` and launches nothing.
fn payload() -> Result<Value> {
    let mut payload = sample("workflow_job.queued")?;
    payload["workflow_job"]["labels"] = json!(["self-hosted", "nobody-has-this"]);
    Ok(payload)
}

fn unsigned(payload: &Value) -> Vec<Case> {
    let body = payload.to_string();
    let good = signature(CURRENT, body.as_bytes());
    let digits = good.trim_start_matches("sha256=").to_owned();
    let with = |what, value: &str| case(what, &[JSON, JOB, (SIGNATURE, value)], body.clone(), 401);
    let other = body.replacen("queued", "Queued", 1);
    vec![
        case("no signature", &[JSON, JOB], body.clone(), 401),
        with("empty signature", ""),
        with("signature with another secret", &signature(&"0".repeat(64), body.as_bytes())),
        with("signature of another body", &signature(CURRENT, other.as_bytes())),
        with("no prefix", &digits),
        with("prefix in upper case", &format!("SHA256={digits}")),
        with("sha1 prefix", &format!("sha1={digits}")),
        with("one digit short", &good[..good.len() - 1]),
        with("two digits more", &format!("{good}00")),
        with("not hexadecimal", &format!("sha256={}", "g".repeat(64))),
        with("two signatures in one", &format!("{good},{good}")),
        case(
            "two signature headers",
            &[JSON, JOB, (SIGNATURE, &good), (SIGNATURE, &good)],
            body.clone(),
            401,
        ),
        case(
            "only the sha1 header",
            &[JSON, JOB, ("x-hub-signature", &format!("sha1={digits}"))],
            body.clone(),
            401,
        ),
        case("unsigned empty body", &[JSON, JOB], "", 401),
        case(
            "unsigned form",
            &[("content-type", "application/x-www-form-urlencoded"), JOB],
            "payload=%7B%7D",
            401,
        ),
        case("unsigned ping", &[JSON, ("x-github-event", "ping")], "{}", 401),
    ]
}

fn signed(payload: &Value) -> Result<Vec<Case>> {
    let with = |what, headers: &[(&'static str, &str)], body: &str, status| {
        let signed = signature(CURRENT, body.as_bytes());
        let mut headers = headers.to_vec();
        headers.push((SIGNATURE, &signed));
        case(what, &headers, body, status)
    };
    let body = payload.to_string();
    let form = ("content-type", "application/x-www-form-urlencoded");
    let changed = |field: &str, value: Value| {
        let mut payload = payload.clone();
        if let Some(place) = payload.pointer_mut(field) {
            *place = value;
        }
        payload.to_string()
    };
    let huge = format!("{{\"action\":\"{}\"}}", "x".repeat(1 << 20));
    let labels = "/workflow_job/labels";
    Ok(vec![
        with("no JSON", &[JSON, JOB], "{\"action\":", 400),
        with("signed empty body", &[JSON, JOB], "", 400),
        with("JSON of another form", &[JSON, JOB], "{\"action\":\"queued\"}", 400),
        with("a number that is none", &[JSON, JOB], &changed("/workflow_job/id", json!("x")), 400),
        with("no event header", &[JSON], &body, 400),
        with("form-encoded", &[form, JOB], "payload=%7B%7D", 415),
        with("no content type", &[JOB], &body, 415),
        with("over 1 MiB", &[JSON, JOB], &huge, 413),
        with("ping", &[JSON, ("x-github-event", "ping")], &sample("ping")?.to_string(), 200),
        with("another event", &[JSON, ("x-github-event", "push")], "{}", 202),
        with("another action", &[JSON, JOB], &changed("/action", json!("archived")), 202),
        with("a job without labels", &[JSON, JOB], &changed(labels, json!([])), 202),
        with("101 labels", &[JSON, JOB], &changed(labels, json!(vec!["x"; 101])), 202),
    ])
}

async fn wrong_paths(stack: &Stack, payload: &Value) -> Result<()> {
    let url = stack.env.get("WEBHOOK_URL")?;
    let base = url.trim_end_matches("/webhook");
    let body = payload.to_string();
    let signed = signature(CURRENT, body.as_bytes());
    let headers = [JSON, JOB, (SIGNATURE, signed.as_str())];
    // The address of another App, whose secret is another.
    let of_app = ("/webhook/more", 401);
    let unknown = ["/", "/Webhook", "/webhooks", "/webhook/more/more", "/runner"];
    for (path, status) in unknown.map(|path| (path, 404)).into_iter().chain([of_app]) {
        let answer =
            stack.knock_at(&format!("{base}{path}"), &headers, body.clone().into_bytes()).await?;
        ensure!(answer.status == status, "POST {path}: {answer:?}");
    }
    Ok(())
}

/// The gateway may hand a body over in base64; the signature is of the bytes.
async fn base64(stack: &Stack, payload: &Value, signed: bool) -> Result<()> {
    let path = muster_e2e::local::root().join("events/webhook-queued-base64.json");
    let mut event: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let body = payload.to_string();
    let key = if signed { CURRENT.to_owned() } else { "1".repeat(64) };
    event["body"] = json!(STANDARD.encode(body.as_bytes()));
    event["headers"][SIGNATURE] = json!(signature(&key, body.as_bytes()));
    event["headers"]["content-length"] = json!(body.len().to_string());
    let answer = stack.aws.invoke(&format!("{}-webhook", stack.name), &event).await?;
    let wanted = if signed { 202 } else { 401 };
    ensure!(answer["statusCode"] == wanted, "base64: {answer}");
    Ok(())
}

async fn no_job_was_queued(stack: &Stack) -> Result<()> {
    // Of the one that cannot be read and names its repository: GitHub is to be asked there.
    wait_for("one question about a repository", 10, async || {
        let depth = stack.aws.queue_depth(stack.env.get("JOBS_QUEUE_URL")?).await?;
        let invoked = stack.invocations("scale-up").await?;
        let told = || format!("{depth} message(s) on the jobs queue, scale-up invoked {invoked}×");
        Ok(when(depth == 0 && invoked == 1, told))
    })
    .await?;
    let records = stack.aws.scan(stack.env.get("JOBS_TABLE")?).await?;
    ensure!(records.is_empty(), "{} job record(s)", records.len());
    stack.no_dead_letters().await
}

/// Signed with the current secret, with the one before, and in base64: the checks above would have
/// seen a message.
async fn right_ones_are_queued(test: &Test, stack: &Stack, payload: &Value) -> Result<()> {
    let mut keys = Vec::new();
    for (n, secret) in [CURRENT, stack.env.get("WEBHOOK_SECRET")?].iter().enumerate() {
        let mut payload = payload.clone();
        payload["workflow_job"]["id"] = json!(77_000_000_000_u64 + n as u64);
        keys.push(format!("{}/{}", payload["repository"]["id"], payload["workflow_job"]["id"]));
        let body = payload.to_string();
        let signed = signature(secret, body.as_bytes());
        let answer = stack.knock(&[JSON, JOB, (SIGNATURE, &signed)], body.into_bytes()).await?;
        ensure!(answer.status == 202, "signed with secret {n}: {answer:?}");
    }
    base64(stack, payload, true).await?;
    keys.push(format!("{}/{}", payload["repository"]["id"], payload["workflow_job"]["id"]));
    for key in &keys {
        wait_for(&format!("job {key} to be on record"), 30, async || {
            let answer = stack.ask(&json!({ "action": "explain", "job": key })).await?;
            let explained = answer["explanation"].to_string();
            Ok(when(explained.contains("nobody-has-this"), || answer.to_string()))
        })
        .await?;
    }
    test.shows("signed with the current or the previous secret, plain or base64: queued, on record, and explained");
    Ok(())
}

/// Not queued must not look like success: GitHub then shows the delivery as failed.
async fn queue_is_gone(test: &Test, stack: &Stack, payload: &Value) -> Result<()> {
    let url = json!({ "QueueUrl": stack.env.get("JOBS_QUEUE_URL")? });
    stack.aws.json("sqs", "AmazonSQS.DeleteQueue", &url).await.context("DeleteQueue")?;
    let body = payload.to_string();
    let signed = signature(CURRENT, body.as_bytes());
    let answer = stack.knock(&[JSON, JOB, (SIGNATURE, &signed)], body.into_bytes()).await?;
    ensure!((500..600).contains(&answer.status), "without a queue: {answer:?}");
    test.shows(format!("without its queue: {}", answer.status));
    Ok(())
}
