//! Two writers at one record: what another writes between any two calls of a launch pass stays.

use std::rc::Rc;

use muster_conformance::records;
use muster_control::context::Context;
use muster_control::ports::{Launches as _, Write};
use muster_control::runner_api::{Handout, RunnerApi, RunnerApiError, look};
use muster_domain::ec2::{Bucket, CooldownScope, ErrorClass, LaunchError};
use muster_domain::ids::{JobKey, MachineId, PoolName};
use muster_domain::instance::{Ages, DeleteOrder, Instance, Slot, State};
use muster_domain::job::{Job, JobStatus, fold};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::message::WakePool;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_sim::schedule;

use super::bench::{Bench, look_and_pass, waiting};

/// Two pools that serve the same jobs. EC2 refuses the requests of the first one for some time, so
/// that its pass puts off what it has, and then moves the jobs to the other.
fn stack() -> Bench {
    let pool = |name| schedule::pool(name, &["linux"], 10, "spot", None);
    let bench = Bench::of(vec![pool("small"), pool("other")]);
    close(&bench, CooldownScope::Pool(small()));
    bench
}

/// EC2 has just refused this.
pub(crate) fn close(bench: &Bench, closed: CooldownScope) {
    let now = bench.door.now();
    let cooldown = Cooldown {
        closed,
        since: now,
        at: now,
        until: now + Seconds(900),
        times: 1,
        class: ErrorClass::Configuration,
        code: "InvalidLaunchTemplateId.NotFound".to_owned(),
        message: "simulated".to_owned(),
    };
    let stored = bench.drive(bench.door.cooldowns()).expect("read");
    let before = stored.as_deref().cloned().unwrap_or_default();
    let list = before.list.iter().cloned().chain([cooldown]).collect();
    let next = Cooldowns { list, ..before };
    bench.put(&[Change::from_read(stored.as_ref(), next).into()]);
}

fn small() -> PoolName {
    "small".parse().expect("a pool")
}

/// A slot that EC2 has refused, due for its next attempt, with the job that it is for.
fn refused(now: Time) -> (Instance, Job) {
    let then = Time::from_millis(now.as_millis() - 600_000);
    let mut job = waiting(1, then);
    let slot = Slot {
        name: "small-l0-0".parse().expect("a name"),
        pool: small(),
        entity: "acme".parse().expect("an entity"),
        installation: None,
        launch: "small-l0".parse().expect("a launch"),
        claim: Some(job.key()),
    };
    let timings = Timings::default();
    let mut slot = Instance::planned(slot, then, &timings);
    let error = LaunchError::new(ErrorClass::Capacity, "InsufficientInstanceCapacity", "simulated");
    slot.launch_failed(&error, then, &timings);
    job.claim = Some(slot.name.clone());
    (slot, job)
}

/// Runs the pass; before its call number `at`, another writer comes. Whether the pass got that far.
fn pass_with(bench: &Bench, at: usize, other: impl FnOnce(&Bench)) -> bool {
    let door = &bench.door;
    let settings = &Rc::clone(&door.sim).settings;
    let pass = bench.launch_pass(settings);
    let (pool, now) = (small(), door.now());
    let mut other = Some(other);
    let done =
        bench.drive_with(look_and_pass(&pass, &WakePool::whole(pool.clone()), 1, now), |call| {
            if call == at
                && let Some(other) = other.take()
            {
                other(bench);
            }
        });
    done.expect("passed");
    let stale = bench.change(|world| world.violation.take()).filter(|one| one.rule == "stale");
    assert_eq!(stale, None, "call {at}");
    other.is_none()
}

#[test]
fn a_slot_that_another_pass_launches_is_left_to_it() {
    let mut moved = 0;
    for at in 0.. {
        let bench = stack();
        let (slot, job) = refused(bench.door.now());
        let mut counter = Capacity::empty(small());
        counter.live = 1;
        bench.put(&[
            Change::create(slot.clone()).into(),
            Change::create(job).into(),
            Change::create(counter).into(),
        ]);
        let came = pass_with(&bench, at, |bench| {
            let stored = bench.change(|world| Stored::clone(&world.tables.instances[&slot.name]));
            if stored.state() != State::PendingCreate {
                return;
            }
            let mut next = stored.record().clone();
            let launch = "small-l9".parse().expect("a launch");
            next.relaunch(launch, bench.door.now(), &Timings::default());
            bench.put(&[stored.change(next).into()]);
        });
        let row = bench.change(|world| Stored::clone(&world.tables.instances[&slot.name]));
        let launched = row.events.iter().any(|line| line.what.contains("attempt 2"));
        let ended = row.state() == State::PendingDelete;
        assert!(launched != ended, "call {at}: {row:?}");
        moved += usize::from(ended);
        if !came {
            break;
        }
    }
    assert!(moved > 1, "the pass moves the job when nobody is faster");
}

#[test]
fn a_job_that_has_begun_elsewhere_is_not_put_back() {
    let mut moved = 0;
    for at in 0.. {
        let bench = stack();
        let job = waiting(1, bench.door.now());
        let key: JobKey = job.key();
        bench.put(&[Change::create(job).into()]);
        let came = pass_with(&bench, at, |bench| {
            let stored = bench.change(|world| Stored::clone(&world.tables.jobs[&key]));
            let mut event = stored.last_event.clone();
            event.status = JobStatus::InProgress;
            let next = fold(Some(stored.record().clone()), event, bench.door.now());
            bench.put(&[stored.change(next).into()]);
        });
        let job = bench.change(|world| Stored::clone(&world.tables.jobs[&key]));
        assert_eq!(job.last_event.status == JobStatus::InProgress, came, "call {at}: {job:?}");
        moved += usize::from(job.pool != Some(small()));
        if !came {
            break;
        }
    }
    assert!(moved > 0, "the pass moves the job when nobody is faster");
}

/// Machines that register themselves while EC2's answer is put on record bind themselves, and the
/// pass reads anew. Where a call takes seconds, one for each machine is more than a function's
/// time.
#[test]
fn what_a_conflict_costs_does_not_grow_with_the_launch() {
    let reads = |jobs: u64| {
        let costs = (0..).map_while(|at| {
            let bench = Bench::of(vec![schedule::pool("small", &["linux"], 50, "spot", None)]);
            for n in 1..=jobs {
                let next = waiting(n, bench.door.now());
                bench.put(&[Change::create(next).into()]);
            }
            let before = bench.change(|world| world.calls.reads);
            pass_with(&bench, at, bind_all).then(|| {
                let unbound = bench.in_state(State::Creating);
                assert_eq!(unbound, 0, "call {at}");
                bench.change(|world| world.calls.reads) - before
            })
        });
        costs.max().expect("a pass makes calls")
    };
    assert_eq!(reads(20), reads(3));
}

/// Without a second look at the slots the answer would wait for the end of the launch's lease.
#[test]
fn an_answer_is_put_on_record_beside_what_another_has_written() {
    for at in 0.. {
        let bench = Bench::of(vec![schedule::pool("small", &["linux"], 9, "spot", None)]);
        bench.put(&[Change::create(waiting(1, bench.door.now())).into()]);
        let came = pass_with(&bench, at, |bench| {
            let rows = bench.change(|world| world.tables.instances.clone());
            for row in rows.values().filter(|row| row.state() == State::Creating) {
                let mut next = row.record().clone();
                next.set_due(bench.door.now() + Seconds(1));
                bench.put(&[row.change(next).into()]);
            }
        });
        assert_eq!(bench.in_state(State::Creating), 0, "call {at}");
        if !came {
            assert!(at > 4, "it launches");
            return;
        }
    }
}

/// One of two machines registers itself while the answer that names both is put on record.
#[test]
fn a_machine_that_bound_itself_is_bound_once() {
    for at in 0.. {
        let bench = Bench::of(vec![schedule::pool("small", &["linux"], 9, "spot", None)]);
        for n in 1..=2 {
            bench.put(&[Change::create(waiting(n, bench.door.now())).into()]);
        }
        let came = pass_with(&bench, at, |bench| bind(bench, 1));
        assert_eq!(bench.in_state(State::Creating), 0, "call {at}");
        if !came {
            assert!(at > 4, "it launches");
            return;
        }
    }
}

/// The machines of the later call are another pass's to bind: its answer is still out.
#[test]
fn the_answer_to_an_earlier_call_settles_no_launch_that_was_called_again() {
    let mut called_again = 0;
    for at in 0.. {
        let bench = Bench::of(vec![schedule::pool("small", &["linux"], 9, "spot", None)]);
        bench.put(&[Change::create(waiting(1, bench.door.now())).into()]);
        let mut again = None;
        let came = pass_with(&bench, at, |bench| {
            let launches = bench.change(|world| world.tables.launches.clone());
            let Some(launch) = launches.into_values().next() else { return };
            // Its lease has expired on the other pass's clock.
            let Some(next) = launch.leased_again(launch.lease_until, &Timings::default()) else {
                return;
            };
            bench.put(&[launch.change(next.clone()).into()]);
            again = Some(next);
        });
        if let Some(again) = again {
            let launch = bench.change(|world| Stored::clone(&world.tables.launches[&again.id]));
            assert_eq!(*launch, again, "call {at}");
            assert_eq!(bench.in_state(State::Creating), 1, "call {at}");
            called_again += 1;
        }
        if !came {
            assert!(called_again > 0, "a launch is open while EC2 is called");
            return;
        }
    }
}

#[test]
fn what_ec2_refuses_two_passes_at_once_is_remembered_of_both() {
    for at in 0.. {
        let bench = Bench::of(vec![schedule::pool("small", &["linux"], 9, "spot", None)]);
        bench.put(&[Change::create(waiting(1, bench.door.now())).into()]);
        bench.change(|world| world.ec2.without_quota = Some((None, Bucket::Standard)));
        let other = CooldownScope::Pool("other".parse().expect("a pool"));
        let came = pass_with(&bench, at, |bench| close(bench, other.clone()));
        let stored = bench.drive(bench.door.cooldowns()).expect("read").expect("refused");
        let knows = |closed: &dyn Fn(&CooldownScope) -> bool| {
            stored.list.iter().any(|one| closed(&one.closed))
        };
        assert!(knows(&|closed| matches!(closed, CooldownScope::Quota { .. })), "call {at}");
        assert_eq!(knows(&|closed| *closed == other), came, "call {at}");
        if !came {
            assert!(at > 4, "it launches");
            return;
        }
    }
}

/// A machine may boot faster than its launch's answer is on record.
#[test]
fn a_machine_that_no_record_knows_yet_asks_again_and_is_served_once_it_is_bound() {
    let (bench, machine) = launched();
    let door = &bench.door;
    let looked =
        || bench.drive(look(&door.sim.settings, door, &machine, None)).map(|(_, owner)| owner);
    let again = looked().expect_err("of no record");
    assert!(matches!(again, RunnerApiError::Later { after: Seconds(5), .. }), "{again:?}");
    bind_all(&bench);
    let owner = looked().expect("bound");
    let context = Context::new(door, door, &(), door, &door.sim.settings);
    let answer = bench.drive(RunnerApi { context, owner, role: None }.configure(
        None,
        Ages::default(),
        door.now(),
    ));
    assert_eq!(answer.err(), None);
}

/// One slot, and its machine that is on no record.
pub(crate) fn launched() -> (Bench, MachineId) {
    launched_in(schedule::pool(records::POOL, &["linux"], 9, "spot", None))
}

/// The same, of this pool.
pub(crate) fn launched_in(pool: Pool) -> (Bench, MachineId) {
    let bench = Bench::of(vec![pool]);
    bench.put(&[
        Change::create(records::launch(1)).into(),
        Change::create(records::planned(1, None)).into(),
    ]);
    let id = records::launch(1).id;
    let machine = bench.change(|world| world.make_machine(Some(id)));
    let machine = bench.change(|world| world.ec2.at(machine).id.clone());
    (bench, machine)
}

/// Seed 369190: what came up with the later answer was nobody's runner.
#[test]
fn a_request_that_was_held_up_does_not_undo_the_answer_to_a_later_one() {
    let (bench, _) = launched();
    bind_all(&bench);
    let (door, name) = (&bench.door, records::planned(1, None).name);
    let context = Context::new(door, door, &(), door, &door.sim.settings);
    let pass = RunnerApi { context, owner: name.clone().into(), role: None };
    let first = door.now();
    let ask = |begun| bench.drive(pass.configure(None, Ages::default(), begun));
    let answered = ask(first + Seconds(30)).map(|handout| {
        let Handout::Runner(config) = handout else { panic!("a builder") };
        config.runner_name
    });
    let late = ask(first).err();
    assert!(matches!(late, Some(RunnerApiError::Later { .. })), "{late:?}");
    let row = bench.change(|world| Stored::clone(&world.tables.instances[&name]));
    assert_eq!(answered, Ok(row.runner_name()));
    // A machine that asks once more later has lost the answer.
    assert!(ask(first + Seconds(60)).is_ok());
}

/// The mark refuses a job's start, but the agent would connect, and GitHub could assign a job to it.
#[test]
fn a_machine_whose_end_is_ordered_meanwhile_gets_no_configuration() {
    let mut refused = 0;
    for at in 0.. {
        let (bench, _) = launched();
        bind_all(&bench);
        let (door, name) = (&bench.door, records::planned(1, None).name);
        let context = Context::new(door, door, &(), door, &door.sim.settings);
        let pass = RunnerApi { context, owner: name.clone().into(), role: None };
        let mut is_configured = None;
        let asked = pass.configure(None, Ages::default(), door.now());
        let answer = bench.drive_with(asked, |call| {
            if call == at {
                let stored = bench.change(|world| Stored::clone(&world.tables.instances[&name]));
                is_configured = Some(stored.runner.id.is_some());
                let order = DeleteOrder {
                    at: door.now(),
                    by: "ada".to_owned(),
                    reason: "a test".to_owned(),
                    force: false,
                    bypass_github_unauthorized: false,
                    kill_running_job: false,
                };
                let mut next = stored.record().clone();
                next.order_delete(&order, order.at);
                bench.put(&[stored.change(next).into()]);
            }
        });
        let Some(is_configured) = is_configured else { break };
        assert_eq!(answer.is_ok(), is_configured, "call {at}");
        refused += usize::from(!is_configured);
    }
    assert!(refused > 2, "it reads, writes, calls GitHub and writes again");
}

/// No record refers to the runner that GitHub registered for the earlier request: it is removed.
#[test]
fn a_request_that_is_overtaken_leaves_no_registration() {
    let mut removed = 0;
    for at in 0.. {
        let (bench, _) = launched();
        bind_all(&bench);
        let (door, name) = (&bench.door, records::planned(1, None).name);
        let context = Context::new(door, door, &(), door, &door.sim.settings);
        let pass = RunnerApi { context, owner: name.clone().into(), role: None };
        let mut is_overtaken = None;
        let asked = pass.configure(None, Ages::default(), door.now());
        let answer = bench.drive_with(asked, |call| {
            if call == at {
                let stored = bench.change(|world| Stored::clone(&world.tables.instances[&name]));
                is_overtaken = Some(stored.runner.n > 0 && stored.runner.id.is_none());
                let mut next = stored.record().clone();
                next.ask_configuration(door.now()).expect("asked");
                bench.put(&[stored.change(next).into()]);
            }
        });
        let Some(is_overtaken) = is_overtaken else { break };
        if !is_overtaken {
            continue;
        }
        assert!(answer.is_err(), "call {at}");
        let registered = bench.change(|world| world.github.truth.runners().count());
        assert_eq!(registered, 0, "call {at}");
        removed += 1;
    }
    assert!(removed > 0, "it is counted before it calls GitHub");
}

/// The answer of each launch comes on record.
pub(crate) fn bind_all(bench: &Bench) {
    bind(bench, usize::MAX);
}

/// At most so many machines bind themselves.
fn bind(bench: &Bench, most: usize) {
    let now = bench.door.now();
    let rows: Vec<Stored<Instance>> = bench
        .change(|world| world.tables.instances.values().map(|row| Stored::clone(row)).collect());
    let machines: Vec<_> = bench.change(|world| {
        let all = world.ec2.machines.iter();
        all.filter_map(|one| Some((one.launch.clone()?, one.id.clone()))).collect()
    });
    let mut free: Vec<Stored<Instance>> =
        rows.into_iter().filter(|row| row.state() == State::Creating).collect();
    for (launch, machine) in machines.into_iter().take(most) {
        let Some(index) = free.iter().position(|row| row.is_free_slot_of(&launch)) else { return };
        let row = free.swap_remove(index);
        let mut next = row.record().clone();
        next.bind(machine.clone(), now, &Timings::default());
        bench.put(&[
            Write::BindMachine { machine, instance: row.name.clone() },
            row.change(next).into(),
        ]);
    }
}
