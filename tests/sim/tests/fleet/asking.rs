//! Who asks GitHub again after it has refused the runners of a pool, and how often.

use muster_domain::ids::PoolName;
use muster_domain::job::{JobEvent, JobStatus, fold};
use muster_domain::launch::record::Cooldowns;
use muster_domain::message::WakePool;
use muster_domain::pool::Pool;
use muster_domain::provider::ErrorDetail;
use muster_domain::stored::{Change, Stored, Version};
use muster_domain::switches::{Switch, SwitchedOff, Switches};
use muster_domain::time::{Seconds, Time};
use muster_sim::executor::Pause;
use muster_sim::fault::Fault;
use muster_sim::schedule;

use crate::bench::{Bench, look_and_pass, waiting};

/// Two pools that serve the same jobs, three of which wait in the first. GitHub refuses the runners
/// of the second, for so long that it is time to ask again.
fn stack(small: Pool) -> Bench {
    let other = schedule::pool("other", &["linux"], 10, "spot", None);
    let bench = Bench::of(vec![small, other.clone()]);
    let now = bench.door.now();
    for n in 1..=3 {
        let queued =
            Time::from_millis(now.as_millis() - 60_000 + 1_000 * i64::try_from(n).expect("small"));
        bench.put(&[Change::create(waiting(n, queued)).into()]);
    }
    let refused = ErrorDetail {
        at: now,
        operation: "generate-jitconfig".to_owned(),
        code: "422".to_owned(),
        message: "simulated".to_owned(),
    };
    let acme = "acme".parse().expect("an entity");
    let refused = Cooldowns::default().after_refused_configuration(&other, &acme, &refused);
    bench.put(&[Change::create(refused.expect("a trouble")).into()]);
    bench
}

fn pass(bench: &Bench, wake: &WakePool, now: Time) -> usize {
    let work = bench.launch_pass(&bench.door.sim.settings);
    bench.drive(look_and_pass(&work, wake, 1, now)).expect("a pass").launched
}

fn whole(pool: &str) -> WakePool {
    WakePool::whole(pool.parse().expect("a pool"))
}

/// The jobs of the second pool.
fn asking(bench: &Bench) -> Vec<u64> {
    bench.change(|world| {
        let jobs = world.tables.jobs.values();
        let asks =
            |pool: &Option<PoolName>| pool.as_ref().is_some_and(|pool| pool.as_str() == "other");
        let asking = jobs.filter(|job| asks(&job.pool));
        asking.map(|job| job.key().job).collect()
    })
}

fn small(max: u32) -> Pool {
    schedule::pool("small", &["linux"], max, "spot", None)
}

/// Its turn comes there, and elsewhere it may get nothing.
#[test]
fn no_job_leaves_a_full_pool_to_ask() {
    let bench = stack(small(0));
    pass(&bench, &whole("small"), bench.door.now() + Seconds(600));
    assert!(asking(&bench).is_empty());
}

/// One that has ended asks for nothing: the next one goes.
#[test]
fn the_youngest_job_asks_and_no_other_while_it_waits_there() {
    let bench = stack(small(10));
    let by = SwitchedOff {
        since: bench.door.now(),
        by: "ada".into(),
        reason: "moving".into(),
        until: None,
    };
    let off = Switches::default().with(&Switch::Pool("small".parse().expect("a pool")), Some(by));
    bench.put(&[Change::create(off).into()]);
    let later = bench.door.now() + Seconds(600);
    pass(&bench, &whole("small"), later);
    assert_eq!(asking(&bench), [3]);
    pass(&bench, &whole("small"), later + Seconds(1));
    assert_eq!(asking(&bench), [3]);
    let asks = bench.change(|world| {
        let mut jobs = world.tables.jobs.values();
        jobs.find(|job| job.key().job == 3).map(|job| Stored::clone(job)).expect("job 3")
    });
    let said = JobEvent { status: JobStatus::Completed, ..asks.last_event.clone() };
    let ended = fold(Some(asks.record().clone()), said, later);
    bench.put(&[asks.change(ended).into()]);
    pass(&bench, &whole("small"), later + Seconds(2));
    assert_eq!(asking(&bench), [2, 3]);
}

/// The job that was to find out has ended before its machine was launched.
#[test]
fn a_probe_that_launched_nothing_is_not_used_up() {
    let bench = stack(small(0));
    let now = bench.door.now();
    let mut before = waiting(9, now);
    before.pool = Some("other".parse().expect("a pool"));
    bench.put(&[Change::create(before.clone()).into()]);
    bench.change(|world| world.fault_rates.set(Fault::IndexLate, 1_000_000));
    let said = JobEvent { status: JobStatus::Completed, ..before.last_event.clone() };
    let ended = fold(Some(before.clone()), said, now);
    bench.put(&[Stored::read(before, Version(0)).change(ended).into()]);
    assert_eq!(pass(&bench, &whole("other"), now + Seconds(600)), 0);
    // A job that comes now need not wait for the next one.
    bench.drive(Pause::new(&bench.door.sim, 60_000));
    bench.change(|world| world.fault_rates.set(Fault::IndexLate, 0));
    let mut next = waiting(10, now);
    next.pool = Some("other".parse().expect("a pool"));
    bench.put(&[Change::create(next).into()]);
    assert_eq!(pass(&bench, &whole("other"), now + Seconds(601)), 1);
}
