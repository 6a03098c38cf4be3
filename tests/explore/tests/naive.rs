//! The exploration catches what first versions get wrong: for each naive rule, the invariant that
//! breaks, by a shortest trace.

use std::io::Write as _;

use muster_explore::naive;
use muster_explore::rules::Rules;
use muster_explore::search::{Counterexample, World, explore};
use muster_explore::stop::{DeadGithub, Stop};

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
fn writes_are_blind_to_started_jobs() {
    let world = stop(naive::writes_are_blind(), 0, &[]);
    caught("writes are blind", &world, "I5");
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
