//! How often the doors were knocked at, as the real services would count it.

/// Calls since the world began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// `GetItem`, `BatchGetItem` and `Query`.
    pub reads: u64,
    /// `TerminateInstances`.
    pub terminates: u64,
    /// GitHub, lists included.
    pub github: u64,
    /// GitHub's list of runners, by which a runner is found by name.
    pub github_lists: u64,
}
