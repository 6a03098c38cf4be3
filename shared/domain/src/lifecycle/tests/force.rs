//! Force, the bypass and the order to kill: which checks each skips, and which none of them skips.

use super::{answers, check, nothing, sees, sees_runner};
use crate::instance::{DeleteOrder, DeleteReason, Instance, Waiting};
use crate::observation::{Deregistration, Look, Machine, Observation, RunnerSeen};
use crate::provider::ProviderError;
use crate::testkit::{
    LIFETIME, RUNNER, Story, With, active, asking, at, completed, fault, forced, idle, installing,
    plain, timings, unauthorized, unavailable,
};

const GO: &str = "to deleting, due 820, terminate";

fn bypass(second: u32) -> DeleteOrder {
    DeleteOrder { bypass_github_unauthorized: true, ..plain(second) }
}

fn kill(second: u32) -> DeleteOrder {
    DeleteOrder { kill_running_job: true, ..plain(second) }
}

fn refused(trouble: ProviderError) -> Observation {
    Observation { deregistration: Look::Failed(trouble), ..nothing() }
}

/// Ordered at 700 and due at `second`, after an earlier pass waited for `waiting`.
fn later(instance: Instance, waiting: Waiting, second: u32) -> Instance {
    instance.due(second).with(|i| i.update_mark(|mark| mark.waiting = Some(waiting)))
}

#[test]
fn force_skips_the_evidence_but_never_a_busy_runner() {
    let busy = || later(idle().ordered(forced(700)), Waiting::Busy, 40_000);
    check(vec![
        (
            "asks GitHub at once",
            idle().ordered(forced(700)),
            nothing(),
            700,
            "removing until 820, deregister",
        ),
        (
            "also while it boots",
            installing().ordered(forced(60)),
            nothing(),
            60,
            "removing until 180, deregister",
        ),
        ("204", idle().ordered(forced(700)), answers(Deregistration::Done), 700, "deregistered"),
        (
            "422",
            idle().ordered(forced(700)),
            answers(Deregistration::Busy),
            700,
            "rest until 760, waits Busy",
        ),
        (
            "422 eleven hours later",
            busy(),
            answers(Deregistration::Busy).with(|seen| seen.machine = Look::Seen(Machine::Running)),
            40_000,
            "rest until 40060",
        ),
        (
            "a start by its hook",
            active().ordered(forced(700)),
            nothing(),
            700,
            "rest until 760, waits JobRunning",
        ),
        (
            "a start by its hook, eleven hours later",
            later(active().ordered(forced(700)), Waiting::JobRunning, 40_000),
            sees(Machine::Running),
            40_000,
            "rest until 40060",
        ),
        (
            "busy, but the machine is dead",
            busy(),
            sees(Machine::Gone),
            40_000,
            "to deleted, waits for nothing, never due",
        ),
        (
            "a lost configuration call is looked up first",
            asking().ordered(forced(700)),
            nothing(),
            700,
            "look at runner",
        ),
    ]);
}

#[test]
fn force_does_not_pass_a_silent_github() {
    let hooked = || idle().ordered(forced(700));
    let long_silent = later(hooked(), Waiting::GithubUnavailable, 40_000);
    let kills = DeleteOrder { kill_running_job: true, ..forced(700) };
    check(vec![
        (
            "502 at first",
            hooked(),
            refused(unavailable()),
            700,
            "rest until 701, error 502, silences 1, waits GithubUnavailable",
        ),
        (
            "502 for hours",
            long_silent.clone(),
            refused(unavailable()),
            40_000,
            "rest until 40001, error 502, silences 1",
        ),
        (
            "502, and the order kills jobs",
            told(idle().ordered(kills)),
            refused(unavailable()),
            700,
            "to deleting, due 820, terminate",
        ),
        (
            "a rate limit ends by itself",
            hooked().due(1300),
            refused(ProviderError::RateLimited(at(1400))),
            1300,
            "rest until 1400, waits RateLimited",
        ),
        (
            "401 is not silence",
            hooked().due(1300),
            refused(unauthorized()),
            1300,
            "rest until 1600, error 401, waits Unauthorized",
        ),
        (
            "an answer after hours of silence",
            long_silent,
            answers(Deregistration::Done),
            40_000,
            "deregistered, waits for nothing",
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: a row for each situation")]
fn the_bypass_passes_a_refusal_of_our_credentials_and_nothing_else() {
    let gated = || idle().ordered(bypass(700)).through_gate();
    let go = "to deleting, error 401, due 820, terminate";
    let asks = |trouble| Observation { runner: Look::Failed(trouble), ..nothing() };
    let after_its_job = || completed().ordered(bypass(700));
    let forced_too = DeleteOrder { force: true, ..bypass(700) };
    check(vec![
        ("401 to the DELETE", gated(), refused(unauthorized()), 700, go),
        ("401 to the first read", after_its_job(), asks(unauthorized()), 700, go),
        ("401 to a forced DELETE", idle().ordered(forced_too), refused(unauthorized()), 700, go),
        (
            "401 without the flag",
            idle().ordered(plain(700)).through_gate(),
            refused(unauthorized()),
            700,
            "rest until 1000, error 401, waits Unauthorized",
        ),
        (
            "401 with force alone",
            idle().ordered(forced(700)),
            refused(unauthorized()),
            700,
            "rest until 1000, error 401, waits Unauthorized",
        ),
        (
            "502",
            gated(),
            refused(unavailable()),
            700,
            "rest until 701, error 502, silences 1, waits GithubUnavailable",
        ),
        (
            "502 for long",
            gated(),
            refused(unavailable()),
            9000,
            "rest until 9001, error 502, silences 1, waits GithubUnavailable",
        ),
        (
            "rate limit",
            gated(),
            refused(ProviderError::RateLimited(at(800))),
            700,
            "rest until 800, waits RateLimited",
        ),
        (
            "422",
            gated(),
            answers(Deregistration::Busy),
            700,
            "rest until 760, gate shut, waits Busy",
        ),
        (
            "busy by its hook",
            active().ordered(bypass(700)),
            nothing(),
            700,
            "rest until 760, waits JobRunning",
        ),
        (
            "still boots",
            asking().ordered(bypass(60)),
            asks(unauthorized()),
            60,
            "rest until 600, waits SecondRead",
        ),
        (
            "busy by a read",
            after_its_job(),
            sees_runner(RunnerSeen::Busy(RUNNER)),
            700,
            "rest until 760, waits Busy",
        ),
    ]);
}

/// What the pass that calls GitHub has recorded before.
fn told(instance: Instance) -> Instance {
    instance.with(|i| i.update_mark(|mark| mark.kill_told = true))
}

#[test]
fn the_order_to_kill_ends_a_running_job_and_leaves_a_trace() {
    let killed = "to deleting, kill told, due 820, terminate, audit JobKilled by ada";
    let tells = "removing until 820, kill told, deregister, audit JobKilled by ada";
    let busy = || active().ordered(kill(700));
    let unseen = || idle().ordered(kill(700));
    let failed = || fault("Throttled");
    let tried = || busy().deleting(600).with(|i| i.terminate_failed(failed(), at(610), &timings()));
    check(vec![
        ("GitHub is told first", busy(), nothing(), 700, tells),
        ("no job on record", unseen(), nothing(), 700, "removing until 820, kill told, deregister"),
        ("422", told(busy()), answers(Deregistration::Busy), 700, GO),
        ("204, with a start on record", told(busy()), answers(Deregistration::Done), 700, GO),
        ("no answer", told(busy()), refused(unavailable()), 700, GO),
        ("401", told(busy()), refused(unauthorized()), 700, GO),
        ("another wrote before the answer was on record", told(busy()), nothing(), 700, GO),
        (
            "422 alone shows a job",
            told(unseen()),
            answers(Deregistration::Busy),
            700,
            "to deleting, due 820, terminate, audit JobKilled by ada",
        ),
        ("no job after all", told(unseen()), answers(Deregistration::Done), 700, GO),
        (
            "no registration",
            asking().ordered(kill(700)),
            nothing(),
            700,
            "to deleting, kill told, due 820, terminate",
        ),
        (
            "told once, however often EC2 fails",
            told(tried()),
            sees(Machine::Running),
            700,
            "to deleting, waits for nothing, due 820, terminate",
        ),
        ("what failed before was no kill", tried(), sees(Machine::Running), 700, tells),
        (
            "deregistered on a lie, and then the job was heard of",
            busy().deregistered(),
            nothing(),
            700,
            killed,
        ),
        ("deregistered, no job", unseen().deregistered(), nothing(), 700, GO),
    ]);
}

#[test]
fn a_machine_past_its_lifetime_takes_the_same_way() {
    let old = |instance: Instance| instance.stopping(DeleteReason::MaxLifetime, 700);
    let tells = "removing until 820, kill told, deregister, audit JobKilled by muster";
    let waited = || later(active().ordered(plain(700)), Waiting::JobRunning, LIFETIME);
    check(vec![
        ("GitHub is told first", old(active()), nothing(), 700, tells),
        ("422", told(old(active())), answers(Deregistration::Busy), 700, GO),
        (
            "also a row that was ordered away before",
            waited(),
            sees(Machine::Running),
            LIFETIME,
            "removing until 43320, kill told, deregister, audit JobKilled by muster",
        ),
        (
            "and GitHub answers",
            told(waited()),
            Observation { machine: Look::Seen(Machine::Running), ..answers(Deregistration::Busy) },
            LIFETIME,
            "to deleting, waits for nothing, due 43320, terminate",
        ),
        (
            "a second younger",
            later(active().ordered(plain(700)), Waiting::JobRunning, 43_199),
            sees(Machine::Running),
            43_199,
            "rest until 43259",
        ),
        ("204, without a job", told(old(idle())), answers(Deregistration::Done), 700, GO),
    ]);
}
