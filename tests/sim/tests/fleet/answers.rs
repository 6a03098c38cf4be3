//! Every answer of the admin function, as a caller reads it: compared with the file of its name in
//! `answers/`.
//!
//! After a change that is meant to change an answer: `UPDATE=1 cargo test -p muster-sim --test
//! fleet`.

use std::path::Path;

use muster_api::Reply;
use muster_conformance::records;
use muster_control::Settings;
use muster_control::admin::Admin;
use muster_control::context::Context;
use muster_control::ports::{Instances, ReadError, Unavailable, Write};
use muster_domain::agent::{Agents, ListedAgent, RefusedAgent};
use muster_domain::app::AppSettings;
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::ec2::{CooldownScope, ErrorClass, Make, Market};
use muster_domain::ids::{AppName, Entity, JobKey, PoolName, RunnerId};
use muster_domain::instance::{Ages, DeleteReason, Instance, Slot, Waiting};
use muster_domain::job::labels::Labels;
use muster_domain::job::{Approval, Job, JobStatus, Moved};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::launch::record::trouble::{Trouble, TroubleScope};
use muster_domain::orphan::Orphan;
use muster_domain::pool::limits::{Limits, Scope};
use muster_domain::provider::ErrorDetail;
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_domain::usage::{Learned, Prices};
use muster_sim::agenda::Millis;
use muster_sim::fault::Fault;
use muster_sim::github;
use muster_sim::schedule;
use muster_sim::world::{Window, World};
use serde_json::{Value, json};

use crate::bench::{Bench, waiting};

/// When everything is asked. The simulated calls take time, and no answer is to depend on how many
/// there were before.
pub(crate) const NOW: Time = Time::from_millis(1_795_219_200_000);

fn ago(seconds: i64) -> Time {
    Time::from_millis(NOW.as_millis() - 1000 * seconds)
}

pub(crate) fn ask(bench: &Bench, request: Value) -> Value {
    json!(reply(bench, request))
}

/// The answer at another time.
pub(crate) fn ask_at(bench: &Bench, request: Value, now: Time) -> Value {
    json!(reply_at(bench, request, now))
}

fn reply(bench: &Bench, request: Value) -> Reply {
    reply_at(bench, request, NOW)
}

fn reply_at(bench: &Bench, request: Value, now: Time) -> Reply {
    let door = &bench.door;
    let limits =
        Limits { stack: Some(10), entities: [("Acme".parse().expect("an entity"), 5)].into() };
    let settings = &Settings { limits, ..door.sim.settings.clone() };
    let pass = Admin { context: Context::new(door, door, door, door, settings) };
    let mut request = request;
    request["version"] = json!(1);
    bench.drive(pass.answer(request, now))
}

/// Compares an answer with the file of its name.
fn compare(name: &str, answer: &Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/answers");
    let path = folder.join(name).with_extension("json");
    let told = format!("{}\n", folded(answer, 0, 0));
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(&path, told).expect("writable");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(told, recorded, "{name}");
}

/// Renders JSON in lines of at most 110 columns where values allow it: what fits into a line is on one.
fn folded(value: &Value, indent: usize, taken: usize) -> String {
    let flat = value.to_string();
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(all) => {
            all.iter().map(|(name, part)| (format!("{name:?}: "), part)).collect()
        }
        Value::Array(all) => all.iter().map(|part| (String::new(), part)).collect(),
        _ => return flat,
    };
    if parts.is_empty() || indent + taken + flat.chars().count() <= 110 {
        return flat;
    }
    let inner = " ".repeat(indent + 2);
    let parts = parts.iter().map(|(name, part)| {
        format!("{inner}{name}{}", folded(part, indent + 2, name.chars().count() + 1))
    });
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    format!("{open}\n{}\n{}{close}", parts.collect::<Vec<_>>().join(",\n"), " ".repeat(indent))
}

pub(crate) fn check(bench: &Bench, name: &str, request: Value) {
    compare(name, &ask(bench, request));
}

fn error(operation: &str, code: &str) -> ErrorDetail {
    let (at, message) = (ago(60), "not this time".to_owned());
    ErrorDetail { at, operation: operation.to_owned(), code: code.to_owned(), message }
}

/// A pool for all and a pool of an organization's.
pub(crate) fn quiet() -> Bench {
    Bench::of(vec![
        schedule::pool("small", &["linux"], 20, "spot", None),
        schedule::pool("own", &["linux", "x64"], 5, "on-demand", Some("acme")),
    ])
}

/// Two runners, one of them on its way out with a claim; a job for each of two reasons to wait.
fn busy() -> (Bench, Vec<Instance>) {
    let bench = quiet();
    let mut rows = bench.idle(2);
    bench.make_due(&mut rows[1]);
    rows[1].set_claim(JobKey { app: AppName::MAIN, repository: 1, job: 1 }, ago(200));
    rows[1].update_mark(|mark| mark.waiting = Some(Waiting::SecondRead));
    bench.store(&rows);
    let mut claimed = waiting(1, ago(300));
    claimed.claim = Some(rows[1].name.clone());
    let mut held = waiting(2, ago(100));
    let from = "own".parse().expect("a pool");
    held.moved = Some(Moved { from, at: ago(30), why: "the pool is at its maximum".to_owned() });
    bench.put(&[claimed, held].map(|job| Change::create(job).into()));
    (bench, rows)
}

/// A job for each of three reasons that keep it from every pool.
fn unserved(bench: &Bench) {
    let why = |job: &mut Job, why: &str| {
        (job.pool, job.unmatched) = (None, Some(why.to_owned()));
    };
    let mut public = waiting(4, ago(4000));
    why(&mut public, "pool small: the repository is public and the pool refuses those");
    let mut label = waiting(5, ago(60));
    why(&mut label, "pool small: no pool has the label \"gpu\"");
    let mut gated = waiting(6, ago(500));
    gated.approval = Some(Approval::Closed(ago(400)));
    bench.put(&[public, label, gated].map(|job| Change::create(job).into()));
}

/// One pool's image has an agent that GitHub takes for a while, the other's one that it has refused.
fn agents() -> Agents {
    let version = |text: &str| text.parse().expect("a version");
    let listed = |text: &str, since| ListedAgent { version: version(text), since };
    let refused = RefusedAgent { version: version("2.334.0"), at: ago(50) };
    let images = [("small", "2.335.0"), ("own", "2.334.0")];
    Agents {
        listed: [listed("2.335.0", ago(5_000_000)), listed("2.336.0", ago(2_000_000))].into(),
        refused: [refused].into(),
        images: images.map(|(pool, text)| (pool.parse().expect("a pool"), version(text))).into(),
        ..Agents::default()
    }
}

/// What a stack's operator does not want to see.
fn add_troubles(bench: &Bench) {
    let own: PoolName = "own".parse().expect("a pool");
    let cooldown = Cooldown {
        closed: CooldownScope::Pool(own.clone()),
        since: ago(90),
        at: ago(60),
        until: NOW + Seconds(120),
        times: 2,
        class: ErrorClass::Configuration,
        code: "InvalidSubnetID.NotFound".to_owned(),
        message: "there is no such subnet".to_owned(),
    };
    let trouble = |scope, by_machine, reason: &str| Trouble {
        scope,
        generation: 0,
        by_machine,
        since: ago(200),
        at: ago(20),
        failures: 4,
        probes: 1,
        certain: false,
        probed_at: Some(ago(20)),
        until: NOW + Seconds(220),
        fixed_at: None,
        last: None,
        reason: reason.to_owned(),
    };
    let acme: Entity = "acme".parse().expect("an entity");
    let mut small = trouble(
        TroubleScope::Pool("small".parse().expect("a pool")),
        true,
        "the machine did not start a runner",
    );
    small.last = Some("small-7-0".parse().expect("a name"));
    let troubles = [
        small,
        trouble(TroubleScope::Entity(acme.clone()), false, "401: bad credentials"),
        trouble(TroubleScope::Limit(acme.clone()), false, "the rate limit is reached"),
        trouble(TroubleScope::PoolOfEntity(own, acme), true, "404: there is no such group"),
    ];
    let orphan = Orphan {
        attempts: 3,
        last_error: Some(error("TerminateInstances", "UnauthorizedOperation")),
        ..records::orphan(9)
    };
    let (scope, max) = (Scope::Stack, 10);
    bench.put(&[
        Change::create(Cooldowns {
            list: [cooldown].into(),
            troubles: troubles.into(),
            apart: [["subnet-a".into(), "subnet-b".into()].into()].into(),
            agents: agents(),
            ..Cooldowns::default()
        })
        .into(),
        Write::Orphan(Change::create(orphan)),
        Write::Orphan(Change::create(Orphan::found(records::machine(8), None, ago(3_600)))),
        Write::CountUp { scope, count: 2, max },
    ]);
}

fn file(max: u32) -> String {
    let pools = [("small", &["linux"][..]), ("new", &["arm64"][..])].map(|(name, labels)| {
        json!({ "name": name, "labels": labels, "subnets": ["subnet-0a1b2c3d"],
            "instances": { "types": ["m7i.large"] }, "limits": { "max": max } })
    });
    json!({ "pools": pools }).to_string()
}

#[test]
fn lists() {
    let (bench, _) = busy();
    check(&bench, "list", json!({ "action": "list" }));
    check(&bench, "list_in_part", json!({ "action": "list", "limit": 1 }));
    check(&bench, "jobs", json!({ "action": "jobs" }));
    check(&bench, "jobs_of_a_pool", json!({ "action": "jobs", "pool": "own" }));
    let third = waiting(3, ago(10));
    unserved(&bench);
    check(&bench, "jobs_unserved", json!({ "action": "jobs" }));
    bench.put(&[Change::create(third).into()]);
    check(&bench, "jobs_in_part", json!({ "action": "jobs", "limit": 4 }));
}

#[test]
fn adoption() {
    let bench = quiet();
    bench.change(|world| {
        for labels in [&["linux"][..], &["self-hosted", "gpu"], &["ubuntu-latest"]] {
            let number = u32::try_from(world.github.jobs.len()).expect("few");
            let labels = Labels::new(labels);
            world.github.jobs.push(github::Job::planned(number, "acme/web", true, labels, None));
            world.queue_job(number);
        }
    });
    let adopt =
        |repository: &str| json!({ "action": "jobs", "adopt": true, "repository": repository });
    bench.change(|world| {
        // One more repository, which everybody sees, without a job now.
        let number = u32::try_from(world.github.jobs.len()).expect("few");
        let labels = Labels::new(["linux"]);
        world.github.jobs.push(github::Job::planned(number, "acme/site", false, labels, None));
    });
    let repositories = json!({ "action": "github", "repositories": true });
    check(&bench, "github_repositories", repositories.clone());
    check(&bench, "jobs_adopted", adopt("acme/web"));
    let queued = ask(&bench, repositories)["repositories"][1]["queued"].clone();
    assert_eq!(queued, 0, "what is on record was told of");
    check(&bench, "jobs_adopted_again", adopt("acme/web"));
    for (request, code) in [
        (adopt("acme"), "bad_request"),
        (json!({ "action": "jobs", "adopt": true }), "bad_request"),
        (json!({ "action": "jobs", "repository": "acme/web" }), "bad_request"),
    ] {
        assert_eq!(ask(&bench, request.clone())["error"]["code"], code, "{request}");
    }
    bench.change(|world| world.github.script.refuses.insert("acme".to_owned()));
    assert_eq!(ask(&bench, adopt("acme/web"))["error"]["code"], "not_allowed");
}

#[test]
fn audit() {
    let (bench, rows) = busy();
    let line = |seconds, kind, subject: &str, why: &str| {
        let (subject, by, why) = (subject.to_owned(), "mira".to_owned(), why.to_owned());
        Write::Audit(Audit { at: ago(seconds), kind, subject, by, why })
    };
    let (name, days) = (rows[0].name.as_str(), 24 * 3600);
    bench.put(&[
        line(8 * days, AuditKind::Ordered, name, "too old to be told"),
        line(2 * days, AuditKind::Refused, name, "a job runs on it"),
        line(300, AuditKind::Switched, "switches", "launches off: moving subnets"),
        line(200, AuditKind::Ordered, name, "old image"),
    ]);
    check(&bench, "audit", json!({ "action": "audit" }));
    let part = ask(&bench, json!({ "action": "audit", "limit": 2 }));
    compare("audit_in_part", &part);
    let rest = ask(&bench, json!({ "action": "audit", "until": part["next"], "limit": 2 }));
    assert_eq!(
        (rest["lines"][0]["why"].as_str(), &rest["next"]),
        (Some("a job runs on it"), &Value::Null)
    );
    // Columns: the request; the lines, by the second before now at which each was written; whether there are more.
    let rows: [(Value, Option<&[i64]>, bool); 14] = [
        (json!({}), Some(&[200, 300, 2 * days]), false),
        (json!({ "limit": 3 }), Some(&[200, 300, 2 * days]), false),
        (json!({ "limit": 2 }), Some(&[200, 300]), true),
        (json!({ "since": ago(9 * days) }), Some(&[200, 300, 2 * days, 8 * days]), false),
        (json!({ "until": ago(2 * days) }), Some(&[2 * days, 8 * days]), false),
        (json!({ "since": ago(300), "until": ago(300) }), Some(&[300]), false),
        (json!({ "subject": name }), Some(&[200, 2 * days]), false),
        (json!({ "subject": name, "limit": 1 }), Some(&[200]), true),
        (json!({ "subject": name, "limit": 2 }), Some(&[200, 2 * days]), false),
        (
            json!({ "subject": name, "since": ago(9 * days), "until": ago(300) }),
            Some(&[2 * days, 8 * days]),
            false,
        ),
        (
            json!({ "limit": 5_000, "since": ago(400 * days - 60) }),
            Some(&[200, 300, 2 * days, 8 * days]),
            false,
        ),
        (json!({ "limit": 5_001 }), None, false),
        (json!({ "limit": 0 }), None, false),
        (json!({ "since": ago(400 * days) }), None, false),
    ];
    for (fields, seconds, is_part) in rows {
        let mut request = fields.clone();
        request["action"] = json!("audit");
        let answer = ask(&bench, request);
        let Some(seconds) = seconds else {
            assert_eq!(answer["error"]["code"], "bad_request", "{fields}");
            continue;
        };
        let lines =
            answer["lines"].as_array().unwrap_or_else(|| panic!("{fields}: {answer}")).iter();
        let found: Vec<Value> = lines.map(|line| line["at"].clone()).collect();
        let expected: Vec<Value> = seconds.iter().map(|seconds| json!(ago(*seconds))).collect();
        assert_eq!((found, answer["next"].is_string()), (expected, is_part), "{fields}");
    }
}

#[test]
fn single_records() {
    let (bench, rows) = busy();
    let machine = rows[0].machine().expect("a machine").as_str();
    check(&bench, "show", json!({ "action": "show", "name": machine }));
    let mut planned = records::planned(1, None);
    planned.pool = rows[0].pool.clone();
    bench.put(&[Change::create(planned.clone()).into()]);
    check(&bench, "show_planned", json!({ "action": "show", "name": planned.name.as_str() }));
    let name = rows[1].name.as_str();
    check(&bench, "explain_instance", json!({ "action": "explain", "name": name }));
    check(&bench, "explain_machine", json!({ "action": "explain", "name": machine }));
    check(&bench, "explain_job", json!({ "action": "explain", "job": "1/2" }));
}

/// A job that has run, on a machine that is gone: what its wait was made of, and what it cost.
#[test]
fn a_job_that_is_over() {
    let bench = quiet();
    let mut row = came_up(&bench.idle(1)[0], 0);
    let kind = Some("m7i.large".into());
    row.make =
        Make { kind, zone: Some("use1-az1".into()), subnet: None, market: Some(Market::Spot) };
    let mut job = waiting(7, ago(610));
    job.seen_at = ago(609);
    job.last_event.runner = Some(row.runner_name());
    job.last_event.runner_id = row.runner.id;
    job.last_event.status = JobStatus::Completed;
    job.last_event.started_at = Some(ago(530));
    job.last_event.completed_at = Some(ago(110));
    job.last_event.conclusion = Some("success".to_owned());
    row.runner.ran = Some(job.key());
    row.to_pending_delete(DeleteReason::MachineGone, ago(105));
    row.to_deleting(ago(105), "the test", &Timings::default());
    row.ended_at = Some(ago(104));
    row.to_deleted(ago(100), "the test");
    bench.store(&[row]);
    let mut prices = Prices::default();
    let zones = [("use1-az1".into(), 40_100)].into();
    prices.learn(Learned::Spot("m7i.large".into(), zones), ago(3_000));
    prices.learn(Learned::List("m7i.large".into(), Some(100_800)), ago(3_000));
    bench.put(&[Change::create(job).into(), Change::create(prices).into()]);
    check(&bench, "explain_job_over", json!({ "action": "explain", "job": "1/7" }));
}

/// Columns: the seconds since the order, and what the end waits for; whether it is late.
#[test]
fn an_end_is_late_after_a_quarter_of_an_hour_unless_a_job_runs() {
    for (age, waiting_for, is_late) in [
        (890, None, false),
        (910, None, true),
        (910, Some(Waiting::Provider), true),
        (910, Some(Waiting::JobRunning), false),
        (9_000, Some(Waiting::Busy), false),
    ] {
        let bench = quiet();
        let mut row = bench.idle(1).remove(0);
        row.to_pending_delete(DeleteReason::Idle, ago(age));
        row.update_mark(|mark| mark.waiting.clone_from(&waiting_for));
        bench.store(&[row]);
        let status = ask(&bench, json!({ "action": "status" }));
        let pool =
            status["pools"].as_array().expect("pools").iter().find(|one| one["name"] == "small");
        let late = pool.is_some_and(|pool| pool["late_end"].is_object());
        assert_eq!(late, is_late, "{age}, {waiting_for:?}: {pool:?}");
    }
}

#[test]
fn phases_of_two_images_are_two_entries() {
    let bench = quiet();
    let mut rows: Vec<Instance> = bench.idle(4).iter().map(|row| came_up(row, 0)).collect();
    for (row, image) in rows.iter_mut().zip([None, Some(1), Some(2), Some(1)]) {
        row.image = image.map(|n| format!("ami-{n:08x}").parse().expect("an image"));
    }
    bench.store(&rows);
    let answer = ask(&bench, json!({ "action": "phases" }));
    let pools = answer["pools"].as_array().expect("pools").iter();
    let own =
        pools.filter(|one| one["pool"] == "small" && one["phases"][0]["machines"].is_number());
    let mut machines: Vec<(String, u64)> = own
        .map(|one| {
            (one["image"].to_string(), one["phases"][0]["machines"].as_u64().expect("a number"))
        })
        .collect();
    machines.sort();
    let image = |n: u32| format!("\"ami-{n:08x}\"");
    assert_eq!(machines, [(image(1), 2), (image(2), 1), ("null".to_owned(), 1)], "{answer}");
}

/// Of the machines that live, and of those that have ended.
#[test]
fn phases() {
    let bench = quiet();
    let mut rows: Vec<Instance> =
        [0, 1, 4].into_iter().zip(bench.idle(3)).map(|(late, idle)| came_up(&idle, late)).collect();
    rows[2].to_pending_delete(DeleteReason::Idle, ago(60));
    rows[2].to_deleting(ago(60), "the test", &Timings::default());
    rows[2].to_deleted(ago(30), "the test");
    bench.store(&rows);
    check(&bench, "phases", json!({ "action": "phases" }));
}

/// A machine of ten minutes ago, some seconds later than others at each step.
fn came_up(idle: &Instance, late: i64) -> Instance {
    let Instance { name, pool, entity, installation, launch, .. } = idle.clone();
    let machine = idle.machine().expect("a machine").clone();
    let slot = Slot { name, pool, entity, installation, launch, claim: None };
    let (timings, at) = (Timings::default(), |second: i64| ago(600 - second));
    let mut row = Instance::planned(slot, at(0), &timings);
    row.bind(machine, at(1 + late), &timings);
    row.ask_configuration(at(60 + 3 * late)).expect("asked");
    let ages = Ages { running: Some(54_000), booted: Some(36_000), prepared: Some(2_000) };
    row.came_up(ages, at(60 + 3 * late));
    row.configured(RunnerId(1), at(60 + 3 * late));
    let name = row.runner_name();
    row.runner_started(&name, at(63 + 4 * late), &timings).expect("started");
    row
}

#[test]
fn status() {
    let shown = |bench: &Bench| {
        let mut answer = ask(bench, json!({ "action": "status", "github": true }));
        assert_eq!(answer["release"], muster_control::RELEASE);
        answer["release"] = json!("(the release)");
        answer
    };
    let short = |bench: &Bench| {
        let mut answer = ask(bench, json!({ "action": "overview" }));
        answer["release"] = json!("(the release)");
        answer
    };
    compare("status_quiet", &shown(&quiet()));
    compare("overview_quiet", &short(&quiet()));
    let (bench, _) = busy();
    add_troubles(&bench);
    unserved(&bench);
    let off = json!({ "action": "switch", "launches": "off", "pools": { "own": "off" },
        "reason": "moving subnets", "by": "mira" });
    check(&bench, "switch", off);
    bench.change(|world| app(world).events = vec!["push".to_owned()]);
    compare("status", &shown(&bench));
    compare("overview", &short(&bench));
    bench.change(|world| {
        let (fault, from) = (Fault::OutageGithub, world.now);
        world.windows.push(Window { fault, from, until: Millis::MAX });
    });
    let told = shown(&bench);
    let unknown = |one: &&Value| one["key"] == "app-unknown";
    let unknown: Vec<&Value> =
        told["findings"].as_array().expect("a list").iter().filter(unknown).collect();
    compare("status_without_github", &json!(unknown));
}

fn app(world: &mut World) -> &mut AppSettings {
    world.app.app.as_mut().expect("an App")
}

#[test]
fn pools() {
    let bench = quiet();
    check(&bench, "pools_of_parameters", json!({ "action": "pools" }));
    check(&bench, "pools_history_empty", json!({ "action": "pools", "history": true }));
    let apply = |max, dry_run| {
        json!({ "action": "pools", "file": file(max), "dry_run": dry_run, "by": "mira",
            "reason": "more room" })
    };
    check(&bench, "pools_dry_run", apply(4, true));
    check(&bench, "pools_applied", apply(4, false));
    check(&bench, "pools_unchanged", apply(4, false));
    check(&bench, "pools", json!({ "action": "pools" }));
    check(&bench, "pools_applied_again", apply(6, false));
    check(&bench, "pools_history", json!({ "action": "pools", "history": true }));
    check(&bench, "pools_restored", json!({ "action": "pools", "restore": 1 }));
}

#[test]
fn deletes() {
    let (bench, rows) = busy();
    let order = |row: &Instance, dry_run| {
        json!({ "action": "delete", "name": row.name.as_str(), "dry_run": dry_run, "by": "mira",
            "reason": "old image" })
    };
    check(&bench, "delete_dry_run", order(&rows[0], true));
    check(&bench, "delete", order(&rows[0], false));
    let mut forced = order(&rows[1], false);
    forced["force"] = json!(true);
    check(&bench, "delete_forced", forced);
    let mut killing = order(&rows[0], false);
    killing["kill_running_job"] = json!(true);
    check(&bench, "delete_killing", killing);
}

#[test]
fn canaries() {
    let bench = quiet();
    let order = |dry_run| {
        json!({ "action": "canary", "pool": "small", "entity": "acme", "by": "mira",
            "dry_run": dry_run })
    };
    check(&bench, "canary_dry_run", order(true));
    assert_eq!(bench.change(|world| world.tables.instances.len()), 0);
    let mut ordered = ask(&bench, order(false));
    let name = ordered["name"].clone();
    let shown = ask(&bench, json!({ "action": "show", "name": name }));
    assert_eq!(shown["audit"][0]["kind"], "canary_ordered", "{shown}");
    assert_eq!(shown["instance"]["entity"], "acme", "{shown}");
    ordered["name"] = json!("(its name)");
    compare("canary", &ordered);
}

#[test]
fn errors() {
    let (bench, rows) = busy();
    check(&bench, "error", json!({ "action": "show", "name": "nothing-0-0" }));
    let mistaken = json!({ "pools": [{ "name": "a b" }] }).to_string();
    check(&bench, "error_of_a_file", json!({ "action": "pools", "file": mistaken }));
    let busy = rows[0].name.clone();
    let mut row = rows[0].clone();
    assert!(row.github_started(JobKey { app: AppName::MAIN, repository: 1, job: 7 }, ago(5)));
    let stored = bench.drive(bench.door.instance(&busy)).expect("read").expect("stored");
    bench.put(&[stored.change(row).into()]);
    let order = json!({ "action": "delete", "name": busy.as_str(), "reason": "old image" });
    check(&bench, "error_busy", order);
    let no_answer = ReadError::Unavailable(Unavailable::new("no answer"));
    compare("error_unavailable", &json!(Reply { outcome: Err(no_answer.into()) }));
}
