//! Records with any history of reports, orders and passes.

use proptest::prelude::*;

use super::passes::pass;
use super::worlds::world;
use crate::ec2::ErrorClass;
use crate::ids::{AppName, JobKey};
use crate::instance::{DeleteOrder, DeleteReason, Instance};
use crate::observation::Observation;
use crate::testkit::{
    RUNNER, Story, active, active_by_github, asking, at, boot_failed, booting, completed, creating,
    error, exited, forced, idle, installing, machine, plain, policy, refusal, report, retrying,
    start, timings,
};
use crate::time::{Seconds, Time};

/// An event in a record's history.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Wait(u32),
    Bind,
    LaunchFails,
    Relaunch,
    AskConfiguration,
    Configured,
    RunnerStarted,
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
        2 => Just(H::RunnerStarted),
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

/// A record in every condition, as of second 110.
pub(super) fn starts() -> Vec<Instance> {
    let running = || vec![booting(), asking(), installing(), idle(), active(), completed()];
    let mut starts =
        vec![creating(), retrying(), error(), active_by_github(), exited(), boot_failed()];
    starts.extend(running());
    starts.extend(running().into_iter().map(|i| i.ordered(plain(110))));
    starts.extend(running().into_iter().map(|i| i.ordered(forced(110))));
    starts.extend(running().into_iter().map(|i| i.ordered(plain(110)).deleting(110)));
    starts
}

/// A condition, the events since then, and the quiet time after them.
pub(super) fn past() -> impl Strategy<Value = (Instance, Vec<Happening>, u32)> {
    let start = prop::sample::select(starts());
    let quiet = prop::sample::select(vec![0, 300, 900, 2000]);
    (start, prop::collection::vec(happening(), 0..10), quiet)
}

/// The record after its history, and the time.
pub(super) fn lived((start, past, quiet): (Instance, Vec<Happening>, u32)) -> (Instance, Time) {
    let (mut instance, mut now) = (start, at(110));
    for one in &past {
        happen(&mut instance, one, &mut now);
    }
    assert!(!instance.state().is_live() || instance.due_at().is_some(), "{instance:#?}");
    (instance, now + Seconds(quiet))
}

/// Makes the calls that `control`'s passes would make, under their conditions.
fn happen(instance: &mut Instance, happening: &Happening, now: &mut Time) {
    let timings = timings();
    let job = |job: &u64| JobKey { app: AppName::MAIN, repository: 1, job: *job };
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
        Happening::RunnerStarted if live => {
            let _ = instance.runner_started(&name, *now, &timings);
        }
        Happening::JobStarted if instance.runner.id.is_some() => {
            let _ = start(instance, report(), *now);
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
            instance.github_completed(job(n), false, *now, &timings);
        }
        Happening::Claim if instance.is_free_supply() => instance.set_claim(job(&1), *now),
        Happening::Unclaim => instance.clear_claim(*now, "cancelled"),
        Happening::Mark if live => instance.set_mark(DeleteReason::Ordered, *now),
        Happening::SpotNotice if live => instance.spot_notice(*now),
        Happening::Order { force, bypass, kill } => {
            let order = DeleteOrder {
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
