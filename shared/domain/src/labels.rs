//! Label matching. A label selects a pool and nothing else; no text of a label reaches EC2.

use serde::{Deserialize, Serialize};

/// A set of labels, lower-cased and sorted. GitHub compares labels without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Labels(Vec<String>);

/// The label GitHub puts on every self-hosted runner by itself.
const SELF_HOSTED: &str = "self-hosted";

impl Labels {
    /// Lower-cases, sorts and removes duplicates.
    pub fn new<I, S>(labels: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let mut labels: Vec<String> =
            labels.into_iter().map(|label| label.as_ref().trim().to_lowercase()).collect();
        labels.retain(|label| !label.is_empty());
        labels.sort();
        labels.dedup();
        Self(labels)
    }

    /// Whether there is no label at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The labels in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The labels of a job that a runner with these labels does not carry. `self-hosted` is never
    /// missing. Empty means that the runner can take the job.
    #[must_use]
    pub fn missing_for(&self, job: &Self) -> Vec<String> {
        job.iter()
            .filter(|label| *label != SELF_HOSTED && !self.0.iter().any(|own| own == label))
            .map(str::to_owned)
            .collect()
    }

    /// Whether a runner with these labels can take a job with those. A job without labels asks for
    /// nothing of ours: GitHub sends such events for hosted runners and in odd `completed` events.
    #[must_use]
    pub fn can_run(&self, job: &Self) -> bool {
        !job.is_empty() && self.missing_for(job).is_empty()
    }
}

impl From<Vec<String>> for Labels {
    fn from(labels: Vec<String>) -> Self {
        Self::new(labels)
    }
}

impl From<Labels> for Vec<String> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_takes_jobs_that_ask_for_a_subset_in_any_case() {
        let runner = Labels::new(["Linux", "X64", "gpu"]);
        assert!(runner.can_run(&Labels::new(["linux", "GPU"])));
        assert!(runner.can_run(&Labels::new(["self-hosted"])));
        assert!(runner.can_run(&Labels::new(["self-hosted", "x64"])));
        assert!(!runner.can_run(&Labels::new(["self-hosted", "arm64"])));
        assert!(!runner.can_run(&Labels::default()));
        assert_eq!(runner.missing_for(&Labels::new(["arm64", "gpu"])), ["arm64"]);
    }
}
