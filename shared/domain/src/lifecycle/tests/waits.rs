//! Every reason for which a delete waits has a name in the record and a sentence for operators.

use super::{answers, ends, nothing, sees, sees_launch, sees_runner};
use crate::ec2::ErrorClass;
use crate::explain;
use crate::instance::{Instance, Waiting};
use crate::launch::LaunchState;
use crate::lifecycle::{Step, decide};
use crate::observation::{Deregistration, Look, Machine, Observation, RunnerSeen, Termination};
use crate::provider::ProviderError;
use crate::testkit::{
    RUNNER, Story, active, asking, at, completed, creating, fault, idle, plain, policy, timings,
    unauthorized, unavailable,
};

const ALL: [Waiting; 11] = [
    Waiting::Registering,
    Waiting::JobRunning,
    Waiting::Busy,
    Waiting::SecondRead,
    Waiting::RateLimited,
    Waiting::Unauthorized,
    Waiting::GithubUnavailable,
    Waiting::LaunchOpen,
    Waiting::Provider,
    Waiting::Absent,
    Waiting::SwitchedOff,
];

/// An instance that starts to wait for this reason at second 700, and words of its sentence.
fn example(waiting: &Waiting) -> (Instance, Observation, &'static str) {
    let ordered = |instance: Instance| instance.ordered(plain(700));
    let passed = || ordered(idle()).through_gate();
    let refused = |trouble| Observation { deregistration: Look::Failed(trouble), ..nothing() };
    match waiting {
        Waiting::Registering => {
            let mut asked = ordered(asking());
            asked.runner.asking_since = Some(at(690));
            (asked, nothing(), "configuration call")
        }
        Waiting::JobRunning => (ordered(active()), nothing(), "running job"),
        Waiting::Busy => {
            (passed(), answers(Deregistration::Busy), "GitHub reports that its runner is busy")
        }
        Waiting::SecondRead => (
            ordered(completed()),
            sees_runner(RunnerSeen::NotBusy(RUNNER)),
            "a second check must confirm that",
        ),
        Waiting::RateLimited => {
            (passed(), refused(ProviderError::RateLimited(at(900))), "rate limit")
        }
        Waiting::Unauthorized => (passed(), refused(unauthorized()), "bypass_github_unauthorized"),
        Waiting::GithubUnavailable => (passed(), refused(unavailable()), "GitHub does not answer"),
        Waiting::LaunchOpen => (
            ordered(creating()),
            sees_launch(LaunchState::Open, 800),
            "whether it launched a machine",
        ),
        Waiting::Provider => {
            let failed = Termination::Failed(ErrorClass::Throttle, fault("Throttled"));
            (
                passed().deregistered().deleting(700),
                ends(failed),
                "EC2 failed to terminate it 1 time(s)",
            )
        }
        Waiting::Absent => {
            (ordered(idle()), sees(Machine::Absent), "EC2 does not know its machine")
        }
        Waiting::SwitchedOff => (
            passed(),
            Observation { deletes_off: true, ..nothing() },
            "An operator has paused deletes",
        ),
    }
}

#[test]
fn every_wait_is_named_and_readable() {
    let timings = timings();
    for waiting in ALL {
        let (instance, seen, words) = example(&waiting);
        let step = decide(&instance, &seen, &policy(&timings), at(700));
        let (Step::Rest(next) | Step::Act { next, .. }) = step else {
            panic!("{waiting:?}: {step:?}");
        };
        assert_eq!(next.mark().and_then(|mark| mark.waiting.clone()), Some(waiting.clone()));
        let told = explain::instance(&next, at(700));
        let said = told.iter().filter(|line| line.contains(words) && line.ends_with('.')).count();
        assert_eq!(said, 1, "{waiting:?}: {told:#?}");
        let due = next.due_at().expect("it is looked at again");
        assert!(told.contains(&format!("Its next check is due at {due}.")), "{told:#?}");
    }
}

#[test]
fn no_two_waits_read_the_same() {
    for waiting in &ALL {
        let (_, _, words) = example(waiting);
        let others = ALL.iter().filter(|other| *other != waiting).map(|other| example(other).2);
        assert!(others.into_iter().all(|other| other != words), "{waiting:?}");
    }
}
