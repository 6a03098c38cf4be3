//! A workflow run whose machines EC2 takes, at random: with a matrix, people, newer runs, and answers
//! that are lost or late.

use super::{Scenario, render};
use crate::agenda::{MINUTE, SECOND};
use crate::fault::Fault;
use crate::naive::PeerPolicy;
use crate::rng::Rng;

/// What may go wrong meanwhile, in a million.
const FAULTS: [(Fault, u32); 9] = [
    (Fault::RerunAnswerLost, 300_000),
    (Fault::GithubFails, 50_000),
    (Fault::RateLimited, 20_000),
    (Fault::CommitRefused, 20_000),
    (Fault::CommitCollided, 20_000),
    (Fault::CommitAnswerLost, 20_000),
    (Fault::ReadFailed, 10_000),
    (Fault::Crash, 10_000),
    (Fault::StateEventLate, 300_000),
];
/// Jobs of one run: see `run_of`.
const FIRST: u32 = 3;
/// A job of a newer run.
const NEWER: u32 = 6;

/// What happened in a story.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterruptedRun {
    /// Jobs whose machine EC2 took.
    pub interrupted: usize,
    /// Attempts that Muster ordered.
    pub ordered: usize,
}

/// Tells one such story, under our passes or under a peer's policy.
///
/// # Errors
/// The rule that broke, with the timeline.
pub fn interrupted(seed: u64, naive: Option<PeerPolicy>) -> Result<InterruptedRun, String> {
    let mut story = Scenario::under(naive);
    run(&mut story, Rng::new(seed)).map_err(|broken| format!("{broken}\n{}", render(&story)))
}

fn run(story: &mut Scenario, mut rng: Rng) -> Result<InterruptedRun, String> {
    let market = ["spot", "spot-then-on-demand"][rng.index(2)];
    story.obey(&format!("pool linux max=9 market={market}"))?;
    story.obey("boot by themselves")?;
    story.obey("github gives jobs")?;
    let jobs = FIRST..=FIRST + u32::try_from(rng.index(3)).unwrap_or(0);
    for job in jobs.clone() {
        story.obey(&format!("queue job {job}"))?;
    }
    if rng.chance(300_000) {
        story.obey(&format!("fail fast job {FIRST}"))?;
    }
    let event = ["push", "pull_request"][rng.index(2)];
    story.obey(&format!("run of job {FIRST} is of {event} topic"))?;
    story.change(|world| {
        FAULTS.iter().for_each(|(fault, ppm)| world.fault_rates.set(*fault, *ppm));
        let tells = rng.chance(500_000);
        world.github.truth.tells_of_copies = tells;
    });
    for _ in 0..8 + rng.index(12) {
        let machine = 1 + rng.index(6);
        let job = FIRST + u32::try_from(rng.index(8)).unwrap_or(0);
        let command = match rng.index(20) {
            0..=3 => format!("reclaim {machine}"),
            4 => format!("take {machine}"),
            5 => format!("take {machine} and take {}", 1 + rng.index(3)),
            18..=19 => format!("reclaim {machine} and reclaim {}", 1 + rng.index(3)),
            6..=8 => format!("finish job {job} badly"),
            9..=11 => format!("finish job {job}"),
            12 => format!("cancel job {FIRST}"),
            13 => format!("somebody re-runs job {job}"),
            14 => format!("somebody re-runs the failed jobs of the run of job {FIRST}"),
            15 => format!("queue job {NEWER}"),
            16 => format!("run of job {NEWER} is of {event} topic"),
            _ => format!("advance {}s", 10 + rng.index(240)),
        };
        // Not everything is possible at any time.
        let _ = story.obey(&command);
        story.pass(rng.between(SECOND, 2 * MINUTE))?;
    }
    story.change(|world| {
        FAULTS.iter().for_each(|(fault, _)| world.fault_rates.set(*fault, 0));
    });
    for _ in 0..30 {
        story.change(|world| {
            world.github.finish_all();
            let busy: Vec<u32> = (0..world.ec2.machines.len())
                .filter_map(|number| u32::try_from(number).ok())
                .collect();
            busy.into_iter().for_each(|machine| world.wake_machine(machine));
        });
        story.pass(5 * MINUTE)?;
    }
    let (run, violation) = story.change(|world| {
        world.close_the_reruns();
        world.close_the_losses();
        let run = InterruptedRun {
            interrupted: world.github.known().filter(|(job, _)| job.interrupted.is_some()).count(),
            ordered: world.tables.reruns.values().map(|record| record.ours.len()).sum(),
        };
        (run, world.violation.clone())
    });
    match violation {
        Some(broken) => Err(format!("{}: {}", broken.rule, broken.what)),
        None => Ok(run),
    }
}
