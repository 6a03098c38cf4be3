//! Several Apps in one stack: what belongs to one is never another's.

use muster_control::admin;
use muster_control::context::Context;
use muster_control::ports::Operations as _;
use muster_domain::ids::AppName;
use muster_sim::github::AppTrouble;
use serde_json::{Value, json};

use super::{OWN, audit, bench, create, error, is_set_up, make, make_by, settings};
use crate::bench::Bench;
use crate::damage;

fn two() -> AppName {
    "two".parse().expect("a name")
}

fn ask(bench: &Bench, mut request: Value) -> Value {
    request["version"] = json!(1);
    request["action"] = json!("github");
    let (door, settings) = (&bench.door, settings(bench));
    let context = Context::new(door, door, door, door, &settings);
    json!(bench.drive(admin::answer(context, request, door.now())))
}

/// The request, about App two.
fn of_two(mut request: Value) -> Value {
    request["app"] = json!("two");
    request
}

/// Two Apps of two owners, both made from a manifest.
fn both() -> Bench {
    let bench = bench();
    ask(&bench, create(&make(&bench, "first")));
    let code = make_by(&bench, "second", "beta");
    let made = ask(&bench, of_two(create(&code)));
    assert_eq!((made.get("left"), &made["name"], &made["ok"]), (None, &json!("two"), &json!(true)));
    bench
}

fn apply(bench: &Bench, pools: &[(&str, &str)]) -> Value {
    let pool = |(name, entity): &(&str, &str)| {
        json!({ "name": name, "entity": entity, "labels": ["linux"], "limits": { "max": 3 },
            "instances": { "types": ["m7i.large"] }, "subnets": ["subnet-0a1b2c3d"] })
    };
    let file = json!({ "pools": pools.iter().map(pool).collect::<Vec<_>>() }).to_string();
    damage::ask(bench, &json!({ "action": "pools", "file": file }))
}

/// Each is kept, and GitHub signs its events with a secret of its own, for an address of its own.
#[test]
fn a_second_app_leaves_the_first_as_it_is() {
    let bench = both();
    assert!(is_set_up(&bench), "the first one");
    let hooks = |bench: &Bench| {
        [AppName::MAIN, two()].map(|app| {
            bench.change(|world| {
                let id = world.secrets.apps[&app].app_id.clone();
                let url = world.github.truth.hook(&id).expect("an App").url.clone();
                (url, world.github.truth.hook_secret(&id).map(str::to_owned))
            })
        })
    };
    let [first, second] = hooks(&bench);
    assert_eq!((first.0.as_deref(), second.0), (Some(OWN), Some(format!("{OWN}/two"))));
    assert!(first.1.is_some() && first.1 != second.1);
    assert_eq!(ask(&bench, json!({}))["other_apps"], json!(["two"]));
    assert_eq!(ask(&bench, of_two(json!({})))["hook"]["ours"], true);
    let told: Vec<String> = audit(&bench).into_iter().map(|(_, why)| why).collect();
    assert!(told.iter().any(|why| why == "App two: GitHub creates the App from a manifest"));
    // A new secret is a new one for each.
    ask(&bench, json!({ "rotate": "webhook-secret" }));
    let [new_first, new_second] = hooks(&bench);
    assert!(new_first.1 != first.1 && new_second.1 != second.1 && new_first.1 != new_second.1);
}

/// The secret can be replaced any number of times while GitHub rejects one of the Apps.
#[test]
fn a_broken_app_stops_no_rotation() {
    let bench = both();
    bench.change(|world| world.github.script.apps.insert(two(), AppTrouble::Revoked));
    let secret = |bench: &Bench| bench.change(|world| world.secrets.signing.value.clone());
    for _ in 0..2 {
        let before = secret(&bench);
        let told = ask(&bench, json!({ "rotate": "webhook-secret" }));
        assert!(error(&told).1.contains("muster github --app two hook set"), "{told}");
        assert!(secret(&bench) != before && is_set_up(&bench));
        bench.change(|world| world.now += 60_000);
    }
}

/// A repeated request with the same code finishes what was interrupted, and makes no third App.
#[test]
fn the_same_code_adds_the_app_once() {
    let bench = both();
    let again = ask(&bench, of_two(create("a-code-of-nobody")));
    assert_eq!(error(&again).0, "app_exists", "{again}");
    let set = bench.drive(bench.door.pool_set()).expect("read").expect("a record");
    assert_eq!(set.other_apps, [two()]);
}

#[test]
fn an_app_is_removed_only_when_no_pool_uses_it() {
    let bench = both();
    for (request, code, part) in [
        (json!({ "remove": true }), "bad_request", "the main App cannot be removed"),
        (json!({ "remove": true, "app": "three" }), "not_found", "the stack's Apps are main, two"),
        (json!({ "remove": true, "app": "two", "hook": "set" }), "bad_request", "accepts one of"),
    ] {
        let refused = ask(&bench, request);
        let (kind, told) = error(&refused);
        assert!(kind == code && told.contains(part), "{told}");
    }
    let wrong = apply(&bench, &[("a", "acme"), ("b", "three:beta")]);
    assert_eq!(wrong["error"]["errors"][0]["path"], "pools[1]", "{wrong}");
    assert!(wrong.to_string().contains("the stack has no App named three"), "{wrong}");
    assert_eq!(apply(&bench, &[("a", "acme"), ("b", "two:beta")])["applied"], true);
    let used = ask(&bench, of_two(json!({ "remove": true })));
    assert!(error(&used).1.contains("pool b uses App two"), "{used}");
    // The pool keeps its place until its last machine is gone; the sweep then takes it out.
    apply(&bench, &[("a", "acme")]);
    assert!(error(&ask(&bench, of_two(json!({ "remove": true })))).1.contains("pool b"));
    bench.change(|world| {
        let set = world.tables.pools.take().expect("a record");
        let left = set.without(&"b".parse().expect("a name"));
        world.tables.pools = Some(muster_domain::stored::Stored::read(left, set.version()));
    });
    let removed = ask(&bench, of_two(json!({ "remove": true })));
    assert_eq!((removed.get("left"), &removed["name"]), (None, &json!("main")), "{removed}");
    assert_eq!(removed.get("other_apps"), None);
    assert!(is_set_up(&bench));
    assert!(bench.change(|world| !world.secrets.apps.contains_key(&two())));
    assert_eq!(apply(&bench, &[("a", "acme"), ("b", "two:beta")])["ok"], false);
}

/// A problem of one App is reported with its name, and hides no problem of the other.
#[test]
fn each_app_has_its_own_findings() {
    let bench = both();
    let lacks = |bench: &Bench| {
        let status = damage::ask(bench, &json!({ "action": "status", "github": true }));
        let findings = status["findings"].as_array().expect("findings").clone();
        let of_app = |one: &Value| one["key"].as_str().is_some_and(|key| key.starts_with("app-"));
        let all = findings.into_iter().filter(of_app);
        all.map(|one| one["message"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let before = lacks(&bench);
    let owner = bench.change(|world| world.tables.pools.as_ref()?.app_owner.clone());
    assert_eq!(owner, "acme".parse().ok(), "a pool without entity serves the main App's owner");
    bench.change(|world| world.github.script.apps.insert(two(), AppTrouble::Revoked));
    let told = lacks(&bench);
    let (own, mains): (Vec<_>, Vec<_>) =
        told.iter().cloned().partition(|line| line.starts_with("App two: "));
    assert!(own.iter().any(|line| line.contains("muster github --app two connect")), "{told:?}");
    assert!(mains.iter().all(|line| before.contains(line)), "{told:?}");
}
