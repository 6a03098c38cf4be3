//! How the App is made and connected: in which order, what is refused, and that nothing is lost
//! wherever it stops.

mod owner;
mod several;

use muster_api::{Reply, Request};
use muster_cloud::github::{AppOwner, HookAttributes, Manifest};
use muster_control::Settings;
use muster_control::admin::Admin;
use muster_control::context::Context;
use muster_control::ports::Operations as _;
use muster_domain::app::{AppProblem, KeyProblem};
use muster_domain::hidden::Hidden;
use muster_domain::ids::AppName;
use muster_domain::job::labels::Labels;
use muster_sim::agenda::Millis;
use muster_sim::fault::Fault;
use muster_sim::github;
use muster_sim::world::{Window, World};
use serde_json::{Value, json};

use crate::bench::Bench;

const OWN: &str = "https://a1b2c3d4e5.execute-api.us-east-1.amazonaws.com/webhook";
const API: &str = "https://api.github.com";

/// A stack whose App was never made.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.change(|world| {
        let why = KeyProblem::Unset.sentence("muster/app-key", AppName::MAIN);
        world.app.app = Err(AppProblem::NoKey(why));
        world.app.installations = Ok(Vec::new());
    });
    bench
}

/// What its owner does on GitHub's page; the code that comes of it.
fn make(bench: &Bench, name: &str) -> String {
    make_by(bench, name, "acme")
}

fn make_by(bench: &Bench, name: &str, login: &str) -> String {
    let permissions = [("actions", "read"), ("organization_self_hosted_runners", "write")];
    let owned = |(name, level): (&str, &str)| (name.to_owned(), level.to_owned());
    let hook = HookAttributes { url: Some("https://old.example/webhook".to_owned()), active: true };
    let manifest = Manifest {
        hook_attributes: Some(hook),
        default_permissions: permissions.into_iter().map(owned).collect(),
        default_events: vec!["workflow_job".to_owned()],
        ..Manifest::default()
    };
    let owner = AppOwner { login: login.to_owned(), id: 9919, is_organization: true };
    bench.change(|world| world.make_app(owner, name, &manifest))
}

fn settings(bench: &Bench) -> Settings {
    Settings {
        stack: "muster".to_owned(),
        webhook_url: Some(OWN.to_owned()),
        ..bench.door.sim.settings.clone()
    }
}

async fn answer(bench: &Bench, settings: &Settings, mut request: Value) -> Reply {
    request["version"] = json!(1);
    request["action"] = json!("github");
    let door = &bench.door;
    let pass = Admin { context: Context::new(door, door, door, door, settings) };
    pass.answer(request, door.now()).await
}

fn ask(bench: &Bench, request: Value) -> Value {
    json!(bench.drive(answer(bench, &settings(bench), request)))
}

fn create(code: &str) -> Value {
    json!({ "create": { "code": code, "api_url": API }, "by": "mira" })
}

/// The number of the App that is kept.
fn kept(bench: &Bench) -> Option<String> {
    bench.change(|world| world.secrets.apps.get(&AppName::MAIN).map(|app| app.app_id.clone()))
}

/// The App is kept, GitHub takes its key, and sends its events here, signed with the stack's secret.
fn is_set_up(bench: &Bench) -> bool {
    bench.change(|world| {
        let Some(app) = world.secrets.apps.get(&AppName::MAIN) else { return false };
        let truth = &world.github.truth;
        let hook = truth.hook(&app.app_id).expect("an App");
        truth.private_key(&app.app_id) == Some(app.private_key.expose())
            && hook.url.as_deref() == Some(OWN)
            && truth.hook_secret(&app.app_id) == Some(world.secrets.signing.value.expose())
    })
}

fn error(answer: &Value) -> (&str, &str) {
    let text = |name: &str| answer["error"][name].as_str().unwrap_or_default();
    (text("code"), text("message"))
}

fn audit(bench: &Bench) -> Vec<(String, String)> {
    let lines = bench.drive(bench.door.audit("github", 100)).expect("read");
    lines.into_iter().map(|line| (line.by, line.why)).collect()
}

/// Everything of both sides that must not be told.
fn secrets(world: &World) -> Vec<String> {
    let mut all = vec![world.secrets.signing.value.expose().to_owned()];
    if let Some(app) = world.secrets.apps.get(&AppName::MAIN) {
        let truth = &world.github.truth;
        all.extend(
            truth.private_key(&app.app_id).into_iter().flat_map(str::lines).map(str::to_owned),
        );
        all.push(format!("client-secret-canary-{}", app.app_id));
    }
    all.retain(|line| !line.starts_with("-----"));
    all
}

#[test]
fn an_app_is_made_of_its_manifest() {
    let bench = bench();
    let before = ask(&bench, json!({}));
    assert_eq!((&before["app"], &before["webhook_url"]), (&Value::Null, &json!(OWN)));
    let link = before["new_app"]["organization"].as_str().expect("a link");
    assert!(
        link.starts_with("https://github.com/organizations/ORG/settings/apps/new?name=muster-")
    );

    let code = make(&bench, "Muster Acme");
    let github_own = bench.change(|world| {
        let id = world.github.truth.newest_app().expect("an App");
        world.github.truth.hook_secret(&id).expect("a secret").to_owned()
    });
    let made = ask(&bench, create(&code));
    let id = kept(&bench).expect("kept");
    assert_eq!(
        made["app"],
        json!({ "id": id.parse::<u64>().expect("a number"), "slug": "muster-acme",
            "name": "Muster Acme", "owner": "acme",
            "html_url": "https://github.com/apps/muster-acme" })
    );
    assert_eq!(made["hook"], json!({ "url": OWN, "ours": true }));
    assert_eq!(made["install_url"], "https://github.com/apps/muster-acme/installations/new");
    assert_eq!((made.get("left"), &made["installations"]), (None, &json!([])));
    let lacks = made["lacks"].to_string();
    assert!(lacks.contains("not installed anywhere") && !lacks.contains("never stored"), "{lacks}");
    assert!(is_set_up(&bench));
    assert_eq!(
        audit(&bench),
        [("mira".to_owned(), "GitHub creates the App from a manifest".to_owned())]
    );

    // None of the secrets is told, by either side's word for it.
    let trail = bench.drive(bench.door.audit("github", 100)).expect("read");
    let printed = bench.change(|world| format!("{:?}", world.secrets));
    let told = format!("{before} {made} {} {printed}", json!(trail));
    let mut hidden = bench.change(|world| secrets(world));
    hidden.extend([code, github_own]);
    assert!(hidden.len() > 20, "{}", hidden.len());
    let leaked: Vec<&String> = hidden.iter().filter(|one| told.contains(one.as_str())).collect();
    assert!(leaked.is_empty(), "{leaked:?} in {told}");
}

#[test]
fn what_is_refused_uses_no_code_up() {
    let bench = bench();
    let code = make(&bench, "one");
    for (wrong, expected) in [
        (
            json!({ "create": { "code": code, "api_url": "http://api.github.com" } }),
            "\"api_url\" is",
        ),
        (
            json!({ "create": { "code": "../app", "api_url": API } }),
            "\"code\" is not a manifest code of GitHub",
        ),
        (json!({ "create": { "code": code }, "hook": "set" }), "\"github\" accepts one of"),
        (json!({ "create": { "code": code, "api": API } }), "unknown field `api`"),
        (json!({ "hook": "off" }), "a field of \"github\" has the wrong type"),
    ] {
        let refused = ask(&bench, wrong.clone());
        let (kind, told) = error(&refused);
        assert_eq!(kind, "bad_request", "{wrong}: {told}");
        assert!(told.starts_with(expected), "{wrong}: {told}");
    }
    assert_eq!(ask(&bench, create(&code))["ok"], true);
    assert!(is_set_up(&bench));
    // Used, and then the App behind it is no more the stack's.
    bench.change(|world| _ = world.secrets.apps.remove(&AppName::MAIN));
    let used = ask(&bench, create(&code));
    let (kind, told) = error(&used);
    assert_eq!(kind, "not_found");
    assert!(told.contains("works once, within an hour") && told.contains("\"connect\""), "{told}");
    let late = make(&bench, "late");
    bench.change(|world| world.now += 3_600_000);
    assert_eq!(error(&ask(&bench, create(&late))).0, "not_found");
    assert_eq!(kept(&bench), None);
}

#[test]
fn an_app_that_answers_is_replaced_only_when_that_is_asked_for() {
    let bench = bench();
    let (first, second) = (make(&bench, "first"), make(&bench, "second"));
    ask(&bench, create(&first));
    let id = kept(&bench).expect("kept");
    let refused = ask(&bench, create(&second));
    let (kind, told) = error(&refused);
    assert_eq!(kind, "app_exists");
    assert!(
        told.contains(&format!("first ({id})")) && told.contains("\"replace\": true"),
        "{told}"
    );
    // Nor while it cannot be known whether it answers.
    bench.change(|world| {
        let (fault, from) = (Fault::OutageGithub, world.now);
        world.windows.push(Window { fault, from, until: Millis::MAX });
    });
    assert_eq!(error(&ask(&bench, create(&second))).0, "unavailable");
    bench.change(|world| world.windows.clear());
    assert_eq!(kept(&bench), Some(id.clone()));
    let mut request = create(&second);
    request["create"]["replace"] = json!(true);
    assert_eq!(ask(&bench, request)["app"]["slug"], "second");
    assert!(is_set_up(&bench) && kept(&bench) != Some(id));
}

/// Wherever the function ends, the same request again ends right, or says what does.
#[test]
fn a_request_that_was_interrupted_is_repeated() {
    let settings = settings(&bench());
    let mut ends = Vec::new();
    for calls in 0.. {
        let bench = bench();
        let code = make(&bench, "muster");
        let done = bench.drive_in_part(answer(&bench, &settings, create(&code)), calls);
        let again = ask(&bench, create(&code));
        if again["ok"] == true {
            assert_eq!(again["app"]["slug"], "muster", "after {calls} calls: {again}");
            ends.push("repeated");
        } else {
            // GitHub has made the App, and its key went down with the function.
            assert_eq!(error(&again).0, "not_found", "after {calls} calls: {again}");
            let id = bench.change(|world| world.github.truth.newest_app()).expect("an App");
            let key = bench
                .change(|world| world.github.truth.private_key(&id).map(str::to_owned))
                .expect("a key");
            let id: u64 = id.parse().expect("a number");
            let connect = json!({ "connect": { "app_id": id, "private_key": key } });
            assert_eq!(ask(&bench, connect)["app"]["id"], id, "after {calls} calls");
            ends.push("connected");
        }
        assert!(is_set_up(&bench), "after {calls} calls");
        if done.is_some() {
            break;
        }
    }
    assert_eq!(ends.iter().filter(|end| **end == "connected").count(), 1, "{ends:?}");
    assert!(ends.len() > 6, "{ends:?}");
}

#[test]
fn a_step_behind_the_key_is_left_and_said() {
    let bench = bench();
    let code = make(&bench, "muster");
    let settings = settings(&bench);
    // The key is kept by its fifth call; GitHub is away from the next one on.
    let made = json!(bench.drive_with(answer(&bench, &settings, create(&code)), |_| {
        bench.change(|world| {
            if world.secrets.apps.contains_key(&AppName::MAIN) && world.windows.is_empty() {
                let (fault, from) = (Fault::OutageGithub, world.now);
                world.windows.push(Window { fault, from, until: Millis::MAX });
            }
        });
    }));
    assert_eq!(made["ok"], true, "{made}");
    let left = made["left"].as_str().expect("a sentence");
    assert!(
        left.starts_with("the App's key is stored, but its webhook is not set: GitHub"),
        "{left}"
    );
    assert!(left.ends_with("{\"action\":\"github\",\"hook\":\"set\"}"), "{left}");
    assert_eq!(made["install_url"], "https://github.com/apps/muster/installations/new");
    bench.change(|world| world.windows.clear());
    assert!(!is_set_up(&bench));
    let set = ask(&bench, json!({ "hook": "set" }));
    assert_eq!((&set["hook"]["ours"], set.get("left")), (&json!(true), None));
    assert!(is_set_up(&bench));
}

#[test]
fn a_key_that_cannot_be_kept_can_be_made_anew() {
    let bench = bench();
    let code = make(&bench, "muster");
    let settings = settings(&bench);
    let (mut calls, asked) = (0, bench.change(|world| world.calls.github));
    let answer = json!(bench.drive_with(answer(&bench, &settings, create(&code)), |_| {
        calls += 1;
        // Who the App is was asked for, and then the conversion.
        bench.change(|world| world.secrets.refuses = world.calls.github >= asked + 2);
    }));
    let (kind, told) = error(&answer);
    assert_eq!(kind, "unavailable", "{told}");
    assert!(told.starts_with("GitHub created App muster ("), "{told}");
    let page = "https://github.com/organizations/acme/settings/apps/muster and use \"connect\"";
    assert!(told.ends_with(page), "{told}");
}

#[test]
fn an_app_that_is_there_is_connected_when_its_key_is_its_own() {
    let bench = bench();
    make(&bench, "ours");
    let ours = bench.change(|world| world.github.truth.newest_app()).expect("an App");
    make(&bench, "theirs");
    let theirs = bench.change(|world| world.github.truth.newest_app()).expect("an App");
    let key = |of: &str| {
        bench.change(|world| world.github.truth.private_key(of).map(str::to_owned)).expect("a key")
    };
    let connect = |app_id: Value, key: &str| {
        ask(&bench, json!({ "connect": { "app_id": app_id, "private_key": key, "api_url": API } }))
    };
    for (id, given, kind, says) in [
        (json!(ours), key(&theirs), "not_allowed", "the private key is not one of App "),
        (json!(99), key(&ours), "not_allowed", "GitHub knows no App 99: "),
        (json!(ours), "no key".to_owned(), "bad_request", "\"private_key\" is not an RSA key"),
        (
            json!([key(&ours)]),
            key(&ours),
            "bad_request",
            "a field of \"github\" has the wrong type",
        ),
    ] {
        let refused = connect(id, &given);
        let (code, told) = error(&refused);
        assert_eq!(code, kind, "{told}");
        assert!(told.starts_with(says), "{told}");
        assert!(!told.contains(given.lines().nth(1).unwrap_or("no key")), "{told}");
    }
    assert_eq!((kept(&bench), audit(&bench)), (None, Vec::new()));
    let connected = connect(json!(ours.parse::<u64>().expect("a number")), &key(&ours));
    assert_eq!(
        (&connected["app"]["slug"], &connected["hook"]["ours"]),
        (&json!("ours"), &json!(true))
    );
    assert!(is_set_up(&bench) && kept(&bench) == Some(ours.clone()));
    assert_eq!(audit(&bench)[0].1, format!("App {ours} is connected"));
}

/// What GitHub signs with is always one that the webhook takes, wherever the function ends.
#[test]
fn the_webhooks_secret_is_replaced_without_a_gap() {
    let settings = settings(&bench());
    let signs = |world: &World| {
        let app = world.secrets.apps.get(&AppName::MAIN).expect("an App");
        world.github.truth.hook_secret(&app.app_id).expect("a secret").to_owned()
    };
    let rotate = || json!({ "rotate": "webhook-secret", "by": "mira" });
    let mut made = Vec::new();
    for calls in 0.. {
        let bench = bench();
        let code = make(&bench, "muster");
        ask(&bench, create(&code));
        let first = bench.change(|world| signs(world));
        let done = bench.drive_in_part(answer(&bench, &settings, rotate()), calls);
        let takes = |signed: &str| {
            bench.change(|world| {
                let previous = world.secrets.previous.as_ref().map(Hidden::expose);
                world.secrets.signing.value.expose() == signed || previous == Some(signed)
            })
        };
        let signed = bench.change(|world| signs(world));
        assert!(takes(&signed), "after {calls} calls");
        let was_kept = bench.change(|world| world.secrets.signing.value.expose() != first);
        bench.change(|world| world.now += 5_000);
        let again = ask(&bench, rotate());
        assert_eq!((&again["ok"], again.get("left")), (&json!(true), None), "{again}");
        assert!(is_set_up(&bench) && bench.change(|world| signs(world)) != first);
        // What is on its way was signed with the one from before.
        assert!(takes(&signed), "after {calls} calls");
        let is_previous = takes(&first);
        made.push((done.is_some(), was_kept, is_previous));
        assert!(
            !again.to_string().contains("canary")
                && !json!(audit(&bench)).to_string().contains("canary")
        );
        if done.is_some() {
            break;
        }
    }
    assert!(made.contains(&(false, true, true)), "{made:?}");
    // Twice on purpose, as after a leak: the first is gone.
    assert_eq!(made.last(), Some(&(true, true, false)));
}

#[test]
fn a_webhook_is_removed_as_far_as_github_lets_it() {
    let bench = bench();
    let code = make(&bench, "muster");
    ask(&bench, create(&code));
    let removed = ask(&bench, json!({ "hook": "remove", "by": "mira" }));
    let nowhere = json!({ "url": "https://muster.invalid/removed", "ours": false });
    assert_eq!(removed["hook"], nowhere);
    assert_eq!(audit(&bench)[0], ("mira".to_owned(), "the webhook is removed".to_owned()));
    assert_eq!(ask(&bench, json!({ "hook": "set" }))["hook"]["ours"], true);
    assert!(is_set_up(&bench));
    // The other answer: GitHub takes no such settings.
    let deaf = bench.change(|world| {
        let owner = AppOwner { login: "acme".to_owned(), id: 9919, is_organization: true };
        world.make_app(owner, "deaf", &Manifest::default())
    });
    let mut request = create(&deaf);
    request["create"]["replace"] = json!(true);
    let left = ask(&bench, request)["left"].as_str().expect("a sentence").to_owned();
    assert!(left.contains("GitHub rejects the webhook's settings"), "{left}");
    let refused = ask(&bench, json!({ "hook": "remove" }));
    let (kind, told) = error(&refused);
    assert_eq!(kind, "not_allowed");
    assert!(told.ends_with("untick Active in the App's settings (General, Webhook)"), "{told}");
}

#[test]
fn a_delivery_is_repeated_to_test_the_webhook() {
    let bench = bench();
    let test = json!({ "hook": "test" });
    let never = ask(&bench, test.clone());
    assert_eq!(never["tested"], Value::Null);
    assert!(
        never["wrong"].as_str().expect("a sentence").starts_with("GitHub never sent an event: ")
    );
    bench.change(|world| {
        world.github.script.fail_next = 1;
        let labels = Labels::new(["linux"]);
        let job = github::Job::planned(0, "acme/web", true, labels, None);
        world.github.jobs.push(job);
        world.queue_job(0);
    });
    let settings = settings(&bench);
    // The webhook is there when GitHub tries again.
    let taken = json!(bench.drive_with(answer(&bench, &settings, test.clone()), |_| {
        bench.change(|world| {
            if world.github.in_flight > 0 {
                world.delivered(0, true);
            }
        });
    }));
    assert_eq!(
        (&taken["tested"]["status"], &taken["wrong"]),
        (&json!(200), &Value::Null),
        "{taken}"
    );
    assert_eq!(taken["tested"]["event"], "workflow_job");
    bench.change(|world| world.github.script.fail_next = 1);
    let refused = ask(&bench, test.clone());
    assert_eq!((&refused["ok"], &refused["tested"]["status"]), (&json!(true), &Value::Null));
    let wrong = refused["wrong"].as_str().expect("a sentence");
    assert!(
        wrong.starts_with("GitHub's \"workflow_job\" got no connection: check the URL"),
        "{wrong}"
    );
    assert_eq!(audit(&bench), [], "nothing was changed");
}

/// Columns: the status of the new attempt, the number of reads after which GitHub shows it, whether it is of the same
/// event, and what the answer says is wrong.
#[test]
fn a_redelivery_is_judged_by_its_own_status_within_fifteen_reads() {
    let rows: [(Option<u16>, u32, bool, Option<&str>); 9] = [
        (Some(200), 1, true, None),
        (Some(299), 15, true, None),
        (Some(199), 1, true, Some("GitHub's \"workflow_job\" was answered 199: ")),
        (Some(300), 1, true, Some("GitHub's \"workflow_job\" was answered 300: ")),
        (
            Some(401),
            2,
            true,
            Some("GitHub's \"workflow_job\" was answered 401: the webhook's secret"),
        ),
        (None, 1, true, Some("GitHub's \"workflow_job\" got no connection: ")),
        (
            Some(200),
            16,
            true,
            Some("GitHub did not redeliver its \"workflow_job\" event within 15 s"),
        ),
        (
            Some(200),
            1,
            false,
            Some("GitHub did not redeliver its \"workflow_job\" event within 15 s"),
        ),
        (
            Some(503),
            99,
            true,
            Some("GitHub did not redeliver its \"workflow_job\" event within 15 s"),
        ),
    ];
    for (status, reads, is_same, wrong) in rows {
        let row = format!("{status:?} after {reads} reads, {is_same}");
        let bench = bench();
        let code = make(&bench, "muster");
        ask(&bench, create(&code));
        bench.change(|world| {
            // Two events were sent before, the newest one twice; GitHub does not redeliver by itself here.
            for number in 0..2 {
                let labels = Labels::new(["linux"]);
                let job = github::Job::planned(number, "acme/web", true, labels, None);
                world.github.jobs.push(job);
                world.queue_job(number);
                world.delivered(number, true);
            }
            world.github.truth.attempted(1, Some(500), world.now);
        });
        let (asked, mut is_sent) = (bench.change(|world| world.calls.github), false);
        let settings = settings(&bench);
        let test = json!({ "hook": "test" });
        let tested = json!(bench.drive_with(answer(&bench, &settings, test), |_| {
            bench.change(|world| {
                // The list before it, and the redelivery.
                if !is_sent && world.calls.github - asked > u64::from(reads) {
                    is_sent = true;
                    world.github.truth.attempted(u64::from(is_same), status, world.now);
                }
            });
        }));
        assert_eq!(tested["ok"], true, "{row}: {tested}");
        let found = tested["wrong"].as_str();
        let is_right = match wrong {
            Some(wrong) => found.is_some_and(|found| found.starts_with(wrong)),
            None => found.is_none(),
        };
        assert!(is_right, "{row}: {tested}");
        let is_shown = wrong.is_none_or(|wrong| !wrong.contains("did not redeliver"));
        assert_eq!(tested["tested"].is_object(), is_shown, "{row}: {tested}");
        if is_shown {
            assert_eq!(tested["tested"]["status"], json!(status), "{row}");
        }
    }
}

/// Where a value of the wrong kind is refused, it is not quoted: it may be a key in the wrong place.
#[test]
fn a_key_in_the_wrong_place_is_not_quoted() {
    let bench = bench();
    let canary = "-----BEGIN RSA PRIVATE KEY-----\nkey-canary";
    for request in [
        json!({ "connect": canary }),
        json!({ "create": { "code": [canary] } }),
        json!({ "create": { "code": "a", "replace": canary } }),
        json!({ "connect": { "app_id": { "a": canary }, "private_key": "a" } }),
        json!({ "hook": canary }),
    ] {
        let told = ask(&bench, request.clone());
        assert_eq!(error(&told).0, "bad_request", "{told}");
        assert!(!told.to_string().contains("key-canary"), "{told}");
        let read = Request::parse(json!({ "version": 1, "action": "github",
            "connect": { "app_id": 1, "private_key": canary } }));
        assert!(!format!("{read:?}").contains("key-canary"), "{read:?}");
    }
    assert_eq!(Hidden::from(canary.to_owned()).expose(), canary);
}
