//! GitHub's payloads: real ones, possible ones, and invalid ones.

use muster_domain::ids::{AppName, InstallationId, JobKey, RunnerId};
use muster_domain::job::labels::Labels;
use muster_domain::job::{Actors, JobEvent, JobStatus};
use muster_domain::message::JobsMessage;
use muster_domain::time::Time;
use muster_webhook::payload::{DeliveryAction, Origin, read_workflow_job};
use proptest::prelude::*;
use serde_json::{Value, json};

const QUEUED: &str = include_str!("../../../events/payloads/workflow_job.queued.json");
const IN_PROGRESS: &str = include_str!("../../../events/payloads/workflow_job.in_progress.json");
const COMPLETED: &str = include_str!("../../../events/payloads/workflow_job.completed.json");

fn payload(text: &str) -> Value {
    serde_json::from_str(text).expect("a sample")
}

/// GitHub sends `waiting` while a deployment protection rule blocks the job.
fn waiting() -> Value {
    let mut waiting = payload(QUEUED);
    waiting["action"] = json!("waiting");
    waiting["workflow_job"]["status"] = json!("waiting");
    waiting["deployment"] = json!({"id": 1, "environment": "production", "payload": {}});
    waiting
}

fn read(payload: &Value) -> Result<DeliveryAction, String> {
    read_workflow_job(AppName::MAIN, Actors::Yes, payload.to_string().as_bytes())
        .map_err(|error| error.to_string())
}

fn event(payload: &Value) -> JobEvent {
    match read(payload) {
        Ok(DeliveryAction::Job(event)) => *event,
        other => panic!("{other:?}"),
    }
}

fn ignored(payload: &Value) -> String {
    match read(payload) {
        Ok(DeliveryAction::Ignored(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn refused(payload: &Value) -> String {
    read(payload).expect_err("accepted")
}

/// The queued sample with one field of the job replaced.
fn with(field: &str, value: Value) -> Value {
    let mut payload = payload(QUEUED);
    payload["workflow_job"][field] = value;
    payload
}

fn without(path: &[&str]) -> Value {
    let mut whole = payload(QUEUED);
    let (last, parents) = path.split_last().expect("a path");
    let parent = parents.iter().fold(&mut whole, |value, key| &mut value[*key]);
    parent.as_object_mut().expect("an object").remove(*last).expect("was there");
    whole
}

fn time(payload: &Value, field: &str) -> Option<Time> {
    Some(payload["workflow_job"][field].as_str()?.parse().expect("a time"))
}

#[test]
fn every_field_of_the_samples_arrives() {
    for (payload, status) in [
        (waiting(), JobStatus::Waiting),
        (payload(QUEUED), JobStatus::Queued),
        (payload(IN_PROGRESS), JobStatus::InProgress),
        (payload(COMPLETED), JobStatus::Completed),
    ] {
        let number = |value: &Value| value.as_u64().expect("a number");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let job = &payload["workflow_job"];
        let started = status >= JobStatus::InProgress;
        let expected = JobEvent {
            key: JobKey {
                app: AppName::MAIN,
                repository: number(&payload["repository"]["id"]),
                job: number(&job["id"]),
            },
            status,
            repository: text(&payload["repository"]["full_name"]).expect("a name").into(),
            private: true,
            installation: Some(InstallationId(number(&payload["installation"]["id"]))),
            run: number(&job["run_id"]),
            attempt: 1,
            name: text(&job["name"]).expect("a name").into(),
            workflow: text(&job["workflow_name"]).map(Into::into),
            branch: text(&job["head_branch"]).map(Into::into),
            actor: (status == JobStatus::Queued).then(|| "mira-example".into()),
            deploys: !payload["deployment"].is_null(),
            labels: Labels::new(["linux", "self-hosted", "x64"]),
            runner: text(&job["runner_name"]),
            runner_id: job["runner_id"].as_u64().map(RunnerId),
            conclusion: text(&job["conclusion"]),
            queued_at: time(&payload, "created_at"),
            // Before a runner took the job, GitHub sends the queue time here.
            started_at: started.then(|| time(&payload, "started_at").expect("a time")),
            completed_at: time(&payload, "completed_at"),
            ..event(&payload)
        };
        assert_eq!(event(&payload), expected);
        assert_eq!(expected.runner.is_some(), started);
        assert_eq!(expected.completed_at.is_some(), status == JobStatus::Completed);
    }
}

#[test]
fn what_github_may_leave_out_is_not_missed() {
    for field in [
        "run_attempt",
        "name",
        "workflow_name",
        "head_branch",
        "labels",
        "runner_name",
        "runner_id",
        "conclusion",
        "created_at",
        "started_at",
        "completed_at",
        "steps",
        "status",
    ] {
        event(&without(&["workflow_job", field]));
    }
    for field in [
        "run_attempt",
        "name",
        "workflow_name",
        "head_branch",
        "labels",
        "runner_name",
        "runner_id",
        "conclusion",
        "created_at",
        "started_at",
        "completed_at",
    ] {
        assert_eq!(event(&with(field, Value::Null)), event(&without(&["workflow_job", field])));
    }
    for path in [
        ["repository", "private"].as_slice(),
        &["repository", "owner"],
        &["repository", "owner", "type"],
        &["installation"],
    ] {
        let mut null = payload(QUEUED);
        *path.iter().fold(&mut null, |value, key| &mut value[*key]) = Value::Null;
        assert_eq!(event(&null), event(&without(path)), "{path:?}");
    }
    assert_eq!(event(&without(&["workflow_job", "run_attempt"])).attempt, 1);
    assert_eq!(event(&without(&["installation"])).installation, None);
    assert!(event(&without(&["workflow_job", "labels"])).labels.is_empty());
    let named = |name: &str, id: u64| {
        let mut payload = with("runner_name", json!(name));
        payload["workflow_job"]["runner_id"] = json!(id);
        event(&payload).runner_id
    };
    assert_eq!(named("a-1", 5), Some(RunnerId(5)));
    assert_eq!((named("a-1", 0), named("", 5), named("", 0)), (None, None, None));
    event(&without(&["organization"]));
    event(&without(&["sender"]));
}

/// What a person costs is personal data: without the parameter, the message does not name anyone.
#[test]
fn the_actor_is_the_sender_of_queued_and_only_if_it_is_wanted() {
    let mut unnamed = payload(QUEUED);
    unnamed["sender"]["login"] = Value::Null;
    for (payload, actors, expected) in [
        (payload(QUEUED), Actors::Yes, Some("mira-example")),
        (payload(QUEUED), Actors::No, None),
        (payload(IN_PROGRESS), Actors::Yes, None),
        (without(&["sender"]), Actors::Yes, None),
        (unnamed, Actors::Yes, None),
    ] {
        let body = payload.to_string();
        let read = read_workflow_job(AppName::MAIN, actors, body.as_bytes());
        let Ok(DeliveryAction::Job(event)) = read else { panic!("{read:?}") };
        assert_eq!(event.actor.as_deref(), expected, "{actors:?}");
        let message = JobsMessage::JobEvent { event, delivery: String::new() };
        let text = muster_domain::message::to_ascii_json(&message);
        assert_eq!(text.contains("mira-example"), expected.is_some(), "{text}");
    }
}

/// Muster may be about to re-run the same job: the machine for a person's re-run is any other.
#[test]
fn a_person_is_the_sender_of_queued_in_a_later_attempt() {
    for (sample, attempt, sender, expected) in [
        (QUEUED, 1, "User", false),
        (QUEUED, 2, "User", true),
        (QUEUED, 2, "Bot", false),
        (QUEUED, 2, "", false),
        (IN_PROGRESS, 2, "User", false),
    ] {
        let mut payload = payload(sample);
        payload["workflow_job"]["run_attempt"] = json!(attempt);
        payload["sender"]["type"] = json!(sender);
        assert_eq!(event(&payload).by_person, expected, "{attempt} by {sender}");
        payload["deployment"] = json!({ "id": 1 });
        assert!(!event(&payload).by_person, "it may be the approver");
    }
}

#[test]
fn a_repository_that_does_not_say_so_is_not_private() {
    assert!(event(&payload(QUEUED)).private);
    assert!(!event(&without(&["repository", "private"])).private);
}

#[test]
fn what_identifies_a_job_must_be_there() {
    for path in [
        ["workflow_job", "id"].as_slice(),
        &["workflow_job", "run_id"],
        &["repository", "id"],
        &["repository", "full_name"],
        &["workflow_job"],
        &["repository"],
        &["action"],
    ] {
        let problem = refused(&without(path));
        assert!(problem.contains(path[path.len() - 1]), "{path:?}: {problem}");
    }
}

#[test]
fn fields_of_the_wrong_kind_are_refused() {
    for (field, value) in [
        ("id", json!("56789012345")),
        ("id", json!(-1)),
        ("id", json!(1.5)),
        ("id", json!(1e300)),
        ("id", json!(null)),
        ("id", json!([1])),
        ("run_id", json!({})),
        ("labels", json!("linux")),
        ("labels", json!([["linux"]])),
        ("labels", json!([1])),
        ("name", json!(7)),
    ] {
        refused(&with(field, value));
    }
    for whole in [json!(null), json!([]), json!("queued"), json!(7), json!({}), json!([{}])] {
        refused(&whole);
    }
}

#[test]
fn actions_that_need_no_runner_are_ignored() {
    for action in ["requested", "", "QUEUED", "queued ", "rerequested", "\u{0}", "<script>"] {
        let mut payload = payload(QUEUED);
        payload["action"] = json!(action);
        ignored(&payload);
    }
}

#[test]
fn labels_are_folded_and_bounded() {
    let labels = |labels: Value| with("labels", labels);
    let event = event(&labels(json!([" GPU ", "gpu", "", "Größe-L", "self-hosted"])));
    assert_eq!(event.labels, Labels::new(["gpu", "größe-l", "self-hosted"]));
    let many = |count: usize| labels((0..count).map(|n| json!(format!("l{n}"))).collect());
    assert_eq!(self::event(&many(100)).labels.iter().count(), 100);
    ignored(&many(101));
    assert!(matches!(read(&labels(json!(["x".repeat(256)]))), Ok(DeliveryAction::Job(_))));
    ignored(&labels(json!(["x".repeat(257)])));
}

/// Every text of an event with its limit: workflows' authors choose most of them, and a runner's
/// name is chosen by the person who registered it.
#[test]
fn every_text_of_an_event_has_a_bound() {
    let long = "👷".repeat(50_000);
    let cut = Some("👷".repeat(200));
    let texts: [(&str, fn(&JobEvent) -> Option<String>); 5] = [
        ("name", |event| Some(event.name.to_string())),
        ("workflow_name", |event| event.workflow.as_deref().map(str::to_owned)),
        ("head_branch", |event| event.branch.as_deref().map(str::to_owned)),
        ("runner_name", |event| event.runner.clone()),
        ("conclusion", |event| event.conclusion.clone()),
    ];
    for (field, read) in texts {
        let event = event(&with(field, json!(long)));
        assert_eq!(read(&event), cut, "{field}");
        assert!(json!(event).to_string().len() < 4_000, "{field}");
    }
    // These would change their meaning when cut, so the event is rejected.
    let mut named = payload(QUEUED);
    named["repository"]["full_name"] = json!(format!("acme/{}", "x".repeat(200)));
    assert_eq!(ignored(&named), "a repository's name over 200 characters");
    ignored(&with("labels", json!([long])));
    let mut acted = payload(QUEUED);
    acted["action"] = json!(long);
    assert!(ignored(&acted).chars().count() < 300);
    // Unread fields may have any length, because they are not kept.
    let mut whole = payload(QUEUED);
    whole["workflow_job"]["steps"] = json!([{ "name": long }]);
    whole["sender"]["login"] = json!(long);
    whole["repository"]["owner"]["type"] = json!(long);
    assert!(json!(event(&whole)).to_string().len() < 2_000);
}

#[test]
fn the_largest_numbers_survive() {
    let mut payload = with("id", json!(u64::MAX));
    payload["repository"]["id"] = json!(u64::MAX);
    let event = event(&payload);
    assert_eq!(event.key, JobKey { app: AppName::MAIN, repository: u64::MAX, job: u64::MAX });
    assert_eq!(event.key.to_string().parse(), Ok(event.key));
}

#[test]
fn an_unreadable_payload_is_traced_to_its_origin() {
    let of = |payload: &Value| Origin::of(AppName::MAIN, payload.to_string().as_bytes());
    let known = |repository: Option<&str>, installation| Origin {
        repository: repository.map(|name| name.parse().expect("a repository")),
        installation,
    };
    let mut null = payload(QUEUED);
    null["workflow_job"] = Value::Null;
    let installation = null["installation"]["id"].as_u64().map(InstallationId);
    let name = null["repository"]["full_name"].as_str().expect("a name").to_owned();
    assert_eq!(of(&null), known(Some(&name), installation));
    null["installation"] = Value::Null;
    assert_eq!(of(&null), known(Some(&name), None));
    let long = format!("acme/{}", "x".repeat(201));
    for hostile in [json!("a/b\n{}"), json!("acme"), json!(long), json!(7), Value::Null] {
        null["repository"]["full_name"] = hostile;
        assert_eq!(of(&null), Origin::default());
    }
    for bytes in [b"".as_slice(), b"\xff", b"[]", b"null", &b"[".repeat(100_000)] {
        assert_eq!(Origin::of(AppName::MAIN, bytes), Origin::default());
    }
}

/// A parser that keeps the last of two equal keys and one that keeps the first would see different
/// jobs.
#[test]
fn a_key_given_twice_is_refused() {
    let text = payload(QUEUED).to_string();
    for key in ["\"action\":\"queued\"", "\"private\":true"] {
        let doubled = text.replacen(key, &format!("{key},{key}"), 1);
        assert_ne!(doubled, text);
        read_workflow_job(AppName::MAIN, Actors::Yes, doubled.as_bytes()).expect_err("accepted");
    }
}

#[test]
fn depth_is_no_danger() {
    let text = payload(QUEUED).to_string();
    for depth in [127, 10_000, 500_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        // In a skipped field, and as the whole payload.
        let inside = text.replacen("{", &format!("{{\"deep\":{deep},"), 1);
        assert!(
            matches!(
                read_workflow_job(AppName::MAIN, Actors::Yes, inside.as_bytes()),
                Ok(DeliveryAction::Job(_))
            ),
            "{depth}"
        );
        read_workflow_job(AppName::MAIN, Actors::Yes, deep.as_bytes()).expect_err("accepted");
        read_workflow_job(AppName::MAIN, Actors::Yes, "{\"a\":".repeat(depth).as_bytes())
            .expect_err("accepted");
        // In a field that is read.
        let label = text.replacen("[\"self-hosted\"", &format!("[{deep},\"self-hosted\""), 1);
        read_workflow_job(AppName::MAIN, Actors::Yes, label.as_bytes()).expect_err("accepted");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let text = payload(QUEUED).to_string();
    let name = "größe";
    assert!(text.contains(name));
    let mut bytes = text.clone().into_bytes();
    let at = text.find(name).expect("is there");
    bytes[at + 2] = 0xff;
    read_workflow_job(AppName::MAIN, Actors::Yes, &bytes).expect_err("accepted");
    for bytes in [b"\xff".as_slice(), b"\xef\xbb\xbf{}", b"", b"\0", b"{\"action\":\"\xc3\x28\"}"] {
        read_workflow_job(AppName::MAIN, Actors::Yes, bytes).expect_err("accepted");
    }
    // A lone half of a surrogate pair is valid JSON, but not text.
    read_workflow_job(AppName::MAIN, Actors::Yes, text.replacen(name, "\\ud800", 1).as_bytes())
        .expect_err("accepted");
}

#[test]
fn a_cut_payload_is_refused_wherever_it_is_cut() {
    let text = payload(COMPLETED).to_string();
    for end in (0..text.len()).step_by(7) {
        read_workflow_job(AppName::MAIN, Actors::Yes, &text.as_bytes()[..end])
            .expect_err("accepted");
    }
}

/// Any JSON value.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,8}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The fields that are read, and one that is not.
const FIELDS: &[&[&str]] = &[
    &["action"],
    &["workflow_job"],
    &["workflow_job", "id"],
    &["workflow_job", "run_id"],
    &["workflow_job", "run_attempt"],
    &["workflow_job", "name"],
    &["workflow_job", "labels"],
    &["workflow_job", "runner_name"],
    &["workflow_job", "runner_id"],
    &["workflow_job", "conclusion"],
    &["workflow_job", "created_at"],
    &["workflow_job", "started_at"],
    &["workflow_job", "completed_at"],
    &["workflow_job", "steps"],
    &["repository"],
    &["repository", "id"],
    &["repository", "full_name"],
    &["repository", "private"],
    &["installation"],
    &["installation", "id"],
];

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_workflow_job(AppName::MAIN, Actors::Yes, &bytes);
    }

    #[test]
    fn no_changed_byte_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = QUEUED.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = read_workflow_job(AppName::MAIN, Actors::Yes, &bytes);
    }

    #[test]
    fn no_field_panics_and_what_is_read_travels(
        path in prop::sample::select(FIELDS),
        value in any_json(),
    ) {
        let mut changed = payload(QUEUED);
        let field = path.iter().fold(&mut changed, |value, key| &mut value[*key]);
        *field = value;
        if let Ok(DeliveryAction::Job(event)) = read(&changed) {
            let message = JobsMessage::JobEvent { event, delivery: String::new() };
            let ascii = muster_domain::message::to_ascii_json(&message);
            prop_assert!(ascii.bytes().all(|b| (0x20..0x7f).contains(&b)));
            prop_assert_eq!(serde_json::from_str::<JobsMessage>(&ascii).ok(), Some(message));
        }
    }

    #[test]
    fn any_name_travels(name in any::<String>(), label in any::<String>()) {
        let event = event(&with("name", json!(name)));
        prop_assert_eq!(&*event.name, name.chars().take(200).collect::<String>());
        let _ = read(&with("labels", json!([label])));
    }
}
