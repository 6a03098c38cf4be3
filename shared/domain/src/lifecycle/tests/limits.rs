//! The maximum lifetime of a machine, and machines of an outdated template.

use super::{check, nothing, sees, sees_runner, told};
use crate::instance::DeleteReason;
use crate::lifecycle::{Policy, Step, decide};
use crate::observation::{Look, Machine, Observation, RunnerSeen};
use crate::testkit::{
    LIFETIME, RUNNER, Story, active, at, booting, idle, policy, timings, unavailable,
};
use crate::time::Seconds;

#[test]
fn a_machine_older_than_its_pool_allows_ends_with_its_job() {
    let marked = || idle().unclaimed().marked(DeleteReason::Idle, 43_100).due(43_160);
    check(vec![
        ("a second younger", active().unclaimed(), nothing(), LIFETIME - 1, "rest until 43200"),
        (
            "with a job: the kill is on record when it is done",
            active(),
            nothing(),
            LIFETIME,
            "to pending_delete, claim ended, marked max_lifetime, due 43200",
        ),
        (
            "without a job",
            idle().unclaimed(),
            nothing(),
            LIFETIME,
            "to pending_delete, marked max_lifetime, due 43200",
        ),
        (
            "overrules a mark that still gathers evidence",
            marked(),
            nothing(),
            LIFETIME,
            "to pending_delete, marked max_lifetime, due 43200",
        ),
        (
            "a dead machine kills no job",
            active(),
            sees(Machine::Gone),
            LIFETIME,
            "to deleted, claim ended, marked machine_gone, never due",
        ),
    ]);
}

#[test]
fn each_pool_has_its_own_lifetime() {
    let timings = timings();
    let policy = Policy { timings: &timings, max_lifetime: Seconds(700), most_idle: 0 };
    let step = |now| decide(&active().unclaimed(), &nothing(), &policy, at(now));
    assert_eq!(told(&active().unclaimed(), &step(699)), "rest until 700");
    let Step::Act { next, .. } = step(700) else { panic!("it lives on") };
    assert_eq!(next.mark().map(|mark| mark.reason.clone()), Some(DeleteReason::MaxLifetime));
}

#[test]
fn an_idle_runner_of_the_min_idle_ends_as_surplus_alone() {
    let timings = timings();
    let policy = Policy { most_idle: 2, ..policy(&timings) };
    let surplus = |is_surplus| Observation {
        surplus: Look::Seen(is_surplus),
        ..sees_runner(RunnerSeen::NotBusy(RUNNER))
    };
    let silence = Observation { surplus: Look::Failed(unavailable()), ..nothing() };
    let outdated = Observation { outdated: true, ..nothing() };
    let free = || idle().unclaimed();
    // Idle since second 40, with a limit of 300.
    for (name, runner, seen, now, expected) in [
        ("young", free(), nothing(), 339, "rest until 340"),
        ("past its limit", free(), nothing(), 340, "ask whether it is surplus"),
        ("not surplus", free(), surplus(false), 340, "rest until 640"),
        ("surplus", free(), surplus(true), 340, "marked idle, due 340"),
        ("surplus and young", free(), surplus(true), 339, "rest until 340"),
        ("nobody knows", free(), silence, 340, "rest until 400"),
        ("outdated, surplus or not", free(), outdated, 60, "marked outdated, due 60"),
        ("with a claim", idle(), nothing(), 99, "rest until 100"),
        ("booting", booting().unclaimed(), nothing(), 599, "rest until 600"),
        ("active", active().unclaimed(), surplus(true), 9000, "rest until 43200"),
    ] {
        let step = decide(&runner, &seen, &policy, at(now));
        assert_eq!(told(&runner, &step), expected, "{name}");
    }
}

#[test]
fn a_runner_without_a_job_goes_at_half_of_its_life() {
    let timings = timings();
    let policy = Policy { max_lifetime: Seconds(1_000), most_idle: 2, ..policy(&timings) };
    let kept =
        || Observation { surplus: Look::Seen(false), ..sees_runner(RunnerSeen::NotBusy(RUNNER)) };
    for (name, runner, now, expected) in [
        ("kept idle until then", idle().unclaimed(), 499, "rest until 500"),
        ("however few there are", idle().unclaimed(), 500, "marked retired, due 500"),
        ("not one with a claim", idle(), 99, "rest until 100"),
        ("not one with a job", active().unclaimed(), 500, "rest until 1000"),
    ] {
        let step = decide(&runner, &kept(), &policy, at(now));
        assert_eq!(told(&runner, &step), expected, "{name}");
    }
}

#[test]
fn a_runner_that_is_kept_idle_must_be_one_that_a_job_can_reach() {
    let timings = timings();
    let policy = Policy { most_idle: 1, ..policy(&timings) };
    let kept = |runner| Observation { surplus: Look::Seen(false), runner, ..nothing() };
    let (free, seen) = (|| idle().unclaimed(), Look::Seen);
    let marked = || {
        let mut marked = free().marked(DeleteReason::Unreachable, 700).due(880);
        marked.update_mark(|mark| mark.not_busy_since = Some(at(700)));
        marked
    };
    let (connected, busy) = (RunnerSeen::NotBusy(RUNNER), RunnerSeen::Busy(RUNNER));
    let (offline, absent) = (RunnerSeen::Offline(RUNNER), RunnerSeen::Absent);
    for (name, runner, looked, now, expected) in [
        ("asked as often as its pool wants it", free(), Look::Unknown, 340, "look at runner"),
        ("connected", free(), seen(connected), 340, "rest until 640"),
        ("GitHub gave it a job", free(), seen(busy), 340, "rest until 640"),
        ("silence", free(), Look::Failed(unavailable()), 340, "rest until 640"),
        ("offline", free(), seen(offline), 340, "marked unreachable, due 340"),
        ("not registered", free(), seen(absent), 340, "marked unreachable, due 340"),
        ("still gone", marked(), seen(offline), 880, "to pending_delete, gate passed"),
        ("gone for good", marked(), seen(absent), 880, "to pending_delete, gate passed"),
        ("back", marked(), seen(connected), 880, "mark cleared"),
        (
            "back, with a job",
            marked(),
            seen(busy),
            880,
            "rest until 940, runner active, mark cleared",
        ),
    ] {
        let step = decide(&runner, &kept(looked), &policy, at(now));
        assert_eq!(told(&runner, &step), expected, "{name}");
    }
}

#[test]
fn an_outdated_machine_ends_once_it_is_free() {
    let outdated = || Observation { outdated: true, ..nothing() };
    check(vec![
        ("free", idle().unclaimed(), outdated(), 60, "marked outdated, due 60"),
        ("meant for a job", idle(), outdated(), 60, "rest until 100"),
        ("with a job", active().unclaimed(), outdated(), 60, "rest until 43200"),
        ("still boots", booting().unclaimed(), outdated(), 60, "rest until 600"),
    ]);
}
