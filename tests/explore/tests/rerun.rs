//! Every interleaving around the re-run of an interrupted job.

use std::io::Write as _;

use muster_explore::rerun::{Interrupted, Without};
use muster_explore::search::explore;

/// Stops a world that does not close.
const LIMIT: usize = 2_000_000;

/// No job that failed by itself is re-run, no interrupted job is missed, and no attempt is followed
/// by two of Muster's.
#[test]
fn only_and_all_interrupted_jobs_are_run_again() {
    let report = match explore(&Interrupted::new(Without::default()), LIMIT) {
        Ok(report) => report,
        Err(found) => panic!("{found}"),
    };
    writeln!(std::io::stdout().lock(), "{report}").expect("stdout");
    let acts = [
        "the answer is lost",
        "a late request arrives",
        "a sweep is stopped",
        "a person re-runs",
        "it is too late to send",
        "a job of a later attempt fails",
    ];
    for act in acts {
        assert!(report.did(act), "never happened: {act}; what did: {:#?}", report.acts);
    }
}

/// GitHub tells of both jobs before EC2 tells of the second machine.
#[test]
fn without_the_settle_rule_a_job_is_missed() {
    let without = Without { settle_rule: true, ..Without::default() };
    let found = explore(&Interrupted::new(without), LIMIT).expect_err("a job is missed");
    assert!(found.to_string().contains("is missed"), "{found}");
}

/// A person's attempt begins and ends between the look and the call.
#[test]
fn with_an_old_report_an_honest_failure_is_run_again() {
    let without = Without { fresh_report: true, ..Without::default() };
    let found = explore(&Interrupted::new(without), LIMIT).expect_err("a job that failed");
    assert!(found.to_string().contains("was not interrupted"), "{found}");
}
