//! Days once more: what a replay predicts, beside what happened.

use std::collections::BTreeMap;

use muster_cloud::ec2::prices;
use muster_cloud::github::Job;
use muster_domain::ec2::Market;
use muster_domain::pool::{MarketPolicy, RerunPolicy};
use muster_domain::pool_file::PoolFile;
use muster_domain::usage::{Line, Price, PricedBy};
use muster_sim::agenda::{HOUR, MINUTE, Millis, SECOND, START};
use muster_sim::ec2::Behaviour;
use muster_sim::executor::Executor;
use muster_sim::fault::Fault;
use muster_sim::replay::{Measured, Only, Outcome, Replay};
use muster_sim::rng::Rng;
use muster_sim::schedule::{DAY, Plan, PlannedJob, pool};
use muster_sim::world::Window;
use muster_sim::world::World;

/// What a launch takes at EC2.
const EC2_TAKES: Millis = 4 * SECOND;

/// A pool of two types, and what the file says of it.
fn file(max: u32, min_idle: u32) -> PoolFile {
    let mut pool = pool("default", &["linux", "x64"], max, "spot", Some("acme"));
    pool.min_idle = min_idle;
    PoolFile { pools: vec![pool], limits: <_>::default(), balance: <_>::default() }
}

/// A day without faults and without jobs.
fn quiet(file: &PoolFile) -> Plan {
    let mut plan = Plan::of(1).without(Fault::ALL);
    (plan.orders, plan.flips, plan.windows) = (Vec::new(), Vec::new(), Vec::new());
    plan.kept = None;
    (plan.settings.limits, plan.settings.balance) = <_>::default();
    plan.settings.pools.clone_from(&file.pools);
    plan.cloud_config.slowest_call = 20;
    plan.strangers = 0;
    plan
}

/// Thirty jobs end while something does not answer for twenty minutes.
#[test]
fn what_machines_cost_is_known_after_an_outage() {
    for fault in [
        Fault::OutageTable,
        Fault::OutageLambda,
        Fault::OutageEc2,
        Fault::OutageGithub,
        Fault::OutageCredentials,
    ] {
        let file = file(40, 0);
        let mut plan = quiet(&file);
        let job = |n: i64| PlannedJob {
            at: START + 10 * MINUTE + n * SECOND,
            cancelled_at: None,
            gate: None,
            repository: "acme/web",
            private: true,
            labels: &["self-hosted", "linux"],
            length: 6 * MINUTE + n * 20 * SECOND,
        };
        plan.jobs = (0..30).map(job).collect();
        let (from, until) = (START + 15 * MINUTE, START + 35 * MINUTE);
        plan.windows = vec![Window { fault, from, until }];
        plan.faults_end = START + 4 * HOUR;
        let mut executor = Executor::new(plan.world(), plan.settings.clone());
        executor.run(plan.faults_end);
        let world = executor.sim().world.borrow();
        let machines = world.tables.usage.values().filter(|line| line.machine.is_some()).count();
        assert!(machines >= 30, "{fault:?}: {machines} machines");
        check_bill(&world);
    }
}

/// The lines of some quiet days in the simulated cloud, whose own seconds the replay does not know; with their prices.
/// `reclaimed`: the share of Spot machines that EC2 takes within half an hour, in a million.
fn lines(days: i64, jobs: usize, file: &PoolFile, reclaimed: u32) -> Vec<Line> {
    let mut plan = quiet(file);
    plan.weathers.iter_mut().for_each(|(_, rates)| rates.set(Fault::SpotReclaim, reclaimed));
    let mut rng = Rng::new(5);
    plan.jobs = (0..jobs).map(|_| job(&mut rng, days)).collect();
    plan.faults_end = START + days * DAY;
    let mut world = plan.world();
    // Seconds that are not those of the simulated cloud itself: half of the machines are slow.
    world.ec2.launch_takes = EC2_TAKES;
    let slower = |rng: &mut Rng| [0, rng.between(30 * SECOND, 60 * SECOND)][rng.index(2)];
    let machine = |_| Behaviour { slower_by: slower(&mut rng), ..Behaviour::default() };
    world.ec2.scripted = (0..jobs * 2).map(machine).collect();
    let mut executor = Executor::new(world, plan.settings.clone());
    executor.run(plan.faults_end);
    let world = executor.sim().world.borrow();
    assert!(world.violation.is_none(), "{:?}", world.violation);
    check_bill(&world);
    check_waits(&world);
    world.tables.usage.values().cloned().map(priced).collect()
}

/// What the lines say that machines cost is a hundredth off EC2's book at most: that begins at `running`, and a line some
/// seconds earlier.
fn check_bill(world: &World) {
    let cost = |line: &Line| {
        let make = &line.machine.as_ref()?.make;
        let an_hour = price(make.kind.as_deref()?, make.market?);
        Some(line.parts.sum() * an_hour / HOUR.unsigned_abs())
    };
    let told: u64 = world.tables.usage.values().filter_map(cost).sum();
    let spent = world.tally.spent;
    assert!(told.abs_diff(spent) * 100 <= spent, "usage tells {told}, the bill {spent}");
}

/// The wait of each job is as long as GitHub's own clock has it, to the second.
fn check_waits(world: &World) {
    let truth = |job: &Job| Some((job.id, job.started_at? - job.queued_at));
    // A new attempt has copies of the jobs that are not run again.
    let is_copy = |job: &&Job| job.completed_at.is_some_and(|at| at < job.queued_at);
    let jobs = world.github.truth.jobs().filter(|job| !is_copy(job));
    let truth: BTreeMap<u64, Millis> = jobs.filter_map(truth).collect();
    let mut jobs = 0;
    for line in world.tables.usage.values() {
        let (Some(job), Some((wait, parts))) = (&line.job, line.wait()) else { continue };
        let real = truth[&job.key.job];
        let wait_told = wait.cast_signed();
        assert!((wait_told - real).abs() <= SECOND, "{}: {wait} ms, GitHub has {real}", job.key);
        assert_eq!(parts.iter().flatten().sum::<u64>(), wait, "{}", job.key);
        let ec2 = line.t.launched.zip(line.t.planned).map(|(launched, planned)| launched - planned);
        assert!(ec2.is_none_or(|ec2| ec2 >= EC2_TAKES), "{}: EC2 took {ec2:?} ms", job.key);
        jobs += 1;
    }
    assert_eq!(jobs, truth.len(), "each job has a line");
}

/// By day most of them, some at once, some cancelled.
fn job(rng: &mut Rng, days: i64) -> PlannedJob {
    let hour = if rng.chance(800_000) { rng.between(8, 18) } else { rng.between(0, 22) };
    let moment = rng.between(0, HOUR - 1);
    let moment = if rng.chance(300_000) { moment / (10 * MINUTE) * 10 * MINUTE } else { moment };
    let at = START + rng.between(0, days - 1) * DAY + hour * HOUR + moment;
    let cancelled = rng.chance(20_000);
    PlannedJob {
        at,
        cancelled_at: cancelled.then(|| at + rng.between(0, 5 * MINUTE)),
        gate: None,
        repository: ["acme/web", "acme/api"][rng.index(2)],
        private: true,
        labels: &["self-hosted", "linux"],
        length: rng.between(20 * SECOND, 12 * MINUTE),
    }
}

fn priced(mut line: Line) -> Line {
    let make = line.machine.as_ref().map(|machine| machine.make.clone());
    line.price = make.and_then(|make| {
        let kind = make.kind?;
        let machine = price(&kind, make.market?);
        let on_demand = Some(prices::on_demand(&kind));
        Some(Price { machine, by: PricedBy::SpotHour, on_demand, disk: None })
    });
    line
}

fn price(kind: &str, market: Market) -> u64 {
    match market {
        Market::Spot => prices::spot(kind),
        Market::OnDemand => prices::on_demand(kind),
    }
}

fn replayed(replay: &Replay, file: &PoolFile, seed: u64) -> Measured {
    let Outcome { measured, violation } = replay.run(file, seed, &Only::All);
    assert!(violation.is_none(), "{violation:?}");
    measured
}

fn is_near(predicted: u64, real: u64) -> bool {
    is_within(20, predicted, real)
}

/// Whether the difference is at most one part in so many.
fn is_within(parts: u64, predicted: u64, real: u64) -> bool {
    predicted.abs_diff(real) * parts <= real
}

/// Whoever asks what another file would do is told first how far off the answer may be.
#[test]
fn a_month_with_the_same_file_costs_and_waits_within_a_twentieth() {
    for (max, min_idle) in [(60, 0), (2, 0), (60, 2)] {
        let file = file(max, min_idle);
        let lines = lines(30, 1_500, &file, 0);
        let real = Measured::of(&lines, &Only::All);
        let predicted = replayed(&Replay::of(&lines), &file, 1);
        let of = |measured: &Measured| {
            let waits = [50, 95, 99].map(|part| measured.wait(part).expect("jobs"));
            (measured.money, waits, measured.machines, measured.jobs(), measured.unpriced)
        };
        let told = format!("{max}, {min_idle}: {:?} beside {:?}", of(&predicted), of(&real));
        assert!(is_near(predicted.money, real.money), "{told}");
        // In a pool that is full most of the time, a wait depends on every wait before it: seeds
        // differ by a fifth.
        let parts = if max == 2 { 5 } else { 20 };
        assert!(is_within(parts, of(&predicted).1[1], of(&real).1[1]), "{told}");
        assert!(is_near(predicted.machines, real.machines), "{told}");
        assert_eq!((predicted.unpriced, predicted.unserved), (0, 0), "{told}");
    }
}

/// EC2 interrupts one job in seven. The rate is known from the same month; chance decides when EC2 strikes, so the model is
/// the mean of a few seeds.
#[test]
fn a_month_of_interruptions_is_predicted() {
    const SEEDS: u64 = 6;
    let mut file = file(60, 0);
    file.pools[0].market = MarketPolicy::SpotThenOnDemand;
    let lines = lines(30, 2_000, &file, 1_000_000);
    let real = Measured::of(&lines, &Only::All);
    let replay = Replay::of(&lines);
    let mean = |all: &[Measured], of: fn(&Measured) -> u64| all.iter().map(of).sum::<u64>() / SEEDS;
    let figures: [(&str, fn(&Measured) -> u64, u64); 4] = [
        ("dollars", |one| one.money, 20),
        // The month is one sample of some hundred interruptions, whose losses differ.
        ("lost", |one| one.lost, 5),
        ("re-runs", |one| one.reruns, 8),
        ("machines", |one| one.machines, 20),
    ];
    let predicted: Vec<_> = (1..=SEEDS).map(|seed| replayed(&replay, &file, seed)).collect();
    for (name, of, parts) in figures {
        let (predicted, real) = (mean(&predicted, of), of(&real));
        assert!(is_within(parts, predicted, real), "{name}: {predicted} beside {real}");
        assert!(real > 100, "{name}: {real}");
    }

    let once = |market, reruns| {
        let mut file = file.clone();
        (file.pools[0].market, file.pools[0].rerun_on_interruption) = (market, reruns);
        let one = replayed(&replay, &file, 1);
        assert_eq!((one.unpriced, one.unserved), (0, 0), "{market:?}");
        one
    };
    let on_demand = once(MarketPolicy::OnDemand, None);
    let mixed = &predicted[0];
    let spot = once(MarketPolicy::Spot, None);
    let never = once(MarketPolicy::Spot, Some(RerunPolicy::Off));
    let money = [&on_demand, mixed, &spot, &never].map(|one| one.money);
    assert!(money.is_sorted_by(|more, less| more > less), "{money:?}");
    assert_eq!((on_demand.lost, on_demand.reruns, never.reruns), (0, 0, 0));
    assert!(never.lost > 0 && mixed.reruns > 0);
    // A job that runs again on Spot can be interrupted again.
    assert!(spot.reruns > mixed.reruns && spot.lost > mixed.lost);
}
