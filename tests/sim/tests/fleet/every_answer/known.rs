//! What is so, and by whose decision.

use muster_sim::agenda::{MINUTE, Millis};
use muster_sim::fault::Fault;

/// How long the rules wait after such an answer, beside the sweep's minute.
pub(crate) fn allowed(fault: Fault, call: &str) -> Millis {
    match fault {
        // A recorded intent stands until its lease is over: another pass may be at it.
        Fault::CommitAnswerLost => 2 * MINUTE,
        Fault::CommitRefused | Fault::CommitCollided if call == "commit of Instance, Launch" => {
            2 * MINUTE
        }
        // What EC2 answered is lost, and is asked for again by the sweep after the launch's lease.
        Fault::CommitRefused | Fault::CommitCollided if call.contains("of BindMachine") => {
            3 * MINUTE
        }
        // `unauthorized_retry_seconds`.
        Fault::Unauthorized => 5 * MINUTE,
        // A runner that GitHub calls busy begins to idle anew.
        Fault::BusyLieIdle => 10 * MINUTE,
        _ => 0,
    }
}

/// Something that is wrong, and why it stays.
pub(crate) struct Known {
    /// Parts of the sentence that tells of it.
    pub(crate) told: &'static [&'static str],
    pub(crate) why: &'static str,
}

impl Known {
    pub(crate) fn is_about(&self, wrong: &str) -> bool {
        self.told.iter().all(|part| wrong.contains(part))
    }
}

pub(crate) const KNOWN: &[Known] = &[
    Known {
        told: &["request for a configuration", "configure_conflict: no record knows"],
        why: "a registration whose answer was lost is never used, and GitHub removes it after a day",
    },
    Known {
        told: &["request for a configuration", "(commit of Instance): commit_", "no record knows"],
        why: "the same: nobody may remove what no record leads to (I13)",
    },
    Known {
        told: &["sweep that asks for a silent job", "(job)", "the last machine was gone"],
        why: "nobody told us that the job is over: without GitHub's answer it is launched for",
    },
    Known { told: &["of a job that is over", "the last machine was gone"], why: "the same" },
    Known {
        told: &["sweep that finds strays", "the last machine was gone 300 s later"],
        why: "EC2's list is compared every five minutes, and a stray asks for its record meanwhile",
    },
    Known {
        told: &["launch pass of a canary", "(instances)", "the last machine was gone"],
        why: "its launch is leased to the pass that could not read its slot: the next call waits for that",
    },
    Known {
        told: &["reap pass of a runner", "(switches): unreadable", "the last machine was gone"],
        why: "an operator may have paused deletes, so the pass terminates nothing until its next due time",
    },
    Known { told: &["of a job that is over", "job_hidden", "with the claim"], why: "the same" },
];
