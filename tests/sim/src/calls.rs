//! How often the doors were knocked at, as the real services would count it.

use crate::world::World;

/// Calls since the world began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// `GetItem`, `BatchGetItem` and `Query`.
    pub reads: u64,
    /// Records that listings answered with.
    pub rows: u64,
    /// Commits that were carried out.
    pub commits: u64,
    /// Commits that met another writer.
    pub conflicts: u64,
    /// `CreateFleet`.
    pub launches: u64,
    /// Fleets that were made.
    pub fleets: u64,
    /// `TerminateInstances`.
    pub terminates: u64,
    /// EC2, all others.
    pub looks: u64,
    /// GitHub, lists included.
    pub github: u64,
    /// GitHub's list of runners, by which a runner is found by name.
    pub github_lists: u64,
}

impl Calls {
    /// Of the tables: reads and commits. What conflicts is not among them.
    #[must_use]
    pub const fn table(&self) -> u64 {
        self.reads + self.commits
    }

    /// Of EC2.
    #[must_use]
    pub const fn ec2(&self) -> u64 {
        self.launches + self.terminates + self.looks
    }
}

impl World {
    /// Enters a run's calls in its tally.
    pub(crate) fn count_work(&mut self) {
        let (tally, calls) = (&mut self.tally, &self.calls);
        (tally.table_calls, tally.ec2_calls) = (calls.table() + calls.conflicts, calls.ec2());
        tally.github_calls = calls.github;
        tally.messages = self.queues.sent();
        tally.audit_lines = self.tables.audits.len() as u64;
    }
}
