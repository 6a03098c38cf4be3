//! What operators may not order now, and what they must always be able to take back.

use muster_control::context::Context;
use muster_control::ports::{Launches as _, Operations, Write};
use muster_control::runner_api::{MachineReport, RunnerApi};
use muster_domain::ec2::CooldownScope;
use muster_domain::ids::{AppName, JobKey};
use muster_domain::instance::{AfterEnd, Instance, StartReport};
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::{Balance, Limits};
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Change, Stored};
use muster_domain::switches::{Switch, SwitchedOff, Switches};
use muster_domain::time::Seconds;
use muster_sim::agenda::Which;
use muster_sim::schedule;
use serde_json::{Value, json};

use super::bench::Bench;
use super::listings::{ask, ask_with};
use super::reaps::woken_pools;
use super::writers::close;

fn switched_off(bench: &Bench, switch: &Switch) {
    let off = SwitchedOff {
        since: bench.door.now(),
        by: "mira".to_owned(),
        reason: "moving subnets".to_owned(),
        until: None,
    };
    let next = Switches::default().with(switch, Some(off));
    bench.put(&[Change::create(next).into()]);
}

#[test]
fn a_plain_delete_is_refused_while_nothing_is_deleted() {
    let bench = Bench::new();
    let rows = bench.idle(1);
    bench.store(&rows);
    switched_off(&bench, &Switch::Deletes);
    let name = rows[0].name.as_str();
    let order = |force| json!({"version": 1, "action": "delete", "name": name, "reason": "a test", "by": "a", "force": force});
    let refused = ask(&bench, order(false));
    assert_eq!(refused["error"]["code"], "switched_off", "{refused}");
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.starts_with("deletes are"), "{message}");
    assert!(message.contains("by mira: moving subnets"), "{message}");
    let ordered = ask(&bench, order(true));
    assert_eq!(ordered.get("error"), None, "{ordered}");
}

/// DynamoDB takes items of 400 KB: a record that is full could never change again, and its machine
/// never end.
#[test]
fn words_without_end_fill_no_record() {
    let bench = Bench::new();
    let mut rows = bench.idle(1);
    bench.make_due(&mut rows[0]);
    rows[0].clear_mark(bench.door.now(), "the test");
    bench.store(&rows);
    let endless = "é".repeat(150_000);
    let (door, settings) = (&bench.door, &std::rc::Rc::clone(&bench.door.sim).settings);
    let context = || Context::new(door, door, door, door, settings);
    let report = MachineReport::JobStarted {
        runner: rows[0].runner_name(),
        job: StartReport::new("acme/web", Some(true), 1, &endless, ""),
    };
    let pass = RunnerApi { context: context(), owner: rows[0].name.clone().into(), role: None };
    let reported = bench.drive(pass.report(&report, door.now()));
    assert_eq!(reported.map(|done| done.after), Ok(AfterEnd::ShutsDown));
    let order = json!({"version": 1, "action": "delete", "name": rows[0].name, "reason": &endless,
        "by": &endless, "kill_running_job": true});
    let ordered = ask(&bench, order);
    assert_eq!(ordered.get("error"), None, "{}", ordered["error"]);
    let off = json!({"version": 1, "action": "switch", "launches": "off", "reason": &endless});
    assert_eq!(ask(&bench, off).get("error"), None);
    let row = bench.change(|world| Instance::clone(&world.tables.instances[&rows[0].name]));
    let order = row.order().expect("an order");
    let length = |text: &str| text.chars().count();
    assert_eq!((length(&order.by), length(&order.reason)), (100, 1000));
    assert_eq!(row.runner.started.as_ref().map(|job| length(&job.name)), Some(200));
    assert!(row.events.iter().all(|line| length(&line.what) <= 1200));
}

#[test]
fn the_audit_trail_tells_what_an_order_was_to_overrule() {
    let bench = Bench::new();
    let rows = bench.idle(2);
    bench.store(&rows);
    let why = |row: usize, flags: &[&str]| {
        let name = rows[row].name.as_str();
        let mut order = json!({"version": 1, "action": "delete", "name": name, "reason": "a test"});
        flags.iter().for_each(|flag| order[*flag] = json!(true));
        let ordered = ask(&bench, order);
        assert_eq!(ordered.get("error"), None, "{ordered}");
        let shown = ask(&bench, json!({"version": 1, "action": "show", "name": name}));
        shown["audit"][0]["why"].clone()
    };
    assert_eq!(why(0, &[]), "a test");
    let flags = ["force", "bypass_github_unauthorized", "kill_running_job"];
    assert_eq!(why(1, &flags), "a test (with force, bypass_github_unauthorized, kill_running_job)");
}

#[test]
fn only_a_resume_needs_no_reason() {
    for (switches, reason, is_right) in [
        (json!({"launches": "off"}), None, false),
        (json!({"launches": "off"}), Some(" four "), false),
        (json!({"launches": "off", "deletes": "on"}), None, false),
        (json!({"pools": {"small": "off"}}), Some(""), false),
        (json!({"launches": "on"}), Some("x"), false),
        (json!({"launches": "off", "deletes": "on"}), Some("fives"), true),
        (json!({"launches": "on", "deletes": "on"}), None, true),
        (json!({"launches": "on"}), Some("  "), true),
    ] {
        let mut request = switches.clone();
        (request["version"], request["action"]) = (json!(1), json!("switch"));
        if let Some(reason) = reason {
            request["reason"] = json!(reason);
        }
        let bench = Bench::new();
        switched_off(&bench, &Switch::Launches);
        let answer = ask(&bench, request);
        assert_eq!(answer["ok"], is_right, "{switches}, {reason:?}: {answer}");
        let lines = bench.drive(bench.door.audit("switches", 9)).expect("read");
        let is_resumed = is_right && reason.is_none_or(|reason| reason.trim().is_empty());
        assert_eq!(
            lines.iter().any(|line| line.why.ends_with(": resumed")),
            is_resumed,
            "{lines:?}"
        );
    }
}

/// What `for_seconds` may be, by the function itself: others than the command invoke it.
#[test]
fn a_pause_has_an_end_within_bounds_and_only_a_pause() {
    let bench = Bench::new();
    let set = |fields: Value| {
        let mut request = json!({"version": 1, "action": "switch", "reason": "a test", "by": "a"});
        request
            .as_object_mut()
            .expect("fields")
            .extend(fields.as_object().cloned().expect("fields"));
        ask(&bench, request)
    };
    for (fields, part) in [
        (json!({"launches": "off", "for_seconds": 59}), "between 60 s and 30 d"),
        (json!({"launches": "off", "for_seconds": 2_592_001}), "between 60 s and 30 d"),
        (json!({"launches": "off", "for_seconds": -5}), "-5"),
        (json!({"launches": "off", "for_seconds": "2h"}), "2h"),
        (json!({"launches": "on", "for_seconds": 60}), "the length of a pause"),
        (json!({"launches": "off", "deletes": "on", "for_seconds": 60}), "the length of a pause"),
    ] {
        let refused = set(fields.clone());
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(refused["error"]["code"], "bad_request", "{fields}");
        assert!(message.contains(part), "{fields}: {message}");
    }
    let now = bench.door.now();
    let off = set(json!({"deletes": "off", "for_seconds": 60}));
    assert_eq!(off["switches"]["deletes"]["until"], json!(now + Seconds(60)), "{off}");
    // Another pause changes the end, to none as well; the first time stays.
    bench.change(|world| world.now += 30_000);
    let now = bench.door.now();
    let longer = set(json!({"deletes": "off", "for_seconds": 600}));
    assert_eq!(longer["switches"]["deletes"]["until"], json!(now + Seconds(600)));
    assert_eq!(longer["switches"]["deletes"]["since"], off["switches"]["deletes"]["since"]);
    bench.change(|world| world.now += 1_000);
    let endless = set(json!({"deletes": "off"}));
    assert_eq!(endless["switches"]["deletes"]["until"], json!(null), "{endless}");
    let lines = bench.drive(bench.door.audit("switches", 9)).expect("read");
    assert!(
        lines[0].why.starts_with("deletes off: ") && lines[1].why.starts_with("deletes off until "),
        "{lines:?}"
    );
    // A pause that has ended is no part of the next one.
    set(json!({"launches": "off", "for_seconds": 60}));
    bench.change(|world| world.now += 60_000);
    let now = bench.door.now();
    let anew = set(json!({"launches": "off"}));
    assert_eq!(anew["switches"]["launches"]["since"], json!(now), "{anew}");
}

/// Everybody who reads the switches, without an end, before the end and after it.
#[test]
fn every_reader_takes_an_ended_pause_for_resumed() {
    for (length, later, is_off) in
        [(None, 7_200, true), (Some(7_200), 7_199, true), (Some(7_200), 7_200, false)]
    {
        let bench = Bench::new();
        let mut pause = json!({"version": 1, "action": "switch", "launches": "off", "deletes": "off", "reason": "a test", "by": "a"});
        if let Some(length) = length {
            pause["for_seconds"] = json!(length);
        }
        ask(&bench, pause);
        bench.change(|world| world.now += later * 1000);
        let row = format!("{length:?} after {later}");
        let overview = ask(&bench, json!({"version": 1, "action": "overview"}));
        assert_eq!(overview["switches"]["launches"].is_object(), is_off, "overview, {row}");
        assert_eq!(overview["switches"]["deletes"].is_object(), is_off, "overview, {row}");
        assert_eq!(overview["pools"][0]["launches_off"].is_object(), is_off, "pools, {row}");
        let findings = overview["findings"].to_string();
        assert_eq!(findings.contains("were paused by"), is_off, "{row}: {findings}");
        assert_eq!(findings.contains(", until "), is_off && length.is_some(), "{row}: {findings}");
        let report = bench.drive(bench.sweep());
        assert_eq!(report.switched_off > 0, is_off, "metric, {row}: {}", report.switched_off);
        let order =
            json!({"version": 1, "action": "delete", "name": "none-l0-0", "reason": "a test"});
        let refused = ask(&bench, order);
        let code = if is_off { "switched_off" } else { "not_found" };
        assert_eq!(refused["error"]["code"], code, "delete, {row}: {refused}");
        let canary = json!({"version": 1, "action": "canary", "pool": overview["pools"][0]["name"], "entity": "acme", "dry_run": true});
        let canary = ask(&bench, canary);
        assert_eq!(
            canary.to_string().contains("launches are paused"),
            is_off,
            "canary, {row}: {canary}"
        );
    }
}

#[test]
fn the_switch_of_a_pool_that_is_gone_can_be_set_on_again() {
    let bench = Bench::new();
    switched_off(&bench, &Switch::Pool("gone".parse().expect("a pool")));
    let set = |pool: &str, to: &str| {
        ask(
            &bench,
            json!({"version": 1, "action": "switch", "pools": {pool: to}, "reason": "a test", "by": "a"}),
        )
    };
    assert_eq!(set("gone", "off")["error"]["code"], "not_found");
    assert_eq!(set("never", "on")["error"]["code"], "not_found");
    assert_eq!(set("gone", "on")["switches"]["pools"], json!({}));
    let stored = bench.drive(bench.door.switches()).expect("read").expect("stored");
    assert_eq!(stored.off_since(bench.door.now()), None);
}

#[test]
fn a_file_that_is_too_large_with_the_pools_it_removes_says_so_in_a_dry_run() {
    let bench = Bench::new();
    let hook = "x".repeat(130_000);
    let set = |version, name: &str| {
        let mut pool = schedule::pool(name, &["linux"], 5, "spot", None);
        pool.boot_hook = Some(hook.clone());
        let set = PoolSet::from_parameters(vec![pool], Limits::default(), Balance::default());
        PoolSet { version, ..set }
    };
    let next = set(8, "old");
    bench.change(|world| world.tables.pools = None);
    bench.put(&[Change::create(next).into(), Write::PoolsVersion(Box::new(set(7, "new")))]);
    for dry_run in [true, false] {
        let request =
            json!({"version": 1, "action": "pools", "restore": 7, "by": "a", "dry_run": dry_run});
        let refused = ask(&bench, request);
        assert_eq!(refused["error"]["code"], "bad_pool_file", "{refused}");
        let what = refused["error"]["errors"][0]["error"].as_str().expect("a sentence");
        assert!(what.contains("Apply only the removals first"), "{what}");
    }
}

/// Who owns the account sets the ceiling. A file below it holds, and one above it is told so.
#[test]
fn a_file_that_asks_for_more_than_the_stack_may_have_is_told_so() {
    let bench = Bench::new().with_at_most(20);
    let kept = |version, stack, max, min_idle| {
        let mut pool = schedule::pool("small", &["linux"], max, "spot", None);
        (pool.min_idle, pool.entity) = (min_idle, "acme".parse().ok());
        let limits = Limits { stack, ..Limits::default() };
        let set = PoolSet::from_parameters(vec![pool], limits, Balance::default());
        bench.put(&[Write::PoolsVersion(Box::new(PoolSet { version, ..set }))]);
        let request = json!({"version": 1, "action": "pools", "restore": version, "by": "a"});
        let lines = ask(&bench, request)["lines"].clone();
        let settings = &bench.door.sim.settings;
        let holds = bench.drive(settings.current(&bench.door)).expect("read").limits.stack;
        let told: Vec<String> = serde_json::from_value(lines).expect("lines");
        (told.into_iter().filter(|line| line.starts_with('!')).collect::<Vec<_>>(), holds)
    };
    let more = "is more than the stack's parameter MaxMachines; 20 applies";
    let told = [format!("! limits.stack: 50 {more}"), format!("! pools[0].limits.max: 30 {more}")];
    assert_eq!(kept(8, Some(50), 30, 0), (told.into(), Some(20)));
    assert_eq!(kept(9, Some(7), 20, 0), (Vec::new(), Some(7)));
    let idle = "! the pools keep 20 runners idle (min_idle), and the stack's parameter MaxMachines, 20, \
                leaves no capacity for jobs";
    assert_eq!(kept(7, None, 20, 20), (vec![idle.to_owned()], Some(20)));
    // What the parameters allow is no part of a file, so no file takes it out.
    let shown = ask(&Bench::new().with_at_most(20), json!({"version": 1, "action": "pools"}));
    assert_eq!(shown["file"]["limits"], json!(null), "{shown}");
}

/// Whatever another writes before any of its calls, and wherever it is stopped: a row is marked for
/// an operator when it carries his order, and a refused order leaves nothing behind.
#[test]
fn an_order_marks_nothing_unless_it_is_accepted() {
    let mut accepted = 0;
    for at in 0.. {
        let bench = Bench::new();
        let mut row = bench.idle(1).remove(0);
        bench.make_due(&mut row);
        row.clear_mark(bench.door.now(), "the test");
        bench.store(std::slice::from_ref(&row));
        let stored = || bench.change(|world| Stored::clone(&world.tables.instances[&row.name]));
        let mut came = false;
        let order = json!({"version": 1, "action": "delete", "name": row.name.as_str(), "reason": "a test", "by": "a"});
        let answer = ask_with(&bench, order, |call| {
            let now = stored();
            assert_eq!(now.mark().is_some(), now.order().is_some(), "before call {call}");
            if call == at && now.order().is_none() {
                came = true;
                let mut next = now.record().clone();
                assert!(next.github_started(
                    JobKey { app: AppName::MAIN, repository: 1, job: 1 },
                    bench.door.now()
                ));
                bench.put(&[now.change(next).into()]);
            }
        });
        let after = stored();
        let refused = answer["error"]["code"] == "busy";
        assert_eq!(after.order().is_none(), refused, "call {at}: {answer}");
        assert_eq!(after.mark().is_none(), refused, "call {at}: {after:?}");
        assert_eq!(refused, came, "call {at}: {answer}");
        if !came {
            accepted += 1;
            assert!(at > 3, "it reads, asks GitHub and writes");
            break;
        }
    }
    assert_eq!(accepted, 1);
}

/// What holds machines of a job or of a min idle back holds this one back as well, and says so.
#[test]
fn a_canary_is_refused_where_no_machine_may_come() {
    let pools = || {
        vec![
            Pool { max: 0, ..schedule::pool("full", &["linux"], 5, "spot", Some("acme")) },
            Pool { enabled: false, ..schedule::pool("off", &["linux"], 5, "spot", Some("acme")) },
            schedule::pool("own", &["linux"], 5, "spot", Some("acme")),
            schedule::pool("open", &["linux"], 5, "spot", None),
        ]
    };
    let rows = [
        (json!({}), "name a \"pool\": full, off, own, open"),
        (json!({"pool": "none"}), "there is no pool none"),
        (
            json!({"pool": "full"}),
            "no machine is launched now: pool full is at its maximum (0 of 0)",
        ),
        (json!({"pool": "off"}), "pool off is disabled: it serves no job"),
        (
            json!({"pool": "own", "entity": "zoo"}),
            "pool own registers its runners at acme and not at zoo",
        ),
        (
            json!({"pool": "open"}),
            "pool open registers each runner where its job comes from; name an \"entity\" for this \
             one: an organization, or owner/repo",
        ),
    ];
    let bench = Bench::of(pools());
    let order = |fields: &Value| {
        let mut order = fields.clone();
        (order["version"], order["action"]) = (json!(1), json!("canary"));
        order
    };
    for (fields, message) in rows {
        let refused = ask(&bench, order(&fields));
        assert_eq!(refused["error"]["message"], message, "{fields}");
    }
    switched_off(&bench, &Switch::Launches);
    let held = ask(&bench, order(&json!({"pool": "own"})));
    assert_eq!(held["error"]["code"], "not_launched", "{held}");
    assert_eq!(bench.change(|world| world.tables.audits.len()), 0);
}

/// When the first wake-up arrives, the index of open launches may not show the canary's yet.
#[test]
fn a_canary_wakes_its_pool_twice() {
    let bench = Bench::of(vec![schedule::pool("own", &["linux"], 5, "spot", Some("acme"))]);
    let ordered = ask(&bench, json!({"version": 1, "action": "canary"}));
    assert_eq!(ordered.get("error"), None, "{ordered}");
    assert_eq!(bench.change(|world| world.queues.of(Which::Launch).len()), 2);
}

/// Between its look and its commit a pass launches for a job, and the pool is full.
#[test]
fn a_canary_takes_no_room_that_a_job_has_just_taken() {
    let mut refusals = 0;
    for at in 0.. {
        let bench = Bench::of(vec![schedule::pool("own", &["linux"], 1, "spot", Some("acme"))]);
        let (mut calls, mut came) = (0, false);
        let answer = ask_with(&bench, json!({"version": 1, "action": "canary"}), |call| {
            calls = call;
            if call == at && bench.change(|world| world.tables.capacities.is_empty()) {
                came = true;
                let own = "own".parse().expect("a pool");
                let taken = Capacity { live: 1, ..Capacity::empty(own) };
                bench.put(&[Change::create(taken).into()]);
            }
        });
        assert_eq!(answer["error"]["code"] == "not_launched", came, "call {at}: {answer}");
        refusals += usize::from(came);
        if calls < at {
            break;
        }
    }
    assert!(refusals > 1, "it looks before it commits");
}

/// Columns: the order, after a pause of everything; the pools whose back-off ends, which are woken.
#[test]
fn a_resume_wakes_the_pools_that_it_concerns() {
    let rows: [(Value, &[&str]); 6] = [
        (json!({"launches": "on"}), &["other", "small"]),
        (json!({"pools": {"small": "on"}}), &["small"]),
        (json!({"pools": {"small": "on", "other": "off"}}), &["small"]),
        (json!({"deletes": "on"}), &[]),
        (json!({"launches": "off"}), &[]),
        (json!({"pools": {"small": "off"}}), &[]),
    ];
    for (fields, woken) in rows {
        let pool = |name| schedule::pool(name, &["linux"], 5, "spot", None);
        let bench = Bench::of(vec![pool("small"), pool("other")]);
        let set = |fields: &Value| {
            let mut order = fields.clone();
            (order["version"], order["action"]) = (json!(1), json!("switch"));
            order["reason"] = json!("a test");
            assert_eq!(ask(&bench, order)["ok"], true, "{fields}");
        };
        set(
            &json!({"launches": "off", "deletes": "off", "pools": {"small": "off", "other": "off"}}),
        );
        for name in ["small", "other"] {
            close(&bench, CooldownScope::Pool(name.parse().expect("a pool")));
        }
        set(&fields);
        let pools = woken_pools(&bench);
        assert_eq!(pools, woken.iter().map(ToString::to_string).collect(), "{fields}");
        let left = bench.drive(bench.door.cooldowns()).expect("read").expect("stored");
        let is_closed = |name: &str| {
            let closed = CooldownScope::Pool(name.parse().expect("a pool"));
            left.covering(&closed, bench.door.now() + Seconds(30)).is_some()
        };
        for name in ["small", "other"] {
            assert_eq!(is_closed(name), !woken.contains(&name), "{name}: {fields}");
        }
    }
}
