//! Groupings of costs.

use serde::{Deserialize, Serialize};

/// The grouping key of the rows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// By repository.
    #[default]
    Repository,
    /// By workflow of a repository.
    Workflow,
    /// By job name within a workflow.
    Job,
    /// By pull request of a repository.
    PullRequest,
    /// By the GitHub user who caused the run.
    Actor,
    /// By pool.
    Pool,
    /// By instance type and market.
    Type,
    /// By attempt of the workflow run: what re-runs cost.
    Attempt,
    /// By day.
    Day,
}

impl By {
    /// The row of jobs without a recorded actor.
    pub const NO_ACTOR: &'static str = "not recorded";

    /// Returns whether machines that ran no job are included in the rows. Otherwise their costs are
    /// in the rest.
    #[must_use]
    pub const fn is_of_machines(self) -> bool {
        matches!(self, Self::Pool | Self::Type | Self::Day)
    }

    /// Returns whether the number of rows is unbounded. Days in long-term storage do not have such
    /// keys, so the rows come from usage records.
    #[must_use]
    pub const fn is_unbounded(self) -> bool {
        matches!(self, Self::Job | Self::PullRequest | Self::Actor)
    }
}
