//! Arbitrary responses from EC2 and GitHub.

use proptest::prelude::*;

use crate::ec2::{ErrorClass, Make};
use crate::launch::LaunchState;
use crate::observation::{Deregistration, Look, Machine, Observation, RunnerSeen, Termination};
use crate::provider::ProviderError;
use crate::testkit::{RUNNER, aborted, at, fault, unauthorized, unavailable};

fn trouble() -> impl Strategy<Value = ProviderError> {
    prop_oneof![
        Just(unauthorized()),
        Just(unavailable()),
        (0..100_000_u32).prop_map(|second| ProviderError::RateLimited(at(second))),
    ]
}

fn looked<T: Clone + std::fmt::Debug + 'static>(seen: Vec<T>) -> impl Strategy<Value = Look<T>> {
    let seen = prop::sample::select(seen).prop_map(Look::Seen);
    prop_oneof![3 => seen, 1 => trouble().prop_map(Look::Failed)]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.1)
}

fn machines() -> Vec<Machine> {
    vec![Machine::Pending, Machine::Running, Machine::Stopped, Machine::Gone, Machine::Absent]
}

fn terminations() -> Vec<Termination> {
    let mut all: Vec<Termination> = machines().into_iter().map(Termination::Accepted).collect();
    all.push(Termination::NotFound(fault("InvalidInstanceID.NotFound")));
    all.push(Termination::Failed(ErrorClass::Throttle, fault("Throttled")));
    all
}

/// Observations with a result for every check.
pub(super) fn world() -> impl Strategy<Value = Observation> {
    let runners = vec![
        RunnerSeen::Absent,
        RunnerSeen::NotBusy(RUNNER),
        RunnerSeen::Offline(RUNNER),
        RunnerSeen::Busy(RUNNER),
    ];
    let deregistrations =
        vec![Deregistration::Done, Deregistration::NotFound, Deregistration::Busy];
    let launches = vec![
        None,
        Some((LaunchState::Settled, at(0))),
        Some((LaunchState::Open, at(0))),
        Some((LaunchState::Open, at(90_000))),
    ];
    (
        (prop::bool::weighted(0.3), rarely(), rarely(), rarely(), rarely()),
        (looked(machines()), looked(runners), looked(launches)),
        (looked(vec![true, false]), looked(vec![true, false]), looked(deregistrations)),
        prop::sample::select(terminations()),
    )
        .prop_map(
            |(
                (machine_hint, deletes_off, spot_notice, outdated, pool_removed),
                (machine, runner, launch),
                (job, surplus, answer),
                end,
            )| {
                Observation {
                    machine_hint,
                    // Reuses another flag to get a random value.
                    machine_told_gone: machine_hint && pool_removed,
                    deletes_off,
                    spot_notice,
                    spot_notice_at: None,
                    outdated: outdated || pool_removed,
                    pool_removed,
                    machine,
                    // Reuses another flag to get a random value.
                    machine_reason: spot_notice.then(aborted),
                    machine_make: Make::default(),
                    machine_ended_at: None,
                    console: Look::Seen(String::new()),
                    runner,
                    launch,
                    claimed_job_waits: job,
                    surplus,
                    deregistration: answer,
                    termination: Some(end),
                }
            },
        )
}

fn failed<T>() -> Look<T> {
    Look::Failed(unavailable())
}

/// All responses of EC2 and GitHub to the checks and calls of one pass.
pub(super) fn answers() -> Vec<Observation> {
    let shown = [failed()].into_iter().chain(machines().into_iter().map(Look::Seen));
    let runner = [RunnerSeen::Absent, RunnerSeen::NotBusy(RUNNER), RunnerSeen::Busy(RUNNER)];
    let removed = [Deregistration::Done, Deregistration::NotFound, Deregistration::Busy];
    let github = || {
        let answered = runner.map(Look::Seen).into_iter().zip(removed.map(Look::Seen));
        answered.chain([(failed(), failed()), (Look::Seen(runner[1]), Look::Seen(removed[2]))])
    };
    let settled = Look::Seen(Some((LaunchState::Settled, at(0))));
    let world = |(machine, (runner, deregistration))| Observation {
        machine_hint: matches!(machine, Look::Seen(Machine::Gone | Machine::Absent)),
        machine,
        runner,
        deregistration,
        console: failed(),
        launch: settled.clone(),
        claimed_job_waits: Look::Seen(true),
        termination: Some(Termination::Accepted(Machine::Gone)),
        ..Observation::default()
    };
    shown
        .flat_map(|machine| github().map(move |runner| (machine.clone(), runner)))
        .map(world)
        .collect()
}
