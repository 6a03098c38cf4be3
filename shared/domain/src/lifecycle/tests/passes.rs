//! Whole passes over records with any history, with arbitrary responses from EC2 and GitHub:
//! `decide` never panics, comes to rest, leaves a due time, and never harms a running job.

use proptest::prelude::*;

use super::pasts::{lived, past, starts};
use super::worlds::{answers, world};
use crate::instance::{DeleteReason, Instance, State};
use crate::lifecycle::{Effect, Need, Policy, Record, Step, decide};
use crate::observation::{Look, Machine, Observation};
use crate::testkit::{at, policy, searched, timings};
use crate::time::Time;

/// Maximum number of decisions in a pass, as in `control`.
const ROUNDS: usize = 16;

/// Runs a pass as `control` does, and checks the invariants at every step.
pub(super) fn pass(
    start: &Instance,
    world: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Instance {
    let mut instance = start.clone();
    let mut seen = Observation {
        machine_hint: world.machine_hint,
        deletes_off: world.deletes_off,
        spot_notice: world.spot_notice,
        outdated: world.outdated,
        pool_removed: world.pool_removed,
        ..Observation::default()
    };
    for _ in 0..ROUNDS {
        match decide(&instance, &seen, policy, now) {
            Step::Look(need) => look(need, world, &mut seen),
            Step::Act { next, records, effect } => {
                if let Some(effect) = &effect {
                    spares_job(&instance, &seen, effect, policy, now);
                }
                leaves_trace(&instance, &next, &records);
                instance = *next;
                perform(effect, world, &mut seen);
            }
            Step::Rest(next) => {
                let due = next.due_at().expect("a live record has a time to come back");
                assert!(next.state().is_live());
                assert!(due > now, "comes back at once, for ever: {next:#?}");
                return *next;
            }
            Step::Done => {
                assert_eq!(instance.state(), State::Deleted);
                return instance;
            }
        }
    }
    panic!("no rest after {ROUNDS} decisions: {instance:#?}");
}

fn look(need: Need, world: &Observation, seen: &mut Observation) {
    let known = match need {
        Need::Machine => {
            std::mem::replace(&mut seen.machine, world.machine.clone()) != Look::Unknown
        }
        Need::Console => {
            std::mem::replace(&mut seen.console, world.console.clone()) != Look::Unknown
        }
        Need::Runner => std::mem::replace(&mut seen.runner, world.runner.clone()) != Look::Unknown,
        Need::Launch => std::mem::replace(&mut seen.launch, world.launch.clone()) != Look::Unknown,
        Need::ClaimedJob => {
            let answer = world.claimed_job_waits.clone();
            std::mem::replace(&mut seen.claimed_job_waits, answer) != Look::Unknown
        }
        Need::Surplus => {
            std::mem::replace(&mut seen.surplus, world.surplus.clone()) != Look::Unknown
        }
    };
    assert!(!known, "asks twice: {need:?}");
}

fn perform(effect: Option<Effect>, world: &Observation, seen: &mut Observation) {
    match effect {
        Some(Effect::Deregister(_)) => seen.deregistration = world.deregistration.clone(),
        Some(Effect::Terminate(_)) => {
            seen.terminated(world.termination.clone().expect("an answer of EC2"));
        }
        Some(Effect::WakePool) | None => {}
    }
}

/// Only the order to kill, the age or a stopped machine may end a job that the hook reported, and
/// no external effect happens without a durable mark.
fn spares_job(
    instance: &Instance,
    seen: &Observation,
    effect: &Effect,
    policy: &Policy<'_>,
    now: Time,
) {
    if *effect == Effect::WakePool {
        return;
    }
    let mark = instance.mark().expect("a mark before every effect");
    let ends = matches!(instance.state(), State::PendingDelete | State::PendingForceDelete);
    assert!(ends || instance.state() == State::Deleting, "{effect:?} in {}", instance.state());
    let too_old = now >= instance.created_at + policy.max_lifetime;
    if instance.may_kill_job() || too_old || instance.state() == State::Deleting {
        return;
    }
    let stopped =
        seen.machine == Look::Seen(Machine::Stopped) || mark.reason == DeleteReason::MachineStopped;
    let runs = instance.runner.started.as_ref().is_some_and(|job| job.completed_at.is_none());
    let spared = !runs || instance.runner.exit.is_some() || stopped;
    assert!(spared, "{effect:?} beside a running job: {instance:#?}");
    if matches!(effect, Effect::Deregister(_)) {
        assert!(instance.is_forced() || mark.gate_passed, "no evidence: {instance:#?}");
        assert!(!instance.runner.is_busy(), "{instance:#?}");
    }
}

/// A machine whose forced delete ends is in the ledger and in the audit log; no other transition
/// leads from an error to the end.
fn leaves_trace(before: &Instance, next: &Instance, records: &[Record]) {
    let orphans = records.iter().filter(|record| matches!(record, Record::Orphan(_))).count();
    let gives_up = before.attempts < next.attempts && next.state() == State::Deleted;
    assert_eq!(orphans, usize::from(gives_up), "{next:#?}");
    assert!(orphans == 0 || (next.is_forced() && records.len() == 2), "{records:#?}");
}

/// Exhaustive rather than sampled: each condition, at each of its times, with each response.
#[test]
fn every_condition_comes_to_rest_whatever_is_answered() {
    let timings = timings();
    let mut passes = 0;
    for start in starts() {
        for now in [110, 400, 600, 1000, 2000, 50_000].map(at) {
            for world in answers() {
                let once = pass(&start, &world, &policy(&timings), now);
                pass(&once, &world, &policy(&timings), now);
                passes += 1;
            }
        }
    }
    assert_eq!(passes, starts().len() * 6 * 30);
}

proptest! {
    #![proptest_config(searched(600))]

    #[test]
    fn a_record_with_any_past_comes_to_rest(past in past(), world in world()) {
        let (instance, now) = lived(past);
        pass(&instance, &world, &policy(&timings()), now);
        pass(&instance, &world, &Policy { most_idle: 2, ..policy(&timings()) }, now);
    }

    #[test]
    fn the_same_view_again_and_again_comes_to_rest(past in past(), seen in world()) {
        let timings = timings();
        let (mut instance, now) = lived(past);
        let mut steps = 0;
        while let Step::Act { next, .. } = decide(&instance, &seen, &policy(&timings), now) {
            instance = *next;
            steps += 1;
            prop_assert!(steps < ROUNDS, "{instance:#?}");
        }
        let last = decide(&instance, &seen, &policy(&timings), now);
        prop_assert!(matches!(last, Step::Rest(_) | Step::Done), "asks what it knows: {last:?}");
    }
}
