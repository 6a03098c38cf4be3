//! Tables of what is re-run, and of a record's states.

use std::collections::BTreeSet;

use super::*;
use crate::ec2::StateReason;
use crate::instance::DeleteReason;
use crate::observation::{RunOrigin, RunSeen};
use crate::pool::{MarketPolicy, Pool, RerunPolicy};
use crate::testkit::{
    RUNNER, With, aborted, active, active_by_github, at, completed, pool, timings,
};

const RUN: u64 = 3;

fn lost(n: u64) -> Interruption {
    Interruption {
        instance: format!("a-{n}").parse().expect("a name"),
        runner: Some(RunnerId(n)),
        attempt: Some(1),
        at: at(180),
        cut_from: at(135),
        is_spot: true,
        is_stopped: true,
        worked: Seconds(130),
        actor: None,
    }
}

/// A job on runner `n` that ended at this second.
fn job(n: u64, conclusion: &str, second: u32) -> AttemptJob {
    AttemptJob {
        id: n,
        runner_id: Some(RunnerId(n)),
        runner: Some(format!("a-{n}-1")),
        conclusion: Some(conclusion.to_owned()),
        completed_at: Some(at(second)),
    }
}

#[test]
fn only_what_was_interrupted_is_run_again() {
    use RerunOutcome::{Cancelled, Deploys, InTime, Mixed};
    let one = |id| Choice::Call(RerunCall::Job(id), 1);
    let failed = |jobs| Choice::Call(RerunCall::Failed, jobs);
    let none = Choice::Nothing;
    let cut = |n| job(n, "failure", 143);
    let own = |n| job(n, "failure", 60);
    let sibling = |n| job(n, "cancelled", 160);
    let rows: Vec<(&str, &str, Vec<AttemptJob>, Choice)> = vec![
        ("nothing", "failure", vec![own(7)], none(InTime)),
        ("one", "failure", vec![cut(1), job(7, "success", 60)], one(1)),
        ("one that GitHub calls cancelled", "cancelled", vec![job(1, "cancelled", 143)], one(1)),
        ("one that succeeded", "failure", vec![job(1, "success", 143), own(7)], none(InTime)),
        (
            "one that failed before it was stopped",
            "failure",
            vec![job(1, "failure", 134)],
            none(InTime),
        ),
        ("one that timed out", "failure", vec![job(1, "timed_out", 143)], none(InTime)),
        (
            "one without an end",
            "failure",
            vec![AttemptJob { conclusion: None, completed_at: None, ..cut(1) }],
            one(1),
        ),
        ("one next to own failures", "failure", vec![cut(1), own(7), own(8)], one(1)),
        ("two", "failure", vec![cut(1), cut(2)], failed(2)),
        ("two next to an own failure", "failure", vec![cut(1), cut(2), own(7)], none(Mixed)),
        (
            "one and its fail-fast siblings",
            "failure",
            vec![cut(1), sibling(7), sibling(8)],
            failed(3),
        ),
        (
            "the same next to an own failure",
            "failure",
            vec![cut(1), sibling(7), own(8)],
            none(Mixed),
        ),
        ("a cancelled run", "cancelled", vec![cut(1), sibling(7)], none(Cancelled)),
        (
            "a job cancelled earlier",
            "failure",
            vec![cut(1), job(7, "cancelled", 142)],
            none(Cancelled),
        ),
        (
            "a job cancelled much later",
            "failure",
            vec![cut(1), job(7, "cancelled", 504)],
            none(Cancelled),
        ),
        (
            "skipped ones",
            "failure",
            vec![cut(1), job(7, "skipped", 150), job(8, "neutral", 9)],
            one(1),
        ),
        ("a deployment", "failure", vec![cut(3)], none(Deploys)),
        ("a deployment next to another", "failure", vec![cut(1), cut(3)], one(1)),
        ("a deployment next to two others", "failure", vec![cut(1), cut(2), cut(3)], none(Mixed)),
        (
            "a runner without its ID",
            "failure",
            vec![AttemptJob { runner_id: None, ..cut(2) }],
            one(2),
        ),
        (
            "a different runner",
            "failure",
            vec![AttemptJob { runner_id: Some(RunnerId(9)), ..cut(2) }],
            none(InTime),
        ),
    ];
    for (name, conclusion, jobs, expected) in rows {
        let deploys = BTreeSet::from([3]);
        let of = [lost(1), lost(2), lost(3)];
        assert_eq!(classify(1, Some(conclusion), &jobs, &of, &deploys), expected, "{name}");
    }
    // Attempt 2 lists jobs 2 and 7 of attempt 1, which it did not repeat. EC2 interrupted job 2 there,
    // and somebody cancelled job 7.
    let again = |how| {
        let in_second = Interruption { attempt: Some(2), cut_from: at(235), ..lost(1) };
        let jobs = [job(1, "failure", 243), cut(2), how];
        classify(2, Some("failure"), &jobs, &[in_second, lost(2)], &BTreeSet::new())
    };
    assert_eq!(again(job(7, "success", 160)), failed(2));
    assert_eq!(again(sibling(7)), none(Cancelled));
    assert_eq!(again(job(7, "cancelled", 260)), failed(3), "a sibling in attempt 2");
    // A machine that just disappears: only a person or fail-fast cancels its job.
    let gone = Interruption { is_stopped: false, ..lost(1) };
    let seen = |how| classify(1, Some(how), &[job(1, how, 800)], &[gone.clone()], &BTreeSet::new());
    assert_eq!(seen("failure"), one(1));
    assert_eq!(seen("cancelled"), none(InTime));
}

fn gone(instance: Instance, second: u32) -> Instance {
    instance.with(|i| {
        i.to_pending_delete(DeleteReason::MachineGone, at(second));
        i.to_deleting(at(second), "gone", &timings());
        i.to_deleted(at(second), "gone");
    })
}

#[test]
fn only_ec2_interrupts() {
    let reason = |code: &str| StateReason { code: code.to_owned(), ..aborted() };
    let ended =
        |i: Instance, code: &str| gone(i.with(|i| i.ended_by_ec2(&reason(code), at(100))), 100);
    let spot = "Server.SpotInstanceTermination";
    let rows = [
        ("its notice", gone(active().with(|i| i.spot_notice(at(60))), 180), Some(true)),
        ("EC2's reason", ended(active(), spot), Some(true)),
        ("a job known to GitHub only", ended(active_by_github(), spot), Some(true)),
        ("its host", ended(active(), "Server.InternalError"), Some(false)),
        ("a user of AWS", ended(active(), "Client.UserInitiatedShutdown"), None),
        ("a job that had ended", ended(completed(), spot), None),
        ("a live machine", active().with(|i| i.spot_notice(at(60))), None),
    ];
    for (name, instance, expected) in rows {
        let found = Interruption::of(&instance, None).map(|one| one.is_spot);
        assert_eq!(found, expected, "{name}");
    }
    let one = Interruption::of(&ended(active(), spot), None).expect("interrupted");
    assert_eq!((one.runner, one.attempt, one.worked), (Some(RUNNER), None, Seconds(50)));
}

fn record() -> Rerun {
    let of =
        RunOf { run: RUN, repository: "acme/web".into(), repository_id: None, installation: None };
    Rerun::with(None, &of, &spot_pool().name, lost(1), at(180)).expect("a new record")
}

fn spot_pool() -> Pool {
    Pool { market: MarketPolicy::SpotThenOnDemand, ..pool() }
}

fn over() -> RunSeen {
    RunSeen {
        is_over: true,
        conclusion: Some("failure".to_owned()),
        attempt: 1,
        created_at: Some(at(0)),
        origin: Some(RunOrigin {
            workflow: 5,
            event: "push".to_owned(),
            branch: Some("main".to_owned()),
            head_repository: None,
        }),
        ..RunSeen::default()
    }
}

/// Everything known: one interrupted job, and no newer run.
fn all() -> RerunView {
    RerunView {
        run: Some(Some(over())),
        jobs: Some(vec![job(1, "failure", 143)]),
        newer: Some(Vec::new()),
        ..RerunView::default()
    }
}

/// A step as text: what it looks for, when it waits until, or what it ended with.
fn told(step: RerunStep) -> String {
    match step {
        RerunStep::Look(need) => format!("look {need:?}").chars().take(12).collect(),
        RerunStep::Call(next, call) => {
            assert_eq!(next.ours.last(), Some(&2));
            format!("call {call:?}")
        }
        RerunStep::Rest(next) => state(&next),
    }
}

fn state(record: &Rerun) -> String {
    let second = |time: Time| (time.as_millis() - at(0).as_millis()) / 1000;
    match &record.state {
        RerunState::Open(watch) => format!("{:?} until {}", watch.wait, second(watch.due)),
        RerunState::Intended { due, tries, .. } => {
            format!("intended {tries} until {}", second(*due))
        }
        RerunState::Done { outcome, .. } => format!("{outcome:?}"),
    }
}

#[test]
fn each_state_of_a_run_has_its_step() {
    let run =
        |change: fn(&mut RunSeen)| RerunView { run: Some(Some(over().with(change))), ..all() };
    let newer = |event: &str, run, is_over| {
        all().with(|seen| {
            let origin =
                seen.run.as_mut().and_then(Option::as_mut).and_then(|run| run.origin.as_mut());
            event.clone_into(&mut origin.expect("an origin").event);
            seen.newer = Some(vec![NewerRun { run, is_over }]);
        })
    };
    let live = BTreeSet::from(["a-1".parse().expect("a name")]);
    let found = |n| {
        all().with(|seen| {
            seen.jobs.as_mut().expect("jobs").push(job(n, "failure", 143));
            seen.interruptions = vec![lost(2)];
        })
    };
    let rows: Vec<(&str, RerunView, &str)> = vec![
        ("nothing known", RerunView::default(), "look Run"),
        ("gone", RerunView { run: Some(None), ..all() }, "Missing until 540"),
        ("re-run by somebody", run(|run| run.attempt = 2), "ByOthers { attempt: 2 }"),
        ("it goes on", run(|run| run.is_over = false), "Run until 300"),
        ("old", run(|run| run.created_at = Some(at(240) - Seconds(30 * 86_400))), "TooOld"),
        ("success", run(|run| run.conclusion = Some("success".to_owned())), "InTime"),
        ("over", RerunView { jobs: None, ..all() }, "look Jobs(1)"),
        ("a machine lives", RerunView { live, ..all() }, "Machine until 270"),
        ("its jobs", RerunView { newer: None, ..all() }, "look Newer(R"),
        ("all known", all(), "call Job(1)"),
        ("known from the machine's record", found(2), "call Failed"),
        ("failed by itself", found(7), "call Job(1)"),
        ("an older run goes on", newer("push", 2, false), "call Job(1)"),
        ("a newer run goes on", newer("push", 4, false), "NewerRun until 540"),
        ("a newer run has ended", newer("push", 4, true), "call Job(1)"),
        ("a newer commit", newer("pull_request", 4, true), "Superseded"),
        ("the same of a fork", newer("pull_request_target", 4, true), "Superseded"),
    ];
    for (name, seen, expected) in rows {
        assert_eq!(told(decide(&record(), Some(&spot_pool()), &seen, at(240))), expected, "{name}");
    }
    let pools = [
        ("removed", None, "PoolGone"),
        ("off", Some(RerunPolicy::Off), "Off"),
        ("all", Some(RerunPolicy::All), "call Job(1)"),
    ];
    for (name, policy, expected) in pools {
        let pool = policy.map(|policy| Pool { rerun_on_interruption: Some(policy), ..pool() });
        let seen = RerunView { deploys: BTreeSet::from([1]), ..all() };
        assert_eq!(told(decide(&record(), pool.as_ref(), &seen, at(240))), expected, "{name}");
    }
    let in_third = Interruption { attempt: Some(3), ..lost(1) };
    let twice = Rerun { ours: vec![2, 3], lost: vec![in_third], ..record() };
    let seen = run(|run| run.attempt = 3);
    assert_eq!(told(decide(&twice, Some(&spot_pool()), &seen, at(240))), "TooOften until 2040");
}

/// Looks until the record is closed. Returns the second at which it was.
fn closed_at(seen: &RerunView) -> (String, i64) {
    let mut record = record();
    let begin = record.due().expect("open");
    let mut now = begin;
    while let Some(due) = record.due() {
        now = due;
        let RerunStep::Rest(next) = decide(&record, Some(&spot_pool()), seen, now) else {
            return ("call".to_owned(), now.since(begin).0.into());
        };
        record = next;
    }
    (state(&record), now.since(begin).0.into())
}

#[test]
fn waits_have_an_end() {
    let live = BTreeSet::from(["a-1".parse().expect("a name")]);
    let newer = vec![NewerRun { run: 4, is_over: false }];
    let going = RunSeen { is_over: false, ..over() };
    let (outcome, after) = closed_at(&RerunView { run: Some(Some(going)), ..all() });
    assert!(outcome == "TooOld" && (after - 30 * 86_400).abs() < 600, "{outcome} {after}");
    let rows = [
        (RerunView { run: Some(None), ..all() }, ("Gone", 300)),
        (RerunView { live, ..all() }, ("call", 900)),
        (RerunView { newer: Some(newer), ..all() }, ("Superseded", 86_400)),
    ];
    for (seen, (outcome, after)) in rows {
        assert_eq!(closed_at(&seen), (outcome.to_owned(), after));
    }
}

#[test]
fn each_answer_has_its_state() {
    let RerunStep::Call(intended, _) = decide(&record(), Some(&spot_pool()), &all(), at(240))
    else {
        panic!("no call")
    };
    let refused = RerunAnswer::Refused("no".to_owned());
    let rows = [
        (RerunAnswer::Accepted, "Rerun { attempt: 2, jobs: 1 }", true),
        (RerunAnswer::Busy, "intended 1 until 270", true),
        (RerunAnswer::Unanswered, "intended 1 until 300", true),
        (RerunAnswer::NotSent, "intended 0 until 240", true),
        (RerunAnswer::RateLimited(at(900)), "intended 0 until 900", true),
        (refused, "Refused { message: \"no\" }", false),
        (RerunAnswer::NotAllowed, "Run until 3840", false),
    ];
    for (answer, expected, is_ours) in rows {
        let next = intended.answered(answer.clone(), at(240));
        assert_eq!((state(&next).as_str(), next.ordered(2)), (expected, is_ours), "{answer:?}");
    }
    let run = |attempt, is_over, is_by_app| RerunView {
        run: Some(Some(RunSeen { attempt, is_over, is_by_app, ..over() })),
        newer: Some(Vec::new()),
        ..RerunView::default()
    };
    let newer =
        RerunView { newer: Some(vec![NewerRun { run: 4, is_over: false }]), ..run(1, true, false) };
    let looks = [
        ("it had no effect", run(1, true, false), "call Job(1)", true),
        ("it had", run(2, false, true), "Rerun { attempt: 2, jobs: 1 }", true),
        ("a person was faster", run(2, false, false), "ByOthers { attempt: 2 }", false),
        ("and re-ran it again", run(3, true, true), "ByOthers { attempt: 3 }", false),
        ("a newer run began since", newer, "Run until 360", true),
        ("it begins", run(1, false, false), "intended 2 until 360", true),
        ("not shown", RerunView { run: Some(None), ..all() }, "intended 2 until 360", true),
    ];
    for (name, seen, expected, is_ours) in looks {
        let step = decide(&intended, Some(&spot_pool()), &seen, at(300));
        let next = match &step {
            RerunStep::Rest(next) | RerunStep::Call(next, _) => next.clone(),
            RerunStep::Look(_) => panic!("{name}: it looks"),
        };
        assert_eq!((told(step).as_str(), next.ordered(2)), (expected, is_ours), "{name}");
    }
    let again = Interruption { attempt: Some(2), ..lost(2) };
    let of = intended.of();
    let again = Rerun::with(Some(&intended), &of, &spot_pool().name, again, at(290));
    let step = decide(&again.expect("a new one"), None, &run(2, false, true), at(300));
    assert_eq!(told(step), "Run until 360", "interrupted again before the look");
    let unknown = Interruption { attempt: None, ..lost(2) };
    let unknown = Rerun::with(Some(&intended), &of, &spot_pool().name, unknown, at(290));
    let unknown = unknown.expect("a new one");
    let step = decide(&unknown, None, &run(2, false, true), at(300));
    assert_eq!(told(step), "Run until 360", "GitHub's event of a job was not received");
    let opened = unknown.with(|r| r.state = record().state);
    let seen = RerunView { jobs: Some(Vec::new()), ..run(2, true, true) };
    let step = decide(&opened, Some(&spot_pool()), &seen, at(400));
    assert_eq!(told(step), "Rerun { attempt: 2, jobs: 1 }", "it was of the attempt before");
    let mut tried = intended;
    for _ in 0..4 {
        let RerunStep::Call(next, _) = decide(&tried, None, &run(1, true, false), at(300)) else {
            panic!("no call")
        };
        tried = next;
    }
    assert_eq!(told(decide(&tried, None, &run(1, true, false), at(300))), "Unanswered");
}

#[test]
fn a_permission_that_is_missing_for_a_day_ends_it() {
    let mut record = record();
    let mut now = at(240);
    while record.due().is_some() {
        now = record.due().expect("open");
        record = record.unlooked(Unlooked::Denied, now);
    }
    assert_eq!((state(&record).as_str(), now.since(at(240))), ("NotAllowed", Seconds(86_400)));
    let limited = super::tests::record().unlooked(Unlooked::RateLimited(at(999)), at(240));
    assert_eq!(state(&limited), "Run until 999");
}

/// For example an attempt with more jobs than Muster reads.
#[test]
fn queries_without_an_answer_for_a_day_end_it() {
    let (mut record, mut now, mut looks) = (record(), at(240), 0);
    while let Some(due) = record.due() {
        now = due;
        record = record.unlooked(Unlooked::Unanswered, now);
        looks += 1;
    }
    assert_eq!(state(&record), "Unanswered");
    assert!(now.since(at(240)) >= Seconds(24 * 3600) && looks < 300, "{looks} until {now}");
}

#[test]
fn an_answer_of_github_ends_a_denial() {
    let denied = record().unlooked(Unlooked::Denied, at(240));
    assert_eq!(denied.denied_since, Some(at(240)));
    let goes_on = all().with(|seen| {
        let run = seen.run.as_mut().and_then(Option::as_mut);
        run.expect("a run").is_over = false;
    });
    let RerunStep::Rest(next) = decide(&denied, Some(&spot_pool()), &goes_on, at(4_000)) else {
        panic!("no rest")
    };
    assert_eq!(next.denied_since, None);
    let RerunStep::Call(intended, _) = decide(&denied, Some(&spot_pool()), &all(), at(4_000))
    else {
        panic!("no call")
    };
    assert_eq!(intended.denied_since, Some(at(240)), "not known yet");
    assert_eq!(intended.answered(RerunAnswer::Accepted, at(4_001)).denied_since, None);
}

/// GitHub's event of the job may come after the end of its machine.
#[test]
fn a_late_event_completes_an_interruption() {
    let of = |installation| RunOf {
        run: RUN,
        repository: "acme/web".into(),
        repository_id: installation,
        installation: installation.map(InstallationId),
    };
    let unknown = Interruption { attempt: None, ..lost(1) };
    let pool = spot_pool().name;
    let with = |before: Option<&Rerun>, one: &Interruption, id| {
        Rerun::with(before, &of(id), &pool, one.clone(), at(180))
    };
    let record = with(None, &unknown, None).expect("a new record");
    assert_eq!(with(Some(&record), &unknown, None), None, "nothing new");
    let next = with(Some(&record), &lost(1), Some(7)).expect("completed");
    assert_eq!((next.lost[0].attempt, next.repository_id), (Some(1), Some(7)));
    assert_eq!((next.installation, &next.state), (Some(InstallationId(7)), &record.state));
    // All interruptions of a large run write its record.
    let full = record.with(|r| r.lost = (10..110).map(lost).collect());
    assert_eq!(with(Some(&full), &lost(1), None), None);
    let done =
        full.with(|r| r.state = RerunState::Done { at: at(1), outcome: RerunOutcome::Mixed });
    assert_eq!(with(Some(&done), &lost(1), None).map(|next| next.lost.len()), Some(100));
    // Or the next look would find that the interrupted attempt was re-run already.
    let second = Interruption { attempt: Some(2), ..lost(1) };
    let next = with(Some(&done), &second, None).expect("opened");
    assert_eq!(
        (next.lost.len(), next.last_lost(), next.lost.last()),
        (100, Some(2), Some(&second))
    );
}

#[test]
fn a_later_interruption_opens_the_record_again() {
    let of =
        RunOf { run: RUN, repository: "acme/web".into(), repository_id: None, installation: None };
    let again = |record: &Rerun, n, attempt| {
        let one = Interruption { attempt, ..lost(n) };
        Rerun::with(Some(record), &of, &spot_pool().name, one, at(500)).map(|next| state(&next))
    };
    let done = |outcome| record().with(|r| r.state = RerunState::Done { at: at(300), outcome });
    let rerun = done(RerunOutcome::Rerun { attempt: 2, jobs: 1 });
    let opened = Some("Run until 560".to_owned());
    assert_eq!(again(&record(), 1, Some(1)), None, "the same machine");
    assert_eq!(again(&record(), 2, Some(1)), Some("Run until 240".to_owned()));
    assert_eq!(again(&rerun, 2, Some(1)), Some("Rerun { attempt: 2, jobs: 1 }".to_owned()));
    assert_eq!(again(&rerun, 2, Some(2)), opened);
    assert_eq!(again(&rerun, 2, None), opened);
    assert_eq!(again(&done(RerunOutcome::InTime), 2, Some(1)), opened);
}

#[test]
fn a_record_reads_as_it_was_written() {
    let RerunStep::Call(intended, _) = decide(&record(), Some(&spot_pool()), &all(), at(240))
    else {
        panic!("no call")
    };
    let refused = intended.answered(RerunAnswer::Refused("no".to_owned()), at(240));
    for record in [record(), intended, refused] {
        let text = serde_json::to_string(&record).expect("JSON");
        assert_eq!(serde_json::from_str::<Rerun>(&text).expect(&text), record);
    }
}
