//! What CloudWatch is told to be shown, and that each thing is counted once.

use std::rc::Rc;

use muster_control::context::Context;
use muster_control::jobs::batch::JobsBatch;
use muster_control::jobs::recover::RecoveryReport;
use muster_control::metrics::{Measure, Metric, MetricSubject, lines};
use muster_control::ports::{self, Compute as _};
use muster_control::reaps::batch::{Batch, ReceivedReap};
use muster_control::reaps::reap::Ticket;
use muster_control::runner_api::{MachineReport, RunnerApi, look};
use muster_control::settings_cache::SettingsCache;
use muster_domain::instance::{Instance, Start, StartReport, State};
use muster_domain::job::{JobEvent, JobStatus};
use muster_domain::launch::verdict::WaitReason;
use muster_domain::message::{JobsMessage, ReapMessage};
use muster_domain::stored::Change;
use muster_domain::switches::{Switch, SwitchedOff, Switches};
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;
use muster_domain::usage::Prices;
use muster_sim::schedule;

use super::bench::{Bench, waiting};

fn small() -> MetricSubject {
    MetricSubject::Pool("small".to_owned())
}

/// The values of a metric.
fn told(measures: &[Measure], metric: Metric) -> Vec<(MetricSubject, f64)> {
    let own = measures.iter().filter(|one| one.metric == metric);
    own.map(|one| (one.of.clone(), one.values.iter().sum())).collect()
}

/// EC2 asks this of each machine that it lists now, in millionths of a dollar.
fn priced(bench: &Bench, each: u64) {
    let listed = bench.drive(bench.door.list(None)).expect("listed");
    let mut prices = Prices::default();
    for machine in listed.items {
        let kind = machine.make.kind.expect("told");
        let zone = machine.make.zone.expect("told");
        prices.spot.entry(kind.clone()).or_default().insert(zone, each);
        prices.list.insert(kind, each);
    }
    bench.put(&[Change::create(prices).into()]);
}

#[test]
fn a_sweep_tells_why_jobs_wait_and_what_machines_there_are() {
    let bench = Bench::of(vec![schedule::pool("small", &["linux"], 2, "spot", None)]);
    let mut rows = bench.idle(2);
    at_work(&mut rows[0], &bench);
    bench.store(&rows);
    priced(&bench, 50_000);
    for n in 0..3 {
        let mut job = waiting(n, bench.door.now());
        job.claim = (n == 0).then(|| rows[1].name.clone());
        bench.put(&[Change::create(job).into()]);
    }
    let report = bench.drive(bench.sweep());
    assert_eq!(report.problems, Vec::<String>::new());
    let measures = report.measures(&bench.door.sim.settings);
    let mut waits = told(&measures, Metric::JobsWaiting);
    waits.retain(|(_, count)| *count > 0.0);
    let by = MetricSubject::Reason;
    let expected = [(small(), 3.0), (by(WaitReason::Starting), 1.0), (by(WaitReason::Room), 2.0)];
    assert_eq!(waits, expected);
    assert_eq!(told(&measures, Metric::MachinesLive), [(small(), 2.0)]);
    assert_eq!(told(&measures, Metric::MachinesBusy), [(small(), 1.0)]);
    assert_eq!(told(&measures, Metric::DollarsAnHour), [(MetricSubject::Stack, 0.1)]);
    assert_eq!(told(&measures, Metric::MachinesUnpriced), [(MetricSubject::Stack, 0.0)]);
    assert_eq!(told(&measures, Metric::JobsGated), [(MetricSubject::Stack, 0.0)]);
}

/// The bytes and the metric documents that a sweep logs: the latter, and its report.
fn logged(jobs: u64) -> (usize, usize) {
    let bench = Bench::new().compared();
    for n in 0..jobs {
        bench.put(&[Change::create(waiting(n, bench.door.now())).into()]);
    }
    let settings = &Rc::clone(&bench.door.sim).settings;
    let report = bench.drive(bench.sweep());
    assert_eq!(report.problems, Vec::<String>::new());
    let inquiry = RecoveryReport::default();
    let measures = [report.measures(settings), inquiry.measures()].concat();
    let documents = lines("muster", settings.measures, &measures, bench.door.now());
    (documents.len() + format!("{report:?}").len(), documents.lines().count())
}

/// The runtime adds 300 bytes around the report. One document each is about the stack, the pool and a reason.
#[test]
fn a_sweep_logs_two_kilobytes_whether_jobs_wait_or_not() {
    let (idle, documents) = logged(0);
    assert!(idle <= 1_700 && documents == 3, "{idle} bytes, {documents} documents");
    let (busy, documents) = logged(100);
    assert!(busy <= 2_000 && documents <= 4, "{busy} bytes, {documents} documents");
}

/// An operator who has switched deletes off wants to see what that costs; and nothing is ended.
#[test]
fn what_machines_cost_is_told_while_deletes_are_off() {
    let bench = Bench::new();
    let mut rows = bench.idle(3);
    // A machine that no record owns.
    let stray = rows.pop().expect("three");
    bench.store(&rows);
    bench.change(|world| {
        let number = world.ec2.number(stray.machine().expect("a machine")).expect("known");
        world.ec2.cloud.at_mut(number as usize).launched_at -= super::bench::AGE_MILLIS;
    });
    let by = SwitchedOff {
        since: bench.door.now(),
        by: "ada".to_owned(),
        reason: "a test".to_owned(),
        until: None,
    };
    let off = Switches::with(&Switches::default(), &Switch::Deletes, Some(by));
    bench.put(&[muster_control::ports::Write::Switches(Change::create(off))]);
    let report = bench.drive(bench.sweep());
    let measures = report.measures(&bench.door.sim.settings);
    assert_eq!(told(&measures, Metric::MachinesUnpriced), [(MetricSubject::Stack, 3.0)]);
    assert_eq!((report.ledger.len(), bench.change(|world| world.calls.terminates)), (0, 0));
}

/// GitHub tells the same event again, and `completed` after it.
#[test]
fn the_wait_of_a_job_is_told_once_by_the_event_that_ends_it() {
    let bench = Bench::new();
    let queued = bench.door.now();
    let taken = JobEvent {
        status: JobStatus::InProgress,
        runner: Some("small-l0-0-1".to_owned()),
        started_at: Some(queued + Seconds(90)),
        ..waiting(1, queued).last_event
    };
    let over = JobEvent {
        status: JobStatus::Completed,
        conclusion: Some("success".to_owned()),
        completed_at: Some(queued + Seconds(600)),
        ..taken.clone()
    };
    let cancelled = JobEvent {
        status: JobStatus::Completed,
        started_at: Some(queued + Seconds(5)),
        ..waiting(2, queued).last_event
    };
    let mut waits = Vec::new();
    for event in [waiting(1, queued).last_event, taken.clone(), taken, over, cancelled] {
        let (door, settings) = (&bench.door, &bench.door.sim.settings);
        let context = Context::new(door, door, &(), &(), settings);
        let cache = &SettingsCache::default();
        let pass = JobsBatch { context, cache, clock: &|| door.now() };
        let message = JobsMessage::JobEvent { event: Box::new(event), delivery: "d".to_owned() };
        let (id, receipt) = ("1".to_owned(), "1/1".to_owned());
        let received = ports::Received { message: Some(message), id, receipt, receives: 1 };
        let report = bench.drive(pass.run(&[received]));
        assert_eq!(report.acked, [true]);
        waits.push(told(&report.measures, Metric::JobWaitSeconds));
    }
    assert_eq!(waits, [vec![], vec![(small(), 90.0)], vec![], vec![], vec![]]);
}

#[test]
fn the_start_of_a_machine_is_told_once() {
    let bench = Bench::new();
    let row = bench.booting();
    bench.store(std::slice::from_ref(&row));
    let machine = row.machine().expect("a machine").clone();
    let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
    let listens = row.bound_at.expect("bound") + Seconds(41);
    let starts = [listens, listens + Seconds(5)].map(|now| {
        bench.drive(async {
            let (settings, owner) = look(settings, door, &machine, None).await.expect("read");
            let context = Context::new(door, door, door, door, &settings);
            let pass = RunnerApi { context, owner, role: None };
            pass.configure(None, Default::default(), now).await.err();
            let runner = "small-l0-0-1".to_owned();
            let report = pass.report(&MachineReport::RunnerStarted { runner }, now).await;
            told(&report.map(|done| done.measures).unwrap_or_default(), Metric::MachineStartSeconds)
        })
    });
    assert_eq!(starts, [vec![(small(), 41.0)], vec![]]);
}

pub(crate) fn at_work(row: &mut Instance, bench: &Bench) {
    let (name, private) = ("build".to_owned(), Some(true));
    let report = StartReport::new("acme/web", private, 1, &name, "");
    let pool = schedule::pool("small", &["linux"], 9, "spot", None);
    let runner = row.runner_name();
    let start = row.job_started(&runner, report, &pool, bench.door.now(), &Timings::default());
    assert_eq!(start, Ok(Start::Accepted));
}

/// EC2 ends a machine, and says so twice.
fn ended(change: impl FnOnce(&mut Instance, &Bench)) -> Vec<(Metric, MetricSubject)> {
    let bench = Bench::new();
    let mut row = bench.idle(1).remove(0);
    change(&mut row, &bench);
    bench.store(std::slice::from_ref(&row));
    let machine = row.machine().expect("a machine").clone();
    bench.change(|world| {
        let number = world.ec2.number(&machine).expect("known");
        world.end_machine(number, &muster_sim::ec2::End::HostLost);
    });
    let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
    let mut measures = Vec::new();
    for receives in 1..=2 {
        let what = "terminated".to_owned();
        let message = ReapMessage::MachineChanged { machine: machine.clone(), what, at: None };
        let ticket = Ticket { nonce: 1, receives };
        let received = ReceivedReap { message, ticket, receipt: "1".to_owned() };
        let batch = Batch { context: Context::new(door, door, door, door, settings) };
        let (deadline, clock) = (door.now() + Seconds(60), || door.now());
        let report = bench.drive(batch.run(std::slice::from_ref(&received), deadline, &clock));
        measures.extend(report.measures);
    }
    assert_eq!(bench.in_state(State::Deleted), 1);
    measures.into_iter().map(|one| (one.metric, one.of)).collect()
}

#[test]
fn what_was_lost_with_a_machine_is_told_once() {
    assert_eq!(ended(|_, _| ()), [], "kept idle");
    let in_vain = ended(|row, _| row.bought_for_job = true);
    assert_eq!(in_vain, [(Metric::MachinesInVain, small())]);
    let interrupted = ended(at_work);
    assert_eq!(interrupted, [(Metric::JobsInterrupted, small())]);
    let over = ended(|row, bench| {
        at_work(row, bench);
        let (now, runner) = (bench.door.now(), row.runner_name());
        row.job_completed(&runner, now, &Timings::default()).expect("noted");
    });
    assert_eq!(over, [], "its job was over");
}
