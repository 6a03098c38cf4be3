use std::cell::RefCell;

use muster_api::answers::{AppStatus, Finding, Location, Severity};
use muster_domain::app::AppCheck;
use muster_domain::ids::AppName;
use muster_domain::timings::Timings;

use super::*;
use crate::testkit::at;

const ADDRESS: &str = "a";

fn finding(key: &str, severity: Severity) -> Finding {
    Finding::new(key, severity, Location::Stack, &format!("{key} is so")).fix("muster status")
}

fn warning(key: &str) -> Finding {
    finding(key, Severity::Warning)
}

/// A record, and sweeps that work on it.
#[derive(Default)]
struct Sweeps {
    record: RefCell<Notices>,
}

impl Sweeps {
    /// A sweep at this second: what it tells, if the receiver takes it.
    fn sweep(&self, second: u32, findings: &[Finding], address: &str, takes: bool) -> Vec<String> {
        let (now, timings) = (at(second), Timings::default());
        let mut record = self.record.borrow_mut();
        let seen = record.seen(findings, address, now);
        let due = seen.due(findings, &timings, now);
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
    let (limit, orphans) = (warning("limit"), finding("orphans", Severity::Error));
    let both = [limit, orphans];
    let story: [(u32, &[Finding], &[&str]); 11] = [
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
    for (second, findings, told) in story {
        assert_eq!(sweeps.sweep(second, findings, ADDRESS, true), told, "at {second} s");
    }
    let left = sweeps.record.into_inner();
    assert_eq!(left, Notices { address: Some(ADDRESS.to_owned()), ..Notices::default() });
}

#[test]
fn what_somebody_may_want_to_know_is_not_told() {
    let sweeps = Sweeps::default();
    let findings = [finding("gated", Severity::Note)];
    assert!((0..10).all(|minute| sweeps.sweep(minute * 60, &findings, ADDRESS, true).is_empty()));
}

#[test]
fn what_was_over_before_it_was_told_is_never_told() {
    let sweeps = Sweeps::default();
    let findings = [warning("limit")];
    assert!(sweeps.sweep(0, &findings, ADDRESS, true).is_empty());
    assert!(sweeps.sweep(60, &[], ADDRESS, true).is_empty());
    assert!(sweeps.sweep(120, &findings, ADDRESS, true).is_empty(), "it begins anew");
    assert_eq!(sweeps.sweep(240, &findings, ADDRESS, true), ["begun limit"]);
}

#[test]
fn a_receiver_that_fails_is_asked_again_after_waits_that_grow() {
    let sweeps = Sweeps::default();
    let findings = [finding("orphans", Severity::Error)];
    let is_asked =
        |minute: &u32| sweeps.sweep(minute * 60, &findings, ADDRESS, false) == ["failed"];
    let asked: Vec<u32> = (0..40).filter(is_asked).collect();
    assert_eq!(asked, [0, 1, 3, 7, 15, 25, 35]);
    let record = sweeps.record.borrow().clone();
    assert_eq!(record.error.as_deref(), Some("404"));
    assert_eq!(
        sweeps.sweep(45 * 60, &findings, ADDRESS, true),
        ["begun orphans"],
        "nothing is lost"
    );
    assert_eq!(sweeps.record.borrow().failures, 0);
}

#[test]
fn another_address_is_told_all_that_stands() {
    let sweeps = Sweeps::default();
    let findings = [finding("orphans", Severity::Error)];
    assert_eq!(sweeps.sweep(0, &findings, ADDRESS, true), ["begun orphans"]);
    assert!(sweeps.sweep(60, &findings, ADDRESS, true).is_empty());
    assert_eq!(sweeps.sweep(120, &findings, "b", true), ["begun orphans"]);
    assert!(sweeps.sweep(180, &findings, "b", true).is_empty());
    let calm = sweeps.sweep(240, &[], "c", true);
    assert!(calm.is_empty(), "what is over concerns the address before: {calm:?}");
}

#[test]
fn what_the_receiver_did_not_accept_yet_is_sent_by_the_next_sweep() {
    let timings = Timings::default();
    let findings = ["a", "b", "c"].map(|key| finding(key, Severity::Error));
    let mut record = Notices::default();
    let mut sent = Vec::new();
    for minute in 0..4 {
        let now = at(minute * 60);
        let seen = record.seen(&findings, ADDRESS, now);
        let due = seen.due(&findings, &timings, now);
        assert!(seen.may_try(now));
        let accepted = due.get(..1).unwrap_or(&due);
        sent.extend(accepted.iter().map(|notice| notice.key.clone()));
        record = seen.tried(now).told(accepted, ADDRESS, now);
    }
    assert_eq!(sent, ["a", "b", "c"]);
}

/// There is room for 100 on the record, and for 20 in a call.
#[test]
fn the_worst_is_kept_and_told_first_where_there_is_too_much() {
    let of = |key: u32| if key < 110 { Severity::Warning } else { Severity::Error };
    let findings: Vec<Finding> = (0..120).map(|key| finding(&key.to_string(), of(key))).collect();
    let seen = Notices::default().seen(&findings, ADDRESS, at(0));
    let errors = |severities: Vec<Severity>| {
        let errors = severities.iter().filter(|one| **one == Severity::Error).count();
        (errors, severities.len())
    };
    assert_eq!(errors(seen.standing.values().map(|one| one.severity).collect()), (10, 100));
    let due = |second| seen.due(&findings, &Timings::default(), at(second));
    let severities = |second| due(second).iter().map(|one| one.severity).collect::<Vec<_>>();
    assert_eq!(errors(severities(0)), (10, 10), "a warning waits");
    assert_eq!(errors(severities(600)), (10, 20));
    assert!(severities(600).is_sorted(), "errors come first");
    let told = seen.told(&due(600), ADDRESS, at(600));
    assert_eq!(told.due(&findings, &Timings::default(), at(601)).len(), 20, "the next ones");
    assert_eq!(told.seen(&findings, ADDRESS, at(660)).standing.len(), 100);
}

#[test]
fn a_call_belongs_to_one_sweep_for_a_minute() {
    let record = Notices::default();
    assert!(record.may_try(at(0)));
    let tried = record.tried(at(0));
    assert_eq!([0, 59, 60].map(|second| tried.may_try(at(second))), [false, false, true]);
    assert!(tried.told(&[], ADDRESS, at(1)).may_try(at(1)));
}

/// An App's findings end with the App.
#[test]
fn the_findings_of_a_removed_app_are_forgotten() {
    let two: AppName = "two".parse().expect("a name");
    let (lacks, checks) = (vec!["it is broken".to_owned()], vec![AppCheck::Installed]);
    let broken = AppStatus { lacks, checks, ..AppStatus::default() };
    let both = [(AppName::MAIN, AppStatus::default()), (two, broken)];
    let lacks = |record: &Notices| record.app_status(at(9)).map(|(when, all)| (when, all.lacks));
    let record = Notices::default().with_apps(&both, at(1));
    assert_eq!(lacks(&record), Some((at(1), vec!["it is broken".to_owned()])));
    let record = record.with_apps(&both[..1], at(9));
    assert_eq!(lacks(&record), Some((at(9), Vec::new())));
}
