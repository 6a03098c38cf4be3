//! Every state of one machine's way out.

use std::io::Write as _;

use muster_explore::search::{Report, explore};
use muster_explore::stop::{Config, DeadGithub, Stop};

/// Stops a world that does not close.
const LIMIT: usize = 10_000_000;
/// All orders but the one that also kills: that is the dead worlds'.
const ORDERS: &[usize] = &[0, 1, 2, 3, 4];
/// Force past 401, and the same past a running job.
const FORCE: &[usize] = &[3, 5];

fn complete(name: &str, config: Config, acts: &[&str]) -> Report {
    let report = match explore(&Stop::new(config), LIMIT) {
        Ok(report) => report,
        Err(found) => panic!("{name}: {found}"),
    };
    writeln!(std::io::stdout().lock(), "{name}: {report}").expect("stdout");
    for act in acts {
        assert!(report.did(act), "{name}: never happened: {act}; what did: {:#?}", report.acts);
    }
    report
}

/// Any single fault at any moment, beside a GitHub that denies running jobs whenever it likes.
#[test]
fn any_fault() {
    let config = Config { faults: 1, orders: 0, kinds: &[], workers: 2, lies: true, github: None };
    let acts = [
        "GitHub says not busy, and it is",
        "GitHub answers 204 though a job runs",
        "GitHub answers 422",
        "GitHub answers 404",
        "GitHub answers 401",
        "GitHub answers 429",
        "GitHub answers 500",
        "EC2 does not know the machine, and has it",
        "EC2 shows the machine as it was",
        "EC2 terminates the machine, and its answer is lost",
        "EC2 does not know the machine to terminate",
        "the machine dies",
        "the machine is stopped",
        "the machine's software hangs",
        "the hook is refused",
        "the hook has asked for ten minutes",
        "there is no hook",
        "the hook's report is on record, its answer is lost",
        "worker {} is stopped",
        "is lost",
        "time passes while there is work",
    ];
    complete("any fault", config, &acts);
}

/// An order of any kind at any moment.
#[test]
fn any_order() {
    let config =
        Config { faults: 0, orders: 1, kinds: ORDERS, workers: 2, lies: true, github: None };
    let acts = [
        "orders a forced delete",
        "orders a delete that kills the job",
        "the order is refused",
        "the order is accepted",
        "the configuration is on record and not handed out",
    ];
    complete("any order", config, &acts);
}

/// GitHub has rejected the App's credentials for good, EC2 is down for good: force ends it, and the ledger has
/// the machine.
#[test]
#[ignore = "half a million states: make soak"]
fn dead_providers_and_401() {
    let github = Some(DeadGithub::Unauthorized);
    let config = Config { faults: 0, orders: 1, kinds: FORCE, workers: 1, lies: false, github };
    let acts = [
        "GitHub answers no more",
        "EC2 answers no more",
        "gives the machine up, into the ledger",
        "EC2 answers again",
        "the sweep ends the machine in the orphan ledger",
    ];
    complete("dead providers, 401", config, &acts);
}

/// The same with a GitHub that does not answer at all.
#[test]
#[ignore = "more than half a million states: make soak"]
fn dead_providers_and_silence() {
    let github = Some(DeadGithub::Unavailable);
    let config = Config { faults: 0, orders: 1, kinds: FORCE, workers: 1, lies: false, github };
    let acts = ["GitHub answers no more", "EC2 answers no more"];
    complete("dead providers, silence", config, &acts);
}

/// Two faults at any two moments: minutes rather than seconds, so only by `make soak`.
#[test]
#[ignore = "millions of states: make soak"]
fn any_two_faults() {
    let config = Config { faults: 2, orders: 0, kinds: &[], workers: 2, lies: true, github: None };
    complete("any two faults", config, &[]);
}

/// An order of each kind and any single fault.
#[test]
#[ignore = "millions of states: make soak"]
fn any_order_and_any_fault() {
    for kinds in [&[0], &[1], &[2], &[3], &[4]] {
        let config = Config { faults: 1, orders: 1, kinds, workers: 2, lies: true, github: None };
        complete("any order and any fault", config, &[]);
    }
}
