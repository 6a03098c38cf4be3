//! The line of usage of a job that ends out of order.

use std::rc::Rc;

use muster_control::context::Context;
use muster_control::jobs::ingest::{Folded, Ingest};
use muster_control::reaps::batch::{Batch, ReceivedReap};
use muster_control::reaps::reap::Ticket;
use muster_domain::ids::{AppName, JobKey, RunnerId};
use muster_domain::instance::{Instance, State};
use muster_domain::job::{JobEvent, JobStatus};
use muster_domain::message::ReapMessage;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{By, Costs, Date, Day, EndedBy, Line, UsageKind};
use muster_sim::ec2::End;
use muster_sim::replay::{Measured, Only, Replay};
use serde_json::json;

use crate::answers::{NOW, ask};
use crate::bench::{Bench, waiting};

/// GitHub's last word may come when the machine is gone: it is added to the machine's line.
#[test]
fn a_job_whose_end_is_told_after_its_machines_has_one_line() {
    let bench = Bench::new();
    let row = bench.idle(1).remove(0);
    bench.store(std::slice::from_ref(&row));
    let now = bench.door.now().as_millis();
    let ago = |seconds: i64| Time::from_millis(now - 1000 * seconds);
    let starts = JobEvent {
        status: JobStatus::InProgress,
        runner: Some(row.runner_name()),
        runner_id: Some(RunnerId(1_000_000)),
        started_at: Some(ago(600)),
        ..waiting(77, ago(700)).last_event
    };
    fold(&bench, &starts);
    let ended_at = ago(5);
    end_machine(&bench, &row, ended_at);

    let line = only_line(&bench);
    let job = line.job.as_ref().expect("GitHub told of it");
    assert_eq!((line.kind, line.at, line.at_by), (UsageKind::Machine, ended_at, EndedBy::Event));
    assert_eq!((job.key, &job.conclusion), (starts.key, &None));
    assert_eq!(line.t.completed, None);

    let conclusion = Some("success".to_owned());
    let completed_at = Some(ago(60));
    let ends = JobEvent { status: JobStatus::Completed, conclusion, completed_at, ..starts };
    fold(&bench, &ends);
    let whole = only_line(&bench);
    assert_eq!(whole.job.and_then(|job| job.conclusion).as_deref(), Some("success"));
    assert_eq!((whole.at, whole.t.completed), (line.at, Some(640_000)));
}

/// No machine of ours ran it, and somebody waited for it all the same.
#[test]
fn a_job_that_is_cancelled_while_it_waits_has_a_line() {
    let bench = Bench::new();
    let queued = waiting(1, bench.door.now()).last_event;
    fold(&bench, &queued);
    assert_eq!(lines(&bench), []);
    let conclusion = Some("cancelled".to_owned());
    let completed_at = Some(bench.door.now() + Seconds(30));
    let cancelled =
        JobEvent { status: JobStatus::Completed, conclusion, completed_at, ..queued.clone() };
    fold(&bench, &cancelled);
    fold(&bench, &cancelled);
    let line = only_line(&bench);
    assert_eq!((line.kind, Some(line.at), line.machine), (UsageKind::Job, completed_at, None));
    assert_eq!(line.job.map(|job| job.key), Some(queued.key));
    assert_eq!(line.parts.sum(), 0, "it cost nothing");
}

fn fold(bench: &Bench, event: &JobEvent) {
    let door = &bench.door;
    let ingest = Ingest { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
    bench.drive(ingest.fold(event, door.now())).expect("stored");
}

/// One history of a job: what was heard when, and what every consumer must make of it.
struct History {
    name: &'static str,
    /// What GitHub said (`-`: GitHub was asked and says that the job waits for an approval), heard this
    /// many seconds ago.
    heard: &'static [(&'static str, u32)],
    /// Seconds ago that GitHub reports: created, started, completed.
    times: [Option<i64>; 3],
    runner: Runner,
    /// Seconds that it waited; none where that is not known or where it never waited.
    waited: Option<u64>,
    /// Whether `simulate` replays it.
    is_replayed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Runner {
    Ours,
    /// Our machine, which ran another job before.
    OursOfAnother,
    /// Named as ours, and no longer on record.
    Gone,
    None,
}

const fn history(
    name: &'static str,
    heard: &'static [(&'static str, u32)],
    times: [Option<i64>; 3],
    waited: Option<u64>,
) -> History {
    History { name, heard, times, runner: Runner::Ours, waited, is_replayed: true }
}

const fn copy(
    name: &'static str,
    heard: &'static [(&'static str, u32)],
    times: [Option<i64>; 3],
    runner: Runner,
) -> History {
    History { name, heard, times, runner, waited: None, is_replayed: false }
}

const DAYS: i64 = 172_800;
const RAN: [Option<i64>; 3] = [Some(700), Some(600), Some(500)];
const GATED: [Option<i64>; 3] = [Some(DAYS), Some(600), Some(500)];

/// All events that end a history.
const HISTORIES: &[History] = &[
    history(
        "no approval",
        &[("queued", 699), ("in_progress", 599), ("completed", 499)],
        RAN,
        Some(100),
    ),
    history("no start", &[("queued", 699), ("completed", 499)], RAN, Some(100)),
    history("its end alone", &[("completed", 499)], RAN, Some(100)),
    history("late", &[("queued", 300), ("in_progress", 299), ("completed", 298)], RAN, Some(100)),
    history(
        "an approval",
        &[("waiting", 172_000), ("queued", 650), ("in_progress", 599), ("completed", 499)],
        GATED,
        Some(50),
    ),
    history(
        "approved twice",
        &[
            ("waiting", 172_000),
            ("queued", 9_000),
            ("waiting", 8_999),
            ("-", 8_900),
            ("queued", 650),
            ("in_progress", 599),
            ("completed", 499),
        ],
        GATED,
        Some(50),
    ),
    history(
        "queued first",
        &[
            ("queued", 172_000),
            ("waiting", 171_999),
            ("-", 171_000),
            ("queued", 650),
            ("in_progress", 599),
            ("completed", 499),
        ],
        GATED,
        Some(50),
    ),
    history(
        "approved before GitHub was asked",
        &[
            ("queued", 700),
            ("waiting", 699),
            ("queued", 650),
            ("in_progress", 599),
            ("completed", 499),
        ],
        RAN,
        Some(50),
    ),
    history(
        "the approval came first",
        &[("queued", 650), ("waiting", 649), ("in_progress", 599), ("completed", 499)],
        GATED,
        Some(50),
    ),
    history(
        "the wait came last",
        &[("queued", 650), ("in_progress", 599), ("completed", 499), ("waiting", 400)],
        GATED,
        Some(50),
    ),
    history(
        "the approval was lost",
        &[("waiting", 172_000), ("in_progress", 599), ("completed", 499)],
        GATED,
        None,
    ),
    history(
        "all but the wait was lost",
        &[("queued", 172_000), ("-", 171_500), ("-", 171_000), ("completed", 499)],
        GATED,
        None,
    ),
    history(
        "the approval came late",
        &[("waiting", 172_000), ("queued", 590), ("in_progress", 589), ("completed", 499)],
        GATED,
        None,
    ),
    history(
        "not created",
        &[("queued", 700), ("in_progress", 599), ("completed", 499)],
        [None, Some(600), Some(500)],
        Some(100),
    ),
    history(
        "not started",
        &[("queued", 700), ("in_progress", 599), ("completed", 499)],
        [Some(700), None, Some(500)],
        None,
    ),
    history(
        "heard before it was said, by our clock",
        &[("queued", 705), ("in_progress", 605), ("completed", 505)],
        RAN,
        Some(100),
    ),
    history(
        "queued again after its end",
        &[("queued", 650), ("in_progress", 599), ("completed", 499), ("queued", 400)],
        RAN,
        Some(100),
    ),
    copy(
        "a copy, its end alone",
        &[("completed", 99)],
        [Some(100), Some(600), Some(500)],
        Runner::OursOfAnother,
    ),
    copy(
        "a copy whose machine is gone",
        &[("completed", 99)],
        [Some(100), Some(600), Some(500)],
        Runner::Gone,
    ),
    copy(
        "a copy that starts",
        &[("in_progress", 99), ("completed", 98)],
        [Some(100), Some(600), Some(500)],
        Runner::OursOfAnother,
    ),
    copy(
        "a copy that is queued",
        &[("queued", 99), ("completed", 98)],
        [Some(100), Some(600), Some(500)],
        Runner::Gone,
    ),
    copy(
        "a copy out of order",
        &[("completed", 99), ("in_progress", 98), ("queued", 97)],
        [Some(100), Some(600), Some(500)],
        Runner::OursOfAnother,
    ),
    copy(
        "a copy with the first attempt's creation",
        &[("completed", 99)],
        RAN,
        Runner::OursOfAnother,
    ),
    copy("a copy of one moment", &[("completed", 99)], [Some(600); 3], Runner::OursOfAnother),
    copy("skipped", &[("completed", 99)], [Some(100); 3], Runner::None),
    copy(
        "skipped after it was queued",
        &[("queued", 120), ("completed", 99)],
        [Some(120), Some(100), Some(100)],
        Runner::None,
    ),
    copy(
        "rejected",
        &[("waiting", 172_000), ("completed", 99)],
        [Some(DAYS), None, Some(100)],
        Runner::None,
    ),
    copy(
        "rejected after it was queued",
        &[("queued", 172_000), ("-", 171_500), ("-", 171_000), ("completed", 99)],
        [Some(DAYS), None, Some(100)],
        Runner::None,
    ),
    History {
        is_replayed: true,
        ..copy(
            "cancelled before its start",
            &[("queued", 699), ("completed", 99)],
            [Some(700), Some(700), Some(100)],
            Runner::None,
        )
    },
];

/// The metric, the lines, `waits`, `costs`, `explain` and `simulate` agree on how long a job waited.
#[test]
fn everything_that_shows_a_wait_shows_the_same() {
    for history in HISTORIES {
        let bench = Bench::new();
        let told = lived(&bench, history);
        let name = history.name;
        let millis = history.waited.map(|seconds| seconds * 1_000);
        // What is heard after the job's start comes too late for the metric.
        let is_late = name == "the wait came last";
        let counted = if is_late { Some(172_200_000) } else { millis };
        assert_eq!(told, Vec::from_iter(counted), "{name}: the metric");
        let lines = lines(&bench);
        let of_jobs =
            || lines.iter().filter(|line| line.job.as_ref().is_some_and(|job| job.key == KEY));
        let waits: Vec<u64> = of_jobs().filter_map(|line| Some(line.wait()?.0)).collect();
        assert_eq!(waits, Vec::from_iter(millis), "{name}: `waits`");
        assert_eq!(of_jobs().count(), usize::from(history.is_replayed), "{name}: its lines");
        for line in &lines {
            assert!(line.t.ended >= 0, "{name}: a line that ends before it begins: {line:#?}");
        }
        let costs = Costs::of(&[Day::fold(Date::of(NOW), By::Repository, &lines)], By::Repository);
        let jobs =
            u64::from(history.runner == Runner::Ours || history.runner == Runner::OursOfAnother);
        assert_eq!(costs.all.jobs, jobs, "{name}: `costs`");
        let measured = Measured::of(&lines, &Only::All);
        let first = (history.runner == Runner::OursOfAnother).then_some(100_000);
        assert_eq!(measured.wait(100), millis.or(first), "{name}: what `simulate` compares with");
        let replayed = Replay::of(&lines).jobs.len();
        let jobs = usize::from(history.is_replayed) + usize::from(first.is_some());
        assert_eq!(replayed, jobs, "{name}: what `simulate` replays");
        if history.runner == Runner::Ours {
            let explained = ask(&bench, json!({ "action": "explain", "job": KEY.to_string() }));
            let line: Line = serde_json::from_value(explained["line"].clone()).expect("a line");
            assert_eq!(line.wait().map(|(whole, _)| whole), millis, "{name}: `explain`");
        }
    }
}

const KEY: JobKey = JobKey { app: AppName::MAIN, repository: 1, job: 77 };

/// Lets a history happen. Returns what the metric was told.
fn lived(bench: &Bench, history: &History) -> Vec<u64> {
    let row = bench.idle(1).remove(0);
    let ago = |seconds: i64| Time::from_millis(NOW.as_millis() - 1000 * seconds);
    bench.store(std::slice::from_ref(&row));
    let runner = (row.runner_name(), RunnerId(1_000_000));
    let mut event = waiting(77, NOW).last_event;
    if history.runner == Runner::OursOfAnother {
        let key = JobKey { job: 76, ..KEY };
        let first = JobEvent {
            key,
            status: JobStatus::Completed,
            queued_at: Some(ago(700)),
            started_at: Some(ago(600)),
            completed_at: Some(ago(500)),
            runner: Some(runner.0.clone()),
            runner_id: Some(runner.1),
            ..event.clone()
        };
        fold_at(bench, &first, ago(499));
        end_machine(bench, &row, ago(480));
    }
    let is_ours = history.runner != Runner::None;
    let gone = "small-4kq7v2-0-1".to_owned();
    let name = if history.runner == Runner::Gone { gone } else { runner.0 };
    let is_skipped = history.name.starts_with("skipped");
    let conclusion = if is_ours {
        "success"
    } else if is_skipped {
        "skipped"
    } else {
        "cancelled"
    };
    let mut told = Vec::new();
    for (what, heard) in history.heard {
        let heard = ago(i64::from(*heard));
        let status: JobStatus = match *what {
            "-" => {
                bench.change(|world| {
                    let job = world.tables.jobs.get_mut(&KEY).expect("stored");
                    let next = job.found_waiting(heard);
                    *job = Rc::new(Stored::read(next, job.version()));
                });
                continue;
            }
            other => serde_json::from_value(json!(other)).expect("a status"),
        };
        event.status = status;
        let [created, started, completed] = history.times.map(|at| at.map(ago));
        event.queued_at = created;
        let is_started = status >= JobStatus::InProgress;
        event.started_at = started.filter(|_| is_started);
        event.runner = (is_started && is_ours).then(|| name.clone());
        event.runner_id = event.runner.as_ref().map(|_| runner.1);
        event.completed_at = completed.filter(|_| status == JobStatus::Completed);
        event.conclusion = event.completed_at.map(|_| conclusion.to_owned());
        told.extend(fold_at(bench, &event, heard));
    }
    if history.runner == Runner::Ours {
        end_machine(bench, &row, ago(490));
    }
    told
}

/// Folds an event that comes at a time. Returns the wait that the metric is told.
fn fold_at(bench: &Bench, event: &JobEvent, at: Time) -> Option<u64> {
    let door = &bench.door;
    let ingest = Ingest { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
    match bench.drive(ingest.fold(event, at)).expect("folded") {
        Folded::Stored { waited, .. } => Some(waited?.millis),
        Folded::NotOurs(_) => None,
    }
}

/// EC2 ends the machine, and tells so.
fn end_machine(bench: &Bench, row: &Instance, at: Time) {
    let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
    let machine = row.machine().expect("a machine").clone();
    bench.change(|world| {
        let number = world.ec2.number(&machine).expect("it was made");
        world.end_machine(number, &End::HostLost);
    });
    let what = "shutting-down".to_owned();
    let message = ReapMessage::MachineChanged { machine, what, at: Some(at) };
    let ticket = Ticket { nonce: 1, receives: 1 };
    let received = [ReceivedReap { message, ticket, receipt: "1".to_owned() }];
    let batch = Batch { context: Context::new(door, door, door, door, settings) };
    bench.drive(batch.run(&received, door.now() + Seconds(60), &|| door.now()));
    let state = bench.change(|world| world.tables.instances[&row.name].state());
    assert_eq!(state, State::Deleted);
}

fn lines(bench: &Bench) -> Vec<Line> {
    bench.change(|world| world.tables.usage.values().cloned().collect())
}

fn only_line(bench: &Bench) -> Line {
    let lines = lines(bench);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    lines[0].clone()
}
