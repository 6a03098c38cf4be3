//! Job events that come in one batch.

use muster_control::admin::known_findings;
use muster_control::context::Context;
use muster_control::jobs::ingest::{Folded, Ingest};
use muster_control::ports::Jobs;
use muster_control::runner_api::RunnerApi;
use muster_domain::audit::AuditKind;
use muster_domain::ids::{PoolName, RunnerId};
use muster_domain::instance::{Ages, DeleteOrder, Instance};
use muster_domain::job::labels::Labels;
use muster_domain::job::{Job, JobEvent, JobStatus};
use muster_domain::stored::Change;
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;
use muster_sim::schedule;

use crate::bench::{Bench, waiting};

/// DynamoDB refuses a transaction for one of its items alone: one of more than 400 KB, say.
/// Source: docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html
#[test]
fn an_item_that_the_table_refuses_fails_no_other_event() {
    for refused in 0..5 {
        let bench = Bench::new();
        let door = &bench.door;
        let events: Vec<JobEvent> = (0..5).map(|n| waiting(n, door.now()).last_event).collect();
        bench.change(|world| world.refused_item = Some(events[refused].key));
        let ingest = Ingest { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
        let folded = bench.drive(ingest.fold_all(&events, door.now()));
        for (index, event) in events.iter().enumerate() {
            let stored = bench.drive(door.job(event.key)).expect("a read").is_some();
            let is_folded = matches!(folded[index], Ok(Folded::Stored { .. }));
            assert_eq!((stored, is_folded), (index != refused, index != refused), "{index}");
        }
    }
}

/// Whoever may register runners in another account, or at another level of ours, may give one the
/// name of ours, which each job's log shows.
#[test]
fn an_event_is_of_an_instance_by_name_account_and_number() {
    let (own, other) = (Some(RunnerId(1_000_000)), Some(RunnerId(7)));
    for (repository, number, is_taker) in [
        ("acme/web", own, true),
        ("Acme/web", None, true),
        ("acme/web", other, false),
        ("evil/sandbox", own, false),
        ("evil/sandbox", None, false),
    ] {
        let bench = Bench::new();
        let row = bench.idle(1).remove(0);
        let stored = told(&bench, &row, repository, number);
        assert_eq!(stored.runner.is_busy(), is_taker, "{repository} {number:?}");
    }
}

/// A machine that is recorded as busy is refused its configuration and never becomes a runner. It
/// has no registration yet, so no event can be about its runner, whatever the event says or omits.
#[test]
fn a_namesake_does_not_keep_a_machine_from_its_registration() {
    let number = Some(RunnerId(7));
    for (repository, number) in [
        ("evil/sandbox", None),
        ("evil/sandbox", number),
        ("acme/sandbox", None),
        ("acme/sandbox", number),
        ("Acme/sandbox", None),
    ] {
        let bench = Bench::new();
        let door = &bench.door;
        let booting = bench.booting();
        told(&bench, &booting, repository, number);
        let context = Context::new(door, door, door, door, &door.sim.settings);
        let pass = RunnerApi { context, owner: booting.name.clone().into(), role: None };
        let answer = bench.drive(pass.configure(None, Ages::default(), door.now())).map(|_| ());
        assert_eq!(answer.err().map(|error| error.to_string()), None, "{repository} {number:?}");
    }
}

/// The instance, once GitHub has told that a runner of its name took a job of the repository.
fn told(bench: &Bench, row: &Instance, repository: &str, runner_id: Option<RunnerId>) -> Instance {
    bench.store(std::slice::from_ref(row));
    let door = &bench.door;
    let event = JobEvent {
        status: JobStatus::InProgress,
        repository: repository.into(),
        runner: Some(format!("{}-1", row.name)),
        runner_id,
        ..waiting(77, door.now()).last_event
    };
    let ingest = Ingest { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
    bench.drive(ingest.fold(&event, door.now())).expect("stored");
    bench.change(|world| Instance::clone(&world.tables.instances[&row.name]))
}

/// Anyone who can write a workflow chooses the labels, and the row holds the answer of each pool.
#[test]
fn a_hostile_job_is_stored_with_a_short_reason() {
    let names: Vec<String> = (0..20).map(|n| format!("pool-{n}")).collect();
    let pools =
        names.iter().map(|name| schedule::pool(name, &["linux"], 9, "spot", None)).collect();
    let bench = Bench::of(pools);
    let door = &bench.door;
    let labels: Vec<String> = (0..100).map(|n| format!("{n:03}{}", "x".repeat(250))).collect();
    let labels = ["self-hosted".to_owned()].into_iter().chain(labels).collect::<Vec<_>>();
    let mut event = waiting(1, door.now()).last_event;
    event.labels = Labels::new(&labels);
    let ingest = Ingest { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
    bench.drive(ingest.fold(&event, door.now())).expect("stored");
    let row = bench.drive(door.job(event.key)).expect("a read").expect("a row");
    let why = row.into_record().unmatched.expect("no pool serves it");
    assert!(why.len() <= 1024, "{} bytes", why.len());
}

/// Three jobs with a machine each start elsewhere, and each event comes twice. Only a runner of
/// another fleet is reported.
#[test]
fn jobs_that_another_fleet_takes_are_reported() {
    let rows = [
        ("another fleet", "arc-7xk2p", true, true),
        ("a namesake of another fleet", "small-x-1", true, true),
        ("GitHub's own runners", "GitHub Actions 1000012", true, false),
        ("this stack's runners", "own", true, false),
        ("no machine was launched for them", "arc-7xk2p", false, false),
        ("GitHub names no runner", "", true, false),
    ];
    for (name, runner, is_claimed, is_reported) in rows {
        let bench = Bench::new();
        let (door, begun) = (&bench.door, bench.door.now());
        let mut machines = bench.idle(3);
        let jobs: Vec<Job> = (0..3).map(|n| waiting(n, begun)).collect();
        for (machine, job) in machines.iter_mut().zip(&jobs).filter(|_| is_claimed) {
            machine.set_claim(job.key(), begun);
        }
        bench.store(&machines);
        let context = Context::new(door, door, door, door, &door.sim.settings);
        for ((machine, mut job), n) in machines.iter().zip(jobs).zip(0..) {
            job.claim = is_claimed.then(|| machine.name.clone());
            let runner = if runner == "own" { machine.runner_name() } else { runner.to_owned() };
            let (status, runner) = (JobStatus::InProgress, Some(runner));
            let event = JobEvent { status, runner, ..job.last_event.clone() };
            bench.put(&[Change::create(job).into()]);
            for second in [15 * n, 15 * n + 12] {
                let ingest = Ingest { context };
                bench.drive(ingest.fold(&event, begun + Seconds(second))).expect("stored");
            }
        }
        let findings = bench.drive(known_findings(context, begun + Seconds(60))).expect("read");
        let key = "pool-foreign-runners:small";
        assert_eq!(findings.iter().any(|one| one.key == key), is_reported, "{name}: {findings:?}");
    }
}

/// Columns: whether the order kills a running job, the state of the machine, whether its end was announced, and whether its
/// runner was known to have a job; whether the job that is now known is recorded as killed.
#[test]
fn a_job_that_is_known_only_when_its_machine_ends_is_recorded_as_killed() {
    for (kills, is_deleting, is_told, had_job, is_killed) in [
        (true, true, false, false, true),
        (true, false, true, false, true),
        (true, false, false, false, false),
        (false, true, true, false, false),
        (true, true, true, true, false),
    ] {
        let bench = Bench::new();
        let mut row = bench.idle(1).remove(0);
        let (now, timings) = (bench.door.now(), Timings::default());
        let job = waiting(7, now);
        let order = DeleteOrder {
            at: now,
            by: "ada".to_owned(),
            reason: "a test".to_owned(),
            force: false,
            bypass_github_unauthorized: false,
            kill_running_job: kills,
        };
        if had_job {
            assert!(row.github_started(job.key(), now));
        }
        row.order_delete(&order, now);
        row.update_mark(|mark| mark.kill_told = is_told);
        if is_deleting {
            row.to_deleting(now, "the test", &timings);
        }
        bench.store(std::slice::from_ref(&row));
        let event = JobEvent {
            status: JobStatus::InProgress,
            runner: Some(row.runner_name()),
            runner_id: row.runner.id,
            ..job.last_event
        };
        let door = &bench.door;
        let ingest = Ingest { context: Context::new(door, &(), &(), &(), &door.sim.settings) };
        bench.drive(ingest.fold(&event, now)).expect("stored");
        let lines = bench.change(|world| world.tables.audits.clone());
        let killed = lines.iter().filter(|line| line.kind == AuditKind::JobKilled).count();
        let what = format!("{kills}, {is_deleting}, {is_told}, {had_job}");
        assert_eq!(killed, usize::from(is_killed), "{what}: {lines:?}");
    }
}

/// Every job that the pool no longer serves moves, and only such a job.
#[test]
fn the_jobs_that_a_changed_pool_does_not_serve_move_to_one_that_does() {
    for (labels, moved) in [("arm", 3), ("linux", 0)] {
        let pool =
            |name, label: &str| schedule::pool(name, &["self-hosted", label], 9, "spot", None);
        let bench = Bench::of(vec![pool("small", labels), pool("other", "linux")]).compared();
        for n in 1..=3 {
            bench.put(&[Change::create(waiting(n, bench.door.now())).into()]);
        }
        let report = bench.drive(bench.sweep());
        assert_eq!(report.problems, [] as [&str; 0], "{labels}");
        let jobs = bench.change(|world| world.tables.jobs.clone());
        let is_moved = |pool: &PoolName| pool.as_str() == "other";
        let count = jobs.values().filter(|job| job.pool.as_ref().is_some_and(is_moved)).count();
        assert_eq!(count, moved, "{labels}");
        let woken = crate::reaps::woken_pools(&bench);
        assert_eq!(woken.contains("other"), moved > 0, "{labels}: {woken:?}");
    }
}
