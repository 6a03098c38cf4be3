use std::cell::RefCell;

use muster_domain::timings::Timings;

use super::*;
use crate::admin::answers::{Place, Severity, Want};
use crate::testkit::at;

const ADDRESS: &str = "a";

fn want(key: &str, severity: Severity) -> Want {
    Want {
        key: key.to_owned(),
        severity,
        sentence: format!("{key} is so"),
        since: None,
        place: Place::Stack,
        run: Some("muster status".to_owned()),
    }
}

fn warning(key: &str) -> Want {
    want(key, Severity::Warning)
}

/// A record, and sweeps that work on it.
#[derive(Default)]
struct Sweeps {
    record: RefCell<Notices>,
}

impl Sweeps {
    /// A sweep at this second: what it tells, if the receiver takes it.
    fn sweep(&self, second: u32, wants: &[Want], address: &str, takes: bool) -> Vec<String> {
        let (now, timings) = (at(second), Timings::default());
        let mut record = self.record.borrow_mut();
        let seen = record.seen(wants, address, now);
        let due = seen.due(wants, &timings, now);
        let has_news = seen.is_news_to(address) || !due.is_empty();
        if !has_news || !seen.may_try(now) {
            *record = seen;
            return Vec::new();
        }
        if !takes {
            *record = seen.tried(now).failed("404".to_owned(), now);
            return vec!["failed".to_owned()];
        }
        *record = seen.tried(now).told(&due, address, now);
        let what = |what| if what == What::Begun { "begun" } else { "over" };
        due.iter().map(|one| format!("{} {}", what(one.what), one.key)).collect()
    }
}

#[test]
fn each_is_told_once_when_it_begins_and_once_when_it_is_over() {
    let sweeps = Sweeps::default();
    let (limit, orphans) = (warning("limit"), want("orphans", Severity::Error));
    let both = [limit, orphans];
    let story: [(u32, &[Want], &[&str]); 11] = [
        (0, &[], &[]),
        // An error at once, a warning when it has stood for a while.
        (60, &both, &["begun orphans"]),
        (120, &both, &[]),
        (180, &both, &["begun limit"]),
        (240, &both, &[]),
        (300, &both[1..], &[]),
        // It came back within the time.
        (840, &both, &[]),
        (900, &[], &[]),
        (1_440, &[], &[]),
        (1_500, &[], &["over limit", "over orphans"]),
        (1_560, &[], &[]),
    ];
    for (second, wants, told) in story {
        assert_eq!(sweeps.sweep(second, wants, ADDRESS, true), told, "at {second} s");
    }
    let left = sweeps.record.into_inner();
    assert_eq!(left, Notices { address: Some(ADDRESS.to_owned()), ..Notices::default() });
}

#[test]
fn what_somebody_may_want_to_know_is_not_told() {
    let sweeps = Sweeps::default();
    let wants = [want("gated", Severity::Note)];
    assert!((0..10).all(|minute| sweeps.sweep(minute * 60, &wants, ADDRESS, true).is_empty()));
}

#[test]
fn what_was_over_before_it_was_told_is_never_told() {
    let sweeps = Sweeps::default();
    let wants = [warning("limit")];
    assert!(sweeps.sweep(0, &wants, ADDRESS, true).is_empty());
    assert!(sweeps.sweep(60, &[], ADDRESS, true).is_empty());
    assert!(sweeps.sweep(120, &wants, ADDRESS, true).is_empty(), "it begins anew");
    assert_eq!(sweeps.sweep(240, &wants, ADDRESS, true), ["begun limit"]);
}

#[test]
fn a_receiver_that_fails_is_asked_again_after_waits_that_grow() {
    let sweeps = Sweeps::default();
    let wants = [want("orphans", Severity::Error)];
    let is_asked = |minute: &u32| sweeps.sweep(minute * 60, &wants, ADDRESS, false) == ["failed"];
    let asked: Vec<u32> = (0..40).filter(is_asked).collect();
    assert_eq!(asked, [0, 1, 3, 7, 15, 25, 35]);
    let record = sweeps.record.borrow().clone();
    assert_eq!(record.error.as_deref(), Some("404"));
    assert_eq!(sweeps.sweep(45 * 60, &wants, ADDRESS, true), ["begun orphans"], "nothing is lost");
    assert_eq!(sweeps.record.borrow().failures, 0);
}

#[test]
fn another_address_is_told_all_that_stands() {
    let sweeps = Sweeps::default();
    let wants = [want("orphans", Severity::Error)];
    assert_eq!(sweeps.sweep(0, &wants, ADDRESS, true), ["begun orphans"]);
    assert!(sweeps.sweep(60, &wants, ADDRESS, true).is_empty());
    assert_eq!(sweeps.sweep(120, &wants, "b", true), ["begun orphans"]);
    assert!(sweeps.sweep(180, &wants, "b", true).is_empty());
    let calm = sweeps.sweep(240, &[], "c", true);
    assert!(calm.is_empty(), "what is over concerns the address before: {calm:?}");
}

#[test]
fn what_the_receiver_did_not_accept_yet_is_sent_by_the_next_sweep() {
    let timings = Timings::default();
    let wants = ["a", "b", "c"].map(|key| want(key, Severity::Error));
    let mut record = Notices::default();
    let mut sent = Vec::new();
    for minute in 0..4 {
        let now = at(minute * 60);
        let seen = record.seen(&wants, ADDRESS, now);
        let due = seen.due(&wants, &timings, now);
        assert!(seen.may_try(now));
        let accepted = due.get(..1).unwrap_or(&due);
        sent.extend(accepted.iter().map(|notice| notice.key.clone()));
        record = seen.tried(now).told(accepted, ADDRESS, now);
    }
    assert_eq!(sent, ["a", "b", "c"]);
}
