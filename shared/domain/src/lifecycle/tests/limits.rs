//! The longest life of a machine, and deletes that are switched off.

use super::{check, nothing, sees, sees_runner, told};
use crate::instance::DeleteReason;
use crate::lifecycle::{Policy, Step, decide};
use crate::observation::{Machine, Observation, RunnerSeen};
use crate::testkit::{
    LIFETIME, RUNNER, Story, active, at, booting, exited, forced, idle, machine, plain, timings,
};
use crate::time::Seconds;

#[test]
fn a_machine_older_than_its_pool_allows_ends_with_its_job() {
    let killed = "to pending_delete, claim ended, marked max_lifetime, due 43200, \
                  audit JobKilled by muster";
    let marked = || idle().unclaimed().marked(DeleteReason::Idle, 43_100).due(43_160);
    check(vec![
        ("a second younger", active().unclaimed(), nothing(), LIFETIME - 1, "rest until 43200"),
        ("with a job", active(), nothing(), LIFETIME, killed),
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
            "to pending_delete, claim ended, marked machine_gone, due 43200",
        ),
    ]);
}

#[test]
fn each_pool_has_its_own_lifetime() {
    let timings = timings();
    let policy = Policy { timings: &timings, max_lifetime: Seconds(700) };
    let step = |now| decide(&active().unclaimed(), &nothing(), &policy, at(now));
    assert_eq!(told(&active().unclaimed(), &step(699)), "rest until 700");
    let Step::Act { next, .. } = step(700) else { panic!("it lives on") };
    assert_eq!(next.drain().map(|drain| drain.reason.clone()), Some(DeleteReason::MaxLifetime));
}

fn off(seen: Observation) -> Observation {
    Observation { deletes_off: true, ..seen }
}

#[test]
fn switched_off_deletes_wait_and_force_passes() {
    let held = "rest until 1060, waits SwitchedOff";
    let stopping = || idle().ordered(plain(1000)).through_gate();
    let second_read =
        || idle().unclaimed().marked(DeleteReason::Idle, 900).due(1000).with_first_read(820);
    check(vec![
        ("no mark is set", idle().unclaimed(), off(nothing()), 1000, "rest until 1060"),
        (
            "what never started serves no job",
            booting(),
            off(nothing()),
            1000,
            "to pending_delete, claim ended, marked boot_timeout, due 1000",
        ),
        ("no lifetime ends anything", active(), off(nothing()), LIFETIME, "rest until 43260"),
        (
            "a mark is taken back: the runner may get a job again",
            second_read(),
            off(sees_runner(RunnerSeen::NotBusy(RUNNER))),
            1000,
            "mark cleared",
        ),
        ("nothing is deregistered", stopping(), off(nothing()), 1000, held),
        ("nothing is terminated", stopping().deregistered(), off(nothing()), 1000, held),
        ("again nothing", stopping().deregistered().deleting(800), off(nothing()), 1000, held),
        (
            "force passes",
            idle().ordered(forced(1000)).deregistered(),
            off(nothing()),
            1000,
            "to deleting, due 1120, terminate",
        ),
        (
            "a runner that ended holds no work",
            exited(),
            off(sees(Machine::Running)),
            230,
            "to pending_delete, claim ended, marked runner_ended, due 230",
        ),
        (
            "a dead machine is taken note of",
            active(),
            off(sees(Machine::Gone)),
            1000,
            "to pending_delete, claim ended, marked machine_gone, due 1000",
        ),
        (
            "a dead machine is taken note of on its way out",
            stopping(),
            off(sees(Machine::Gone)),
            1000,
            "to deleted, never due",
        ),
        (
            "slots end: they hold no machine",
            crate::testkit::retrying().unclaimed(),
            off(nothing()),
            11,
            "to pending_delete, marked not_needed, due 11",
        ),
    ]);
    assert_eq!(second_read().machine(), Some(&machine(1)));
}

trait Read {
    fn with_first_read(self, second: u32) -> Self;
}

impl Read for crate::instance::Instance {
    fn with_first_read(mut self, second: u32) -> Self {
        self.update_drain(|drain| drain.not_busy_since = Some(at(second)));
        self
    }
}
