//! What many seeds amount to.

use std::fmt::Write as _;

use crate::fault::{Counts, Fault};
use crate::run::SeedOutcome;
use crate::tally::Tally;

/// So many days meet every kind of fault.
const MEET_ALL: u64 = 20_000;
/// So many are enough to say what a day costs.
const MANY: u64 = 2_000;

/// Something that is to be had for little.
#[derive(Clone, Copy, Debug)]
struct Cost {
    what: &'static str,
    count: u64,
    per: &'static str,
    of: u64,
    usual: f64,
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    fn each(&self) -> f64 {
        self.count as f64 / self.of.max(1) as f64
    }
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

    /// What must not be, a sentence each: a count that should be zero; and of so many days that
    /// they meet every kind of fault, one that never struck, or a stack that served fewer than half
    /// of its jobs. Of many days with all faults also what cost too much.
    #[must_use]
    pub fn complaints(&self, without: &[Fault]) -> Vec<String> {
        let counted = self.zeros().into_iter().filter(|(_, count)| *count > 0);
        let mut all: Vec<String> =
            counted.map(|(name, count)| format!("{name}: {count}")).collect();
        if self.seeds >= MEET_ALL {
            let missed = Fault::ALL.iter().filter(|fault| self.counts.of(**fault) == 0);
            let missed = missed.filter(|fault| !without.contains(fault));
            all.extend(missed.map(|fault| format!("{} never struck", fault.as_str())));
            let Tally { jobs, served, gated, approved, .. } = self.tally;
            if gated == 0 || approved == 0 {
                all.push(format!("{gated} jobs waited for an approval, {approved} had it"));
            }
            if served * 2 <= jobs {
                all.push(format!("of {jobs} jobs {served} were served"));
            }
        }
        if self.seeds >= MANY && without.is_empty() {
            all.extend(self.excesses());
        }
        all
    }

    /// How well: what was spent of each, and for how much, with what days had when that was written
    /// down.
    fn costs(&self) -> [Cost; 11] {
        let tally = &self.tally;
        let claimed = tally.claimed_promptly + tally.claimed_in_a_minute + tally.claimed_later;
        let cost = |what, count, per, of, usual| Cost { what, count, per, of, usual };
        [
            cost("jobs refused in their set-up", tally.refused, "job", tally.jobs, 0.000_95),
            cost("claims after more than a minute", tally.claimed_later, "claim", claimed, 0.077),
            cost("machines in vain", tally.in_vain, "machine", tally.machines, 0.2),
            cost("dollars in vain", tally.wasted, "dollar", tally.spent, 0.086),
            cost("registrations left", tally.registrations_left, "machine", tally.machines, 0.09),
            cost("machines", tally.machines, "job served", tally.served, 2.0),
            cost("calls of the tables", tally.table_calls, "job served", tally.served, 1_040.0),
            cost("calls of EC2", tally.ec2_calls, "machine", tally.machines, 6.9),
            cost("calls of GitHub", tally.github_calls, "machine", tally.machines, 10.6),
            cost("messages", tally.messages, "machine", tally.machines, 19.5),
            cost("lines of the audit trail", tally.audit_lines, "machine", tally.machines, 0.133),
        ]
    }

    /// What cost more than it usually does. Refused jobs, the rarest, were between 0.7 and 1.5 of a
    /// thousand in five runs of 2,000 days; all the others varied by a fifth at most.
    fn excesses(&self) -> impl Iterator<Item = String> {
        let slack = if self.seeds >= MEET_ALL { 1.15 } else { 1.6 };
        let beyond = self.costs().into_iter().filter(move |cost| cost.each() > cost.usual * slack);
        beyond.map(|cost| format!("{cost}, usually {}", cost.usual))
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
        let mut totals = Totals { seeds: MEET_ALL - 1, ..Totals::default() };
        assert_eq!(totals.complaints(&[]), Vec::<String>::new());
        totals.seeds = MEET_ALL;
        assert_eq!(totals.complaints(&[]).len(), Fault::ALL.len() + 2);
        let unserved = "of 0 jobs 0 were served";
        let ungated = "0 jobs waited for an approval, 0 had it";
        assert_eq!(totals.complaints(Fault::ALL), [ungated, unserved]);
        (totals.tally.jobs, totals.tally.served) = (10, 6);
        (totals.tally.gated, totals.tally.approved) = (2, 1);
        assert_eq!(totals.complaints(Fault::ALL), Vec::<String>::new());
    }

    #[test]
    fn what_costs_too_much_is_a_complaint_beside_all_faults() {
        let mut totals = Totals { seeds: MANY, ..Totals::default() };
        let tally = &mut totals.tally;
        (tally.jobs, tally.served, tally.gated, tally.approved) = (100, 90, 2, 1);
        (tally.machines, tally.spent, tally.wasted) = (180, 1_000, 86);
        assert_eq!(totals.complaints(&[]), Vec::<String>::new());
        (totals.tally.machines, totals.tally.wasted) = (300, 140);
        let told = [
            "dollars in vain: 0.14000 a dollar, usually 0.086",
            "machines: 3.33333 a job served, usually 2",
        ];
        assert_eq!(totals.complaints(&[]), told);
        assert_eq!(totals.complaints(&[Fault::Crash]), Vec::<String>::new());
    }

    #[test]
    fn a_lost_job_is_a_complaint_on_any_day() {
        let mut totals = Totals { seeds: 1, ..Totals::default() };
        totals.tally.lost = 2;
        assert_eq!(totals.complaints(&[]), ["lost jobs: 2"]);
    }
}
