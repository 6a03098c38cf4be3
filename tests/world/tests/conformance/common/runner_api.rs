//! A stand-in for Muster's runner API: checks each signature as API Gateway would, hands out JIT
//! configs, and can be told to answer something else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    routing::post,
};
use muster_cloud::github::{JitRequest, RunnerScope};
use muster_world::wire;
use ring::{digest, hmac};
use serde_json::{Value, json};

use super::cloud::{ROLE, serve};

/// What it is told to answer, by event (`register`, `job-started` …): in turn, then the usual.
type Answers = Arc<Mutex<BTreeMap<String, Vec<(u16, Value)>>>>;

#[derive(Clone, Default)]
pub(crate) struct RunnerApi {
    cloud: Arc<Mutex<Option<Arc<wire::Cloud>>>>,
    answers: Answers,
    seen: Arc<Mutex<Vec<Value>>>,
    boot_hook: Arc<Mutex<Option<String>>>,
    environment: Arc<Mutex<BTreeMap<String, String>>>,
    agent: Arc<Mutex<Option<Value>>>,
}

impl RunnerApi {
    /// Serves it; the address goes into the user data, so the world comes later.
    pub(crate) async fn serve(&self) -> String {
        let router = Router::new()
            .route("/stage/runner/register", post(handle))
            .route("/stage/runner/job-started", post(handle))
            .route("/stage/runner/events", post(handle))
            .with_state(self.clone());
        format!("{}/stage", serve(router).await)
    }

    pub(crate) fn connect(&self, cloud: Arc<wire::Cloud>) {
        *self.cloud.lock().unwrap() = Some(cloud);
    }

    /// Answers the next of these events so. Status 0 is a connection without an answer.
    pub(crate) fn answer(&self, event: &str, status: u16, body: Value) {
        let mut answers = self.answers.lock().unwrap();
        answers.entry(event.to_owned()).or_default().push((status, body));
    }

    /// The events so far, registrations included.
    pub(crate) fn events(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|body| body["event"].as_str().unwrap().to_owned()).collect()
    }

    /// The body of the last event of this name.
    pub(crate) fn event(&self, name: &str) -> Value {
        let seen = self.seen.lock().unwrap();
        seen.iter().rfind(|body| body["event"] == name).cloned().unwrap_or_default()
    }

    /// The boot hook of the machines' pool.
    pub(crate) fn boot_hook(&self, hook: &str) {
        *self.boot_hook.lock().unwrap() = Some(hook.to_owned());
    }

    /// One more variable in the environment of the machines' pool.
    pub(crate) fn environment(&self, name: &str, value: &str) {
        self.environment.lock().unwrap().insert(name.to_owned(), value.to_owned());
    }

    /// The agent that its machines are to take.
    pub(crate) fn agent(&self, url: &str, sha256: &str) {
        *self.agent.lock().unwrap() = Some(json!({ "url": url, "sha256": sha256 }));
    }

    fn register(&self) -> (StatusCode, String) {
        let cloud = self.cloud.lock().unwrap().clone().expect("the world is open");
        let request = JitRequest {
            name: "r-1".to_owned(),
            runner_group_id: 1,
            labels: ["self-hosted", "linux"].map(str::to_owned).into(),
            work_folder: None,
        };
        let scope = RunnerScope::Organization("acme".to_owned());
        let config = cloud.with(|world, now| world.generate_jit(&scope, &request, now)).unwrap();
        let mut environment = json!({ "GREETING": "it's \"fine\" $HOME\n", "no-name": "x" });
        for (name, value) in &*self.environment.lock().unwrap() {
            environment[name] = json!(value);
        }
        let answer = json!({
            "version": 1,
            "runner_name": "r-1",
            "encoded_jit_config": config.encoded,
            "environment": environment,
            "boot_hook": *self.boot_hook.lock().unwrap(),
            "agent": *self.agent.lock().unwrap(),
        });
        (StatusCode::OK, answer.to_string())
    }
}

async fn handle(
    State(api): State<RunnerApi>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    if let Err(error) = check_signature(uri.path(), &headers, &body) {
        return (StatusCode::FORBIDDEN, json!({ "message": error }).to_string());
    }
    let mut event: Value = serde_json::from_slice(&body).expect("JSON");
    let name = event["event"].as_str().unwrap_or("register").to_owned();
    event["event"] = json!(name);
    api.seen.lock().unwrap().push(event);
    let told = {
        let mut answers = api.answers.lock().unwrap();
        answers.get_mut(&name).filter(|list| !list.is_empty()).map(|list| list.remove(0))
    };
    match told {
        Some((status, body)) => (StatusCode::from_u16(status).unwrap(), body.to_string()),
        None if name == "register" => api.register(),
        None => (StatusCode::OK, json!({ "version": 1 }).to_string()),
    }
}

/// Signature Version 4, from the text of its specification: whatever the signer says it signed is
/// rebuilt from what arrived.
fn check_signature(path: &str, headers: &HeaderMap, body: &[u8]) -> Result<(), String> {
    let [id, secret, token] = ROLE;
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.ok_or_else(|| format!("no header {name}"))
    };
    let authorization = header("authorization")?;
    let part = |name: &str| {
        let (_, rest) = authorization.split_once(name).ok_or(format!("no {name}"))?;
        Ok::<&str, String>(rest.split(',').next().unwrap_or_default())
    };
    let (scope, names) = (part("Credential=")?, part("SignedHeaders=")?);
    let scope = scope.strip_prefix(&format!("{id}/")).ok_or("another access key")?;
    if header("x-amz-security-token")? != token || !names.contains("x-amz-security-token") {
        return Err("the session token is missing or not signed".to_owned());
    }
    let mut lines = String::new();
    for name in names.split(';') {
        lines.push_str(&format!("{name}:{}\n", header(name)?.trim()));
    }
    let sha = |bytes: &[u8]| hex::encode(digest::digest(&digest::SHA256, bytes));
    let request = format!("POST\n{path}\n\n{lines}\n{names}\n{}", sha(body));
    let time = header("x-amz-date")?;
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha(request.as_bytes()));
    let mac = |key: &[u8], message: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
    };
    let key = format!("AWS4{secret}").into_bytes();
    let key = scope.split('/').fold(key, |key, part| mac(&key, part));
    if !scope.ends_with("/us-east-1/execute-api/aws4_request") {
        return Err(format!("signed for {scope}"));
    }
    if part("Signature=")? == hex::encode(mac(&key, &text)) {
        Ok(())
    } else {
        Err("the signature does not match".to_owned())
    }
}
