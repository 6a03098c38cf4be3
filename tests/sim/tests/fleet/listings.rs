//! What operators are shown of many records.

use std::collections::BTreeSet;

use muster_control::admin::Admin;
use muster_control::context::Context;
use muster_control::jobs::ingest::Ingest;
use muster_control::ports::{Table, Write};
use muster_control::reaps::sweep::Sweep;
use muster_domain::ec2::{Make, Market};
use muster_domain::job::{Approval, JobEvent, JobStatus};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::trouble::RequestKind;
use muster_domain::pool::limits::{Balance, Limits};
use muster_domain::pool_set::PoolSet;
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::stored::Change;
use muster_domain::time::Seconds;
use muster_sim::agenda::MINUTE;
use muster_sim::schedule;
use serde_json::{Value, json};

use crate::answers::{self, NOW, quiet};
use crate::bench::{Bench, waiting};

pub(crate) fn ask(bench: &Bench, request: Value) -> Value {
    ask_with(bench, request, |_| ())
}

/// The same, with something done before each call.
pub(crate) fn ask_with(bench: &Bench, request: Value, before: impl FnMut(usize)) -> Value {
    bench.drive_with(answer(bench, request), before)
}

/// The same, for whoever drives it.
pub(crate) async fn answer(bench: &Bench, request: Value) -> Value {
    let door = &bench.door;
    let settings = &door.sim.settings;
    let pass = Admin { context: Context::new(door, door, door, door, settings) };
    json!(pass.answer(request, door.now()).await)
}

#[test]
fn a_version_whose_machines_would_outlive_the_stacks_is_not_restored() {
    let bench = Bench::new();
    for (version, hours) in [(8, 4), (9, 5)] {
        let mut pools = bench.door.sim.settings.pools.clone();
        pools[0].max_lifetime_seconds = Seconds(hours * 3600);
        let set = PoolSet::from_parameters(pools, Limits::default(), Balance::default());
        let kept = Write::PoolsVersion(Box::new(PoolSet { version, ..set }));
        bench.drive(bench.door.commit(&[kept])).expect("committed");
    }
    let restore = |version| json!({"version": 1, "action": "pools", "restore": version, "by": "a"});
    let refused = ask(&bench, restore(9));
    assert_eq!(refused["error"]["errors"][0]["path"], "pools[0].limits.max_lifetime", "{refused}");
    let restored = ask(&bench, restore(8));
    assert_eq!(restored["applied"], true, "{restored}");
}

#[test]
fn a_list_says_when_it_is_not_all() {
    let bench = Bench::new();
    bench.store(&bench.idle(250));
    for (request, shown, more) in [
        (json!({"version": 1, "action": "list"}), 200, true),
        (json!({"version": 1, "action": "list", "limit": 249}), 249, true),
        (json!({"version": 1, "action": "list", "limit": 250}), 250, false),
        (json!({"version": 1, "action": "list", "state": "deleting"}), 0, false),
    ] {
        let answer = ask(&bench, request.clone());
        assert_eq!(answer["instances"].as_array().map(Vec::len), Some(shown), "{request}");
        assert_eq!(answer["more"], json!(more), "{request}");
        assert_eq!(answer.get("next").is_some(), more, "{request}");
    }
}

/// All pages of a list, and how many there were.
fn all(bench: &Bench, request: &Value, list: &str) -> (Vec<Value>, usize) {
    let (mut rows, mut request) = (Vec::new(), request.clone());
    for pages in 1.. {
        let answer = ask(bench, request.clone());
        let found = answer[list].as_array().unwrap_or_else(|| panic!("{answer}"));
        rows.extend(found.iter().cloned());
        request["page"] = answer["next"].clone();
        if request["page"].is_null() {
            return (rows, pages);
        }
    }
    unreachable!("it ends")
}

fn each_once(rows: &[Value], name: &str) -> usize {
    let names: BTreeSet<String> = rows.iter().map(|row| row[name].to_string()).collect();
    assert_eq!(names.len(), rows.len(), "one of them twice");
    names.len()
}

/// A fleet of hundreds of machines, for a script that must see all of them.
#[test]
fn pages_have_each_instance_of_all_pools_once() {
    let bench = quiet();
    let mut rows = bench.idle(250);
    rows.iter_mut().skip(130).for_each(|row| row.pool = "own".parse().expect("a pool"));
    bench.store(&rows);
    let list = |more: Value| {
        let mut request = json!({"version": 1, "action": "list"});
        request.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        request
    };
    for (request, count, pages) in [
        (list(json!({"limit": 1000})), 250, 1),
        (list(json!({"limit": 100})), 250, 3),
        (list(json!({"limit": 7})), 250, 36),
        (list(json!({"limit": 50, "pool": "own"})), 120, 3),
        // 24, 124, 224, and 240 to 249.
        (list(json!({"limit": 4, "q": "-L24"})), 11, 3),
        (list(json!({"limit": 4, "q": "no such text"})), 0, 1),
    ] {
        let (rows, asked) = all(&bench, &request, "instances");
        assert_eq!((each_once(&rows, "name"), asked), (count, pages), "{request}");
    }
    let next = ask(&bench, list(json!({"limit": 200})))["next"].clone();
    for (page, part) in [(json!("200"), "pass it unchanged"), (next, "does not list")] {
        let refused = ask(&bench, list(json!({"pool": "small", "page": page})));
        assert_eq!(refused["error"]["code"], "bad_request", "{refused}");
        assert!(refused["error"]["message"].to_string().contains(part), "{refused}");
    }
}

/// Whatever they wait for, and with the reason that they have in a list that is whole: what comes
/// before takes its room, on whatever page it is.
#[test]
fn pages_have_each_waiting_job_once() {
    let bench = Bench::of(vec![schedule::pool("small", &["linux"], 5, "spot", None)]);
    for n in 0..30 {
        let ago = Seconds(100 - u32::try_from(n).expect("few"));
        let mut job = waiting(n, NOW - ago);
        match n % 10 {
            0 => job.claim = Some(format!("small-l{n}-0").parse().expect("a name")),
            1 => (job.pool, job.unmatched) = (None, Some("no pool has the label".to_owned())),
            2 => job.approval = Some(Approval::Closed(bench.door.now())),
            _ => job.last_event.repository = format!("acme/app{}", n % 3).into(),
        }
        bench.put(&[Change::create(job).into()]);
    }
    let lists = ["jobs", "unserved", "waiting_for_approval"];
    let of = |request: &Value| {
        lists.map(|list| {
            let rows = all(&bench, request, list).0;
            each_once(&rows, "job");
            rows
        })
    };
    let words = |jobs: &[Value]| -> Vec<String> {
        jobs.iter().map(|row| format!("{}: {}", row["waits_for"], row["why"])).collect()
    };
    let request = json!({"version": 1, "action": "jobs"});
    let whole = of(&request);
    assert_eq!(whole.each_ref().map(Vec::len), [24, 3, 3]);
    assert_eq!(whole[0][23]["waits_for"], "starting", "its machine comes");
    assert_eq!(whole[0].iter().filter(|row| row["why"].is_string()).count(), 16);
    for limit in [1, 4, 29] {
        let mut request = request.clone();
        request["limit"] = json!(limit);
        let parts = of(&request);
        assert_eq!(words(&parts[0]), words(&whole[0]), "{limit} a page");
        assert_eq!(parts.each_ref().map(Vec::len), [24, 3, 3], "{limit} a page");
    }
    for (text, counts) in [
        ("ACME/app0", [7, 0, 0]),
        ("small-l10", [1, 0, 0]),
        ("linux", [24, 3, 3]),
        ("room", [16, 0, 0]),
    ] {
        let request = json!({"version": 1, "action": "jobs", "q": text});
        assert_eq!(of(&request).each_ref().map(Vec::len), counts, "{text}");
    }
}

/// Which machines are busy, with what job, of which type, and where.
#[test]
fn a_list_says_what_runs_where() {
    let bench = quiet();
    let mut row = bench.idle(1).remove(0);
    let (kind, zone) = (Some("m7i.large".into()), Some("us-east-1a".into()));
    row.make = Make { kind, zone, subnet: None, market: Some(Market::Spot) };
    bench.store(std::slice::from_ref(&row));
    let starts = JobEvent {
        status: JobStatus::InProgress,
        runner: Some(row.runner_name()),
        runner_id: row.runner.id,
        ..waiting(7, NOW - Seconds(90)).last_event
    };
    let (door, settings) = (&bench.door, &bench.door.sim.settings);
    let ingest = Ingest { context: Context::new(door, &(), &(), &(), settings) };
    bench.drive(ingest.fold(&starts, NOW - Seconds(60))).expect("stored");
    answers::check(&bench, "list_at_work", json!({ "action": "list" }));
}

#[test]
fn waiting_jobs_say_when_they_are_not_all() {
    let bench = Bench::new();
    for n in 0..210 {
        let next = waiting(n, bench.door.now());
        let write = Change::create(next).into();
        bench.drive(bench.door.commit(&[write])).expect("stored");
    }
    for (limit, shown, more) in [(None, 200, true), (Some(209), 209, true), (Some(210), 210, false)]
    {
        let mut request = json!({"version": 1, "action": "jobs"});
        if let Some(limit) = limit {
            request["limit"] = json!(limit);
        }
        let answer = ask(&bench, request);
        assert_eq!(answer["jobs"].as_array().map(Vec::len), Some(shown));
        assert_eq!(answer["more"], json!(more));
    }
    let status = ask(&bench, json!({"version": 1, "action": "status"}));
    assert_eq!(status["pools"][0]["waiting_jobs"], 210);
}

/// The commonest first failure: a job of a public repository, which no pool serves.
#[test]
fn a_job_that_no_pool_serves_is_shown_and_counted_and_watched() {
    let bench = Bench::new();
    let mut job = waiting(1, bench.door.now());
    job.pool = None;
    job.last_event.private = false;
    let why = "pool small: the repository is public and the pool refuses those";
    job.unmatched = Some(why.to_owned());
    bench.put(&[Change::create(job).into()]);
    let jobs = ask(&bench, json!({"version": 1, "action": "jobs"}));
    assert_eq!(jobs["unserved"][0]["reason"], format!("no pool serves it: {why}"));
    let status = ask(&bench, json!({"version": 1, "action": "status"}));
    assert_eq!(status["unserved"]["reasons"], json!({ format!("no pool serves it: {why}"): 1 }));
    let of_a_pool = ask(&bench, json!({"version": 1, "action": "jobs", "pool": "small"}));
    assert_eq!(of_a_pool["unserved"], json!([]));
    let swept = || {
        let door = &bench.door;
        let settings = &door.sim.settings;
        let pass = Sweep { context: Context::new(door, door, door, &(), settings) };
        bench.drive(pass.sweep(door.now())).unserved
    };
    assert_eq!(swept(), 0, "another system may serve it");
    bench.change(|world| world.now += 31 * MINUTE);
    assert_eq!(swept(), 1);
}

#[test]
fn a_limit_out_of_bounds_is_refused() {
    let bench = Bench::new();
    for action in ["list", "jobs"] {
        for limit in [0, 5_001] {
            let answer = ask(&bench, json!({"version": 1, "action": action, "limit": limit}));
            assert_eq!(answer["error"]["code"], "bad_request", "{action} {limit}");
        }
    }
}

#[test]
fn status_shows_entities_and_their_health() {
    let bench = Bench::new().belonging_to("zoo");
    let now = bench.door.now();
    let fault = ErrorDetail {
        at: now,
        operation: "access-token".into(),
        code: "401".into(),
        message: "bad credentials".into(),
    };
    let acme = "acme".parse().expect("an entity");
    let refused = ProviderError::Unauthorized(fault);
    let refused = Cooldowns::default().after_answer(&acme, RequestKind::Other, Some(&refused), now);
    bench.put(&[Change::create(refused.expect("a trouble")).into()]);
    let status = ask(&bench, json!({"version": 1, "action": "status"}));
    let shown: Vec<(&Value, &Value, &Value)> = status["entities"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (&one["entity"], &one["pools"], &one["healthy"]))
        .collect();
    let expected = [
        (&json!("acme"), &json!([]), &json!(false)),
        (&json!("zoo"), &json!(["small"]), &json!(true)),
    ];
    assert_eq!(shown, expected);
    assert_eq!(status["entities"][0]["troubles"][0]["reason"], "401: bad credentials");
}

/// `muster jobs --find TEXT` over many waiting jobs.
#[test]
fn the_demand_of_a_pool_is_read_once_for_an_answer() {
    let reads = |jobs: u64| {
        let bench = Bench::new();
        let now = bench.door.now();
        let all: Vec<Write> = (1..=jobs).map(|n| Change::create(waiting(n, now)).into()).collect();
        all.chunks(50).for_each(|some| bench.put(some));
        bench.change(|world| world.tables.page = 50);
        let before = bench.change(|world| world.calls.reads);
        let request = json!({"version": 1, "action": "jobs", "q": "no such text"});
        assert_eq!(ask(&bench, request)["jobs"], json!([]));
        bench.change(|world| world.calls.reads) - before
    };
    assert_eq!(reads(400) - reads(200), 4, "a page of fifty jobs is one read");
}
