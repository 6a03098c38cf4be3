//! Every state of the triangle launch – binding – claim.

use std::io::Write as _;

use muster_explore::floors;
use muster_explore::rules::Rules;
use muster_explore::search::{Report, explore};
use muster_explore::triangle::{Config, FAULTS, Fault, Grain, Triangle};

/// Stops a world that does not close.
const LIMIT: usize = 3_000_000;

fn complete(name: &str, config: Config) -> Report {
    let report = match explore(&Triangle::new(config, Rules::real()), LIMIT) {
        Ok(report) => report,
        Err(found) => panic!("{name}: {found}"),
    };
    writeln!(std::io::stdout().lock(), "{name}: {report}").expect("stdout");
    report
}

fn expect_acts(report: &Report, acts: &[&str]) {
    for act in acts {
        assert!(report.did(act), "never happened: {act}; what did: {:#?}", report.acts);
    }
}

/// Two jobs, two machines, two Lambdas: any single fault at any moment.
#[test]
fn two_jobs_and_any_fault() {
    let config =
        Config { max: 2, faults: 1, kinds: FAULTS, grain: Grain::Effect, jobs: 2, late: false };
    let report = complete("two jobs", config);
    expect_acts(
        &report,
        &[
            "which was meant for another",
            "calls runner-api and binds itself",
            "answers a replayed token as the first time",
            "answers a replayed token with nothing",
            "answers a replayed token with its errors",
            "launches, and its answer is lost",
            "the launch that was under way reaches EC2",
            "is stopped",
            "is stopped before its ack",
            "once more",
            "`in_progress` of job {} is lost",
            "time passes while there is work",
            "takes machine {} back",
            "is cancelled",
        ],
    );
    assert!(report.states >= floors::TRIANGLE, "{report}");
}

/// One job: any two faults at any two moments.
#[test]
fn one_job_and_any_two_faults() {
    let config =
        Config { max: 2, faults: 2, kinds: FAULTS, grain: Grain::Effect, jobs: 1, late: false };
    let report = complete("one job", config);
    expect_acts(&report, &["is stopped", "hangs", "throttles the launch"]);
    assert!(report.states >= floors::TRIANGLE_PAIRS, "{report}");
}

/// EC2 at its worst: one launch without any answer until it is given up, and what shows up later is
/// a stray.
#[test]
fn one_launch_without_an_answer() {
    let kinds = &[Fault::Ambiguous, Fault::UnderWay, Fault::LateTag, Fault::Hang];
    let config = Config { max: 1, faults: 7, kinds, grain: Grain::Effect, jobs: 1, late: false };
    let report = complete("one launch", config);
    expect_acts(&report, &["the sweep ends stray machine"]);
}

/// The same two jobs cut finely: anything may come between any two verbs, without faults.
#[test]
fn two_jobs_between_any_two_verbs() {
    let config = Config { max: 2, faults: 0, kinds: &[], grain: Grain::Verb, jobs: 2, late: false };
    let report = complete("two jobs, finely", config);
    expect_acts(&report, &["meets a conflict", "which was meant for another"]);
}

/// A job is given to a runner that is on its way out, and GitHub denies it: once, or at each look.
/// The other machine is there as well.
#[test]
fn a_late_job_and_two_lies() {
    lies("a late job, lies", 2, &[Fault::Cancel, Fault::Lie], floors::TRIANGLE_LIES);
}

/// The same on one machine, where a Lambda may stop in place of the second lie.
#[test]
fn a_late_job_a_lie_and_a_crash() {
    let kinds = &[Fault::Cancel, Fault::Lie, Fault::Crash];
    lies("a late job, a lie, a crash", 1, kinds, floors::TRIANGLE_LIE_AND_CRASH);
}

fn lies(name: &str, max: u32, kinds: &'static [Fault], floor: usize) {
    let config = Config { max, faults: 3, kinds, grain: Grain::Effect, jobs: 2, late: true };
    let report = complete(name, config);
    expect_acts(
        &report,
        &[
            "comes late",
            "is told not busy of a busy runner, and commits",
            "is told not busy of a busy runner, and rests",
            "removes a busy runner, answered with 204",
        ],
    );
    assert!(report.states >= floor, "{report}");
}
