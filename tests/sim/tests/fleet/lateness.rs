//! From when on something is late.

use control::Settings;
use control::ports::Write;
use control::sweep::Sweep;
use domain::job::{JobEvent, JobStatus, fold};
use domain::time::Seconds;
use domain::timings::Timings;
use sim::agenda::Millis;
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
