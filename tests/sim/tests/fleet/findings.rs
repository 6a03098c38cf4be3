//! Why a pool launches no machine: `status`, `explain` and the notifications agree, in the order of
//! the verdict.

use std::collections::BTreeSet;

use muster_control::Settings;
use muster_control::admin::known_findings;
use muster_control::context::Context;
use muster_control::ports::Write;
use muster_control::sums::PriceWatch;
use muster_domain::ec2::{CooldownScope, ErrorClass};
use muster_domain::job::PassedOver;
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::launch::record::trouble::{Trouble, TroubleScope};
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::{Limits, Scope};
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_sim::schedule;
use serde_json::{Value, json};

use crate::answers::{NOW, ask};
use crate::bench::{Bench, waiting};

type Row = (&'static str, fn(&mut Pool), fn(&Bench), &'static str, Option<&'static str>);

/// What is wrong with the pool, or around it; the kind of its note; and the finding that goes with it.
const ROWS: [Row; 12] = [
    ("nothing", |_| (), |_| (), "", None),
    ("not enabled", |pool| pool.enabled = false, |_| (), "disabled", Some("pool-disabled:small")),
    (
        "removed",
        |pool| pool.removed_at = Some(ago(3_600)),
        |_| (),
        "removed",
        Some("pool-removed:small"),
    ),
    ("launches are paused", |_| (), pause, "paused", Some("launches-paused")),
    ("at its maximum", |_| (), fill, "maximum", Some("pool-maximum:small")),
    ("the stack's limit", |_| (), fill_stack, "limit", Some("limit-reached:stack")),
    (
        "its machines fail",
        |_| (),
        |bench| trouble(bench, pool_scope()),
        "failing",
        Some("pool-failing:small"),
    ),
    (
        "at its maximum, and its machines fail",
        |_| (),
        |bench| {
            fill(bench);
            trouble(bench, pool_scope());
        },
        "maximum",
        Some("pool-failing:small"),
    ),
    (
        "GitHub refuses its owner",
        |_| (),
        |bench| trouble(bench, TroubleScope::Entity("acme".parse().expect("an entity"))),
        "github",
        Some("entity-refused:acme"),
    ),
    (
        "GitHub's rate limit",
        |_| (),
        |bench| trouble(bench, TroubleScope::Limit("acme".parse().expect("an entity"))),
        "github",
        Some("github-limit:acme"),
    ),
    ("GitHub withholds its jobs", |_| (), withhold, "withheld", Some("pool-withheld:small")),
    ("EC2 refuses", |_| (), refuse, "ec2", Some("ec2-refuses-pool:small")),
];

fn ago(seconds: u32) -> Time {
    NOW - Seconds(seconds)
}

fn pool_scope() -> TroubleScope {
    TroubleScope::Pool("small".parse().expect("a pool"))
}

fn pause(bench: &Bench) {
    ask(bench, json!({ "action": "switch", "launches": "off", "reason": "moving", "by": "mira" }));
}

fn fill(bench: &Bench) {
    let mut capacity = Capacity::empty("small".parse().expect("a pool"));
    capacity.live = 2;
    bench.put(&[Change::create(capacity).into()]);
}

fn fill_stack(bench: &Bench) {
    bench.put(&[Write::CountUp { scope: Scope::Stack, count: 10, max: 10 }]);
}

fn trouble(bench: &Bench, scope: TroubleScope) {
    let trouble = Trouble {
        scope,
        generation: 0,
        by_machine: true,
        since: ago(90_000),
        at: ago(20),
        failures: 4,
        probes: 1,
        certain: false,
        probed_at: None,
        until: NOW + Seconds(220),
        fixed_at: None,
        last: None,
        reason: "403: no".to_owned(),
    };
    let known = Cooldowns { troubles: [trouble].into(), ..Cooldowns::default() };
    bench.put(&[Change::create(known).into()]);
}

fn withhold(bench: &Bench) {
    bench.change(|world| world.tables.jobs.clear());
    let jobs = [1, 2].map(|n| {
        let mut job = waiting(n, ago(400));
        job.passed_over = Some(PassedOver { times: 1, at: ago(1) });
        Change::create(job).into()
    });
    bench.put(&jobs);
}

fn refuse(bench: &Bench) {
    let cooldown = Cooldown {
        closed: CooldownScope::Pool("small".parse().expect("a pool")),
        since: ago(90),
        at: ago(60),
        until: NOW + Seconds(120),
        times: 2,
        class: ErrorClass::Configuration,
        code: "InvalidSubnetID.NotFound".to_owned(),
        message: "there is no such subnet".to_owned(),
    };
    let known = Cooldowns { list: [cooldown].into(), ..Cooldowns::default() };
    bench.put(&[Change::create(known).into()]);
}

fn keys(findings: &Value) -> Vec<&str> {
    let all = findings.as_array().into_iter().flatten();
    all.filter_map(|one| one["key"].as_str()).collect()
}

/// What the notifications are made of.
fn sent(bench: &Bench) -> Value {
    let door = &bench.door;
    let limits =
        Limits { stack: Some(10), entities: [("Acme".parse().expect("an entity"), 5)].into() };
    let settings = Settings { limits, ..door.sim.settings.clone() };
    let context = Context::new(door, door, door, door, &settings);
    json!(bench.drive(known_findings(context, NOW)).expect("read"))
}

/// Each source that AWS denies, and what the finding names. No job waits for a price.
#[test]
fn a_source_of_prices_that_is_refused_is_reported_and_explains_no_wait() {
    let rows: [(&[&str], &[&str]); 4] = [
        (&[], &[]),
        (&["DescribeSpotPriceHistory"], &["ec2:DescribeSpotPriceHistory"]),
        (&["GetProducts"], &["pricing:GetProducts"]),
        (
            &["DescribeSpotPriceHistory", "GetProducts"],
            &["ec2:DescribeSpotPriceHistory", "pricing:GetProducts"],
        ),
    ];
    for (refused, permissions) in rows {
        let bench = Bench::of(vec![schedule::pool("small", &["linux"], 2, "spot", Some("acme"))]);
        bench.put(&[Change::create(waiting(1, ago(400))).into()]);
        bench.change(|world| world.ec2.without_prices = refused.to_vec());
        let door = &bench.door;
        let watch = PriceWatch { context: Context::new(door, &(), door, &(), &door.sim.settings) };
        let problems = bench.drive(watch.look(&BTreeSet::new(), ago(60))).expect("looked");
        assert_eq!(problems.is_empty(), refused.is_empty(), "{refused:?}: {problems:?}");
        let status = ask(&bench, json!({ "action": "status" }));
        let overview = ask(&bench, json!({ "action": "overview" }));
        let explained = ask(&bench, json!({ "action": "explain", "job": "1/1" }));
        let findings = status["findings"].as_array().expect("a list");
        assert_eq!(status["findings"], overview["findings"], "{refused:?}");
        assert_eq!(status["findings"], sent(&bench), "{refused:?}");
        assert_eq!(explained["findings"], Value::Null, "{refused:?}");
        assert_eq!(findings.len(), permissions.len(), "{refused:?}: {findings:?}");
        for (finding, permission) in findings.iter().zip(permissions) {
            let (message, fix) = (finding["message"].to_string(), finding["fix"].to_string());
            assert_eq!(finding["since"], json!(ago(60)), "{refused:?}");
            assert!(message.contains("(AccessDenied)"), "{message}");
            assert!(fix.contains(&format!("allow {permission} for")), "{fix}");
        }
    }
}

#[test]
fn every_answer_gives_the_same_reason() {
    for (name, change, cause, kind, key) in ROWS {
        let mut pool = schedule::pool("small", &["linux"], 2, "spot", Some("acme"));
        change(&mut pool);
        let bench = Bench::of(vec![pool]);
        bench.put(&[1, 2].map(|n| Change::create(waiting(n, ago(400))).into()));
        cause(&bench);
        let status = ask(&bench, json!({ "action": "status" }));
        let overview = ask(&bench, json!({ "action": "overview" }));
        let explained = ask(&bench, json!({ "action": "explain", "job": "1/1" }));
        let note = &status["pools"][0]["note"];
        assert_eq!(note["kind"].as_str().unwrap_or_default(), kind, "{name}: {note}");
        assert_eq!(status["findings"], overview["findings"], "{name}");
        assert_eq!(status["findings"], sent(&bench), "{name}");
        let all = keys(&status["findings"]);
        assert_eq!(all.is_empty(), key.is_none(), "{name}: {all:?}");
        assert!(key.is_none_or(|key| all.contains(&key)), "{name}: {all:?}");
        // Of one pool all of them concern its jobs.
        assert_eq!(
            explained["findings"],
            match key {
                None => Value::Null,
                Some(_) => status["findings"].clone(),
            },
            "{name}"
        );
        let sentences = explained["explanation"].to_string();
        assert_eq!(
            sentences.contains("No machine is launched"),
            key.is_some(),
            "{name}: {sentences}"
        );
        assert!(kind != "maximum" || sentences.contains("at its maximum"), "{name}: {sentences}");
    }
}
