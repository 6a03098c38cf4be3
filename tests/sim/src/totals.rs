//! What many seeds amount to.

use std::fmt::Write as _;

use crate::fault::{Counts, Fault};
use crate::run::SeedOutcome;
use crate::tally::Tally;

/// So many days meet every kind of fault, each a hundred times.
const MANY: u64 = 2_000;

/// So many days say how far the record of usage is off the bill: a fiftieth at most.
const SOME: u64 = 500;

/// Something that is to be had for little.
#[derive(Clone, Copy, Debug)]
struct Cost {
    what: &'static str,
    count: u64,
    per: &'static str,
    of: u64,
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    fn each(&self) -> f64 {
        self.count as f64 / self.of.max(1) as f64
    }
}

const fn cost(what: &'static str, count: u64, per: &'static str, of: u64) -> Cost {
    Cost { what, count, per, of }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:.5} a {}", self.what, self.each(), self.per)
    }
}

/// The sum over seeds. The order in which they are added does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many.
    pub seeds: u64,
    /// Seeds under which an invariant broke.
    pub failed: u64,
    /// Events.
    pub steps: u64,
    /// How often each fault struck.
    pub counts: Counts,
    /// Everything else.
    pub tally: Tally,
}

impl Totals {
    /// Adds a seed.
    pub fn add(&mut self, outcome: &SeedOutcome) {
        self.seeds += 1;
        self.failed += u64::from(outcome.violation.is_some());
        self.steps += outcome.steps;
        self.counts.merge(&outcome.counts);
        self.tally.add(&outcome.tally);
    }

    /// What must not be, a sentence each: a count that should be zero; and of many days a kind of
    /// fault that never struck. What the days cost is told, and no complaint.
    #[must_use]
    pub fn complaints(&self, without: &[Fault]) -> Vec<String> {
        let counted = self.zeros().into_iter().filter(|(_, count)| *count > 0);
        let mut all: Vec<String> =
            counted.map(|(name, count)| format!("{name}: {count}")).collect();
        if self.seeds >= MANY {
            let missed = Fault::ALL.iter().filter(|fault| self.counts.of(**fault) == 0);
            let missed = missed.filter(|fault| !without.contains(fault));
            all.extend(missed.map(|fault| format!("{} never struck", fault.as_str())));
        }
        let Tally { told, spent, .. } = self.tally;
        if self.seeds >= SOME && told.abs_diff(spent) * 50 > spent {
            all.push(format!("usage tells {told}, the bill {spent}"));
        }
        all
    }

    /// How well: what was spent of each, and for how much.
    const fn costs(&self) -> [Cost; 12] {
        let tally = &self.tally;
        let claimed = tally.claimed_promptly + tally.claimed_in_a_minute + tally.claimed_later;
        let (jobs, served, machines) = (tally.jobs, tally.served, tally.machines);
        [
            cost("jobs refused in their set-up", tally.refused, "job", jobs),
            cost("claims after more than a minute", tally.claimed_later, "claim", claimed),
            cost("machines in vain", tally.in_vain, "machine", machines),
            cost("dollars in vain", tally.wasted, "dollar", tally.spent),
            cost("dollars told by usage", tally.told, "dollar", tally.spent),
            cost("registrations left", tally.registrations_left, "machine", machines),
            cost("machines", machines, "job served", served),
            cost("calls of the tables", tally.table_calls, "job served", served),
            cost("calls of EC2", tally.ec2_calls, "machine", machines),
            cost("calls of GitHub", tally.github_calls, "machine", machines),
            cost("messages", tally.messages, "machine", machines),
            cost("lines of the audit trail", tally.audit_lines, "machine", machines),
        ]
    }

    /// What must be zero, by name.
    #[must_use]
    pub const fn zeros(&self) -> [(&'static str, u64); 6] {
        let tally = &self.tally;
        [
            ("broken invariants", self.failed),
            ("leaked machines", tally.leaked),
            ("lost jobs", tally.lost),
            ("double launches", tally.doubled),
            ("busy kills, GitHub truthful", tally.busy_kills_truthful),
            ("busy kills, GitHub lying, job on record", tally.busy_kills_hooked),
        ]
    }

    /// The zeros, the one class of busy kills that may happen, and everything else that is counted:
    /// what became of the jobs, then what it took.
    #[must_use]
    pub fn summary(&self) -> String {
        let tally = &self.tally;
        let mut text = String::new();
        for (name, count) in self.zeros() {
            let _ = writeln!(text, "{name:<42} {count:>12}");
        }
        let unseen = tally.busy_kills_unseen;
        let _ = writeln!(
            text,
            "{:<42} {unseen:>12} of {} such jobs, {} jobs in all",
            "busy kills, GitHub lying, no hook, no event", tally.unseen_jobs, tally.jobs
        );
        for (name, count) in [
            ("jobs that ran to their end", tally.served),
            ("jobs with room, claimed within 5 seconds", tally.claimed_promptly),
            ("… within a minute", tally.claimed_in_a_minute),
            ("… later", tally.claimed_later),
            ("jobs cancelled", tally.cancelled),
            ("jobs that no pool serves", tally.not_ours),
            ("jobs whose events a fault took", tally.never_heard_of),
            ("jobs refused in their set-up", tally.refused),
            ("jobs that the pool of their runner does not serve", tally.foreign),
            ("jobs cut off by the cloud itself", tally.lost_to_cloud),
            ("jobs killed by an order or by their age", tally.killed_by_order),
            ("… by their age, in the first half of it", tally.cut_short),
            ("… by one that bypassed GitHub, unseen", tally.busy_kills_bypassed),
            ("jobs that waited for an approval", tally.gated),
            ("… and had it", tally.approved),
            ("machines launched", tally.machines),
            ("… for a job, and ran no job's step", tally.in_vain),
            ("dollars spent on machines", tally.spent / 1_000_000),
            ("… launched for a job that ran no step", tally.wasted / 1_000_000),
            ("… kept idle until their end", tally.kept_idle / 1_000_000),
            ("calls of the tables", tally.table_calls),
            ("calls of EC2", tally.ec2_calls),
            ("calls of GitHub", tally.github_calls),
            ("messages sent", tally.messages),
            ("lines of the audit trail", tally.audit_lines),
            ("machines given up to the ledger by force", tally.given_up),
            ("registrations left at GitHub", tally.registrations_left),
            ("invocations", tally.invocations),
            ("dead letters", tally.dead_letters),
            ("webhook deliveries repeated", tally.redelivered),
        ] {
            let _ = writeln!(text, "{name:<42} {count:>12}");
        }
        for cost in self.costs() {
            let _ = writeln!(text, "{cost}");
        }
        text
    }

    /// How often each fault struck, several a line.
    #[must_use]
    pub fn faults(&self) -> String {
        let mut text = String::new();
        for line in Fault::ALL.chunks(3) {
            for fault in line {
                let _ = write!(text, "{:>24} {:>10}", fault.as_str(), self.counts.of(*fault));
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_may_miss_faults_and_many_days_may_not() {
        let mut totals = Totals { seeds: MANY - 1, ..Totals::default() };
        assert_eq!(totals.complaints(&[]), Vec::<String>::new());
        totals.seeds = MANY;
        assert_eq!(totals.complaints(&[]).len(), Fault::ALL.len());
        assert_eq!(totals.complaints(Fault::ALL), Vec::<String>::new());
    }

    #[test]
    fn costs_are_told_and_no_complaint() {
        let mut totals = Totals { seeds: MANY, ..Totals::default() };
        let tally = &mut totals.tally;
        (tally.served, tally.machines, tally.spent, tally.wasted) = (90, 300, 1_000, 140);
        tally.told = 1_020;
        assert_eq!(totals.complaints(Fault::ALL), Vec::<String>::new());
        let told = totals.summary();
        for line in ["dollars in vain: 0.14000 a dollar", "machines: 3.33333 a job served"] {
            assert!(told.lines().any(|told| told == line), "{line} is not in\n{told}");
        }
    }

    #[test]
    fn usage_is_a_fiftieth_off_the_bill_at_most() {
        let mut totals = Totals { seeds: SOME, ..Totals::default() };
        (totals.tally.spent, totals.tally.told) = (1_000, 979);
        assert_eq!(totals.complaints(&[]), ["usage tells 979, the bill 1000"]);
        totals.tally.told = 980;
        assert_eq!(totals.complaints(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_lost_job_is_a_complaint_on_any_day() {
        let mut totals = Totals { seeds: 1, ..Totals::default() };
        totals.tally.lost = 2;
        assert_eq!(totals.complaints(&[]), ["lost jobs: 2"]);
    }
}
