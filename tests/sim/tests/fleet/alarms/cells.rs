//! The table of failures in tests/template/test_template.py, cell by cell: the alarm that it names rings
//! after the failure began, and not before.

use muster_domain::instance::Instance;
use muster_domain::message::ReapMessage;
use muster_sim::agenda::{MINUTE, SECOND, START, Which};
use muster_sim::ec2::Behaviour;
use muster_sim::executor::Executor;
use muster_sim::fault::Fault;
use muster_sim::lambda::{Failing, Function};
use muster_sim::queue::Body;
use muster_sim::schedule::PlannedJob;
use muster_sim::world::{Window, World};
use serde_json::{Value, json};

use super::{Alarm, Millis, Point, TEMPLATE, job, planned, points};
use crate::answers::ask;
use crate::bench::Bench;

const TABLE: &str = include_str!("../../../../template/test_template.py");

/// When the failure begins.
const BEGINS: Millis = 15 * MINUTE;
/// When the run ends.
const ENDS: Millis = 80 * MINUTE;

/// A failure: of which function, the column of the table, what happens, and within how many minutes
/// the cell's alarm rings.
struct Cell {
    function: Function,
    kind: &'static str,
    within: i64,
    begins: fn(&mut World),
    /// The alarm that rings instead.
    instead: Option<&'static str>,
}

const fn cell(function: Function, kind: &'static str, within: i64, begins: fn(&mut World)) -> Cell {
    Cell { function, kind, within, begins, instead: None }
}

/// Not driven, because the program of the function does it and not its pass: events that the webhook
/// cannot read, unreadable messages of the launch and reap queues, the 3,000 refusals of `api-refused`,
/// and an admin function that Lambda does not run.
const CELLS: [Cell; 29] = [
    cell(Function::Webhook, "no queue", 6, |world| world.lambda.full.push(Which::Jobs)),
    cell(Function::Webhook, "throttled", 6, |world| {
        fails(world, Function::Webhook, Failing::Throttled);
    }),
    cell(Function::Webhook, "no start", 6, |world| {
        fails(world, Function::Webhook, Failing::NoStart);
    }),
    cell(Function::Webhook, "time-out", 6, |world| {
        fails(world, Function::Webhook, Failing::TimedOut);
    }),
    cell(Function::Webhook, "unread", 30, |world| world.github.script.fail_next = u32::MAX),
    cell(Function::ScaleUp, "no table", 3, |world| always(world, Fault::ReadFailed)),
    cell(Function::ScaleUp, "no table", 3, |world| always(world, Fault::CommitRefused)),
    cell(Function::ScaleUp, "no queue", 3, |world| world.lambda.full.push(Which::Launch)),
    cell(Function::ScaleUp, "no EC2 or GitHub", 10, |world| {
        always(world, Fault::LaunchMisconfigured);
    }),
    cell(Function::ScaleUp, "throttled", 9, |world| {
        fails(world, Function::ScaleUp, Failing::Throttled);
    }),
    cell(Function::ScaleUp, "no start", 2, |world| {
        fails(world, Function::ScaleUp, Failing::NoStart);
    }),
    cell(Function::ScaleUp, "time-out", 3, |world| {
        fails(world, Function::ScaleUp, Failing::TimedOut);
    }),
    cell(Function::ScaleUp, "poison", 2, unreadable_job),
    cell(Function::ScaleUp, "poison", 3, one_bad_event),
    cell(Function::ScaleUp, "unread", 3, |world| world.lambda.unread.push(Which::Jobs)),
    cell(Function::Reaper, "no table", 4, |world| always(world, Fault::ReadFailed)),
    cell(Function::Reaper, "no queue", 8, |world| {
        world.lambda.full.extend([Which::Reap, Which::Launch]);
    }),
    cell(Function::Reaper, "no EC2 or GitHub", 45, |world| {
        stay_up(world);
        always(world, Fault::TerminateDenied);
    }),
    // Without GitHub no machine is known to be free for its end, so none is `pending_delete`: jobs wait.
    Cell {
        instead: Some("JobWaitingAlarm"),
        ..cell(Function::Reaper, "no EC2 or GitHub", 15, |world| {
            let (fault, from) = (Fault::OutageGithub, world.now);
            world.windows.push(Window { fault, from, until: Millis::MAX });
        })
    },
    cell(Function::Reaper, "throttled", 7, |world| {
        fails(world, Function::Reaper, Failing::Throttled);
    }),
    cell(Function::Reaper, "no start", 4, |world| fails(world, Function::Reaper, Failing::NoStart)),
    cell(Function::Reaper, "time-out", 4, |world| {
        fails(world, Function::Reaper, Failing::TimedOut);
    }),
    cell(Function::Reaper, "unread", 45, |world| {
        stay_up(world);
        world.lambda.unread.push(Which::Reap);
    }),
    cell(Function::RunnerApi, "no table", 6, |world| always(world, Fault::ReadFailed)),
    // The sweep finds what it would have announced, so this is no failure for a machine.
    cell(Function::RunnerApi, "no queue", 0, |world| world.lambda.full.push(Which::Reap)),
    cell(Function::RunnerApi, "no EC2 or GitHub", 10, |world| {
        world.github.script.refuses.insert("acme".to_owned());
    }),
    cell(Function::RunnerApi, "throttled", 6, |world| {
        fails(world, Function::RunnerApi, Failing::Throttled);
    }),
    cell(Function::RunnerApi, "no start", 6, |world| {
        fails(world, Function::RunnerApi, Failing::NoStart);
    }),
    cell(Function::RunnerApi, "time-out", 6, |world| {
        fails(world, Function::RunnerApi, Failing::TimedOut);
    }),
];

fn fails(world: &mut World, function: Function, how: Failing) {
    world.lambda.failing = Some((function, how));
}

fn always(world: &mut World, fault: Fault) {
    world.fault_rates.set(fault, 1_000_000);
}

/// The machines do not shut down after their job, so that only the reaper ends them.
fn stay_up(world: &mut World) {
    world.ec2.scripted.iter_mut().for_each(|one| one.never_shuts_down = true);
}

/// A message that nobody can read.
fn unreadable_job(world: &mut World) {
    let name = "linux-1-0".parse().expect("a name");
    world.enqueue(Which::Jobs, Body::Reap(ReapMessage::Reap { name, nonce: 1 }));
}

/// The next job's record is too large, say. The others are written.
fn one_bad_event(world: &mut World) {
    world.refused_item = Some(world.github.jobs[15].key);
}

/// A job of ten minutes each minute, and a failure that begins after a quarter of an hour.
fn run(begins: fn(&mut World)) -> Vec<Point> {
    let mut plan = planned(60, 2);
    // Three of them are cancelled while their machines start, which are idle then.
    let cancelled = (11..14).map(|minute| {
        let planned = job(minute * MINUTE, 10);
        PlannedJob { cancelled_at: Some(planned.at + 40 * SECOND), ..planned }
    });
    plan.jobs = (0..75).map(|minute| job(minute * MINUTE, 10)).chain(cancelled).collect();
    let mut world = plan.world();
    world.ec2.scripted = vec![Behaviour::default(); 1_000];
    world.measures = Some(Vec::new());
    let mut executor = Executor::new(world, plan.settings.clone());
    executor.run(START + BEGINS);
    begins(&mut executor.sim().world.borrow_mut());
    executor.run(START + ENDS);
    points(&executor)
}

/// The entry of the table: an alarm, `None`, or `caller`.
fn entry(function: Function, kind: &str) -> String {
    let line = |begin: &str| {
        let line = TABLE.lines().find_map(|line| line.trim().strip_prefix(begin));
        line.unwrap_or_else(|| panic!("no {begin} in the table"))
    };
    let parts = |text: &str| -> Vec<String> {
        let inner = text.trim_matches(|one| "(),".contains(one));
        inner.split(',').map(|part| part.trim().trim_matches('"').to_owned()).collect()
    };
    let kinds = parts(line("kinds = "));
    let row = parts(line(&format!("\"{function:?}\": ")));
    let column = kinds.iter().position(|one| one == kind).expect("a column");
    let word = &row[column];
    // A short name of the lines before the table.
    for short in TABLE.lines().filter(|line| line.contains(" = \"") && line.contains("Alarm\"")) {
        let (names, alarms) = short.split_once(" = ").expect("names");
        let place = names.split(',').position(|name| name.trim() == word);
        if let Some(place) = place {
            return parts(alarms)[place].clone();
        }
    }
    word.clone()
}

/// All alarms that ring, with the minute.
fn ringing(told: &[Point]) -> Vec<(&str, i64)> {
    let names = TEMPLATE.lines().filter_map(|line| line.strip_prefix("  ")?.strip_suffix("Alarm:"));
    let names =
        names.filter(|name| !name.starts_with(' ') && !["Spend", "WaitLong"].contains(name));
    let rang = |name| Some((name, Alarm::of(&format!("{name}Alarm"), None).rang(told)? / MINUTE));
    names.filter_map(rang).collect()
}

#[test]
fn each_failure_of_each_function_rings_the_alarm_of_the_table() {
    let mut wrong = Vec::new();
    for (number, Cell { function, kind, within, begins, instead }) in CELLS.iter().enumerate() {
        let row = format!("{number}, {function:?}, {kind}");
        let name = instead.map_or_else(|| entry(*function, kind), str::to_owned);
        let told = run(*begins);
        if name == "None" {
            let rang = Alarm::of("Api5xxAlarm", None).rang(&told);
            wrong.extend(rang.map(|at| format!("{row}: calls fail, and it rings at {at}")));
            continue;
        }
        let alarm = Alarm::of(&name, None);
        match alarm.rang(&told) {
            None => wrong.push(format!("{row}: {name} never rings, only {:?}", ringing(&told))),
            Some(at) if at <= BEGINS => wrong.push(format!("{row}: {name} rings before, at {at}")),
            Some(at) if at - BEGINS > within * MINUTE => {
                let minutes = (at - BEGINS) / MINUTE;
                wrong.push(format!("{row}: {name} rings after {minutes} minutes, not {within}"));
            }
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// None of them rings where nothing fails.
#[test]
fn no_alarm_of_the_table_rings_in_a_usual_hour() {
    let told = run(|_| ());
    for Cell { function, kind, .. } in &CELLS {
        let name = entry(*function, kind);
        if name == "None" {
            continue;
        }
        assert_eq!(Alarm::of(&name, None).rang(&told), None, "{name}");
    }
}

/// Admin has no alarm: its caller gets an error.
#[test]
fn what_fails_in_admin_is_told_to_the_caller() {
    let delete = |row: &Instance| json!({ "action": "delete", "name": row.name.as_str(), "reason": "a test" });
    let adopt = |_: &Instance| json!({ "action": "jobs", "adopt": true, "repository": "acme/web" });
    let rows: [(&str, fn(&mut World), &dyn Fn(&Instance) -> Value, &str); 5] = [
        ("no table", |world| always(world, Fault::ReadFailed), &delete, "unavailable"),
        ("no table", |world| always(world, Fault::CommitRefused), &delete, "unavailable"),
        (
            "no EC2 or GitHub",
            |world| {
                world.github.script.refuses.insert("acme".to_owned());
            },
            &adopt,
            "not_allowed",
        ),
        (
            "no EC2 or GitHub",
            |world| {
                let (fault, from) = (Fault::OutageGithub, world.now);
                world.windows.push(Window { fault, from, until: Millis::MAX });
            },
            &adopt,
            "unavailable",
        ),
        ("poison", |_| (), &|_| json!({ "action": "nonsense" }), "bad_request"),
    ];
    for (kind, begins, request, code) in rows {
        assert_eq!(entry(Function::Admin, kind), "caller");
        let bench = Bench::new();
        let row = bench.idle(1).remove(0);
        bench.store(std::slice::from_ref(&row));
        bench.change(begins);
        let answer = ask(&bench, request(&row));
        assert_eq!(answer["error"]["code"], code, "{kind}: {answer}");
    }
}
