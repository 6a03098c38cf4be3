//! The graceful stop of a plain delete. The rows follow the table in docs/design/deletes.md.

use super::{answers, check, hint, nothing, sees, sees_launch, sees_runner};
use crate::ids::RunnerId;
use crate::instance::{DeleteReason, Instance, Waiting};
use crate::launch::LaunchState::{Open, Settled};
use crate::observation::{Deregistration, Look, Machine, Observation, RunnerSeen};
use crate::provider::ProviderError;
use crate::testkit::{
    CLAIMED, RUNNER, Story, With, absent, active, asking, at, booting, completed, creating, exited,
    forced, idle, installing, machine, plain, timings, unauthorized, unavailable,
};

const GO: &str = "to deleting, due 820, terminate";

/// Ordered at 700, and due then.
fn ordered(instance: Instance) -> Instance {
    instance.ordered(plain(700))
}

fn passed(instance: Instance) -> Instance {
    ordered(instance).through_gate()
}

fn waits(instance: Instance, waiting: Waiting) -> Instance {
    instance.with(|i| i.update_mark(|mark| mark.waiting = Some(waiting)))
}

fn refused(trouble: ProviderError) -> Observation {
    Observation { deregistration: Look::Failed(trouble), ..nothing() }
}

#[test]
fn what_cannot_take_a_job_is_terminated_without_asking_github() {
    check(vec![
        ("GitHub has removed it", ordered(idle()).deregistered(), nothing(), 700, GO),
        ("its agent ended", ordered(exited()), nothing(), 700, GO),
        ("never asked for a configuration", ordered(booting()), nothing(), 700, GO),
        (
            "never asked for one, and still boots",
            booting().ordered(plain(60)),
            nothing(),
            60,
            "to deleting, due 180, terminate",
        ),
        ("the machine was stopped", ordered(active()), sees(Machine::Stopped), 700, GO),
        (
            "the machine was seen stopped by an earlier pass",
            active().stopping(DeleteReason::MachineStopped, 700),
            nothing(),
            700,
            GO,
        ),
    ]);
}

#[test]
fn a_dead_machine_ends_everything() {
    let dead = "to deleted, never due";
    let absent_at = |second| ordered(idle()).with(|i| i.absence = Some(absent(at(second))));
    let looked = waits(ordered(idle()), Waiting::Absent);
    check(vec![
        ("gone", ordered(idle()), sees(Machine::Gone), 700, dead),
        ("gone, with a job on record", ordered(active()), sees(Machine::Gone), 700, dead),
        (
            "gone, though its time has not come",
            ordered(idle()).due(900),
            sees(Machine::Gone),
            700,
            dead,
        ),
        ("a hint is looked into at once", ordered(idle()).due(900), hint(), 700, "look at machine"),
        (
            "absent once",
            ordered(idle()),
            sees(Machine::Absent),
            700,
            "rest until 820, absent, waits Absent",
        ),
        (
            "absent again too soon",
            absent_at(600),
            sees(Machine::Absent),
            700,
            "rest until 720, waits Absent",
        ),
        ("absent twice", absent_at(580), sees(Machine::Absent), 700, dead),
        (
            "absent and young",
            idle().ordered(plain(300)),
            sees(Machine::Absent),
            300,
            "rest until 605, waits Absent",
        ),
        ("the second look is made", looked, nothing(), 700, "look at machine"),
    ]);
}

#[test]
fn evidence_comes_before_the_delete_call() {
    let ours = || idle().stopping(DeleteReason::Idle, 700);
    let first = || ours().with(|i| i.update_mark(|d| d.not_busy_since = Some(at(520))));
    let quiet = || sees_runner(RunnerSeen::NotBusy(RUNNER));
    check(vec![
        ("not its time yet", ours().due(900), nothing(), 700, "rest until 900"),
        (
            "still boots",
            asking().ordered(plain(300)),
            nothing(),
            300,
            "rest until 600, waits SecondRead",
        ),
        ("GitHub is asked", ours(), nothing(), 700, "look at runner"),
        (
            "the first read",
            ours(),
            quiet(),
            700,
            "rest until 880, not busy since 700, waits SecondRead",
        ),
        ("the second read", first(), quiet(), 700, "gate passed"),
        (
            "then nothing is waited for any more",
            first().with(|i| i.update_mark(|d| d.waiting = Some(Waiting::SecondRead))),
            quiet(),
            700,
            "gate passed, waits for nothing",
        ),
        (
            "busy: the row of reads is broken",
            first(),
            sees_runner(RunnerSeen::Busy(RUNNER)),
            700,
            "rest until 760, reads forgotten, waits Busy",
        ),
        ("all evidence is in", passed(idle()), nothing(), 700, "removing until 820, deregister"),
        ("another pass asks", asked(), nothing(), 819, "rest until 820"),
        ("and was stopped", asked(), nothing(), 820, "removing until 940, deregister"),
        (
            "a start that came through after the evidence",
            passed(idle()).with(|i| assert!(i.github_started(CLAIMED, at(699)))),
            nothing(),
            700,
            "rest until 760, gate shut, waits JobRunning",
        ),
    ]);
}

/// Its hook refuses every job from the order on: any job that GitHub assigned would fail.
#[test]
fn a_runner_that_refuses_every_job_is_removed_at_once() {
    let at_once = |instance: Instance| instance.ordered(plain(60));
    let boots = "rest until 600, waits SecondRead";
    let evidence = "look at runner";
    let answered = || at_once(idle()).through_gate();
    check(vec![
        ("idle", at_once(idle()), nothing(), 60, "gate passed"),
        (
            "whatever GitHub shows",
            at_once(idle()),
            sees_runner(RunnerSeen::Busy(RUNNER)),
            60,
            "gate passed",
        ),
        ("then", answered(), nothing(), 60, "removing until 180, deregister"),
        (
            "422: a job was given to it before",
            answered(),
            answers(Deregistration::Busy),
            60,
            "rest until 120, gate shut, waits Busy",
        ),
        ("its agent has not reported", at_once(installing()), nothing(), 60, "gate passed"),
        ("a configuration is on its way to it", at_once(asking()), nothing(), 60, boots),
        (
            "its hook has reported a job",
            at_once(active()),
            nothing(),
            60,
            "rest until 120, waits JobRunning",
        ),
        (
            "GitHub has reported a job",
            at_once(idle().with(|i| assert!(i.github_started(CLAIMED, at(50))))),
            nothing(),
            60,
            "rest until 120, waits JobRunning",
        ),
        (
            "a delete of ours refuses none",
            idle().stopping(DeleteReason::Idle, 60),
            nothing(),
            60,
            evidence,
        ),
    ]);
}

/// A request to remove the runner is in flight.
fn asked() -> Instance {
    passed(idle()).with(|i| i.update_mark(|mark| mark.removing_until = Some(at(820))))
}

#[test]
fn only_a_busy_runner_that_github_keeps_may_start_its_job() {
    check(vec![
        (
            "422",
            asked(),
            answers(Deregistration::Busy),
            700,
            "rest until 760, gate shut, not removed, waits Busy",
        ),
        (
            "401: an earlier call may have been done",
            asked(),
            refused(unauthorized()),
            700,
            "rest until 1000, error 401, removing until 700, waits Unauthorized",
        ),
        (
            "502",
            asked(),
            refused(unavailable()),
            700,
            "rest until 701, error 502, removing until 700, silences 1, waits GithubUnavailable",
        ),
        ("204", asked(), answers(Deregistration::Done), 700, "deregistered"),
    ]);
}

/// Its hook waits for GitHub's response, so the pass must not wait for the job.
#[test]
fn a_job_whose_start_is_undecided_is_asked_for() {
    let starts = |i: &mut Instance| {
        i.update_mark(|mark| mark.removing_until = Some(at(820)));
        assert!(i.github_started(CLAIMED, at(699)));
    };
    let heard = || idle().unclaimed().stopping(DeleteReason::Idle, 650).through_gate().with(starts);
    let absent = || sees_runner(RunnerSeen::Absent);
    let again = Observation { deregistration: Look::Seen(Deregistration::NotFound), ..absent() };
    let kept = "rest until 880, gate shut, not removed, waits JobRunning";
    check(vec![
        ("the call may be under way", heard(), nothing(), 819, "rest until 820"),
        ("GitHub is asked for the runner", heard(), nothing(), 820, "look at runner"),
        ("it is there", heard(), sees_runner(RunnerSeen::NotBusy(RUNNER)), 820, kept),
        ("and busy", heard(), sees_runner(RunnerSeen::Busy(RUNNER)), 820, kept),
        ("it is not shown", heard(), absent(), 820, "removing until 940, deregister"),
        ("and is gone", heard(), again, 820, "deregistered"),
        (
            "no answer",
            heard(),
            Observation { runner: Look::Failed(unavailable()), ..nothing() },
            820,
            "rest until 821, error 502, silences 1, waits GithubUnavailable",
        ),
        (
            "an end that waits for no answer refuses it at once",
            asked().with(starts),
            nothing(),
            820,
            "rest until 880, gate shut, waits JobRunning",
        ),
    ]);
}

#[test]
fn githubs_answer_to_the_delete_decides() {
    let limited = |until| refused(ProviderError::RateLimited(at(until)));
    let silent = |n| passed(idle()).with(|i| i.update_mark(|d| d.silences = n));
    check(vec![
        ("204", passed(idle()), answers(Deregistration::Done), 700, "deregistered"),
        (
            "404 after a registration",
            passed(idle()),
            answers(Deregistration::NotFound),
            700,
            "deregistered",
        ),
        (
            "422",
            passed(idle()),
            answers(Deregistration::Busy),
            700,
            "rest until 760, gate shut, waits Busy",
        ),
        ("rate limit", passed(idle()), limited(1234), 700, "rest until 1234, waits RateLimited"),
        (
            "401",
            passed(idle()),
            refused(unauthorized()),
            700,
            "rest until 1000, error 401, waits Unauthorized",
        ),
        (
            "502",
            passed(idle()),
            refused(unavailable()),
            700,
            "rest until 701, error 502, silences 1, waits GithubUnavailable",
        ),
        (
            "502 for the fifth time",
            silent(4),
            refused(unavailable()),
            700,
            "rest until 716, error 502, silences 5, waits GithubUnavailable",
        ),
        (
            "an answer ends the row of silences",
            waits(silent(4), Waiting::GithubUnavailable),
            answers(Deregistration::Done),
            700,
            "deregistered, silences 0, waits for nothing",
        ),
    ]);
}

#[test]
fn a_job_whose_end_its_hook_reported_is_let_finish() {
    let finishing = || completed().ordered(forced(105));
    let exited = exited().ordered(forced(115));
    check(vec![
        ("forced just after it", finishing(), nothing(), 105, "rest until 400, waits JobRunning"),
        (
            "plain",
            completed().ordered(plain(105)),
            nothing(),
            105,
            "rest until 400, waits JobRunning",
        ),
        ("for too long", finishing(), nothing(), 400, "removing until 520, deregister"),
        ("its agent ended", exited, nothing(), 115, "to deleting, due 235, terminate"),
    ]);
}

#[test]
fn a_running_job_is_waited_for_as_long_as_its_machine_lives() {
    let running = || waits(ordered(active()), Waiting::JobRunning);
    let busy = || waits(passed(idle()), Waiting::Busy);
    let old = crate::testkit::LIFETIME;
    check(vec![
        (
            "its hook reported a start",
            ordered(active()),
            nothing(),
            700,
            "rest until 760, waits JobRunning",
        ),
        ("not its time yet", running().due(760), nothing(), 759, "rest until 760"),
        ("the machine is looked at each minute", running(), nothing(), 700, "look at machine"),
        ("and lives", running(), sees(Machine::Running), 700, "rest until 760"),
        (
            "and died",
            running(),
            sees(Machine::Gone),
            700,
            "to deleted, waits for nothing, never due",
        ),
        ("as long as its lifetime", running(), sees(Machine::Running), old - 1, "rest until 43259"),
        (
            "and no longer",
            running(),
            sees(Machine::Running),
            old,
            "removing until 43320, kill told, deregister, audit JobKilled by muster",
        ),
        ("busy by GitHub alone: looked at as well", busy(), nothing(), 700, "look at machine"),
        ("and asked again", busy(), sees(Machine::Running), 700, "removing until 820, deregister"),
        (
            "the job ended",
            running().with(|i| i.runner_ended(Some(0), None, at(690), &timings())),
            sees(Machine::Running),
            700,
            "to deleting, waits for nothing, due 820, terminate",
        ),
    ]);
}

/// The gate was passed on the way, or the order arrived between the call and its response.
#[test]
fn a_registration_that_only_its_name_leads_to_is_looked_up() {
    let lost = || passed(asking());
    let found = sees_runner(RunnerSeen::NotBusy(RunnerId(901)));
    let silent = Observation { runner: Look::Failed(unavailable()), ..nothing() };
    check(vec![
        (
            "the call may be in flight",
            lost().with(|i| i.runner.asking_since = Some(at(650))),
            nothing(),
            700,
            "rest until 710, waits Registering",
        ),
        (
            "its lease is over",
            lost().with(|i| i.runner.asking_since = Some(at(640))),
            nothing(),
            700,
            "look at runner",
        ),
        ("it got through", lost(), found, 700, "runner installing, registration 901, call settled"),
        (
            "it got through and is busy: the DELETE will say so",
            lost(),
            sees_runner(RunnerSeen::Busy(RunnerId(901))),
            700,
            "runner installing, registration 901, call settled",
        ),
        (
            "it never happened",
            lost(),
            sees_runner(RunnerSeen::Absent),
            700,
            "call settled, deregistered",
        ),
        (
            "GitHub does not say",
            lost(),
            silent,
            700,
            "rest until 701, error 502, silences 1, waits GithubUnavailable",
        ),
    ]);
}

#[test]
fn a_slot_without_a_machine_waits_for_its_launchs_answer() {
    let slot = || creating().ordered(plain(60));
    let unread = Observation { launch: Look::Failed(unavailable()), ..nothing() };
    check(vec![
        ("the launch is looked at", slot(), nothing(), 60, "look at launch"),
        (
            "EC2 has not answered",
            slot(),
            sees_launch(Open, 120),
            60,
            "rest until 120, waits LaunchOpen",
        ),
        (
            "nobody waits for the answer any more",
            slot(),
            sees_launch(Open, 60),
            60,
            "waits LaunchOpen, due 75, wake pool",
        ),
        ("the launch cannot be read", slot(), unread, 60, "rest until 75, waits LaunchOpen"),
        (
            "EC2 launched nothing for it",
            slot(),
            sees_launch(Settled, 120),
            60,
            "to deleted, never due",
        ),
        (
            "there is no launch",
            slot(),
            Observation { launch: Look::Seen(None), ..nothing() },
            60,
            "to deleted, never due",
        ),
        ("a hint cannot be meant for it", slot(), hint(), 60, "look at launch"),
        (
            "the machine came after the order",
            slot().with(|i| i.bind(machine(1), at(70), &timings())),
            nothing(),
            70,
            "to deleting, due 190, terminate",
        ),
    ]);
}
