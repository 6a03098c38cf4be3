//! What GitHub sends: real payloads, signed.

use anyhow::{Context as _, Result};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::local::root;

/// The value of `X-Hub-Signature-256`.
#[must_use]
pub fn signature(secret: &str, body: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        unreachable!("HMAC takes keys of any length")
    };
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// One of the payloads in `events/payloads`, as GitHub sends them: with everything that we never
/// read.
///
/// # Errors
/// When there is none of that name.
pub fn sample(name: &str) -> Result<Value> {
    let path = root().join(format!("events/payloads/{name}.json"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// The sample payload of `workflow_job` and `action`, about a job of the simulated world (as its
/// control door shows it).
///
/// # Errors
/// When there is no such sample.
pub fn workflow_job(action: &str, job: &Value, installation: u64) -> Result<Value> {
    let mut payload = sample(&format!("workflow_job.{action}"))?;
    let repository = &job["repository"];
    let (owner, name) = (&repository["owner"], &repository["name"]);
    // Whole seconds, as GitHub writes them.
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let completed = (action == "completed").then_some(&now);
    let full_name = format!("{}/{}", text(owner), text(name));
    patch(
        &mut payload["workflow_job"],
        &json!({ "id": job["id"], "run_id": job["run_id"], "run_attempt": job["run_attempt"],
            "labels": job["spec"]["labels"], "name": job["spec"]["name"],
            "created_at": now, "started_at": now, "completed_at": completed }),
    );
    patch(
        &mut payload["repository"],
        &json!({ "id": repository["id"], "name": name, "full_name": full_name,
            "private": repository["private"] }),
    );
    payload["repository"]["owner"]["login"] = owner.clone();
    payload["organization"]["login"] = owner.clone();
    payload["installation"]["id"] = json!(installation);
    Ok(payload)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn patch(value: &mut Value, fields: &Value) {
    if let (Some(value), Some(fields)) = (value.as_object_mut(), fields.as_object()) {
        value.extend(fields.clone());
    }
}
