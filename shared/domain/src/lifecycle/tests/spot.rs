//! Spot interruptions.

use super::{check, nothing};
use crate::instance::{DeleteReason, Instance};
use crate::observation::Observation;
use crate::testkit::{Story, With, active, at, completed, idle, installing};

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
