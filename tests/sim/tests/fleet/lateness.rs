//! From when on something is late.

use control::Settings;
use control::ports::Write;
use control::sweep::Sweep;
use domain::job::{JobEvent, JobStatus, fold};
use domain::time::Seconds;
use domain::timings::Timings;
use sim::agenda::Millis;
use sim::fault::Fault;
use sim::schedule;

use crate::bench::{Bench, waiting};

/// GitHub's times are those of the job's creation, also after days of waiting for an approval.
#[test]
fn a_job_is_as_old_as_its_approval() {
    const THREE_DAYS: Millis = 3 * 24 * 3_600_000;
    for (waited, expired) in [(true, 0), (false, 1)] {
        let bench = Bench::new().compared();
        let door = &bench.door;
        let created = door.now();
        let said = waiting(1, created).said;
        let approval = JobEvent { status: JobStatus::Waiting, ..said.clone() };
        let first = waited.then(|| fold(None, approval, created));
        bench.drive(sim::executor::Pause::new(&door.sim, THREE_DAYS));
        let heard = if waited { door.now() } else { created };
        let mut job = fold(first, said, heard);
        job.pool = Some("small".parse().expect("a pool"));
        bench.put(&[Write::Job { next: Box::new(job), replaces: None }]);
        let pass = Sweep { table: door, queue: door, compute: door, settings: &door.sim.settings };
        let report = bench.drive(pass.sweep(door.now()));
        assert_eq!(report.expired, expired, "waited for an approval: {waited}");
        assert!(report.oldest_queued_job < 60, "{}", report.oldest_queued_job);
    }
}

/// A pool may want its jobs to wait for a runner that comes free: that is no delay of ours.
#[test]
fn a_job_is_late_from_when_its_pool_would_launch_for_it() {
    for (job_age, late) in [(0, 1), (1_800, 0)] {
        let mut pool = schedule::pool("small", &["linux"], 0, "spot", None);
        pool.job_age_seconds = Seconds(job_age);
        let bench = Bench::of(vec![pool]).compared();
        let door = &bench.door;
        let job = Box::new(waiting(1, door.now()));
        bench.put(&[Write::Job { next: job, replaces: None }]);
        bench.drive(sim::executor::Pause::new(&door.sim, 1_200_000));
        let pass = Sweep { table: door, queue: door, compute: door, settings: &door.sim.settings };
        let report = bench.drive(pass.sweep(door.now()));
        assert_eq!(report.overdue, late, "job age {job_age}");
    }
}

#[test]
fn a_machine_that_does_not_boot_is_found_before_it_is_too_old() {
    for (life, own, expected) in [(600, None, 300), (600, Some(120), 120), (43_200, None, 600)] {
        let mut pool = schedule::pool("small", &["linux"], 1, "spot", None);
        pool.max_lifetime_seconds = Seconds(life);
        pool.boot_deadline_seconds = own.map(Seconds);
        let name = pool.name.clone();
        let settings = Settings::of_parameters("sim".into(), vec![pool], Timings::default());
        assert_eq!(settings.timings_of(&name).boot_deadline_seconds, Seconds(expected));
    }
}

/// Some jobs of the bench's pool, as they stand in its tables and listings.
fn queued(bench: &Bench, count: u64) {
    let now = bench.door.now();
    let job = |n| Write::Job { next: Box::new(waiting(n, now)), replaces: None };
    let writes: Vec<Write> = (0..count).map(job).collect();
    writes.chunks(100).for_each(|part| bench.put(part));
}

/// It would fail the commit that holds it in every round, until the listing has caught up.
#[test]
fn one_job_that_a_listing_shows_as_it_was_costs_the_others_one_round() {
    let bench = Bench::new();
    queued(&bench, 60);
    bench.change(|world| world.odds.set(Fault::IndexLate, 1_000_000));
    let now = bench.door.now();
    let before = waiting(7, now);
    let said = JobEvent { status: JobStatus::Completed, ..before.said.clone() };
    let generation = before.generation;
    let mut ended = fold(Some(before), said, now);
    ended.generation = generation + 1;
    bench.put(&[Write::Job { next: Box::new(ended), replaces: Some(generation) }]);
    let pool = "small".parse().expect("a pool");
    let work = bench.launch_pass(&bench.door.sim.settings);
    let report = bench.drive(work.pass(&pool, now)).expect("a pass");
    assert_eq!((report.launched, report.unfinished), (59, false), "{report:?}");
    assert_eq!(bench.change(|world| world.calls.conflicts), 1);
}

/// The next pass comes in at once, wherever this one was broken off.
#[test]
fn no_read_that_fails_keeps_the_pool_from_others() {
    let mut failed = 0;
    for broken in 0..40 {
        let bench = Bench::new();
        // More than one round reads, so that it looks again how the pool stands.
        queued(&bench, 130);
        let pool = "small".parse().expect("a pool");
        let work = bench.launch_pass(&bench.door.sim.settings);
        let pass = work.pass(&pool, bench.door.now());
        let done = bench.drive_with(pass, |call| {
            let odds = if call == broken { 1_000_000 } else { 0 };
            bench.change(|world| world.odds.set(Fault::ReadFailed, odds));
        });
        failed += usize::from(done.is_err());
        let capacity = bench.change(|world| world.tables.capacities.get(&pool).cloned());
        assert!(!capacity.is_some_and(|one| one.is_held_by("test")), "call {broken}: {done:?}");
    }
    assert!(failed > 5, "{failed} passes failed");
}
