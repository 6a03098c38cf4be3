//! Force, the bypass and the order to kill: what each passes, and what none of them passes.

use super::{answers, check, nothing, sees, sees_runner};
use crate::instance::{DeleteReason, Instance, Order, Waiting};
use crate::observation::{Deregistration, Look, Machine, Observation, RunnerSeen, Trouble};
use crate::testkit::{
    LIFETIME, RUNNER, Story, With, active, asking, at, fault, forced, idle, idle_without_hooks,
    installing, plain, timings, unauthorized, unavailable,
};

const GO: &str = "to deleting, due 820, terminate";

fn bypass(second: u32) -> Order {
    Order { bypass_github_unauthorized: true, ..plain(second) }
}

fn kill(second: u32) -> Order {
    Order { kill_running_job: true, ..plain(second) }
}

fn refused(trouble: Trouble) -> Observation {
    Observation { deregistration: Look::Failed(trouble), ..nothing() }
}

/// Ordered at 700 and due at `second`, since an earlier pass waited for `waiting`.
fn later(instance: Instance, waiting: Waiting, second: u32) -> Instance {
    instance.due(second).with(|i| i.update_drain(|drain| drain.waiting = Some(waiting)))
}

#[test]
fn force_skips_the_evidence_but_never_a_busy_runner() {
    let busy = || later(idle().ordered(forced(700)), Waiting::Busy, 40_000);
    check(vec![
        ("asks GitHub at once", idle().ordered(forced(700)), nothing(), 700, "deregister"),
        ("also while it boots", installing().ordered(forced(60)), nothing(), 60, "deregister"),
        ("204", idle().ordered(forced(700)), answers(Deregistration::Done), 700, "deregistered"),
        (
            "422",
            idle().ordered(forced(700)),
            answers(Deregistration::Busy),
            700,
            "rest until 760, runner active, waits Busy",
        ),
        (
            "422 eleven hours later",
            busy(),
            answers(Deregistration::Busy).with(|seen| seen.machine = Look::Seen(Machine::Running)),
            40_000,
            "rest until 40060, runner active",
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
fn force_outwaits_a_silent_github_where_the_hooks_vouch_for_it() {
    let hooked = || idle().ordered(forced(700));
    let unhooked = || idle_without_hooks().ordered(forced(700));
    let at_give_up = |instance| later(instance, Waiting::GithubUnavailable, 1300);
    let error = "rest until 1301, error 502, silences 1";
    check(vec![
        (
            "502 at first",
            hooked(),
            refused(unavailable()),
            700,
            "rest until 701, error 502, silences 1, waits GithubUnavailable",
        ),
        (
            "502 a moment before its time",
            hooked(),
            refused(unavailable()),
            1299,
            "rest until 1300, error 502, silences 1, waits GithubUnavailable",
        ),
        (
            "502 after its time",
            at_give_up(hooked()),
            refused(unavailable()),
            1300,
            "to deleting, error 502, silences 1, waits for nothing, due 1420, terminate",
        ),
        (
            "502 after its time, GitHub had called it busy",
            at_give_up(hooked().with(|i| i.called_busy(at(800)))),
            refused(unavailable()),
            1300,
            error,
        ),
        (
            "502 after its time, without hooks",
            at_give_up(unhooked()),
            refused(unavailable()),
            1300,
            error,
        ),
        (
            "502 after its time, not forced",
            at_give_up(idle().ordered(plain(700)).through_gate()),
            refused(unavailable()),
            1300,
            error,
        ),
        (
            "a rate limit ends by itself",
            hooked().due(1300),
            refused(Trouble::RateLimited(at(1400))),
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
    ]);
}

#[test]
fn the_bypass_passes_a_refusal_of_our_credentials_and_nothing_else() {
    let gated = || idle().ordered(bypass(700)).through_gate();
    let go = "to deleting, error 401, due 820, terminate";
    let asks = |trouble| Observation { runner: Look::Failed(trouble), ..nothing() };
    let forced_too = Order { force: true, ..bypass(700) };
    check(vec![
        ("401 to the DELETE", gated(), refused(unauthorized()), 700, go),
        ("401 to the first read", idle().ordered(bypass(700)), asks(unauthorized()), 700, go),
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
            refused(Trouble::RateLimited(at(800))),
            700,
            "rest until 800, waits RateLimited",
        ),
        (
            "422",
            gated(),
            answers(Deregistration::Busy),
            700,
            "rest until 760, runner active, gate shut, waits Busy",
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
            installing().ordered(bypass(60)),
            asks(unauthorized()),
            60,
            "rest until 600, waits SecondRead",
        ),
        (
            "busy by a read",
            idle().ordered(bypass(700)),
            sees_runner(RunnerSeen::Busy(RUNNER)),
            700,
            "rest until 760, runner active, waits Busy",
        ),
    ]);
}

#[test]
fn the_order_to_kill_ends_a_running_job_and_leaves_a_trace() {
    let killed = "to deleting, due 820, terminate, audit JobKilled by ada";
    let busy = || active().ordered(kill(700));
    let failed = || fault("Throttled");
    let tried = || busy().deleting(600).with(|i| i.terminate_failed(failed(), at(610), &timings()));
    check(vec![
        ("GitHub is told first", busy(), nothing(), 700, "deregister"),
        ("422", busy(), answers(Deregistration::Busy), 700, killed),
        ("204, with a start on record", busy(), answers(Deregistration::Done), 700, killed),
        ("no answer", busy(), refused(unavailable()), 700, killed),
        ("401", busy(), refused(unauthorized()), 700, killed),
        (
            "422 alone shows a job",
            idle().ordered(kill(700)),
            answers(Deregistration::Busy),
            700,
            killed,
        ),
        ("no job after all", idle().ordered(kill(700)), answers(Deregistration::Done), 700, GO),
        ("no registration", asking().ordered(kill(700)), nothing(), 700, GO),
        (
            "told once, however often EC2 fails",
            tried().with(|i| i.update_drain(|drain| drain.kill_told = true)),
            nothing(),
            700,
            "to deleting, waits for nothing, due 820, terminate",
        ),
        ("what failed before was no kill", tried(), nothing(), 700, "deregister"),
    ]);
}

#[test]
fn a_machine_past_its_lifetime_takes_the_same_way() {
    let old = |instance: Instance| instance.stopping(DeleteReason::MaxLifetime, 700);
    let killed = "to deleting, due 820, terminate, audit JobKilled by muster";
    check(vec![
        ("GitHub is told first", old(active()), nothing(), 700, "deregister"),
        ("422", old(active()), answers(Deregistration::Busy), 700, killed),
        (
            "also a row that was ordered away before",
            later(active().ordered(plain(700)), Waiting::JobRunning, LIFETIME),
            Observation { machine: Look::Seen(Machine::Running), ..answers(Deregistration::Busy) },
            LIFETIME,
            "to deleting, waits for nothing, due 43320, terminate, audit JobKilled by muster",
        ),
        (
            "a second younger",
            later(active().ordered(plain(700)), Waiting::JobRunning, 43_199),
            sees(Machine::Running),
            43_199,
            "rest until 43259",
        ),
        ("204, without a job", old(idle()), answers(Deregistration::Done), 700, GO),
    ]);
}
