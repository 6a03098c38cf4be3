//! The admin requests of `events/`, and requests that are refused.

use std::fs;
use std::path::Path;

use muster_api::Request;
use serde_json::{Value, json};

#[test]
fn every_sample_request_is_read() {
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events");
    let mut read_so_far = 0;
    for entry in fs::read_dir(events).expect("events is readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.starts_with("admin-") {
            let text = fs::read_to_string(&path).expect("readable");
            let request: Value = serde_json::from_str(&text).expect("JSON");
            let read =
                Request::parse(request).unwrap_or_else(|problem| panic!("{name}: {problem:?}"));
            if name == "admin-delete-force.json" {
                let Request::Delete(order) = read else { panic!("{name}: {read:?}") };
                assert!(order.force && order.bypass_github_unauthorized && !order.kill_running_job);
            }
            read_so_far += 1;
        }
    }
    assert_eq!(read_so_far, 28);
}

#[test]
fn unknown_versions_actions_and_fields_are_refused_with_a_sentence() {
    let cases = [
        (json!([]), "bad_request", "object"),
        (json!({"action": "list"}), "bad_version", "version"),
        (json!({"version": 2, "action": "list"}), "bad_version", "version 2"),
        (json!({"version": 1}), "bad_request", "action"),
        (json!({"version": 1, "action": "destroy"}), "bad_request", "destroy"),
        (json!({"version": 1, "action": "list", "pools": "a"}), "bad_request", "pools"),
        (json!({"version": 1, "action": "list", "state": "zombie"}), "bad_request", "zombie"),
        (json!({"version": 1, "action": "status", "x": 1}), "bad_request", "x"),
        (json!({"version": 1, "action": "delete", "name": "a"}), "bad_request", "reason"),
        (
            json!({"version": 1, "action": "switch", "deletes": "maybe", "reason": "moving"}),
            "bad_request",
            "maybe",
        ),
        (json!({"version": 1, "action": "audit", "since": "yesterday"}), "bad_request", "time"),
        (json!({"version": 1, "action": "pools", "dry": true}), "bad_request", "dry"),
        (json!({"version": 1, "action": "pools", "file": {"pools": []}}), "bad_request", "string"),
        (json!({"version": 1, "action": "github", "create": {}}), "bad_request", "`code`"),
        (json!({"version": 1, "action": "github", "hook": "off"}), "bad_request", "\"hook\""),
        (json!({"version": 1, "action": "github", "hooks": "set"}), "bad_request", "`hooks`"),
        (
            json!({"version": 1, "action": "delete", "name": "a", "reason": "old image", "forced": true}),
            "bad_request",
            "forced",
        ),
    ];
    for (request, code, part) in cases {
        let Err(problem) = Request::parse(request.clone()) else { panic!("accepted: {request}") };
        assert_eq!(problem.code.as_str(), code, "{request}");
        assert!(problem.message.contains(part), "{request}: {}", problem.message);
    }
}
