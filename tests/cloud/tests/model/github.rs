//! How the model's GitHub behaves: what it documents, and how it was caught lying.

use crate::common::{
    T0, busy_runner, github, happenings, jit, job, listen, organization, owner, repository,
    secret_of, sent,
};
use muster_cloud::{
    Happening, World,
    github::{Claims, HookRule, RunnerScope},
};
use serde_json::{Value, json};

fn claims(jti: &str, issued_ago: i64, lives: i64) -> Claims {
    let iat = T0 / 1000 - issued_ago;
    Claims { iss: "123".to_owned(), iat, exp: iat + lives, jti: Some(jti.to_owned()) }
}

fn lie(world: &mut World, lies: Value) {
    world.set_lies("acme", serde_json::from_value(lies).unwrap()).unwrap();
}

fn hook_rule(world: &mut World, rule: Value) {
    world.github.add_hook_rule(serde_json::from_value::<HookRule>(rule).unwrap());
}

// Authentication.

#[test]
fn github_app_token_needs_a_known_issuer_and_a_sound_lifetime() {
    let mut world = github();
    let stranger = Claims { iss: "999".to_owned(), ..claims("a", 10, 300) };
    for (wrong, word) in [
        (stranger, "Integration not found"),
        (claims("b", -120, 300), "iat"),
        (claims("c", 400, 300), "exp"),
        (claims("d", 10, 700), "too far"),
    ] {
        let error = world.create_token(&wrong, 77, T0).unwrap_err();
        assert!(error.status == 401 && error.message.contains(word), "{error:?}");
    }
    assert!(world.create_token(&claims("e", 10, 300), 77, T0).is_ok());
    assert_eq!(world.create_token(&claims("f", 10, 300), 78, T0).unwrap_err().status, 404);
}

#[test]
fn github_same_app_token_twice_is_not_found() {
    let mut world = github();
    world.create_token(&claims("a", 10, 300), 77, T0).unwrap();
    assert_eq!(world.create_token(&claims("a", 10, 300), 77, T0).unwrap_err().status, 404);
    // Two signers in the same second, without a `jti`.
    let plain = Claims { jti: None, ..claims("", 10, 300) };
    world.create_token(&plain, 77, T0).unwrap();
    assert_eq!(world.create_token(&plain, 77, T0).unwrap_err().status, 404);
    world.github.reused_jwt_allowed = true;
    assert!(world.create_token(&plain, 77, T0).is_ok());
}

#[test]
fn github_installation_token_ends_and_sees_only_its_own_account() {
    let mut world = github();
    world.register_owner(owner("other", 78));
    let token = world.create_token(&claims("a", 10, 300), 77, T0).unwrap().token;
    let status = |world: &mut World, token: &str, scope: &RunnerScope, now| {
        world.authorize(token, scope, now).map_or_else(|error| error.status, |_| 200)
    };
    assert_eq!(status(&mut world, &token, &organization("ACME"), T0), 200);
    assert_eq!(status(&mut world, &token, &repository("acme", "app"), T0), 200);
    assert_eq!(status(&mut world, &token, &organization("other"), T0), 404);
    assert_eq!(status(&mut world, "ghs_forged", &organization("acme"), T0), 401);
    assert_eq!(status(&mut world, &token, &organization("acme"), T0 + 3_600_000), 401);
}

// Registrations.

#[test]
fn github_registrations_that_make_no_sense_are_refused() {
    let mut world = github();
    let acme = organization("acme");
    let mut other_group = jit("r", &["x"]);
    other_group.runner_group_id = 9;
    for (request, status) in [
        (jit("", &["x"]), 422),
        (jit(&"n".repeat(65), &["x"]), 422),
        (jit("a b", &["x"]), 422),
        (jit("r", &[]), 422),
        (other_group, 404),
    ] {
        assert_eq!(world.generate_jit(&acme, &request, T0).unwrap_err().status, status);
    }
}

#[test]
fn github_configuration_is_good_for_one_process() {
    let mut world = github();
    let acme = organization("acme");
    let config = world.generate_jit(&acme, &jit("r-1", &["linux"]), T0).unwrap();
    let secret = secret_of(&config.encoded);
    world.runner_connect(&secret, None, T0).unwrap();
    assert_eq!(world.runner_connect(&secret, None, T0).unwrap_err().status, 409);
    let gone = world.generate_jit(&acme, &jit("r-2", &["linux"]), T0).unwrap();
    world.delete_runner(&acme, gone.runner.id, T0).unwrap();
    assert_eq!(world.runner_connect(&secret_of(&gone.encoded), None, T0).unwrap_err().status, 401);
}

#[test]
fn github_lists_in_pages_and_by_name() {
    let mut world = github();
    let acme = organization("acme");
    for number in 0..5 {
        world.generate_jit(&acme, &jit(&format!("r-{number}"), &["linux"]), T0).unwrap();
    }
    let (total, page) = world.list_runners(&acme, None, (2, 2), T0);
    let names: Vec<&Value> = page.iter().map(|runner| &runner["name"]).collect();
    assert_eq!((total, names), (5, vec![&json!("r-2"), &json!("r-3")]));
    let (total, page) = world.list_runners(&acme, Some("r-4"), (1, 30), T0);
    assert_eq!((total, page.len()), (1, 1));
    assert_eq!(world.list_runners(&repository("acme", "app"), None, (1, 30), T0).0, 0);
}

// Deleting runners, and lies.

#[test]
fn github_may_say_idle_of_a_busy_runner() {
    let mut world = github();
    let (runner, _, _) = busy_runner(&mut world);
    let busy = |world: &World, now| {
        world.get_runner(&organization("acme"), runner, now).unwrap()["busy"].clone()
    };
    assert_eq!(busy(&world, T0 + 10), true);
    // Variant A: just after the start. Variant B: minutes into the job.
    for (from, until, lies_at, true_at) in
        [(0, Some(60_000), 59_999, 60_000), (300_000, None, 400_000, 299_999)]
    {
        lie(&mut world, json!({ "busy_false_from_ms": from, "busy_false_until_ms": until }));
        assert_eq!(busy(&world, T0 + lies_at), false);
        assert_eq!(busy(&world, T0 + true_at), true);
    }
}

#[test]
fn github_calls_a_silent_runner_online_for_a_while() {
    let mut world = github();
    let acme = organization("acme");
    let config = world.generate_jit(&acme, &jit("r-1", &["linux"]), T0).unwrap();
    let id = config.runner.id;
    let status = |world: &World, now| world.get_runner(&acme, id, now).unwrap()["status"].clone();
    assert_eq!(status(&world, T0), "offline", "registered, never connected");
    let session = world.runner_connect(&secret_of(&config.encoded), None, T0).unwrap();
    listen(&mut world, &session, T0 + 1000);
    assert_eq!(status(&world, T0 + 60_999), "online");
    assert_eq!(status(&world, T0 + 61_000), "offline");
    listen(&mut world, &session, T0 + 70_000);
    world.runner_disconnect(&session).unwrap();
    assert_eq!(status(&world, T0 + 70_001), "offline", "it said good-bye");
}

// Webhooks.

#[test]
fn github_event_names_everything_that_muster_reads() {
    let mut world = github();
    let (_, _, id) = busy_runner(&mut world);
    let bodies: Vec<Value> = happenings(&mut world)
        .into_iter()
        .filter_map(|happening| match happening {
            Happening::Webhook(delivery) => Some(delivery.body),
            _ => None,
        })
        .collect();
    let [queued, started] = &bodies[..] else { panic!("{bodies:?}") };
    assert_eq!(queued["action"], "queued");
    assert_eq!(queued["workflow_job"]["id"], id);
    assert_eq!(queued["workflow_job"]["status"], "queued");
    assert_eq!(queued["workflow_job"]["labels"], json!(["linux"]));
    assert_eq!(queued["workflow_job"]["runner_id"], Value::Null);
    assert_eq!(queued["workflow_job"]["run_attempt"], 1);
    assert_eq!(queued["repository"]["private"], true);
    assert_eq!(queued["repository"]["full_name"], "acme/app");
    assert_eq!(queued["organization"]["login"], "acme");
    assert_eq!(queued["installation"]["id"], 77);
    assert_eq!(queued["sender"]["login"], "octocat");
    assert_eq!(started["workflow_job"]["status"], "in_progress");
    assert_eq!(started["workflow_job"]["runner_name"], "r-1");
    assert_eq!(started["workflow_job"]["runner_group_id"], 1);
    assert_eq!(started["workflow_job"]["started_at"], "2027-01-15T08:00:00Z");
}

#[test]
fn github_job_cancelled_in_the_queue_completes_with_a_runner_that_is_none() {
    let mut world = github();
    let id = world.queue_job(&job(&["linux"]), T0).unwrap();
    world.cancel_job(id, T0).unwrap();
    let delivery = world.github.deliveries().find(|d| d.action() == "completed").unwrap();
    let job = &world.github.webhook(delivery).unwrap().body["workflow_job"];
    assert_eq!((&job["runner_id"], &job["runner_name"]), (&json!(0), &json!("")));
    assert_eq!(job["conclusion"], "cancelled");
}

#[test]
fn github_deliveries_are_lost_doubled_delayed_and_reordered_as_told() {
    for (rule, expected) in [
        (json!({ "effect": "suppress" }), vec!["in_progress"]),
        (
            json!({ "effect": { "duplicate": 2 } }),
            vec!["queued", "queued", "queued", "in_progress"],
        ),
        (json!({ "effect": { "delay_ms": 5000 } }), vec!["in_progress", "queued"]),
        (json!({ "effect": "after_next" }), vec!["in_progress", "queued"]),
    ] {
        let mut world = github();
        let mut rule = rule.clone();
        rule["action"] = json!("queued");
        rule["owner"] = json!("acme");
        rule["times"] = json!(1);
        hook_rule(&mut world, rule.clone());
        busy_runner(&mut world);
        let actions: Vec<String> =
            sent(&happenings(&mut world)).into_iter().map(|(_, action)| action).collect();
        assert_eq!(actions, expected, "{rule}");
    }
}
