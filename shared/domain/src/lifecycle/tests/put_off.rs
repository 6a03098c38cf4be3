//! A record that a concurrent pass postponed while this pass waited for a response.

use super::{answers, check};
use crate::instance::Instance;
use crate::observation::Deregistration;
use crate::testkit::{Story as _, With as _, at, idle, plain};

/// Postponed until the end of the call that the concurrent pass found in flight.
fn put_off() -> Instance {
    idle()
        .ordered(plain(700))
        .through_gate()
        .with(|i| i.update_mark(|mark| mark.removing_until = Some(at(820))))
        .due(820)
}

#[test]
fn an_answer_that_the_row_waits_for_counts_before_its_time() {
    check(vec![
        (
            "404, while another pass has the row wait for this answer",
            put_off(),
            answers(Deregistration::NotFound),
            700,
            "deregistered, due 700",
        ),
        (
            "it waits for something else as well",
            put_off().due(900),
            answers(Deregistration::NotFound),
            700,
            "rest until 900",
        ),
        (
            "the answer is on record: the row's time counts",
            put_off().with(|i| i.update_mark(|mark| mark.deregistered = true)),
            answers(Deregistration::NotFound),
            700,
            "rest until 820",
        ),
    ]);
}
