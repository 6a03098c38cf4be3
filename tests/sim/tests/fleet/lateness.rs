//! From when on something is late.

use std::str::FromStr as _;

use muster_control::Settings;
use muster_control::context::Context;
use muster_control::launches::pass::{LaunchPass, LaunchReport, comes_again, send_wakes};
use muster_control::ports::Write;
use muster_control::reaps::sweep::Sweep;
use muster_domain::ec2::{CooldownScope, ErrorClass};
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::{JobEvent, JobStatus, fold};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::launch::record::trouble::{Trouble, TroubleScope};
use muster_domain::message::WakePool;
use muster_domain::pool::capacity::{Capacity, Configured};
use muster_domain::stored::{Change, Stored, Version};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_sim::agenda::{Millis, Which};
use muster_sim::fault::Fault;
use muster_sim::schedule;

use crate::bench::{Bench, look_and_pass, waiting};

/// GitHub's times are those of the job's creation, also after days of waiting for an approval.
#[test]
fn a_job_is_as_old_as_its_approval() {
    const THREE_DAYS: Millis = 3 * 24 * 3_600_000;
    for (waited, expired) in [(true, 0), (false, 1)] {
        let bench = Bench::new().compared();
        let door = &bench.door;
        let created = door.now();
        let said = waiting(1, created).last_event;
        let approval = JobEvent { status: JobStatus::Waiting, ..said.clone() };
        let first = waited.then(|| fold(None, approval, created));
        bench.drive(muster_sim::executor::Pause::new(&door.sim, THREE_DAYS));
        let heard = if waited { door.now() } else { created };
        let mut job = fold(first, said, heard);
        job.pool = Some("small".parse().expect("a pool"));
        bench.put(&[Change::create(job).into()]);
        let pass = Sweep { context: Context::new(door, door, door, &(), &door.sim.settings) };
        let report = bench.drive(pass.sweep(door.now()));
        assert_eq!(report.expired, expired, "waited for an approval: {waited}");
        assert!(report.oldest_queued_job < 60, "{}", report.oldest_queued_job);
    }
}

/// GitHub ends it after 30 days; the day after that is for its event.
/// Source: docs.github.com/en/actions, "Reviewing deployments"
#[test]
fn a_job_that_waits_for_an_approval_expires_after_thirty_one_days() {
    const HOUR: Millis = 3_600_000;
    for (hours, expired) in [(31 * 24 - 1, 0), (31 * 24 + 1, 1)] {
        let bench = Bench::new().compared();
        let door = &bench.door;
        let said = waiting(1, door.now()).last_event;
        let approval = JobEvent { status: JobStatus::Waiting, ..said };
        let mut job = fold(None, approval, door.now());
        job.pool = Some("small".parse().expect("a pool"));
        bench.put(&[Change::create(job).into()]);
        bench.drive(muster_sim::executor::Pause::new(&door.sim, hours * HOUR));
        let pass = Sweep { context: Context::new(door, door, door, &(), &door.sim.settings) };
        assert_eq!(bench.drive(pass.sweep(door.now())).expired, expired, "after {hours} hours");
        let stored = bench.change(|world| world.tables.jobs.values().next().expect("it").expired);
        assert_eq!(stored, expired == 1, "after {hours} hours");
    }
}

/// A pool may want its jobs to wait for a runner that comes free: that is no delay of ours.
#[test]
fn a_job_is_late_from_when_its_pool_would_launch_for_it() {
    for (job_age, late) in [(0, true), (1_800, false)] {
        let mut pool = schedule::pool("small", &["linux"], 0, "spot", None);
        pool.job_age_seconds = Seconds(job_age);
        let bench = Bench::of(vec![pool]).compared();
        let door = &bench.door;
        let job = waiting(1, door.now());
        bench.put(&[Change::create(job).into()]);
        bench.drive(muster_sim::executor::Pause::new(&door.sim, 1_200_000));
        let pass = Sweep { context: Context::new(door, door, door, &(), &door.sim.settings) };
        let report = bench.drive(pass.sweep(door.now()));
        // As the alarm has it.
        assert_eq!(report.oldest_queued_job > 600, late, "job age {job_age}");
    }
}

#[test]
fn a_machine_that_does_not_boot_is_found_before_it_is_too_old() {
    for (life, own, expected) in [(600, None, 300), (600, Some(120), 120), (43_200, None, 600)] {
        let mut pool = schedule::pool("small", &["linux"], 1, "spot", None);
        pool.max_lifetime_seconds = Seconds(life);
        pool.boot_deadline_seconds = own.map(Seconds);
        let name = pool.name.clone();
        let settings =
            Settings::from_parameters(schedule::STACK.into(), vec![pool], Timings::default());
        assert_eq!(settings.timings_of(&name).boot_deadline_seconds, Seconds(expected));
    }
}

/// Some jobs of the bench's pool, as they stand in its tables and listings.
fn queued(bench: &Bench, count: u64) {
    let now = bench.door.now();
    let job = |n| Change::create(waiting(n, now)).into();
    let writes: Vec<Write> = (0..count).map(job).collect();
    writes.chunks(100).for_each(|part| bench.put(part));
}

/// It would fail the commit that holds it in every round, until the listing has caught up.
#[test]
fn one_job_that_a_listing_shows_as_it_was_costs_the_others_one_round() {
    let bench = Bench::new();
    queued(&bench, 60);
    bench.change(|world| world.fault_rates.set(Fault::IndexLate, 1_000_000));
    let now = bench.door.now();
    let before = waiting(7, now);
    let said = JobEvent { status: JobStatus::Completed, ..before.last_event.clone() };
    let ended = fold(Some(before.clone()), said, now);
    bench.put(&[Stored::read(before, Version(0)).change(ended).into()]);
    let pool: PoolName = "small".parse().expect("a pool");
    let work = bench.launch_pass(&bench.door.sim.settings);
    let report =
        bench.drive(look_and_pass(&work, &WakePool::whole(pool.clone()), 1, now)).expect("a pass");
    assert_eq!((report.launched, report.unfinished), (59, false), "{report:?}");
    assert_eq!(bench.change(|world| world.calls.conflicts), 1);
}

/// The same for a runner that looks free and has a job.
#[test]
fn a_runner_that_a_listing_shows_as_free_costs_the_jobs_one_round() {
    let bench = Bench::new();
    let rows = bench.idle(1);
    bench.store(&rows);
    queued(&bench, 60);
    bench.change(|world| world.fault_rates.set(Fault::IndexLate, 1_000_000));
    let now = bench.door.now();
    let free = bench.change(|world| Stored::clone(&world.tables.instances[&rows[0].name]));
    let mut taken = free.record().clone();
    taken.set_claim(waiting(99, now).key(), now);
    bench.put(&[free.change(taken).into()]);
    let pool: PoolName = "small".parse().expect("a pool");
    let work = bench.launch_pass(&bench.door.sim.settings);
    let report =
        bench.drive(look_and_pass(&work, &WakePool::whole(pool.clone()), 1, now)).expect("a pass");
    assert_eq!((report.claimed, report.launched, report.unfinished), (0, 60, false), "{report:?}");
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
        let pool: PoolName = "small".parse().expect("a pool");
        let work = bench.launch_pass(&bench.door.sim.settings);
        let wake = WakePool::whole(pool.clone());
        let pass = look_and_pass(&work, &wake, 1, bench.door.now());
        let done = bench.drive_with(pass, |call| {
            let fault_rates = if call == broken { 1_000_000 } else { 0 };
            bench.change(|world| world.fault_rates.set(Fault::ReadFailed, fault_rates));
        });
        failed += usize::from(done.is_err());
        let capacity = bench.change(|world| world.tables.capacities.get(&pool).cloned());
        assert!(!capacity.is_some_and(|one| one.is_held_by("test")), "call {broken}: {done:?}");
    }
    // What is read side by side fails together.
    assert!(failed >= 3, "{failed} passes failed");
}

/// That the trouble of a pool is over is put on record at once. Where that fails, its launches are
/// those of a pool without one: a machine that found something out would be one write too many.
#[test]
fn a_launch_fits_its_commit_where_the_end_of_a_trouble_could_not_be_stored() {
    for broken in 0..40 {
        let bench = Bench::new();
        bench.store(&bench.idle(1));
        let since = bench.door.now() - Seconds(7_200);
        let trouble = Trouble {
            scope: TroubleScope::Pool("small".parse().expect("a pool")),
            generation: 0,
            by_machine: true,
            since,
            at: since,
            failures: 9,
            probes: 0,
            certain: false,
            probed_at: None,
            until: since,
            fixed_at: None,
            last: None,
            reason: "simulated".to_owned(),
        };
        let cooldowns = Cooldowns { troubles: [trouble].into(), ..Cooldowns::default() };
        bench.put(&[Change::create(cooldowns).into()]);
        queued(&bench, 50);
        let work = bench.launch_pass(&bench.door.sim.settings);
        let wake = WakePool::whole("small".parse().expect("a pool"));
        let pass = look_and_pass(&work, &wake, 1, bench.door.now());
        let done = bench.drive_with(pass, |call| {
            let fault_rates = if call == broken { 1_000_000 } else { 0 };
            bench.change(|world| world.fault_rates.set(Fault::CommitRefused, fault_rates));
        });
        let broke = bench.change(|world| world.violation.take());
        assert!(broke.is_none(), "call {broken}: {broke:?}, {done:?}");
    }
}

/// The holder of a pool looks again, but in an index. What that does not show yet must not be
/// forgotten.
#[test]
fn a_wake_up_whose_pool_is_held_comes_again_until_its_jobs_are_served() {
    let bench = Bench::new();
    bench.change(|world| world.fault_rates.set(Fault::IndexLate, 1_000_000));
    queued(&bench, 2);
    let (now, timings) = (bench.door.now(), Timings::default());
    let pool: PoolName = "small".parse().expect("a pool");
    let held = Capacity::empty(pool.clone()).woken("another", now, &timings);
    bench.put(&[Change::create(held.clone()).into()]);
    let work = bench.launch_pass(&bench.door.sim.settings);
    let keys: Vec<JobKey> = (0..2).map(|n| waiting(n, now).key()).collect();
    let named = WakePool::for_jobs(&pool, &keys).next().expect("one message");
    let received = |wake: &WakePool, receives: u32| {
        bench.drive(look_and_pass(&work, wake, receives, bench.door.now()))
    };
    let pass = |wake: &WakePool| received(wake, 1);

    let report = pass(&named);
    assert!(report.as_ref().is_ok_and(|one| one.held_by_other), "{report:?}");
    let told = bench.change(|world| world.tables.capacities[&pool].wakes);
    assert_eq!(told, held.wakes + 1, "the holder is told");
    assert_eq!(comes_again(&report, 1), Some(Seconds(2)));
    assert_eq!(comes_again(&report, 50), None, "the sweep sends another one");
    // Each time it asked, the holder would plan anew, and might never come to its launch.
    let before = bench.change(|world| world.calls.commits);
    let report = received(&named, 2);
    assert_eq!(comes_again(&report, 2), Some(Seconds(2)));
    assert_eq!(bench.change(|world| world.calls.commits), before, "it asked once");
    // The holder was told; it needs nothing else where nobody is named.
    assert_eq!(comes_again(&pass(&WakePool::whole(pool.clone())), 1), None);

    let stored = bench.change(|world| world.tables.capacities[&pool].clone());
    bench.put(&[stored.change(stored.released()).into()]);
    let report = pass(&named);
    assert_eq!(report.as_ref().map(|one| one.launched), Ok(2), "by key: no index shows them");
    assert_eq!(comes_again(&report, 2), None);

    let before = bench.change(|world| world.calls);
    assert_eq!(pass(&named), Ok(LaunchReport::default()), "served");
    let after = bench.change(|world| world.calls);
    // At the same moment: its jobs, what stands in the pool's way, and four listings.
    assert_eq!((after.reads - before.reads, after.commits - before.commits), (6, 0));
}

/// An invocation that has no time left for a call leaves its wake-up to the next one, and launches nothing.
#[test]
fn a_pass_that_is_late_launches_nothing_and_comes_again() {
    for (left, again, launched) in [(-1, true, 0), (0, false, 1), (1, false, 1)] {
        let bench = Bench::new();
        queued(&bench, 1);
        let (now, pool) = (bench.door.now(), PoolName::from_str("small").expect("a pool"));
        let settings = &bench.door.sim.settings;
        let last_call = Time::from_millis(left);
        let work = LaunchPass { last_call, ..bench.launch_pass(settings) };
        let report = bench.drive(look_and_pass(&work, &WakePool::whole(pool), 1, now));
        let report = report.expect("passed");
        assert_eq!((report.again, report.launched), (again, launched), "{left} ms left");
    }
}

/// Columns: the pools whose back-off is recorded; those that are still recorded when pool `small` has a new configuration.
#[test]
fn a_new_configuration_ends_the_back_off_of_its_own_pool() {
    for (closed, left) in
        [(&["small"][..], &[][..]), (&["other"], &["other"]), (&["small", "other"], &["other"])]
    {
        let pool = |name| schedule::pool(name, &["linux"], 9, "spot", None);
        let bench = Bench::of(vec![pool("small"), pool("other")]);
        queued(&bench, 1);
        let small: PoolName = "small".parse().expect("a pool");
        let mut old = bench.door.sim.settings.pools[0].clone();
        old.max += 1;
        old.launch_template_version = "2".into();
        let configured = Some(Configured { version: old.version(), since: Time::default() });
        let known = Capacity { configured, ..Capacity::empty(small.clone()) };
        bench.put(&[Change::create(known).into()]);
        let of = |name: &str| CooldownScope::Pool(name.parse().expect("a pool"));
        closed.iter().for_each(|name| crate::writers::close(&bench, of(name)));
        let work = bench.launch_pass(&bench.door.sim.settings);
        let now = bench.door.now() + Seconds(60);
        let report = bench.drive(look_and_pass(&work, &WakePool::whole(small), 1, now));
        assert_eq!(report.map(|report| report.launched), Ok(1), "{closed:?}");
        let stored = bench.change(|world| world.tables.cooldowns.clone()).expect("stored");
        for name in ["small", "other"] {
            let is_closed = stored.covering(&of(name), now).is_some();
            assert_eq!(is_closed, left.contains(&name), "{closed:?}: {name}");
        }
    }
}

/// The lease of a free pool is taken with the first commit of the pass. Whoever writes the pool's
/// record before that, as each end of a machine does, costs the pass one round.
#[test]
fn a_pass_whose_first_commit_meets_another_writer_launches_at_once() {
    let bench = Bench::new();
    let (now, pool) = (bench.door.now(), PoolName::from_str("small").expect("a pool"));
    bench.put(&[Change::create(Capacity::empty(pool.clone())).into()]);
    bench.put(&[Change::create(waiting(1, now)).into()]);
    let work = bench.launch_pass(&bench.door.sim.settings);
    let wake = WakePool::for_jobs(&pool, &[waiting(1, now).key()]).next().expect("one message");
    let before = bench.change(|world| world.calls);
    let report = bench.drive_with(look_and_pass(&work, &wake, 1, now), |call| {
        if call == 3 {
            // All is read, and nothing written.
            let stored = bench.change(|world| world.tables.capacities[&pool].clone());
            bench.put(&[stored.change(stored.record().clone()).into()]);
        }
    });
    let conflicts = bench.change(|world| world.calls.conflicts) - before.conflicts;
    assert_eq!((report.map(|one| one.launched), conflicts), (Ok(1), 1));
}

/// EC2 refuses the pool for so long.
fn close(bench: &Bench, wait: Seconds) {
    let now = bench.door.now();
    let cooldown = Cooldown {
        closed: CooldownScope::Pool("small".parse().expect("a pool")),
        since: now,
        at: now,
        until: now + wait,
        times: 1,
        class: ErrorClass::Configuration,
        code: "InvalidSubnetID.NotFound".to_owned(),
        message: "there is no such subnet".to_owned(),
    };
    let next = Cooldowns { list: [cooldown].into(), ..Cooldowns::default() };
    let stored = bench.change(|world| world.tables.cooldowns.clone());
    bench.put(&[Change::from_read(stored.as_ref(), next).into()]);
}

/// A pass that launches for one job, and leaves another to a minute later. A queue delays a message
/// from when it is sent.
#[test]
fn a_wake_up_is_delayed_from_the_end_of_its_pass() {
    let mut pool = schedule::pool("small", &["linux"], 9, "spot", None);
    pool.job_age_seconds = Seconds(60);
    let bench = Bench::of(vec![pool]);
    let (door, now) = (&bench.door, bench.door.now());
    bench.put(&[Change::create(waiting(1, now - Seconds(90))).into()]);
    bench.put(&[Change::create(waiting(2, now)).into()]);
    let clock = || now + Seconds(40);
    let pass = LaunchPass { clock: &clock, ..bench.launch_pass(&door.sim.settings) };
    let wake = WakePool::whole(PoolName::from_str("small").expect("a pool"));
    let report = bench.drive(look_and_pass(&pass, &wake, 1, now)).expect("passed");
    assert_eq!((report.launched, report.later), (1, Some(Seconds(21))));
}

/// Any number of passes find the same wait, and the earlier of two.
#[test]
fn a_pool_that_waits_has_one_wake_up_on_its_way() {
    let bench = Bench::new();
    let (door, pool) = (&bench.door, PoolName::from_str("small").expect("a pool"));
    bench.put(&[Change::create(waiting(1, door.now())).into()]);
    let clock = || door.now();
    let sent = || {
        let pass = LaunchPass { clock: &clock, ..bench.launch_pass(&door.sim.settings) };
        let report =
            bench.drive(look_and_pass(&pass, &WakePool::whole(pool.clone()), 1, door.now()));
        let report = report.expect("passed");
        bench.drive(send_wakes(door, &pool, &report)).expect("sent");
        (report.later, bench.change(|world| world.queues.of(Which::Launch).len()))
    };
    close(&bench, Seconds(60));
    assert_eq!(sent().1, 1);
    assert_eq!((sent(), sent()), ((None, 1), (None, 1)), "one is on its way");
    close(&bench, Seconds(30));
    assert_eq!(sent().1, 2, "that one comes too late");
    assert_eq!(sent(), (None, 2));
    // More than the 15 minutes that SQS keeps a message back.
    let bench = Bench::new();
    let (door, later) = (&bench.door, Seconds(1_200));
    bench.put(&[Change::create(waiting(1, door.now())).into()]);
    close(&bench, later);
    let clock = || door.now();
    let pass = LaunchPass { clock: &clock, ..bench.launch_pass(&door.sim.settings) };
    let report = bench.drive(look_and_pass(&pass, &WakePool::whole(pool.clone()), 1, door.now()));
    assert_eq!(report.map(|report| report.later), Ok(None), "the sweep's");
}
