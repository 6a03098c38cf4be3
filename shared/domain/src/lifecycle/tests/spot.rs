//! Spot interruptions.

use super::{check, nothing};
use crate::instance::{DeleteReason, Instance};
use crate::lifecycle::{Step, decide};
use crate::observation::Observation;
use crate::testkit::{Story, With, active, at, completed, idle, installing, policy, timings};

fn notice() -> Observation {
    Observation { spot_notice: true, ..nothing() }
}

fn told(instance: Instance) -> Instance {
    instance.with(|i| i.spot_notice(at(60)))
}

#[test]
fn a_free_runner_takes_no_job_any_more_and_its_job_goes_elsewhere_at_once() {
    let free = "claim ended, spot notice, marked spot_notice, due 60, wake pool";
    let marked = || told(idle()).unclaimed().marked(DeleteReason::SpotNotice, 60).due(60);
    check(vec![
        ("idle", idle(), notice(), 60, free),
        ("installing", installing(), notice(), 60, free),
        ("with a job: that may end in time", active(), notice(), 60, "spot notice"),
        ("with a job behind it", completed(), notice(), 160, "spot notice"),
        ("known already, with a job", told(active()), notice(), 61, "rest until 110"),
        (
            "its hook refuses every job, so GitHub is to give it none",
            marked(),
            notice(),
            60,
            "to pending_delete, gate passed",
        ),
        ("and without the message", marked(), nothing(), 60, "to pending_delete, gate passed"),
    ]);
}

/// Its deadline follows from that time. A message may arrive late, and clocks may differ.
#[test]
fn the_time_of_the_notice_is_ec2s() {
    for (announced, recorded) in [(None, 70), (Some(60), 60), (Some(72), 70)] {
        let seen = Observation { spot_notice_at: announced.map(at), ..notice() };
        let timings = timings();
        let step = decide(&active(), &seen, &policy(&timings), at(70));
        let Step::Act { next, .. } = step else { panic!("{step:?}") };
        assert_eq!(next.spot_notice_at, Some(at(recorded)), "{announced:?}");
    }
}
