//! Some thousand seeds: no invariant breaks, every fault strikes, and a seed always tells the same story.

use std::thread;

use sim::fault::{Counts, Fault, Odds};
use sim::run::{self, Outcome, run};
use sim::schedule::{Length, Plan};

/// Enough for every fault to strike, in a time that nobody minds to wait for. `simulate` runs more.
const SEEDS: u64 = 2_500;
const DAYS: u64 = 60;

fn run_all(length: Length, seeds: u64) -> Vec<Outcome> {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let own = (worker..seeds).step_by(threads as usize);
                scope.spawn(move || own.map(|seed| run(seed, length, false)).collect::<Vec<_>>())
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    })
}

fn assert_sound(outcomes: &[Outcome], day: &str) {
    let broken: Vec<String> = outcomes
        .iter()
        .filter_map(|outcome| {
            let violation = outcome.violation.as_ref()?;
            Some(format!("seed {}{day}: {}: {}", outcome.seed, violation.rule, violation.what))
        })
        .collect();
    assert!(
        broken.is_empty(),
        "{}\nreplay: cargo run -p sim --bin simulate -- --seeds 1 --from SEED{day} --trace",
        broken.join("\n")
    );
}

#[test]
fn thousands_of_schedules_break_no_invariant_and_meet_every_fault() {
    let outcomes = run_all(Length::Short, SEEDS);
    assert_sound(&outcomes, "");
    let mut counts = Counts::default();
    outcomes.iter().for_each(|outcome| counts.merge(&outcome.counts));
    let missed: Vec<&str> = Fault::ALL
        .iter()
        .filter(|fault| counts.of(**fault) == 0)
        .map(|fault| fault.word())
        .collect();
    assert!(missed.is_empty(), "never struck: {missed:?}");
    let served: u64 = outcomes.iter().map(|outcome| outcome.tally.served).sum();
    let jobs: u64 = outcomes.iter().map(|outcome| outcome.tally.jobs).sum();
    assert!(served * 2 > jobs, "of {jobs} jobs only {served} were served");
}

#[test]
fn whole_days_break_no_invariant() {
    assert_sound(&run_all(Length::Day, DAYS), " --day");
}

#[test]
fn a_seed_always_tells_the_same_story() {
    for seed in 0..20 {
        let (first, second) = (run(seed, Length::Short, true), run(seed, Length::Short, true));
        assert!(first.trace.len() > 1000);
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

#[test]
fn without_faults_every_job_is_served_and_nothing_is_left_behind() {
    for seed in 0..200 {
        let mut plan = Plan::of(seed, Length::Short);
        plan.world.odds = Odds::none();
        plan.world.windows.clear();
        plan.world.orders.clear();
        let outcome = run::play(seed, plan, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        let tally = &outcome.tally;
        assert_eq!(tally.registrations_left, 0, "seed {seed}");
        assert_eq!(tally.refused + tally.dead_letters, 0, "seed {seed}");
        assert_eq!(tally.served + tally.cancelled + tally.not_ours, tally.jobs, "seed {seed}");
    }
}
