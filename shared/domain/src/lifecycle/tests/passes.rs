//! Whole passes over records with any past, in a world that answers anything: `decide` never panics, comes to
//! rest, leaves a time to come back, and lays no hand on a running job.

use proptest::prelude::*;

use crate::ids::JobKey;
use crate::instance::{DeleteReason, Instance, State};
use crate::launch::{ErrorClass, LaunchState};
use crate::lifecycle::{Effect, Need, Policy, Record, Step, decide};
use crate::observation::{
    Deregistration, Look, Machine, Observation, RunnerSeen, Termination, Trouble,
};
use crate::testkit::{
    RUNNER, Story, active, active_by_github, asking, at, boot_failed, booting, completed, creating,
    error, exited, fault, forced, idle, idle_without_hooks, installing, machine, plain, policy,
    refusal, report, retrying, searched, timings, unauthorized, unavailable,
};
use crate::time::{Seconds, Time};

/// Most decisions of one pass: `control` gives up after as many.
const ROUNDS: usize = 16;

/// One thing that happens to a record.
#[derive(Clone, Debug)]
enum Happening {
    Wait(u32),
    Bind,
    LaunchFails,
    Relaunch,
    AskConfiguration,
    Configured,
    RunnerStarted(bool),
    JobStarted,
    JobCompleted,
    RunnerEnded(Option<i32>),
    GithubStarted(u64),
    GithubCompleted(u64),
    Claim,
    Unclaim,
    Mark,
    SpotNotice,
    Order { force: bool, bypass: bool, kill: bool },
    Pass(Box<Observation>),
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        Just(unauthorized()),
        Just(unavailable()),
        (0..100_000_u32).prop_map(|second| Trouble::RateLimited(at(second))),
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

/// An outside that has an answer to every question.
fn world() -> impl Strategy<Value = Observation> {
    let runners = vec![RunnerSeen::Absent, RunnerSeen::NotBusy(RUNNER), RunnerSeen::Busy(RUNNER)];
    let deregistrations =
        vec![Deregistration::Done, Deregistration::NotFound, Deregistration::Busy];
    let launches = vec![
        None,
        Some((LaunchState::Settled, at(0))),
        Some((LaunchState::Open, at(0))),
        Some((LaunchState::Open, at(90_000))),
    ];
    (
        (prop::bool::weighted(0.3), rarely(), rarely(), rarely()),
        (looked(machines()), looked(runners), looked(launches)),
        (looked(vec![true, false]), looked(deregistrations)),
        prop::sample::select(terminations()),
    )
        .prop_map(
            |(
                (machine_hint, deletes_off, spot_notice, outdated),
                (machine, runner, launch),
                (job, answer),
                end,
            )| {
                Observation {
                    machine_hint,
                    deletes_off,
                    spot_notice,
                    outdated,
                    machine,
                    runner,
                    launch,
                    claimed_job_waits: job,
                    deregistration: answer,
                    termination: Some(end),
                }
            },
        )
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    let flag = any::<bool>;
    let waits = vec![1, 15, 60, 120, 180, 300, 600, 1200, 45_000];
    prop_oneof![
        4 => prop::sample::select(waits).prop_map(H::Wait),
        2 => Just(H::Bind),
        1 => Just(H::LaunchFails),
        1 => Just(H::Relaunch),
        2 => Just(H::AskConfiguration),
        2 => Just(H::Configured),
        2 => flag().prop_map(H::RunnerStarted),
        1 => Just(H::JobStarted),
        1 => Just(H::JobCompleted),
        1 => prop::option::of(0..3).prop_map(H::RunnerEnded),
        1 => (1..3_u64).prop_map(H::GithubStarted),
        1 => (1..3_u64).prop_map(H::GithubCompleted),
        1 => Just(H::Claim),
        1 => Just(H::Unclaim),
        1 => Just(H::Mark),
        1 => Just(H::SpotNotice),
        1 => (flag(), flag(), flag()).prop_map(|(force, bypass, kill)| H::Order { force, bypass, kill }),
        6 => world().prop_map(|world| H::Pass(Box::new(world))),
    ]
}

/// A record in some condition, what has happened to it since second 110, and how long nothing has since then.
fn past() -> impl Strategy<Value = (Instance, Vec<Happening>, u32)> {
    let running = || {
        vec![booting(), asking(), installing(), idle(), idle_without_hooks(), active(), completed()]
    };
    let mut starts =
        vec![creating(), retrying(), error(), active_by_github(), exited(), boot_failed()];
    starts.extend(running());
    starts.extend(running().into_iter().map(|i| i.ordered(plain(110))));
    starts.extend(running().into_iter().map(|i| i.ordered(forced(110))));
    starts.extend(running().into_iter().map(|i| i.ordered(plain(110)).deleting(110)));
    let quiet = prop::sample::select(vec![0, 300, 900, 2000]);
    (prop::sample::select(starts), prop::collection::vec(happening(), 0..10), quiet)
}

/// The record after its past, and the time.
fn lived((start, past, quiet): (Instance, Vec<Happening>, u32)) -> (Instance, Time) {
    let (mut instance, mut now) = (start, at(110));
    for one in &past {
        let before = instance.clone();
        happen(&mut instance, one, &mut now);
        keeps_order(&before, &instance);
    }
    assert!(!instance.state().is_live() || instance.due_at().is_some(), "{instance:#?}");
    (instance, now + Seconds(quiet))
}

/// What the passes of `control` would call, and only when they would.
fn happen(instance: &mut Instance, happening: &Happening, now: &mut Time) {
    let timings = timings();
    let job = |job: &u64| JobKey { repository: 1, job: *job };
    let name = instance.runner_name();
    let live = instance.state().is_live();
    match happening {
        Happening::Wait(seconds) => *now = *now + Seconds(*seconds),
        Happening::Bind if instance.is_free_slot_of(&instance.launch) => {
            instance.bind(machine(1), *now, &timings);
        }
        Happening::LaunchFails if instance.machine().is_none() => {
            instance.launch_failed(&refusal(ErrorClass::Capacity), *now, &timings);
        }
        Happening::Relaunch if instance.is_retry_due(*now, &timings) => {
            instance.relaunch(instance.launch.clone(), *now, &timings);
        }
        Happening::AskConfiguration if instance.machine().is_some() => {
            let _ = instance.ask_configuration(*now);
        }
        Happening::Configured if live && instance.runner.asking_since.is_some() => {
            instance.configured(RUNNER, *now);
        }
        Happening::RunnerStarted(hooks) if live => {
            let _ = instance.runner_started(&name, *hooks, *now, &timings);
        }
        Happening::JobStarted if instance.runner.id.is_some() => {
            let _ = instance.job_started(&name, report(), *now);
        }
        Happening::JobCompleted if live => {
            let _ = instance.job_completed(&name, *now, &timings);
        }
        Happening::RunnerEnded(code) if live && instance.machine().is_some() => {
            instance.runner_ended(*code, None, *now, &timings);
        }
        Happening::GithubStarted(n) if instance.runner.n > 0 => {
            instance.github_started(job(n), *now);
        }
        Happening::GithubCompleted(n) if instance.runner.n > 0 => {
            instance.github_completed(job(n), *now, &timings);
        }
        Happening::Claim if instance.is_free_supply() => instance.set_claim(job(&1), *now),
        Happening::Unclaim => instance.clear_claim(*now, "cancelled"),
        Happening::Mark if live => instance.mark(DeleteReason::Ordered, *now),
        Happening::SpotNotice if live => instance.spot_notice(*now),
        Happening::Order { force, bypass, kill } => {
            let order = crate::instance::Order {
                at: *now,
                force: *force,
                bypass_github_unauthorized: *bypass,
                kill_running_job: *kill,
                ..plain(0)
            };
            instance.order_delete(&order, *now);
        }
        Happening::Pass(world) => *instance = pass(instance, world, &policy(&timings), *now),
        _ => {}
    }
}

/// Runs a pass as `control` does, and holds every step against the promises of the house.
fn pass(start: &Instance, world: &Observation, policy: &Policy<'_>, now: Time) -> Instance {
    let mut instance = start.clone();
    let mut seen = Observation {
        machine_hint: world.machine_hint,
        deletes_off: world.deletes_off,
        spot_notice: world.spot_notice,
        outdated: world.outdated,
        ..Observation::default()
    };
    for _ in 0..ROUNDS {
        match decide(&instance, &seen, policy, now) {
            Step::Look(need) => look(need, world, &mut seen),
            Step::Act { next, records, effect } => {
                keeps_order(&instance, &next);
                if let Some(effect) = &effect {
                    spares_job(&instance, &seen, effect, policy, now);
                }
                leaves_trace(&instance, &next, &records);
                instance = *next;
                perform(effect, world, &mut seen);
            }
            Step::Rest(next) => {
                keeps_order(&instance, &next);
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
        Need::Runner => std::mem::replace(&mut seen.runner, world.runner.clone()) != Look::Unknown,
        Need::Launch => std::mem::replace(&mut seen.launch, world.launch.clone()) != Look::Unknown,
        Need::ClaimedJob => {
            let answer = world.claimed_job_waits.clone();
            std::mem::replace(&mut seen.claimed_job_waits, answer) != Look::Unknown
        }
    };
    assert!(!known, "asks twice: {need:?}");
}

fn perform(effect: Option<Effect>, world: &Observation, seen: &mut Observation) {
    match effect {
        Some(Effect::Deregister(_)) => seen.deregistration = world.deregistration.clone(),
        Some(Effect::Terminate(_)) => {
            seen.machine = Look::Unknown;
            seen.termination.clone_from(&world.termination);
        }
        Some(Effect::WakePool) | None => {}
    }
}

/// A changed record has a later generation: else another writer would not see the change.
fn keeps_order(before: &Instance, next: &Instance) {
    let grown = next.generation() > before.generation();
    assert!(grown || next == before, "changed in silence: {before:#?} {next:#?}");
}

/// Nothing but the order to kill, age or a stopped machine lays hands on a job that the hook reported; and
/// nothing at all happens to the outside without a durable mark.
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
    let drain = instance.drain().expect("a mark before every effect");
    let ends = matches!(instance.state(), State::PendingDelete | State::PendingForceDelete);
    assert!(ends || instance.state() == State::Deleting, "{effect:?} in {}", instance.state());
    let too_old = now >= instance.created_at + policy.max_lifetime;
    if instance.may_kill_job() || too_old || instance.state() == State::Deleting {
        return;
    }
    let stopped = seen.machine == Look::Seen(Machine::Stopped)
        || drain.reason == DeleteReason::MachineStopped;
    let runs = instance.runner.started.as_ref().is_some_and(|job| job.completed_at.is_none());
    let spared = !runs || instance.runner.exit.is_some() || stopped;
    assert!(spared, "{effect:?} beside a running job: {instance:#?}");
    if matches!(effect, Effect::Deregister(_)) {
        assert!(instance.is_forced() || drain.gate_passed, "no evidence: {instance:#?}");
        assert!(!instance.runner.is_busy(), "{instance:#?}");
    }
}

/// What is given up is in the ledger and on the trail. No other way leads from an error to the end.
fn leaves_trace(before: &Instance, next: &Instance, records: &[Record]) {
    let orphans = records.iter().filter(|record| matches!(record, Record::Orphan(_))).count();
    let gives_up = before.attempts < next.attempts && next.state() == State::Deleted;
    assert_eq!(orphans, usize::from(gives_up), "{next:#?}");
    assert!(orphans == 0 || (next.is_forced() && records.len() == 2), "{records:#?}");
}

proptest! {
    #![proptest_config(searched(800))]

    #[test]
    fn a_record_with_any_past_comes_to_rest(past in past(), world in world()) {
        let (instance, now) = lived(past);
        pass(&instance, &world, &policy(&timings()), now);
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
