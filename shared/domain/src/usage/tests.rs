//! Usage records of realistic instances and jobs.

mod sizes;
mod sums;

use proptest::prelude::*;

use super::{
    EarlyEndCause, EndedBy, JobFacts, Learned, Line, Loss, Parts, Prices, UsageKind, Used, end_of,
    loss,
};
use crate::ec2::{Make, Market};
use crate::instance::{DeleteReason, Instance, Start, StartReport, StopCause};
use crate::job::{Job, JobStatus};
use crate::orphan::Orphan;
use crate::pool::Pool;
use crate::testkit::{
    CLAIMED, Story, With, aborted, active, active_by_github, at, booting, completed, creating,
    exited, fault, idle, job, machine, plain, pool, report, searched, start, timings,
};
use crate::time::Seconds;

/// Its record ends at this second.
fn gone(instance: Instance, second: u32) -> Instance {
    instance.with(|i| {
        i.to_pending_delete(DeleteReason::MachineGone, at(second));
        i.to_deleting(at(second), "gone", &timings());
        i.to_deleted(at(second), "gone");
    })
}

/// The job according to GitHub: queued at 1, run from one second to another.
fn ran(from: u32, to: u32) -> Job {
    job(1).with(|job| {
        let said = &mut job.last_event;
        said.status = JobStatus::Completed;
        said.conclusion = Some("success".to_owned());
        said.runner = Some("default-a-0-1".to_owned());
        (said.started_at, said.completed_at) = (Some(at(from)), Some(at(to)));
    })
}

/// Milliseconds of a machine before, during and after its job.
fn of_job(start: u32, work: u32, end: u32) -> Parts {
    let [start, work, end] = [start, work, end].map(|part| u64::from(part) * 1000);
    Parts { start, work, end, ..Parts::default() }
}

#[test]
fn every_moment_that_is_paid_for_lies_in_one_part() {
    let vain = |seconds: u64| Parts { vain: seconds * 1000, ..Parts::default() };
    let kept = |seconds: u64| Parts { idle: seconds * 1000, ..Parts::default() };
    let by_github = |i: Instance| i.with(|i| i.runner.ran = Some(CLAIMED));
    let for_nobody = || {
        let free = creating().with(|i| i.clear_claim(at(2), "cancelled"));
        free.with(|i| i.bind(machine(1), at(5), &timings()))
    };
    let job = || Some(ran(50, 100));
    let rows = [
        ("ran its job", by_github(exited()), job(), of_job(45, 50, 10)),
        ("of the hook's word alone", exited(), None, of_job(45, 50, 10)),
        ("cut short", by_github(active()), None, of_job(45, 1150, 0)),
        ("of an end alone", active_by_github(), Some(ran(1, 100)), of_job(0, 95, 1100)),
        ("by a clock that is late", by_github(idle()), Some(ran(900, 2000)), of_job(895, 300, 0)),
        ("booted for a job and no more", booting(), None, vain(1195)),
        ("waited for a job in vain", idle(), None, vain(1195)),
        ("kept idle", for_nobody(), None, kept(1195)),
    ];
    for (name, instance, job, expected) in rows {
        let line = Line::of_machine(&gone(instance, 1200), job.as_ref()).expect("a line");
        assert_eq!(line.parts, expected, "{name}");
    }
    let short = Line::of_machine(&gone(booting(), 20), None).expect("a line");
    assert_eq!(short.parts, vain(60), "a minute is billed at least");
    assert_eq!(Line::of_machine(&gone(creating(), 20), None), None, "it had no machine");
}

#[test]
fn a_pull_request_is_that_of_the_hooks_report() {
    let report = StartReport { pull_request: Some(7), ..report() };
    let reported = idle().with(|i| assert_eq!(start(i, report, at(50)), Ok(Start::Accepted)));
    for (instance, expected) in [(reported, Some(7)), (active(), None), (idle(), None)] {
        let line = Line::of_machine(&gone(instance, 120), Some(&ran(50, 100))).expect("a line");
        assert_eq!(line.pull_request, expected);
    }
}

/// The reported end of the agent cannot be trusted either: the job has the machine's keys.
#[test]
fn the_end_is_ec2s_then_the_agents_then_ours() {
    let told = |i: Instance, second| gone(i.with(|i| i.record_end(at(second))), 1200);
    let over = exited().with(|i| i.runner.github_completed_at = Some(at(400)));
    let looked_at = exited().with(|i| i.kept_until = Some(at(900)));
    let rows = [
        ("EC2's event", told(exited(), 112), 112, EndedBy::Event),
        ("before it came, by another clock", told(booting(), 1), 5, EndedBy::Event),
        ("after it was seen, by another clock", told(booting(), 1300), 1200, EndedBy::Event),
        ("the agent's end", gone(exited(), 1200), 110, EndedBy::Exit),
        ("told before GitHub called the job over", gone(over, 1200), 400, EndedBy::Exit),
        ("kept for a look", gone(looked_at, 1200), 1200, EndedBy::Seen),
        ("seen", gone(idle(), 1200), 1200, EndedBy::Seen),
    ];
    for (name, instance, second, by) in rows {
        assert_eq!(end_of(&instance), (at(second), by), "{name}");
    }
}

#[test]
fn the_cause_of_an_early_end() {
    let killed = |i: Instance| {
        let order = plain(200).with(|order| order.kill_running_job = true);
        i.ordered(order).deleting(210).with(|i| i.to_deleted(at(220), "gone"))
    };
    let by_ec2 = |code: &str| {
        let why = aborted().with(|why| why.code = code.to_owned());
        gone(active().with(|i| i.ended_by_ec2(&why, at(90))), 100)
    };
    let old = active().stopping(DeleteReason::MaxLifetime, 90).deleting(95);
    let refused = exited().with(|i| i.last_error = Some(fault("RequestLimitExceeded")));
    let rows = [
        ("nothing", gone(exited(), 120), None),
        ("EC2 had an error", gone(refused, 120), None),
        (
            "a notice",
            gone(active().with(|i| i.spot_notice(at(60))), 180),
            Some(EarlyEndCause::SpotNotice),
        ),
        (
            "its notice was lost",
            by_ec2("Server.SpotInstanceTermination"),
            Some(EarlyEndCause::SpotNotice),
        ),
        ("a notice after its job", gone(completed().with(|i| i.spot_notice(at(600))), 720), None),
        ("its host", by_ec2("Server.InternalError"), Some(EarlyEndCause::HostLost)),
        ("its age", old.with(|i| i.to_deleted(at(99), "gone")), Some(EarlyEndCause::MaxLifetime)),
        ("an order", killed(active()), Some(EarlyEndCause::Killed)),
        ("an order after the job", killed(completed()), None),
    ];
    for (name, instance, cause) in rows {
        let line = Line::of_machine(&instance, None).expect("a line");
        assert_eq!(line.machine.expect("a machine").cause, cause, "{name}");
    }
}

/// EC2 announces at 60 that it ends the machine at 180: the agent is stopped at 140.
#[test]
fn a_job_was_cut_short_if_ec2_ended_its_machine_and_it_had_not_ended_by_itself() {
    let noticed = |i: Instance| i.with(|i| i.spot_notice(at(60)));
    let over_at = |i: Instance, second| {
        i.with(|i| assert!(i.github_completed(CLAIMED, true, at(second), &timings())))
    };
    let stopped = |i: Instance, second| {
        i.with(|i| i.runner_stopped(StopCause::Interruption, 0, at(second), &timings()))
    };
    // EC2 gives its reason for the end, at 100, and no notice came.
    let by_ec2 = |code: &str, i: Instance| {
        let why = aborted().with(|why| why.code = code.to_owned());
        i.with(|i| i.ended_by_ec2(&why, at(100)))
    };
    let by_spot = |i: Instance| by_ec2("Server.SpotInstanceTermination", i);
    let by_host = |i: Instance| by_ec2("Server.InternalError", i);
    let cut = Some(Loss::Job);
    let rows = [
        ("GitHub has not reported its end", noticed(active()), 180, cut),
        ("… and only GitHub reported its start", noticed(active_by_github()), 180, cut),
        ("GitHub reports the end of the stopped agent", over_at(noticed(active()), 143), 180, cut),
        ("45 seconds before the deadline", over_at(noticed(active()), 135), 180, cut),
        ("it failed by itself before that", over_at(noticed(active()), 134), 180, None),
        ("its hook reported its end", noticed(completed()), 180, None),
        ("… and GitHub at the last moment", over_at(noticed(completed()), 139), 180, None),
        (
            "the machine stopped the agent earlier than EC2's notice suggests",
            stopped(over_at(noticed(active()), 130), 131),
            180,
            cut,
        ),
        ("the machine says so, and EC2 does not", stopped(over_at(active(), 143), 144), 180, None),
        ("no notice came", by_spot(active()), 100, cut),
        ("… and the machine may have had one", over_at(by_spot(active()), 55), 100, cut),
        ("… and it failed by itself before that", over_at(by_spot(active()), 54), 100, None),
        (
            "its host failed, and GitHub noticed before Muster",
            over_at(by_host(active()), 85),
            100,
            cut,
        ),
        ("… and it failed by itself before that", over_at(by_host(active()), 84), 100, None),
    ];
    for (name, instance, end, expected) in rows {
        assert_eq!(loss(&gone(instance, end)), expected, "{name}");
    }
}

#[test]
fn a_line_tells_its_job_and_when_what_came() {
    let instance = exited().with(|i| i.runner.ran = Some(CLAIMED));
    let line = Line::of_machine(&gone(instance, 120), Some(&ran(52, 99))).expect("a line");
    let job = line.job.as_ref().expect("its job");
    assert_eq!(
        (job.key, &*job.repository, job.workflow.as_deref()),
        (CLAIMED, "acme/web", Some("CI"))
    );
    assert_eq!(
        (line.kind, line.since, line.subject()),
        (UsageKind::Machine, at(1), machine(1).to_string())
    );
    let t = line.t;
    assert_eq!((t.heard, t.planned, t.launched), (Some(0), Some(-1000), Some(4000)));
    assert_eq!((t.registered, t.listening), (Some(30_000), Some(39_000)));
    assert_eq!((t.started, t.completed, t.exited), (Some(51_000), Some(98_000), Some(109_000)));
    assert_eq!(t.ended, 109_000);
    let json = serde_json::to_string(&line).expect("serialize");
    assert_eq!(serde_json::from_str::<Line>(&json).expect("deserialize"), line);
}

/// A job can make its machine report anything.
#[test]
fn a_line_has_what_its_job_used_as_first_reported() {
    let used = |cpu, mem| Used { cpu, mem, mem_of: 100, ..Used::default() };
    let rows = [
        ("not reported", active(), vec![None], None),
        ("reported", active(), vec![Some(used(38, 50))], Some(used(38, 50))),
        ("twice", completed(), vec![None, Some(used(1, 2)), Some(used(3, 4))], Some(used(1, 2))),
        ("more than there is", active(), vec![Some(used(200, 300))], Some(used(100, 100))),
        ("without a job", idle(), vec![Some(used(38, 50))], None),
    ];
    for (name, instance, reports, expected) in rows {
        let instance = instance.with(|i| reports.iter().for_each(|used| i.job_used(*used)));
        let line = Line::of_machine(&gone(instance, 1200), None).expect("a line");
        assert_eq!(line.used, expected, "{name}");
        let json = serde_json::to_string(&line).expect("serialize");
        assert_eq!(json.contains("\"used\""), expected.is_some(), "{name}");
        assert_eq!(serde_json::from_str::<Line>(&json).expect("deserialize"), line, "{name}");
    }
}

#[test]
fn a_log_shows_the_wait_for_its_machine_and_the_price_if_they_are_known() {
    let make = Make {
        kind: Some("m7i.large".into()),
        zone: Some("us-east-1a".into()),
        subnet: None,
        market: Some(Market::OnDemand),
    };
    let mut prices = Prices::default();
    prices.learn(Learned::List("m7i.large".into(), Some(100_800)), at(0));
    let late = |i: Instance| i.with(|i| start(i, report(), at(101)).map(drop).expect("accepted"));
    let facts = |instance: Instance, pool: Option<&Pool>| {
        let instance = instance.with(|i| i.make = make.clone());
        let facts = JobFacts::new(&instance, pool, Some(&prices), at(105))?;
        assert_eq!((facts.seconds, facts.price), (Seconds(100), Some(100_800)));
        Some(facts.waited)
    };
    let (shown, silent) = (pool(), Pool { log_usage: false, ..pool() });
    let waited = Some([Seconds(40), Seconds(35)]);
    for (name, instance, pool, expected) in [
        ("launched for its job", completed(), Some(&shown), Some(waited)),
        ("the pool was removed", completed(), None, Some(waited)),
        ("its runner had idled for a minute", late(idle()), Some(&shown), Some(None)),
        (
            "not launched for a job",
            completed().with(|i| i.bought_for_job = false),
            None,
            Some(None),
        ),
        ("the pool wants no lines", completed(), Some(&silent), None),
    ] {
        assert_eq!(facts(instance, pool), expected, "{name}");
    }
    let unknown = JobFacts::new(&completed(), None, None, at(105)).expect("facts");
    let json = serde_json::json!({ "pool": "default", "waited": [40, 35], "seconds": 100 });
    assert_eq!(serde_json::to_value(unknown).expect("JSON"), json);
}

#[test]
fn a_job_without_a_machine_costs_nothing_and_an_orphan_is_all_in_vain() {
    let cancelled = ran(50, 90).with(|job| job.last_event.started_at = None);
    let line = Line::of_job_alone(&cancelled).expect("it waited");
    assert_eq!((line.kind, line.at, line.parts.sum()), (UsageKind::Job, at(90), 0));
    assert_eq!((line.subject().as_str(), line.machine), ("1/1", None));

    let launch = creating().launch;
    let orphan = Orphan::found(machine(7), Some(launch), at(1000)).with(|orphan| {
        orphan.costs_since = Some(at(100));
    });
    let line = Line::of_orphan(&orphan, at(1300)).expect("a line");
    assert_eq!((line.at, line.parts.vain, line.parts.sum()), (at(1300), 1_200_000, 1_200_000));
    let strangers = orphan.with(|orphan| orphan.launch = None);
    assert_eq!(Line::of_orphan(&strangers, at(1300)), None);
}

proptest! {
    #![proptest_config(searched(256))]

    /// With any differences between the three clocks.
    #[test]
    fn parts_add_up_to_what_is_billed(
        start in 0..5_000_u32,
        end in 0..5_000_u32,
        told in prop::option::of(0..5_000_u32),
        known in any::<bool>(),
    ) {
        let instance = active_by_github().with(|i| {
            if let Some(second) = told {
                i.record_end(at(second));
            }
        });
        let instance = gone(instance, 3000);
        let job = ran(start, end);
        let line = Line::of_machine(&instance, known.then_some(&job)).expect("a line");
        let lasted = line.at.as_millis() - at(5).as_millis();
        prop_assert_eq!(line.parts.sum(), u64::try_from(lasted.max(60_000)).expect("some"));
        prop_assert!(line.at >= at(5) && line.at <= at(3000));
    }
}
