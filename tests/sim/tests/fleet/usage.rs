//! The line of usage of a job that ends out of order.

use std::rc::Rc;

use muster_control::context::Context;
use muster_control::jobs::ingest::Ingest;
use muster_control::reaps::batch::{Batch, Received};
use muster_control::reaps::reap::Ticket;
use muster_domain::ids::RunnerId;
use muster_domain::instance::{Instance, State};
use muster_domain::job::{JobEvent, JobStatus};
use muster_domain::message::ReapMessage;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{EndedBy, Kind, Line};
use muster_sim::ec2::End;

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
    assert_eq!((line.kind, line.at, line.at_by), (Kind::Machine, ended_at, EndedBy::Event));
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
    assert_eq!((line.kind, Some(line.at), line.machine), (Kind::Job, completed_at, None));
    assert_eq!(line.job.map(|job| job.key), Some(queued.key));
    assert_eq!(line.parts.sum(), 0, "it cost nothing");
}

fn fold(bench: &Bench, event: &JobEvent) {
    let door = &bench.door;
    let ingest = Ingest { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
    bench.drive(ingest.fold(event, door.now())).expect("stored");
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
    let received = [Received { message, ticket, receipt: "1".to_owned() }];
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
