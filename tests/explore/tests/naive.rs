//! The exploration catches what first versions get wrong: for each naive rule, the invariant that
//! breaks, by a shortest trace.

use std::io::Write as _;

use muster_explore::naive;
use muster_explore::rules::Rules;
use muster_explore::search::{Counterexample, World, explore};
use muster_explore::stop::{DeadGithub, Stop};
use muster_explore::triangle::{Config, Fault, Grain, Triangle};

/// More than any of these needs before it is caught.
const LIMIT: usize = 2_000_000;

fn caught<W: World>(name: &str, world: &W, invariant: &str) -> Counterexample {
    let found = match explore(world, LIMIT) {
        Ok(report) => panic!("{name} was not caught: {report}"),
        Err(found) => *found,
    };
    assert!(found.what.starts_with(invariant), "{name} breaks {invariant}: {found}");
    let mut out = std::io::stdout().lock();
    writeln!(out, "{name}: {found}").expect("stdout");
    found
}

/// Two jobs, two machines, one fault of these kinds.
fn triangle(rules: Rules, kinds: &'static [Fault]) -> Triangle {
    let faults = u8::from(!kinds.is_empty());
    Triangle::new(
        Config { max: 2, faults, kinds, jobs: 2, grain: Grain::Effect, late: false },
        rules,
    )
}

/// One machine's way out, one fault, a lying GitHub, and orders of these kinds.
fn stop(rules: Rules, orders: u8, kinds: &'static [usize]) -> Stop {
    let config = muster_explore::stop::Config {
        faults: 1,
        orders,
        kinds,
        workers: 2,
        lies: true,
        github: None,
    };
    Stop::new(config, rules)
}

/// One machine's way out where GitHub and EC2 may die for good.
fn dead(rules: Rules, kinds: &'static [usize]) -> Stop {
    let github = Some(DeadGithub::Unauthorized);
    let config = muster_explore::stop::Config {
        faults: 0,
        orders: 1,
        kinds,
        workers: 1,
        lies: false,
        github,
    };
    Stop::new(config, rules)
}

#[test]
fn last_event_wins() {
    let world = triangle(naive::last_event_wins(), &[Fault::Duplicate]);
    caught("last event wins", &world, "I8");
}

#[test]
fn claims_are_swapped_blindly() {
    let world = triangle(naive::claims_are_swapped_blindly(), &[Fault::Spot, Fault::Hang]);
    caught("claims are swapped blindly", &world, "I8");
}

#[test]
fn claims_are_kept() {
    let world = triangle(naive::claims_are_kept(), &[Fault::Spot]);
    caught("claims are kept", &world, "I8");
}

#[test]
fn replay_is_believed() {
    // Its machine must be missing from the bare replay and from the look by tag, and not come by
    // itself.
    let kinds = &[Fault::Ambiguous, Fault::LateTag, Fault::Hang];
    let config = Config { max: 1, faults: 3, kinds, jobs: 1, grain: Grain::Effect, late: false };
    let world = Triangle::new(config, naive::replay_is_believed());
    caught("replay is believed", &world, "I2/I4");
}

#[test]
fn silence_is_failure() {
    let world = triangle(naive::silence_is_failure(), &[Fault::Ambiguous]);
    caught("silence is failure", &world, "I2/I4");
}

#[test]
fn machines_are_bound_twice() {
    let world = triangle(naive::machines_are_bound_twice(), &[]);
    caught("machines are bound twice", &world, "I3");
}

#[test]
fn writes_are_blind_to_claims() {
    let world = triangle(naive::writes_are_blind(), &[]);
    caught("writes are blind", &world, "I8");
}

#[test]
fn writes_are_blind_to_started_jobs() {
    let world = stop(naive::writes_are_blind(), 0, &[]);
    caught("writes are blind", &world, "I5");
}

#[test]
fn maximum_is_planned_only() {
    let config = Config {
        max: 1,
        faults: 1,
        kinds: &[Fault::Slow],
        jobs: 2,
        grain: Grain::Verb,
        late: false,
    };
    let world = Triangle::new(config, naive::maximum_is_planned_only());
    caught("maximum is planned only", &world, "I7");
}

#[test]
fn launch_comes_first() {
    let world = triangle(naive::launch_comes_first(), &[Fault::Crash]);
    caught("launch comes first", &world, "I13");
}

#[test]
fn hook_is_not_asked() {
    let world = stop(naive::hook_is_not_asked(), 0, &[]);
    caught("hook is not asked", &world, "I9");
}

#[test]
fn asked_is_removed() {
    let world = stop(naive::asked_is_removed(), 0, &[]);
    caught("asked is removed", &world, "I9: refused for good");
}

/// One 204 for a runner that was just given a job is enough.
#[test]
fn hook_is_not_asked_and_github_lies() {
    let kinds = &[Fault::Cancel, Fault::Lie];
    let config = Config { max: 1, faults: 2, kinds, jobs: 2, late: true, grain: Grain::Effect };
    let world = Triangle::new(config, naive::hook_is_not_asked());
    caught("hook is not asked, GitHub lies", &world, "I1:");
}

#[test]
fn first_order_stands() {
    let world = dead(naive::first_order_stands(), &[0, 3, 5]);
    caught("first order stands", &world, "I11");
}

#[test]
fn absent_is_gone() {
    let world = stop(naive::absent_is_gone(), 0, &[]);
    caught("absent is gone", &world, "I2");
}

#[test]
fn failed_terminate_is_success() {
    let world = stop(naive::failed_terminate_is_success(), 0, &[]);
    caught("failed terminate is success", &world, "I2");
}

#[test]
fn github_alone_is_asked() {
    let world = stop(naive::github_alone_is_asked(), 0, &[]);
    caught("GitHub alone is asked", &world, "I1:");
}

#[test]
fn silence_is_absence() {
    let config = muster_explore::stop::Config {
        faults: 1,
        orders: 0,
        kinds: &[],
        workers: 1,
        lies: false,
        github: Some(DeadGithub::Unavailable),
    };
    let world = Stop::new(config, naive::silence_is_absence());
    caught("silence is absence", &world, "I1:");
}

#[test]
fn terminate_is_asked_once() {
    let world = stop(naive::terminate_is_asked_once(), 0, &[]);
    caught("terminate is asked once", &world, "I11");
}

#[test]
fn removal_is_not_on_record() {
    let world = stop(naive::removal_is_not_on_record(), 0, &[]);
    caught("removal is not on record", &world, "I9");
}

#[test]
fn nothing_is_audited() {
    let world = stop(naive::nothing_is_audited(), 1, &[4]);
    caught("nothing is audited", &world, "I14");
}

#[test]
fn waits_for_messages() {
    let world = stop(naive::waits_for_messages(), 0, &[]);
    caught("waits for messages", &world, "I11");
}

#[test]
fn completed_is_the_end() {
    let world = stop(naive::completed_is_the_end(), 0, &[]);
    caught("completed is the end", &world, "I14");
}

#[test]
fn force_never_gives_up() {
    let world = dead(naive::force_never_gives_up(), &[3, 5]);
    caught("force never gives up", &world, "I6");
}
