//! What is logged about a delivery, and what is not.

mod support;

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::{CURRENT, Knock, QUEUED, Secrets, handle, sign, unavailable, webhook};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Returns the lines that `work` logs, at the finest level.
fn logged(work: impl FnOnce()) -> Vec<Value> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing::Level::TRACE)
        .with_writer(lines.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let bytes = lines.0.lock().expect("lock").clone();
    let text = String::from_utf8(bytes).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn one_line_tells_what_became_of_a_delivery() {
    let lines = logged(|| drop(handle(&webhook(), &Knock::of(QUEUED))));
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["delivery.id"], "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_eq!(line["github.event"], "workflow_job");
    assert_eq!(line["job.id"], "700800900/56789012345");
    assert_eq!(line["http.status"], 202);
    assert_eq!(line["outcome"], "queued");
}

#[test]
fn failures_are_errors_with_their_reason() {
    let mut closed = webhook();
    closed.queue.closed = true;
    let lines = logged(|| drop(handle(&closed, &Knock::of(QUEUED))));
    assert_eq!((&lines[0]["level"], lines.len()), (&json!("ERROR"), 1));
    assert_eq!(lines[0]["error"], "queue unavailable: SendMessage: InternalError");
    let mut blind = webhook();
    blind.signatures = Secrets(Err(unavailable("s", "no answer")));
    let lines = logged(|| drop(handle(&blind, &Knock::of(QUEUED))));
    assert_eq!(lines[0]["error"], "secret s cannot be read: no answer");
}

#[test]
fn an_event_that_cannot_be_read_is_an_error_with_its_origin() {
    let mut payload: Value = serde_json::from_str(QUEUED).expect("the sample");
    payload["workflow_job"] = Value::Null;
    let lines = logged(|| drop(handle(&webhook(), &Knock::of(&payload.to_string()))));
    let line = &lines[0];
    assert_eq!((&line["level"], lines.len()), (&json!("ERROR"), 1));
    assert_eq!(line["delivery.id"], "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_eq!(line["repository"], payload["repository"]["full_name"]);
    assert_eq!(line["installation"], payload["installation"]["id"]);
    assert_eq!((&line["outcome"], &line["http.status"]), (&json!("unreadable"), &json!(400)));
    let error = line["error"].as_str().expect("a text");
    assert!(error.starts_with("the event of a job cannot be read: Data at line 1"), "{error}");
}

#[test]
fn nothing_of_a_body_or_a_signature_is_logged() {
    let payload = |change: fn(&mut Value)| {
        let mut payload: Value = serde_json::from_str(QUEUED).expect("the sample");
        change(&mut payload);
        payload.to_string()
    };
    let bodies = [
        payload(|payload| payload["workflow_job"]["name"] = json!("CANARY")),
        payload(|payload| payload["action"] = json!("CANARY")),
        payload(|payload| payload["workflow_job"]["id"] = json!("CANARY")),
        payload(|payload| payload["workflow_job"]["labels"] = json!(["CANARY"])),
        payload(|payload| payload["workflow_job"]["created_at"] = json!("CANARY")),
        payload(|payload| payload["repository"]["full_name"] = json!("CANARY/CANARY")),
        "CANARY".to_owned(),
    ];
    for body in bodies {
        let expected = sign(CURRENT, body.as_bytes()).replace("sha256=", "");
        let forged = format!("sha256={}", "ab".repeat(32));
        for knock in [
            Knock::of(&body),
            Knock::of(&body).encoded(),
            Knock::of(&body).signature(&forged),
            Knock::of(&body).signature("CANARY"),
            Knock::of(&body).header("x-github-delivery", "CANARY\n"),
            Knock::of(&body).header("x-github-event", "CANARY CANARY"),
            Knock::of(&body).signature(&forged).header("x-github-event", "CANARY"),
        ] {
            let lines = logged(|| drop(handle(&webhook(), &knock)));
            let text = format!("{lines:?}");
            assert_eq!(lines.len(), 1);
            for secret in ["CANARY", CURRENT, &expected, &"ab".repeat(32)] {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
}
