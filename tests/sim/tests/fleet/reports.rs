//! A machine that talks without end, or the job on it in its name: what it says changes its record
//! once, and holds nothing up.

use std::rc::Rc;

use muster_control::context::Context;
use muster_control::reaps::batch::{Batch, ReceivedReap};
use muster_control::reaps::reap::Ticket;
use muster_control::runner_api::{MachineReport, RunnerApi, RunnerApiError, look};
use muster_domain::ec2::Market;
use muster_domain::ids::MachineId;
use muster_domain::instance::{
    Ages, DeleteOrder, DeleteReason, Instance, ReportError, Start, StartReport, State, Used,
};
use muster_domain::message::ReapMessage;
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_domain::usage::{Learned, Prices};
use muster_sim::door::Door;
use muster_sim::schedule;

use super::bench::Bench;

fn job(repository: &str) -> StartReport {
    let (repository, name) = (repository.to_owned(), "build".to_owned());
    StartReport { repository, private: Some(true), run: 1, name, pull_request: None }
}

/// All that a machine may report, in the order of its life.
fn reports(runner: &str) -> Vec<MachineReport> {
    let runner = || runner.to_owned();
    let job = job("acme/web");
    vec![
        MachineReport::RunnerStarted { runner: runner() },
        MachineReport::JobStarted { runner: runner(), job },
        MachineReport::JobCompleted { runner: runner(), used: None },
        MachineReport::Interrupted { runner: runner() },
        MachineReport::Exited { runner: runner(), code: 0, stopped_for: None, used: None },
        MachineReport::BootFailed { log: "simulated".to_owned() },
    ]
}

/// A runner that GitHub knows, with a job on it since ten minutes ago.
fn at_work(bench: &Bench) -> Instance {
    let mut row = bench.idle(1).remove(0);
    bench.make_due(&mut row);
    row.clear_mark(bench.door.now(), "the test");
    let name = row.runner_name();
    let then = Time::from_millis(bench.door.now().as_millis() - 600_000);
    let pool = schedule::pool(row.pool.as_str(), &["linux"], 9, "spot", None);
    let start = row.job_started(&name, job("acme/web"), &pool, then, &Timings::default());
    assert_eq!(start, Ok(Start::Accepted));
    row
}

fn stored(bench: &Bench, row: &Instance) -> Instance {
    bench.change(|world| Instance::clone(&world.tables.instances[&row.name]))
}

/// Before each call of a pass over the row, the machine says `says`. The pass may take up a
/// conflict six times.
fn pass_beside(bench: &Bench, row: &Instance, message: ReapMessage, says: &[MachineReport]) {
    let door = &bench.door;
    let settings = &Rc::clone(&door.sim).settings;
    let machine = row.machine().expect("a machine").clone();
    let ticket = Ticket { nonce: 1, receives: 1 };
    let received = ReceivedReap { message, ticket, receipt: "1".to_owned() };
    let batch = Batch { context: Context::new(door, door, door, door, settings) };
    let deadline = door.now() + Seconds(60);
    let clock = || door.now();
    bench.drive_with(batch.run(std::slice::from_ref(&received), deadline, &clock), |_| {
        for report in says {
            say(bench, door, &machine, report);
        }
    });
}

fn say(bench: &Bench, door: &Door, machine: &MachineId, report: &MachineReport) {
    // A refusal is an answer as good as any.
    let _ = bench.drive(async {
        let (settings, owner) = look(&door.sim.settings, door, machine, Some(report)).await?;
        let context = Context::new(door, door, &(), door, &settings);
        RunnerApi { context, owner, role: None }.report(report, door.now()).await
    });
}

fn woken(row: &Instance) -> ReapMessage {
    ReapMessage::Reap { name: row.name.clone(), nonce: 1 }
}

/// The way out of a job that was ordered to end, or is too old; each report alone, and all of them
/// in turn.
#[test]
fn no_report_keeps_the_machine_of_a_job_that_is_to_end() {
    let all = reports("small-l0-0-1");
    let mut sets: Vec<&[MachineReport]> = all.chunks(1).collect();
    sets.push(&all[..2]);
    sets.push(&all);
    for says in sets {
        for ordered in [true, false] {
            let bench = Bench::new();
            let mut row = at_work(&bench);
            let now = bench.door.now();
            if ordered {
                let order = DeleteOrder {
                    at: now,
                    by: "ada".to_owned(),
                    reason: "mines coins".to_owned(),
                    force: false,
                    bypass_github_unauthorized: false,
                    kill_running_job: true,
                };
                row.order_delete(&order, now);
            } else {
                row.to_pending_delete(DeleteReason::MaxLifetime, now);
            }
            bench.store(std::slice::from_ref(&row));
            for _ in 0..2 {
                pass_beside(&bench, &row, woken(&row), says);
            }
            let state = stored(&bench, &row).state();
            assert!(
                matches!(state, State::Deleting | State::Deleted),
                "{state}, ordered {ordered}, beside {says:?}"
            );
        }
    }
}

/// The credentials of a dead machine live on for hours, and work from anywhere.
#[test]
fn no_report_keeps_the_place_of_a_machine_that_is_gone() {
    let all = reports("small-l0-0-1");
    for says in all.chunks(1).chain([&all[..]]) {
        let bench = Bench::new();
        let row = at_work(&bench);
        bench.store(std::slice::from_ref(&row));
        let machine = row.machine().expect("a machine").clone();
        bench.change(|world| {
            let number = world.ec2.number(&machine).expect("known");
            world.end_machine(number, &muster_sim::ec2::End::HostLost);
        });
        for _ in 0..2 {
            let what = "terminated".to_owned();
            let changed = ReapMessage::MachineChanged { machine: machine.clone(), what, at: None };
            pass_beside(&bench, &row, changed, says);
        }
        assert_eq!(stored(&bench, &row).state(), State::Deleted, "beside {says:?}");
    }
}

/// The reaper is woken by what is new, not by every repetition.
#[test]
fn an_end_that_is_reported_again_wakes_nobody() {
    let bench = Bench::new();
    let row = bench.idle(1).remove(0);
    bench.store(std::slice::from_ref(&row));
    let machine = row.machine().expect("a machine").clone();
    let sent = |bench: &Bench| {
        let runner = row.runner_name();
        say(
            bench,
            &bench.door,
            &machine,
            &MachineReport::Exited { runner, code: 1, stopped_for: None, used: None },
        );
        bench.drive(muster_sim::executor::Pause::new(&bench.door.sim, 1_000));
        bench.change(|world| {
            let now = world.now;
            world.queues.of(muster_sim::agenda::Which::Reap).receive(50, now).len()
        })
    };
    assert_eq!((sent(&bench), sent(&bench)), (1, 0));
}

/// A registration reads the pools and the machine's owner with its record; writes that it counts the request
/// and reads GitHub's refusals; calls GitHub; writes the registration.
#[test]
fn a_registration_waits_for_four_calls_five_of_the_tables() {
    let bench = Bench::new();
    let row = bench.booting();
    bench.store(std::slice::from_ref(&row));
    let machine = row.machine().expect("a machine").clone();
    let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
    let ask = |now: Time| {
        let before = bench.change(|world| world.calls);
        let moments = bench.in_sequence(async {
            let (settings, owner) = look(settings, door, &machine, None).await.expect("read");
            let context = Context::new(door, door, door, door, &settings);
            let done = RunnerApi { context, owner, role: None }
                .configure(None, Ages::default(), now)
                .await;
            assert_eq!(done.err(), None);
        });
        let after = bench.change(|world| world.calls);
        (moments, after.reads - before.reads, after.commits - before.commits)
    };
    assert_eq!(ask(door.now()), (4, 3, 2));
    // The second one finds that the record has changed since the bind, and removes the first one's
    // registration along with its own call to GitHub.
    assert_eq!(ask(door.now() + Seconds(60)), (6, 4, 2));
}

/// A job waits for it. The report names its registration, and so the record, which is read at the same
/// time as the pools. A start that is refused is written with its line of the trail, once.
#[test]
fn a_start_waits_for_two_calls_whether_it_is_refused_or_not() {
    for (repository, answer) in
        [("acme/web", Ok(())), ("other/web", Err(RunnerApiError::Refused(ReportError::ForeignJob)))]
    {
        let bench = Bench::new();
        let mut row = bench.idle(1).remove(0);
        bench.make_due(&mut row);
        row.clear_mark(bench.door.now(), "the test");
        bench.store(std::slice::from_ref(&row));
        let machine = row.machine().expect("a machine").clone();
        let report = MachineReport::JobStarted { runner: row.runner_name(), job: job(repository) };
        let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
        let say = |bench: &Bench| {
            let before = bench.change(|world| world.calls);
            let moments = bench.in_sequence(async {
                let looked = look(settings, door, &machine, Some(&report)).await;
                let (settings, owner) = looked.expect("read");
                let context = Context::new(door, door, door, door, &settings);
                let said =
                    RunnerApi { context, owner, role: None }.report(&report, door.now()).await;
                assert_eq!(said.map(|_| ()), answer, "{repository}");
            });
            let after = bench.change(|world| world.calls);
            (moments, after.reads - before.reads, after.commits - before.commits)
        };
        let sends = i64::from(answer.is_err());
        assert_eq!(say(&bench), (2 + sends, 2, 1), "{repository}");
        assert_eq!(say(&bench), (1, 2, 0), "{repository}: the answer was lost");
        assert_eq!(bench.change(|world| world.tables.audits.len() as i64), sends, "{repository}");
    }
}

/// A session's name is worth as much as the role behind it: a machine signs with the one that it was
/// launched with, and whoever signs with another is not that machine.
#[test]
fn a_machine_is_known_by_the_role_that_it_was_launched_with() {
    for (launched, signs) in [
        (None, None),
        (Some("AROA1"), Some("AROA1")),
        (None, Some("AROA1")),
        (Some("AROA1"), None),
        (Some("AROA1"), Some("AROA2")),
    ] {
        let bench = Bench::new();
        let mut row = at_work(&bench);
        row.role = launched.map(Into::into);
        bench.store(std::slice::from_ref(&row));
        let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
        let context = Context::new(door, door, door, door, settings);
        let pass = RunnerApi { context, owner: row.name.clone().into(), role: signs };
        let report = MachineReport::JobCompleted { runner: row.runner_name(), used: None };
        let said = bench.drive(pass.report(&report, door.now())).map(drop);
        let expected = if launched == signs { Ok(()) } else { Err(RunnerApiError::UnknownMachine) };
        assert_eq!(said, expected, "{launched:?}, {signs:?}");
    }
}

/// Each report reads the pools and the record, and writes the record if it is news. A report that names no
/// registration is led to the record by the machine's owner: one more read.
#[test]
fn a_report_costs_one_read_of_each_record_that_it_asks_for() {
    let bench = Bench::new();
    let row = at_work(&bench);
    bench.store(std::slice::from_ref(&row));
    let machine = row.machine().expect("a machine").clone();
    let settings = &Rc::clone(&bench.door.sim).settings;
    let runner = || row.runner_name();
    let (door, now) = (&bench.door, bench.door.now());
    for (report, costs) in [
        (MachineReport::JobCompleted { runner: runner(), used: None }, (2, 1)),
        (MachineReport::Interrupted { runner: runner() }, (2, 1)),
        (MachineReport::Interrupted { runner: runner() }, (2, 0)),
        (
            MachineReport::Exited { runner: runner(), code: 0, stopped_for: None, used: None },
            (2, 1),
        ),
        // It is on record already.
        (
            MachineReport::Exited { runner: runner(), code: 0, stopped_for: None, used: None },
            (2, 0),
        ),
        (MachineReport::BootFailed { log: "simulated".to_owned() }, (3, 0)),
    ] {
        let before = bench.change(|world| world.calls);
        bench.drive(async {
            let looked = look(settings, door, &machine, Some(&report)).await;
            let (settings, owner) = looked.expect("read");
            let context = Context::new(door, door, door, door, &settings);
            let done = RunnerApi { context, owner, role: None }.report(&report, now).await;
            let _ = done.expect("noted");
        });
        let after = bench.change(|world| world.calls);
        let made = (after.reads - before.reads, after.commits - before.commits);
        assert_eq!(made, costs, "{report:?}");
    }
}

/// The prices are read in the call that reads the record, and a record of prices that cannot be read
/// costs only the price.
#[test]
fn the_end_of_a_job_is_answered_with_what_its_log_shows() {
    for (is_broken, price) in [(false, Some(100_800)), (true, None)] {
        let bench = Bench::new();
        let mut row = at_work(&bench);
        row.make.kind = Some("m7i.large".into());
        row.make.market = Some(Market::OnDemand);
        bench.store(std::slice::from_ref(&row));
        let mut prices = Prices::default();
        prices.learn(Learned::List("m7i.large".into(), Some(100_800)), bench.door.now());
        bench.put(&[Change::create(prices).into()]);
        if is_broken {
            bench.change(|world| world.tables.broken.insert("prices".to_owned()));
        }
        let used = Some(Used { cpus: 2, cpu: 38, ..Used::default() });
        let machine = row.machine().expect("a machine").clone();
        let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
        let report = MachineReport::JobCompleted { runner: row.runner_name(), used };
        let facts = bench.drive(async {
            let looked = look(settings, door, &machine, Some(&report)).await;
            let (settings, owner) = looked.expect("read");
            let context = Context::new(door, door, door, door, &settings);
            let done = RunnerApi { context, owner, role: None }.report(&report, door.now()).await;
            done.expect("noted").facts.expect("facts")
        });
        assert_eq!((&facts.pool, facts.price), (&row.pool, price));
        assert_eq!(stored(&bench, &row).runner.used, used);
    }
}

/// A machine that names the registration of another machine changes only its own record.
#[test]
fn a_report_in_the_name_of_another_machine_changes_nothing_there() {
    let bench = Bench::new();
    let rows = bench.idle(2);
    bench.store(&rows);
    let machine = rows[0].machine().expect("a machine").clone();
    let runner = rows[1].runner_name();
    let before = stored(&bench, &rows[1]);
    let started = MachineReport::JobStarted { runner, job: job("acme/web") };
    say(&bench, &bench.door, &machine, &started);
    assert_eq!(stored(&bench, &rows[1]), before);
}
