use super::*;
use crate::instance::Instance;
use crate::lifecycle::{Step, decide};
use crate::observation::Observation;
use crate::testkit::{
    Story, With, asking, at, boot_failed, booting, idle, policy, report, start, timings,
};

fn builder() -> Instance {
    booting()
        .unclaimed()
        .with(|i| i.build = Some(BuildPart::Builder { boot: BootMethod::Unit, baked: None }))
}

fn trial(of: Instance) -> Instance {
    of.unclaimed().with(|i| i.build = Some(BuildPart::Trial))
}

fn ready(second: u32) -> Baked {
    Baked::new(at(second), None, BootMethod::CloudInit, Some(&"w".repeat(300)), 7)
}

fn baked() -> Instance {
    builder().with(|i| assert_eq!(i.disk_is_ready(ready(300)), Ok(())))
}

#[test]
fn no_machine_of_a_build_gets_a_job() {
    let mut machine = builder();
    assert_eq!(machine.ask_configuration(at(30)), Err(ReportError::BuildsImage));
    assert!(!machine.is_free_supply() && !baked().is_free_supply());
    let mut machine = trial(idle());
    assert!(!machine.is_free_supply() && !machine.has_untold_job() && !machine.may_be_kept());
    assert_eq!(start(&mut machine, report(), at(50)), Err(ReportError::BuildsImage));
    assert!(!machine.runner.has_taken_job());
    let marked = trial(idle()).marked(DeleteReason::Idle, 60);
    assert!(!marked.may_be_kept());
}

#[test]
fn a_builder_gets_its_script_until_it_ends() {
    type Row = (&'static str, Instance, Result<BootMethod, ReportError>);
    let rows: [Row; 6] = [
        ("a builder", builder(), Ok(BootMethod::Unit)),
        ("again", builder().with(|i| assert!(i.ask_script(at(30)).is_ok())), Ok(BootMethod::Unit)),
        ("being deleted", builder().marked(DeleteReason::Ordered, 20), Err(ReportError::Draining)),
        (
            "ended",
            builder().with(|i| i.runner_ended(None, None, at(20), &timings())),
            Err(ReportError::Ended),
        ),
        ("a trial", trial(booting()), Err(ReportError::OtherRegistration)),
        ("a machine for a job", asking(), Err(ReportError::OtherRegistration)),
    ];
    for (what, mut machine, wanted) in rows {
        assert_eq!(machine.ask_script(at(40)), wanted, "{what}");
        assert_eq!(machine.runner.id, None, "{what}");
    }
}

#[test]
fn a_disk_is_ready_once_and_only_a_builders() {
    let mut machine = builder();
    assert_eq!(machine.disk_is_ready(ready(300)), Ok(()));
    let first = machine.clone();
    assert_eq!(machine.disk_is_ready(ready(400)), Ok(()));
    assert_eq!(machine, first, "a repeated report changes nothing");
    assert_eq!(first.baked().and_then(|baked| baked.why.as_deref()).map(str::len), Some(200));
    let rows = [
        (builder().marked(DeleteReason::Ordered, 20), ReportError::Draining),
        (builder().with(|i| i.runner_ended(None, None, at(20), &timings())), ReportError::Ended),
        (trial(idle()), ReportError::OtherRegistration),
        (asking(), ReportError::OtherRegistration),
    ];
    for (mut machine, wanted) in rows {
        assert_eq!(machine.disk_is_ready(ready(300)), Err(wanted));
    }
}

/// Columns: the machine, the second of a pass, and the reason of the mark that it sets.
#[test]
fn machines_of_a_build_end_by_themselves() {
    let timings = timings();
    let idle_limit = 40 + timings.idle_limit_seconds.0.max(600);
    let rows: [(&str, Instance, u32, Option<DeleteReason>); 7] = [
        ("prepares", builder(), 2699, None),
        ("too long", builder(), 2700, Some(DeleteReason::BootTimeout)),
        ("is imaged", baked(), 3899, None),
        ("still", baked(), 3900, Some(DeleteReason::BuildEnded)),
        ("a trial boots", trial(booting()), timings.boot_deadline_seconds.0 - 1, None),
        ("a trial waits", trial(idle()), idle_limit - 1, None),
        ("too long", trial(idle()), idle_limit, Some(DeleteReason::BuildEnded)),
    ];
    for (what, machine, second, wanted) in rows {
        let seen = Observation {
            console: crate::observation::Look::Seen(String::new()),
            ..Observation::default()
        };
        let step = decide(&machine.due(0), &seen, &policy(&timings), at(second));
        let next = match step {
            Step::Act { next, .. } => next.mark().map(|mark| mark.reason.clone()),
            _ => None,
        };
        assert_eq!(next, wanted, "{what}");
    }
}

#[test]
fn a_build_leaves_its_machines_once() {
    let mut machine = builder();
    machine.leave_build(at(60));
    assert_eq!(machine.mark().map(|mark| &mark.reason), Some(&DeleteReason::BuildEnded));
    assert_eq!(machine.due_at(), Some(at(60)));
    for of in [asking(), builder().marked(DeleteReason::Ordered, 20), boot_failed()] {
        let mut machine = of.clone();
        machine.leave_build(at(60));
        assert_eq!(machine, of);
    }
}
