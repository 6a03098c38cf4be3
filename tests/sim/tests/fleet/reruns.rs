//! Which of the runs with interrupted jobs a sweep looks at.

use std::cell::RefCell;

use muster_control::context::Context;
use muster_control::jobs::ingest::Ingest;
use muster_control::reruns::{RerunReport, Reruns};
use muster_domain::job::JobStatus;
use muster_domain::launch::record::trouble::{Trouble, TroubleScope};
use muster_domain::rerun::{Interruption, Rerun, RerunCall, RerunOutcome, RerunState, RunOf};
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};
use muster_sim::executor::Pause;

use crate::bench::{Bench, waiting};

const HOUR: i64 = 3_600_000;

/// A run of this repository with an interrupted job, due now.
fn due(bench: &Bench, run: u64, repository: &str) -> Stored<Rerun> {
    let at = bench.door.now() - Seconds(600);
    let one = Interruption {
        instance: format!("small-l{run}-0").parse().expect("a name"),
        runner: None,
        attempt: Some(1),
        at,
        cut_from: at,
        is_spot: true,
        is_stopped: true,
        worked: Seconds(60),
        actor: None,
    };
    let of = RunOf { run, repository: repository.into(), repository_id: None, installation: None };
    let pool = "small".parse().expect("a pool");
    let record = Rerun::with(None, &of, &pool, one, at).expect("a new record");
    let key = record.key();
    bench.put(&[Change::create(record).into()]);
    bench.change(|world| Stored::clone(&world.tables.reruns[&key]))
}

/// How many runs are looked at, by how many calls.
fn run(bench: &Bench, due: &[Stored<Rerun>], troubles: &[Trouble], until: Time) -> (usize, u64) {
    let (door, report) = (&bench.door, RefCell::new(RerunReport::default()));
    let context = Context::new(door, &(), &(), door, &door.sim.settings);
    let before = bench.change(|world| world.calls.github);
    let clock = || door.now();
    bench.drive(Reruns { context, clock: &clock, until, report: &report }.run(due, troubles));
    (report.into_inner().looked, bench.change(|world| world.calls.github) - before)
}

/// The first look meets the limit, which is recorded: it applies to all calls for the account.
#[test]
fn a_rate_limit_ends_the_looks_at_runs_of_its_account_alone() {
    let bench = Bench::new();
    bench.change(|world| {
        world.github.script.limits = Some(("acme".to_owned(), world.now + HOUR));
    });
    let repositories = [(1, "acme/web"), (2, "ACME/api"), (3, "other/web")];
    let runs = repositories.map(|(number, repository)| due(&bench, number, repository));
    let until = bench.door.now() + Seconds(60);
    assert_eq!(run(&bench, &runs, &[], until), (2, 2), "one of each account");
    let known = bench.change(|world| world.tables.cooldowns.clone()).expect("recorded");
    let is_limit = |one: &Trouble| matches!(one.scope, TroubleScope::Limit(_));
    assert!(known.troubles.iter().any(is_limit));
    let late = [due(&bench, 4, "acme/web")];
    assert_eq!(run(&bench, &late, &known.troubles, until), (0, 0), "it is still limited");
}

/// EC2 takes a hundred machines of one account at once.
#[test]
fn runs_of_one_account_do_not_delay_those_of_others() {
    let bench = Bench::new();
    let mut runs: Vec<_> = (1..=100).map(|run| due(&bench, run, "acme/web")).collect();
    bench.drive(Pause::new(&bench.door.sim, 1_000));
    runs.push(due(&bench, 101, "other/web"));
    let found = bench.drive(bench.sweep()).reruns;
    assert_eq!(found.len(), runs.len());
    let until = bench.door.now() + Seconds(3_600);
    assert_eq!(run(&bench, &found, &[], until), (21, 21), "20 of acme, and the other");
    // The next pass has the others, and not those that it has looked at.
    bench.drive(Pause::new(&bench.door.sim, 5_000));
    let found = bench.drive(bench.sweep()).reruns;
    assert_eq!(found.len(), 80);
}

/// A sweep's list may be older than the record, and its time may be up.
#[test]
fn a_run_is_looked_at_when_it_is_due_and_in_time() {
    let bench = Bench::new();
    let runs = [due(&bench, 1, "acme/web")];
    let now = bench.door.now();
    assert_eq!(run(&bench, &runs, &[], now), (0, 0), "no time is left");
    assert_eq!(run(&bench, &runs, &[], now + Seconds(60)), (1, 1));
    assert_eq!(run(&bench, &runs, &[], now + Seconds(60)), (0, 0), "it is due again later");
}

/// Only the machine of an attempt that Muster ordered is to be one that Spot cannot take. A person may
/// re-run the job before Muster's call arrives.
#[test]
fn a_job_prefers_on_demand_in_the_attempt_that_was_ordered() {
    use JobStatus::{InProgress, Queued};
    let rows: [(u32, bool, &[(JobStatus, bool)], bool); 8] = [
        (1, false, &[(Queued, false)], false),
        (2, false, &[(Queued, false)], true),
        (3, false, &[(Queued, false)], false),
        (2, false, &[(Queued, true)], false),
        (2, false, &[(InProgress, false)], true),
        (2, false, &[(InProgress, false), (Queued, true)], false),
        // GitHub has accepted the call.
        (2, true, &[(Queued, true)], true),
        (2, true, &[(InProgress, false), (Queued, true)], true),
    ];
    for (attempt, is_answered, events, is_ours) in rows {
        let bench = Bench::new();
        let mut event = waiting(1, bench.door.now()).last_event;
        let stored = due(&bench, event.run, "acme/web");
        let (at, call) = (bench.door.now(), RerunCall::Failed);
        let state = match is_answered {
            true => RerunState::Done { at, outcome: RerunOutcome::Rerun { attempt: 2, jobs: 1 } },
            false => RerunState::Intended { attempt: 1, call, jobs: 1, due: at, tries: 1 },
        };
        let ordered = Rerun { ours: vec![2], state, ..stored.record().clone() };
        bench.put(&[stored.change(ordered).into()]);
        event.attempt = attempt;
        let door = &bench.door;
        let ingest = Ingest { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
        for (status, by_person) in events {
            (event.status, event.by_person) = (*status, *by_person);
            bench.drive(ingest.fold(&event, door.now())).expect("stored");
        }
        let rerun = bench.change(|world| world.tables.jobs[&event.key].rerun);
        assert_eq!(rerun, is_ours, "attempt {attempt}, {is_answered}: {events:?}");
    }
}
