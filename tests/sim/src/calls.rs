//! How often the doors were knocked at, as the real services would count it.

/// Calls since the world began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// `GetItem`, `BatchGetItem` and `Query`.
    pub reads: u64,
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
}
