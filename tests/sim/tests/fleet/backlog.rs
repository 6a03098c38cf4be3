//! A pool that several organizations share, and one of them that is at its limit with a long
//! backlog.

use muster_control::Settings;
use muster_control::launches::pass::LaunchPass;
use muster_domain::ids::PoolName;
use muster_domain::message::WakePool;
use muster_domain::pool::limits::Limits;
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_sim::schedule;

use super::bench::{Bench, look_and_pass, waiting};

/// How many jobs of each organization get a machine where `acme`, which may have two, queued so
/// many before the other's one.
fn served(acme: u64) -> (usize, usize) {
    let mut pool = schedule::pool("small", &["linux"], 100, "spot", None);
    pool.repositories = vec!["*".to_owned()];
    let bench = Bench::of(vec![pool]);
    let door = &bench.door;
    let then = door.now();
    let later = then + Seconds(60);
    for n in 1..=acme + 1 {
        let mut job = waiting(n, if n > acme { later } else { then });
        let owner = if n > acme { "globex" } else { "acme" };
        job.last_event.repository = format!("{owner}/web").into();
        bench.put(&[Change::create(job).into()]);
    }
    let limits = Limits { entities: [("acme".parse().expect("one"), 2)].into(), stack: None };
    let settings = &Settings { limits, ..door.sim.settings.clone() };
    let pool: PoolName = "small".parse().expect("a pool");
    bench
        .drive(look_and_pass(
            &bench.launch_pass(settings),
            &WakePool::whole(pool.clone()),
            1,
            later + Seconds(1),
        ))
        .expect("passed");
    bench.change(|world| {
        let of = |owner: &str| {
            let jobs = world.tables.jobs.values().filter(|job| job.claim.is_some());
            jobs.filter(|job| job.last_event.repository.starts_with(owner)).count()
        };
        (of("acme"), of("globex"))
    })
}

#[test]
fn a_backlog_of_an_organization_at_its_limit_hides_no_job_of_another() {
    for acme in [100, 120, 500, 2_000] {
        assert_eq!(served(acme), (2, 1), "{acme} jobs before the other's");
    }
}

/// What is stopped with a call in hand waits for its leases, and the pools behind it have no pass
/// at all.
#[test]
fn a_pass_that_runs_out_of_time_leaves_the_rest_to_the_next() {
    for (calls, launched) in [(0, 0), (1, 49), (9, 100)] {
        let bench = Bench::of(vec![schedule::pool("small", &["linux"], 200, "spot", None)]);
        let door = &bench.door;
        for n in 0..100 {
            let next = waiting(n, door.now());
            bench.put(&[Change::create(next).into()]);
        }
        let (settings, last_call) = (&door.sim.settings, Time::from_millis(i64::MAX - 1));
        let clock = || {
            let made = bench.change(|world| world.calls.fleets);
            Time::from_millis(if made < calls { 0 } else { i64::MAX })
        };
        let pass = LaunchPass { last_call, clock: &clock, ..bench.launch_pass(settings) };
        let pool: PoolName = "small".parse().expect("a pool");
        let report = bench
            .drive(look_and_pass(&pass, &WakePool::whole(pool.clone()), 1, door.now()))
            .expect("passed");
        // One that has no time at all leaves the message itself, with the jobs that it names.
        let (again, unfinished) = (launched == 0, 0 < launched && launched < 100);
        let told = (report.launched, report.again, report.unfinished);
        assert_eq!(told, (launched, again, unfinished), "{calls}");
    }
}
