//! Instances for tests, and what holds for every record.

use super::*;
use crate::time::Seconds;

pub(crate) fn slot(n: u32) -> Slot {
    Slot {
        name: format!("default-l-{n}").parse().expect("valid"),
        pool: "default".parse().expect("valid"),
        entity: "acme".parse().expect("valid"),
        installation: Some(InstallationId(7)),
        launch: "default-l".parse().expect("valid"),
        claim: Some(JobKey { repository: 1, job: u64::from(n) }),
    }
}

pub(crate) fn machine(n: u32) -> MachineId {
    format!("i-{n:017x}").parse().expect("valid")
}

pub(crate) const T0: Time = Time::from_millis(1_000_000);

pub(crate) fn at(seconds: u32) -> Time {
    T0 + Seconds(seconds)
}

/// It would hold the min idle back for up to an hour.
#[test]
fn only_a_machine_whose_runner_never_listened_has_failed_the_min_idle() {
    use crate::testkit::{
        Story as _, With as _, active, booting, completed, exited_unused, idle, idle_without_hooks,
        timings,
    };
    let ends_well =
        |row: Instance| row.with(|i| i.runner_ended(Some(0), None, at(110), &timings()));
    let (ended_well, without_hooks) = (ends_well(idle()), ends_well(idle_without_hooks()));
    let rows = [
        ("booting", booting(), true),
        ("its agent gave up", exited_unused(), true),
        ("listening", idle(), false),
        ("its agent ended with 0, and its hooks told of no job", ended_well, true),
        ("ran a job that nobody could tell us of", without_hooks, false),
        ("with a job", active(), false),
        ("after its job", completed(), false),
    ];
    for (what, row, fails) in rows {
        let row = row.unclaimed();
        let next = row.clone().marked(DeleteReason::MachineGone, 120);
        assert_eq!(row.failed_idle(&next).is_some(), fails, "{what}");
    }
}

/// Else a job whose machines all die at once costs one after the other without pause.
#[test]
fn a_machine_that_dies_before_its_agent_listens_is_a_failure_of_its_jobs() {
    use crate::testkit::{Story as _, With as _, active, booting, exited_unused, idle};
    let noticed = booting().with(|row| row.spot_notice(at(115)));
    let rows = [
        ("booting", booting(), DeleteReason::MachineGone, true),
        ("stopped", booting(), DeleteReason::MachineStopped, true),
        ("its agent gave up", exited_unused(), DeleteReason::MachineGone, true),
        ("taken back by EC2", noticed, DeleteReason::MachineGone, false),
        ("listening", idle(), DeleteReason::MachineGone, false),
        ("with a job", active(), DeleteReason::MachineGone, false),
        ("ordered", booting(), DeleteReason::Ordered, false),
    ];
    for (what, row, reason, fails) in rows {
        let next = row.clone().marked(reason, 120);
        assert_eq!(row.died_unheard(&next), fails, "{what}");
    }
}

/// GitHub removes an ephemeral runner with the end of its job, and no other.
#[test]
fn an_agent_that_ended_without_a_job_leaves_its_registration() {
    use crate::testkit::{completed, exited_unused, idle};
    let name = || vec![idle().runner_name()];
    assert_eq!(exited_unused().names_left(), name());
    assert_eq!(idle().names_left(), name());
    assert_eq!(completed().names_left(), Vec::<String>::new());
}

#[test]
fn a_record_survives_its_json() {
    let mut instance = Instance::planned(slot(0), T0, &Timings::default());
    instance.bind(machine(1), at(3), &Timings::default());
    let json = serde_json::to_string(&instance).expect("serialize");
    assert_eq!(serde_json::from_str::<Instance>(&json).expect("deserialize"), instance);
}

#[test]
fn the_story_is_bounded() {
    let mut instance = Instance::planned(slot(0), T0, &Timings::default());
    for n in 0..100 {
        instance.tell(at(n), format!("line {n}"));
    }
    assert_eq!(instance.events.len(), MAX_EVENTS);
    assert_eq!(instance.events.last().map(|event| &*event.what), Some("line 99"));
}
