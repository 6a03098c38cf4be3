//! A month once more.

use std::collections::BTreeMap;

use muster_cloud::ec2::prices;
use muster_cloud::github::Job;
use muster_control::Settings;
use muster_domain::ec2::Market;
use muster_domain::job::labels::Labels;
use muster_domain::timings::Timings;
use muster_domain::usage::{Kind, Line, Price, PricedBy};
use muster_sim::agenda::{HOUR, MINUTE, Millis, SECOND, START};
use muster_sim::executor::Executor;
use muster_sim::fault::FaultRates;
use muster_sim::replay::{Outcome, Record};
use muster_sim::rng::Rng;
use muster_sim::schedule::{Plan, PlannedJob, STACK, pool};
use muster_sim::world::{CloudConfig, World};

const DAYS: i64 = 30;

fn settings(max: u32, min_idle: u32) -> Settings {
    let entity = (min_idle > 0).then_some("acme");
    let mut linux = pool("linux", &["linux"], max, "spot", entity);
    linux.min_idle = min_idle;
    let gpu = pool("gpu", &["gpu"], 2, "on-demand", None);
    Settings::from_parameters(STACK.to_owned(), vec![linux, gpu], Timings::default())
}

/// So many jobs, most of them by day, some of them at once.
fn jobs(count: usize) -> Vec<PlannedJob> {
    let mut rng = Rng::new(7);
    let mut jobs = Vec::new();
    while jobs.len() < count {
        let hour = if rng.chance(800_000) { rng.between(8, 18) } else { rng.between(0, 23) };
        let at = START + rng.between(0, DAYS - 1) * 24 * HOUR + hour * HOUR + rng.between(0, HOUR);
        for _ in 0..[1, 1, 1, 4][rng.index(4)] {
            let label = if rng.chance(50_000) { "gpu" } else { "linux" };
            jobs.push(PlannedJob {
                at: at + rng.between(0, 5 * SECOND),
                cancelled_at: None,
                gate: None,
                repository: "acme/web".into(),
                private: true,
                labels: Labels::new([label]),
                length: rng.between(20 * SECOND, 12 * MINUTE),
            });
        }
    }
    jobs.sort_by_key(|job| job.at);
    jobs
}

/// A month without a fault: its lines with their prices, which are what the world's own book and clock say.
fn month(count: usize) -> Vec<Line> {
    let jobs = jobs(count);
    let faults_end = jobs.last().map_or(START, |job| job.at) + 2 * HOUR;
    let config = CloudConfig {
        replay_shows_machines: true,
        slowest_call: 40,
        redrives: true,
        by_hand: false,
    };
    let plan = Plan {
        seed: 3,
        settings: settings(60, 0),
        cloud_config: config,
        weathers: vec![(START, FaultRates::none())],
        jobs,
        orders: Vec::new(),
        flips: Vec::new(),
        windows: Vec::new(),
        strangers: 0,
        kept: Some(5 * HOUR),
        first_tick: START + MINUTE,
        faults_end,
    };
    let mut executor = Executor::new(plan.world(), plan.settings.clone());
    executor.run(faults_end + HOUR);
    let sim = executor.sim();
    let world = sim.world.borrow();
    assert!(world.violation.is_none(), "{:?}", world.violation);
    let priced = |line: &Line| {
        let gpu = line.pool.as_ref().is_some_and(|pool| pool.as_str() == "gpu");
        let machine = if gpu { 100_800 } else { 38_500 };
        let price = Price { machine, by: PricedBy::SpotHour, on_demand: None, disk: None };
        Line { price: (line.kind == Kind::Machine).then_some(price), ..line.clone() }
    };
    check_bill(&world);
    check_waits(&world);
    world.tables.usage.values().map(priced).collect()
}

/// What the lines say that machines cost is a hundredth off EC2's book at most: that begins at
/// `running`, and a line some seconds earlier.
fn check_bill(world: &World) {
    let cost = |line: &Line| {
        let make = &line.machine.as_ref()?.make;
        let (kind, is_spot) = (make.kind.as_deref()?, make.market == Some(Market::Spot));
        let price = if is_spot { prices::spot(kind) } else { prices::on_demand(kind) };
        Some(line.parts.sum() * price / HOUR.unsigned_abs())
    };
    let told: u64 = world.tables.usage.values().filter_map(cost).sum();
    let spent = world.tally.spent;
    assert!(off(told, spent) <= 10, "usage tells {told}, the bill {spent}");
}

/// The wait of each job is as long as GitHub's own clock has it, to the second.
fn check_waits(world: &World) {
    let truth = |job: &Job| Some((job.id, job.started_at? - job.queued_at));
    let truth: BTreeMap<u64, Millis> = world.github.truth.jobs().filter_map(truth).collect();
    let mut jobs = 0;
    for line in world.tables.usage.values() {
        let (Some(job), Some((wait, parts))) = (&line.job, line.wait()) else { continue };
        let wait = wait.cast_signed();
        let real = truth[&job.key.job];
        assert!((wait - real).abs() <= SECOND, "{}: {wait} ms, GitHub has {real}", job.key);
        assert_eq!(parts.iter().flatten().sum::<u64>().cast_signed(), wait, "{}", job.key);
        jobs += 1;
    }
    assert_eq!(jobs, truth.len(), "each job has a line");
}

fn off(predicted: u64, real: u64) -> u64 {
    1_000 * predicted.abs_diff(real) / real.max(1)
}

/// Thousandths.
#[track_caller]
fn assert_near(predicted: &Outcome, real: &Outcome, most: u64) {
    let p95 = |one: &Outcome| one.waits.percentile(95).expect("waits");
    let dollars = off(predicted.dollars, real.dollars);
    let waits = off(p95(predicted), p95(real));
    assert!(
        dollars <= most && waits <= most && predicted.jobs == real.jobs,
        "dollars {dollars} ‰ off, p95 {waits} ‰ off; {} machines beside {}, {} jobs beside {}, p95 {} beside {}",
        predicted.machines,
        real.machines,
        predicted.jobs,
        real.jobs,
        p95(predicted),
        p95(real)
    );
}

#[test]
fn a_month_is_predicted_within_a_twentieth() {
    let lines = month(1_500);
    let mut record = Record::new(&lines);
    record.calibrate(&settings(60, 0), 1).expect("no rule is broken");
    assert_near(&record.replay(&settings(60, 0), 2).expect("no rule is broken"), &record.real, 50);
}

#[test]
fn idle_runners_cost_money_and_save_time() {
    let lines = month(300);
    let record = Record::new(&lines);
    let run = |min_idle| record.replay(&settings(60, min_idle), 1).expect("no rule is broken");
    let (none, two) = (run(0), run(2));
    let p50 = |one: &Outcome| one.waits.percentile(50).expect("waits");
    assert!(two.dollars > none.dollars && p50(&two) < p50(&none) / 2, "{none:?} {two:?}");
    assert_eq!(run(2).dollars, two.dollars, "the same seed gives the same outcome");
}
