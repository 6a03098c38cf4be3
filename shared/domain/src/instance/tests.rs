//! Instances for tests, and properties of every record.

use super::*;
use crate::ids::AppName;
use crate::time::Seconds;

pub(crate) fn slot(n: u32) -> Slot {
    Slot {
        name: format!("default-l-{n}").parse().expect("valid"),
        pool: "default".parse().expect("valid"),
        entity: "acme".parse().expect("valid"),
        installation: Some(InstallationId(7)),
        launch: "default-l".parse().expect("valid"),
        claim: Some(JobKey { app: AppName::MAIN, repository: 1, job: u64::from(n) }),
    }
}

pub(crate) fn machine(n: u32) -> MachineId {
    format!("i-{n:017x}").parse().expect("valid")
}

pub(crate) const T0: Time = Time::from_millis(1_000_000);

pub(crate) fn at(seconds: u32) -> Time {
    T0 + Seconds(seconds)
}

/// The installation belongs to the job's organization.
#[test]
fn a_runner_of_an_enterprise_is_not_asked_for_as_the_organization_of_its_job() {
    let installation = |entity: &str| {
        let slot = Slot { entity: entity.parse().expect("valid"), ..slot(1) };
        Instance::planned(slot, at(0), &Timings::default()).installation
    };
    assert_eq!(installation("enterprises/big"), None);
    assert_eq!(installation("acme"), Some(InstallationId(7)));
    assert_eq!(installation("acme/web"), Some(InstallationId(7)));
}

/// Such machines block the others of their pool, so a machine that worked must not count as one.
#[test]
fn a_machine_that_ends_before_a_job_reached_it_served_nothing() {
    use crate::testkit::{
        Story as _, With as _, active, booting, completed, exited_unused, idle, report, start,
        timings,
    };
    let ended_well = idle().with(|i| i.runner_ended(Some(0), None, at(110), &timings()));
    let noticed = booting().with(|row| row.spot_notice(at(115)));
    let stopped =
        idle().with(|i| i.runner_stopped(StopCause::Interruption, 0, at(110), &timings()));
    let gone = || DeleteReason::MachineGone;
    let rows = [
        ("booting", booting(), gone(), true),
        ("stopped", booting(), DeleteReason::MachineStopped, true),
        ("not up in time", booting(), DeleteReason::BootTimeout, true),
        ("its agent gave up", exited_unused(), gone(), true),
        (
            "its agent gave up, and the machine lives",
            exited_unused(),
            DeleteReason::RunnerEnded,
            true,
        ),
        ("its agent lost GitHub", idle(), DeleteReason::Unreachable, true),
        ("taken back by EC2", noticed, gone(), false),
        ("its agent was stopped for that, and EC2's event was lost", stopped, gone(), false),
        ("listening", idle(), gone(), false),
        ("its agent ended with 0, and its hook told of no job", ended_well, gone(), true),
        ("with a job", active(), gone(), false),
        ("after its job", completed(), gone(), false),
        ("ordered", booting(), DeleteReason::Ordered, false),
        ("not needed any more", booting(), DeleteReason::NotNeeded, false),
    ];
    for (what, row, reason, is_failure) in rows {
        let next = row.clone().marked(reason, 120);
        assert_eq!(row.served_nothing(&next).is_some(), is_failure, "{what}");
        // Counted once: records after the mark add nothing.
        let later = next.clone().with(|row| row.set_due(at(130)));
        assert_eq!(next.served_nothing(&later), None, "{what}, again");
    }
    let refused = idle().with(|i| {
        let version = crate::agent::AgentVersion::new(2, 335, 0);
        i.runs_agent(Some(version), None, Some(version), at(31));
        i.runner_ended(Some(7), None, at(110), &timings());
    });
    for reason in [DeleteReason::RunnerEnded, gone()] {
        let why = refused.served_nothing(&refused.clone().marked(reason, 120));
        let told = "GitHub rejected its agent 2.335.0 as too old, and lists no newer one";
        assert_eq!(why.as_deref(), Some(told));
        assert_eq!(&*refused.events.last().expect("a line").what, told);
    }
    let older = crate::agent::AgentVersion::new(2, 334, 0);
    for (before, expected) in [(idle(), Some(older)), (active(), None)] {
        let before = before.with(|i| i.runs_agent(Some(older), None, None, at(31)));
        let next = before.clone().with(|i| i.runner_ended(Some(7), None, at(110), &timings()));
        assert_eq!(before.agent_refused_by(&next), expected, "a job may say what it likes");
        assert_eq!(next.agent_refused_by(&next), None, "once");
    }
    let foreign = idle().with(|i| {
        let report = StartReport { repository: "other/web".to_owned(), ..report() };
        assert_eq!(start(i, report, at(50)), Ok(Start::Foreign));
    });
    let gave_back = foreign.clone().with(|row| row.passed_over = true);
    assert_eq!(foreign.served_nothing(&gave_back), None, "a job that its pool does not serve");
    let row = exited_unused();
    let gave_back = row.clone().with(|row| row.passed_over = true);
    assert!(row.served_nothing(&gave_back).is_some(), "its job gets another runner at once");
    let marked = gave_back.clone().marked(DeleteReason::RunnerEnded, 130);
    assert_eq!(gave_back.served_nothing(&marked), None, "and its end is no second failure");
}

/// GitHub removes an ephemeral runner when its job ends, and no other runner.
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
