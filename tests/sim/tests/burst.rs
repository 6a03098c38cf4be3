//! What a burst costs, counted at the doors.

use std::rc::Rc;

use muster_control::Settings;
use muster_domain::job::JobStatus;
use muster_domain::job::labels::Labels;
use muster_domain::message::JobsMessage;
use muster_domain::pool::warm::{RepositoryEvent, WarmEvent, WarmRule};
use muster_domain::stored::{Stored, Version};
use muster_sim::agenda::{HOUR, MINUTE, Millis, SECOND, START, Which};
use muster_sim::calls::Calls;
use muster_sim::executor::Executor;
use muster_sim::fault::Fault;
use muster_sim::github::Job;
use muster_sim::queue::Body;
use muster_sim::schedule::{Plan, PlannedJob, STACK, pool};
use muster_sim::world::{CloudConfig, World};

const JOBS: u32 = 100;

/// A world with one pool, and a hundred jobs of it that GitHub has queued; nobody has been told of
/// them yet.
fn world(seed: u64, slowest_call: Millis, by_hand: bool) -> (World, Settings) {
    world_of(JOBS, seed, slowest_call, by_hand)
}

fn world_of(jobs: u32, seed: u64, slowest_call: Millis, by_hand: bool) -> (World, Settings) {
    let pools = vec![pool("default", &["linux", "x64"], 500, "spot", None)];
    let redrives = true;
    let cloud_config = CloudConfig { replay_shows_machines: true, slowest_call, redrives, by_hand };
    let mut world = World::new(seed, &pools, muster_sim::fault::FaultRates::none(), cloud_config);
    for number in 0..jobs {
        let job = Job::planned(number, "acme/web", true, Labels::new(["linux"]), Some(MINUTE));
        world.github.jobs.push(job);
        world.queue_job(number);
    }
    let timings = muster_domain::timings::Timings::default();
    let settings = Settings::from_parameters(STACK.to_owned(), pools, timings).with_at_most(2_000);
    world.checker.know(&settings);
    (world, settings)
}

/// The events, as they come from GitHub.
fn events(world: &World) -> Vec<Body> {
    (0..JOBS).map(|number| event(world, number)).collect()
}

fn event(world: &World, number: u32) -> Body {
    let event = Box::new(world.delivery(number).expect("told"));
    Body::Jobs(JobsMessage::JobEvent { event, delivery: number.to_string() })
}

fn claimed(world: &World) -> usize {
    world.tables.jobs.values().filter(|job| job.claim.is_some()).count()
}

/// One batch of all jobs, handled by one invocation: the calls that it made, and how many jobs have
/// a claim then. So many invocations launch.
fn one_batch(launching: u64, before: impl FnOnce(&mut World)) -> (Calls, usize) {
    let (mut world, settings) = world(1, 1, true);
    before(&mut world);
    events(&world).into_iter().for_each(|body| world.enqueue(Which::Jobs, body));
    world.hand_over_all(Which::Jobs);
    let mut executor = Executor::new(world, settings);
    // A call takes a millisecond. The webhooks' own deliveries come after 50, and the first machine
    // later.
    executor.run(START + 45);
    let world = executor.sim().world.borrow();
    // One takes the events in.
    assert_eq!(world.tally.invocations, 1 + launching);
    assert!(world.violation.is_none(), "{:?}", world.violation);
    (world.calls, claimed(&world))
}

#[test]
fn a_hundred_jobs_in_one_batch_cost_three_launches_and_sixteen_calls_of_the_tables() {
    let (calls, claimed) = one_batch(1, |_| ());
    assert_eq!(claimed, JOBS as usize);
    assert_eq!((calls.launches, calls.fleets, calls.looks), (3, 3, 0), "{calls:?}");
    assert_eq!((calls.github, calls.conflicts), (0, 0), "{calls:?}");
    assert!(calls.table() <= 16, "{calls:?}");
}

/// What an index shows of a write is always late, by a few milliseconds as a rule and by minutes at
/// times.
/// Source: docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html ("Data
/// synchronization")
#[test]
fn no_index_stands_between_an_event_and_its_launch() {
    let (calls, claimed) = one_batch(1, |world| world.fault_rates.set(Fault::IndexLate, 1_000_000));
    // The index shows a write after 50 milliseconds at the earliest, when all is over.
    assert_eq!(claimed, JOBS as usize);
    assert_eq!((calls.launches, calls.conflicts), (3, 0), "{calls:?}");
}

#[test]
fn one_job_of_a_batch_that_somebody_else_writes_does_not_fail_the_others() {
    // The first wake-up was sent along with a commit that was a conflict.
    let (calls, claimed) = one_batch(2, |world| {
        // A delivery came before and was doubled: its row is there already.
        let event = world.delivery(7).expect("told");
        let mut job = muster_domain::job::fold(None, event, world.time());
        job.pool = Some("default".parse().expect("valid"));
        world.tables.jobs.insert(job.key(), Rc::new(Stored::read(job, Version(5))));
    });
    // No listing shows it; the pass knows it from the fold, which has read its row.
    assert_eq!(claimed, JOBS as usize);
    assert_eq!(calls.launches, 3);
}

/// How many of 200 bursts took how many calls of `CreateFleet`, when the queue hands over ten
/// messages at most, to several invocations at once.
fn many_batches(full: bool) -> [u32; 8] {
    let mut counts = [0_u32; 8];
    for seed in 0..200 {
        let (mut world, settings) = world(seed, 20, false);
        world.queues.full_batches = full;
        // As in AWS, where an instant fleet answers when its machines are launched.
        world.ec2.launch_takes = 2 * SECOND;
        // The burst is what the queue holds. Each event is delivered once more within a second and
        // a half.
        events(&world).into_iter().for_each(|body| world.enqueue(Which::Jobs, body));
        let mut executor = Executor::new(world, settings);
        // Before the first machine takes a job: from then on runners and jobs find each other as
        // GitHub likes.
        executor.run(START + 20 * SECOND);
        let world = executor.sim().world.borrow();
        assert!(world.violation.is_none(), "{:?}", world.violation);
        assert_eq!(claimed(&world), JOBS as usize, "seed {seed}");
        counts[usize::try_from(world.calls.launches).expect("few").min(7)] += 1;
    }
    assert_eq!(counts.iter().sum::<u32>(), 200);
    counts
}

/// A launch holds 49 where the stack has a maximum, as it always has when it is deployed: three hold
/// a hundred jobs. One for a single job, made before anybody else has come, may be added.
#[test]
fn a_hundred_jobs_cost_four_launches_at_most_however_they_are_batched() {
    for full in [true, false] {
        let counts = many_batches(full);
        assert_eq!(counts[5..], [0; 3], "calls of CreateFleet: {counts:?}");
    }
}

const LABELS: [&[&str]; 10] =
    [&["p0"], &["p1"], &["p2"], &["p3"], &["p4"], &["p5"], &["p6"], &["p7"], &["p8"], &["p9"]];

/// EC2's own token buckets, which all ten pools draw from.
#[test]
fn a_thousand_jobs_over_ten_pools_waste_few_launch_calls_and_lose_no_job() {
    let (mut launches, mut fleets) = (0, 0);
    for seed in 0..3 {
        let mut plan = Plan::of(seed).without(Fault::ALL);
        plan.orders.clear();
        plan.flips.clear();
        (plan.settings.limits, plan.settings.balance) = <_>::default();
        let of = |number: usize| pool(&format!("p{number}"), LABELS[number], 200, "spot", None);
        plan.settings.pools = (0..10).map(of).collect();
        let job = |number: usize| PlannedJob {
            at: START + MINUTE,
            cancelled_at: None,
            gate: None,
            repository: "acme/web",
            private: true,
            labels: LABELS[number % 10],
            length: MINUTE,
        };
        plan.jobs = (0..1000).map(job).collect();
        plan.cloud_config.slowest_call = 20;
        let mut world = plan.world();
        world.ec2.real_buckets = true;
        world.ec2.launch_takes = 2 * SECOND;
        let mut executor = Executor::new(world, plan.settings.clone());
        executor.run(START + 2 * HOUR);
        let world = executor.sim().world.borrow();
        assert!(world.violation.is_none(), "{:?}", world.violation);
        assert_eq!(world.tally.served, 1000, "seed {seed}: {:?}", world.calls);
        launches += world.calls.launches;
        fleets += world.calls.fleets;
    }
    assert!(launches * 10 <= fleets * 13, "{launches} calls for {fleets} fleets");
}

/// The queue holds a thousand events of ten pools, and each call of `CreateFleet` takes four
/// seconds: when all are stored, when all have a claim, and how many calls that took.
fn thousand_events(seed: u64) -> (Millis, Millis, u64) {
    let pools: Vec<_> = (0..10)
        .map(|number| pool(&format!("p{number}"), LABELS[number], 200, "spot", None))
        .collect();
    let cloud_config = CloudConfig {
        replay_shows_machines: true,
        slowest_call: 20,
        redrives: true,
        by_hand: false,
    };
    let mut world = World::new(seed, &pools, muster_sim::fault::FaultRates::none(), cloud_config);
    for number in 0..1000 {
        let labels = Labels::new(LABELS[number as usize % 10].iter().copied());
        world.github.jobs.push(Job::planned(number, "acme/web", true, labels, Some(HOUR)));
        world.queue_job(number);
    }
    let timings = muster_domain::timings::Timings::default();
    let settings = Settings::from_parameters(STACK.to_owned(), pools, timings).with_at_most(2_000);
    world.checker.know(&settings);
    world.ec2.real_buckets = true;
    world.ec2.launch_takes = 4 * SECOND;
    let delivered = (0..1000).map(|number| event(&world, number)).collect::<Vec<_>>();
    delivered.into_iter().for_each(|body| world.enqueue(Which::Jobs, body));
    let mut executor = Executor::new(world, settings);
    let (mut stored, mut launched) = (None, None);
    for passed in (0..10 * MINUTE).step_by(100) {
        executor.run(START + passed);
        let world = executor.sim().world.borrow();
        assert!(world.violation.is_none(), "{:?}", world.violation);
        if stored.is_none() && world.tables.jobs.len() == 1000 {
            stored = Some(passed);
        }
        let waits = world.tables.jobs.values().any(|job| job.is_demand());
        if stored.is_some() && !waits {
            launched = Some(passed);
            break;
        }
    }
    let calls = executor.sim().world.borrow().calls.launches;
    (stored.expect("all stored"), launched.expect("all launched"), calls)
}

/// Events are stored by workers that EC2 cannot hold up.
#[test]
fn a_thousand_events_over_ten_pools_are_stored_while_ec2_takes_its_time() {
    for seed in 0..5 {
        let (stored, launched, calls) = thousand_events(seed);
        assert!(stored <= 5 * SECOND, "seed {seed}: all stored after {stored} ms");
        assert!(launched <= MINUTE, "seed {seed}: all launched after {launched} ms");
        assert!(calls <= 50, "seed {seed}: {calls} calls of CreateFleet");
    }
}

/// How many calls stood one behind the other from the delivery of an event to CreateFleet, both
/// included. Each takes a millisecond, and those that are made side by side take the same one.
/// `at_work`: a machine of the pool is, and the pool has launched before.
fn in_sequence(jobs: usize, at_work: bool) -> (usize, Calls) {
    let (world, settings) = world(1, 1, true);
    let mut all = events(&world).into_iter();
    let unserved = elsewhere(&world);
    let first: Vec<_> = all.by_ref().take(usize::from(at_work)).collect();
    let mut executor = Executor::new(world, settings);
    let send = |executor: &Executor, bodies: Vec<_>| {
        let mut world = executor.sim().world.borrow_mut();
        bodies.into_iter().for_each(|body| world.enqueue(Which::Jobs, body));
        world.hand_over_all(Which::Jobs);
    };
    // The function has cached the set of pools since an earlier event.
    send(&executor, [unserved].into_iter().chain(first).collect());
    executor.run(START + 40);
    let made = |world: &mut World| {
        let Calls { reads, commits, conflicts, launches, .. } = world.calls;
        (reads + commits + conflicts + launches, world.queues.of(Which::Launch).len())
    };
    let before = executor.sim().world.borrow().calls;
    assert_eq!(before.launches, u64::from(at_work));
    send(&executor, all.take(jobs).collect());
    let mut moments = std::collections::BTreeSet::new();
    let mut last = made(&mut executor.sim().world.borrow_mut());
    while executor.step(START + MINUTE) {
        let world = &mut executor.sim().world.borrow_mut();
        assert!(world.violation.is_none(), "{:?}", world.violation);
        let (calls, wakes) = made(world);
        if calls > last.0 || wakes > last.1 {
            moments.insert(world.now);
        }
        last = (calls, wakes);
        if world.calls.launches > before.launches {
            // The first one was the webhook's.
            return (1 + moments.len(), world.calls);
        }
    }
    panic!("nothing was launched");
}

/// The event of a job that asks for no pool.
fn elsewhere(world: &World) -> Body {
    let mut event = world.delivery(0).expect("told");
    event.key.job += 1_000_000;
    event.labels = Labels::new(["ubuntu-latest"]);
    Body::Jobs(JobsMessage::JobEvent { event: Box::new(event), delivery: "elsewhere".to_owned() })
}

/// The webhook's message; the job's row, and the wake-up at the same time; all that a launch pass
/// reads; its launch; CreateFleet.
#[test]
fn five_calls_lead_from_an_event_to_its_machine() {
    for (jobs, at_work) in [(1, false), (10, false), (1, true), (10, true)] {
        let (moments, calls) = in_sequence(jobs, at_work);
        assert_eq!((moments, calls.conflicts), (5, 0), "{jobs} jobs, {at_work}: {calls:?}");
    }
}

/// docs/costs.md reckons with these. Each minute's sweep comes on top, and costs the same without a
/// job.
#[test]
fn a_job_costs_few_calls_from_its_event_to_the_end_of_its_machine() {
    let (world, settings) = world_of(1, 1, 1, false);
    let mut executor = Executor::new(world, settings);
    executor.run(START + HOUR);
    let world = executor.sim().world.borrow();
    assert!(world.violation.is_none(), "{:?}", world.violation);
    let over = world.tables.jobs.values().filter(|job| job.status() == JobStatus::Completed);
    assert_eq!((over.count(), world.ec2.live()), (1, 0));
    let Calls { reads, commits, conflicts, launches, looks, github, .. } = world.calls;
    assert_eq!((conflicts, launches, looks, github), (0, 1, 1, 1));
    assert_eq!((reads, commits), (32, 12), "{:?}", world.calls);
    let (messages, invocations) = (world.queues.sent(), world.tally.invocations);
    assert!(messages <= 8 && invocations <= 16, "{messages} messages, {invocations} invocations");
}

/// Pushes, handled as one batch by one invocation for a pool of these rules: the calls until the first
/// machine boots, and how many machines there are.
fn pushes(count: u32, rules: Vec<WarmRule>) -> (Calls, usize) {
    let mut own = pool("default", &["linux", "x64"], 500, "spot", None);
    own.warm_on = rules;
    let cloud_config =
        CloudConfig { replay_shows_machines: true, slowest_call: 1, redrives: true, by_hand: true };
    let none = muster_sim::fault::FaultRates::none();
    let mut world = World::new(1, &[own.clone()], none, cloud_config);
    let timings = muster_domain::timings::Timings::default();
    let settings = Settings::from_parameters(STACK.to_owned(), vec![own], timings);
    world.checker.know(&settings);
    for number in 0..count {
        let event = Box::new(RepositoryEvent {
            kind: WarmEvent::Push,
            repository: "acme/web".into(),
            private: true,
            user_owned: false,
            branch: "main".into(),
            at: world.time(),
        });
        let delivery = number.to_string();
        world.enqueue(Which::Jobs, Body::Jobs(JobsMessage::Repository { event, delivery }));
    }
    world.hand_over_all(Which::Jobs);
    let mut executor = Executor::new(world, settings);
    executor.run(START + 45);
    let world = executor.sim().world.borrow();
    assert!(world.violation.is_none(), "{:?}", world.violation);
    (world.calls, world.tables.live_rows().count())
}

/// The pools, and the pool's record; that record, with the event. Then the launch pass as for jobs: its
/// reads, its launch with the record, EC2's answer. A hundred pushes cost what one does, and events that
/// no rule wants cost the read of the pools.
#[test]
fn a_hundred_pushes_cost_what_one_costs_and_unwanted_ones_write_nothing() {
    let rule = WarmRule {
        event: WarmEvent::Push,
        repositories: Vec::new(),
        branches: Vec::new(),
        idle: 10,
        for_seconds: WarmRule::FOR,
    };
    let (one, machines) = pushes(1, vec![rule.clone()]);
    assert_eq!((machines, one.launches, one.conflicts), (10, 1, 0), "{one:?}");
    assert_eq!((one.reads, one.commits), (8, 3), "{one:?}");
    assert_eq!(pushes(100, vec![rule.clone()]), (one, 10));
    let other = WarmRule { event: WarmEvent::CheckRun, ..rule };
    for rules in [Vec::new(), vec![other]] {
        let (calls, machines) = pushes(100, rules);
        assert_eq!((calls.reads, calls.commits, calls.ec2(), machines), (1, 0, 0, 0), "{calls:?}");
    }
}
