//! The states before a machine is bound.

use super::{check, nothing, sees_launch};
use crate::launch::LaunchState::{Open, Settled};
use crate::observation::{Look, Observation};
use crate::testkit::{Story, creating, error, last_attempt, retrying, unavailable};

#[test]
fn a_slot_waits_for_its_next_attempt() {
    check(vec![
        ("not yet", retrying(), nothing(), 24, "rest until 25"),
        ("its time has come", retrying(), nothing(), 25, "due 40, wake pool"),
        (
            "no job needs it: nothing exists at EC2, so nothing is waited for",
            retrying().unclaimed(),
            nothing(),
            11,
            "to pending_delete, marked not_needed, due 11",
        ),
        (
            "its pool is being removed: the job must not wait for it",
            retrying(),
            Observation { pool_removed: true, ..nothing() },
            11,
            "to pending_delete, claim ended, marked not_needed, due 11",
        ),
    ]);
}

#[test]
fn a_slot_of_an_open_launch_belongs_to_the_launch_pass() {
    let open = |until| sees_launch(Open, until);
    let silent = || Observation { launch: Look::Failed(unavailable()), ..nothing() };
    check(vec![
        ("leased", creating(), nothing(), 119, "rest until 120"),
        ("leased, without a job", creating().unclaimed(), nothing(), 119, "rest until 120"),
        ("lease over", creating(), nothing(), 120, "look at launch"),
        ("lease over, without a job", creating().unclaimed(), nothing(), 120, "look at launch"),
        ("leased again by a replay", creating(), open(200), 120, "rest until 200"),
        ("nobody replays it", creating(), open(120), 120, "due 135, wake pool"),
        ("the launch cannot be read", creating(), silent(), 120, "rest until 135"),
    ]);
}

#[test]
fn a_slot_that_the_settling_pass_forgot_is_tried_again_or_given_up() {
    let none = || Observation { launch: Look::Seen(None), ..nothing() };
    let settled = || sees_launch(Settled, 120);
    let again = "to pending_create, attempts 1, error NotLaunched, due 135";
    check(vec![
        ("settled", creating(), settled(), 120, again),
        ("settled, whatever its lease says", creating(), sees_launch(Settled, 999), 120, again),
        ("no record of the launch", creating(), none(), 120, again),
        (
            "in its last attempt",
            last_attempt(),
            settled(),
            230,
            "to error, attempts 5, error NotLaunched, due 230",
        ),
        (
            "failed for good",
            error(),
            nothing(),
            110,
            "to pending_delete, claim ended, marked launch_failed",
        ),
    ]);
}
