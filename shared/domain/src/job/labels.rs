//! Label matching. A label only selects a pool; no label text reaches EC2.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A set of labels, lower-cased and sorted. GitHub compares labels case-insensitively.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Labels(Arc<[String]>);

/// The label that all self-hosted runners share. `config.sh` adds it automatically. For a
/// just-in-time configuration, GitHub documents only that the runner gets the requested labels, so
/// Muster requests this one explicitly.
/// Source: docs.github.com/en/rest/actions/self-hosted-runners, "Create configuration for a
/// just-in-time runner"
const SELF_HOSTED: &str = "self-hosted";

impl Labels {
    /// Creates a set: lower-cases, sorts and removes duplicates.
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
        Self(labels.into())
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the labels in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns the labels that a job requests and a runner with this set does not have. Ignores
    /// `self-hosted`. If the result is empty, the runner can take the job.
    #[must_use]
    pub fn missing_for(&self, job: &Self) -> Vec<String> {
        self.missing(job).map(str::to_owned).collect()
    }

    fn missing<'a>(&'a self, job: &'a Self) -> impl Iterator<Item = &'a str> {
        job.iter().filter(|label| *label != SELF_HOSTED && !self.0.iter().any(|own| own == label))
    }

    /// Returns whether a job requests exactly these labels. Ignores `self-hosted`.
    #[must_use]
    pub fn is_exactly(&self, job: &Self) -> bool {
        let counts = |label: &&str| *label != SELF_HOSTED;
        self.iter().filter(counts).eq(job.iter().filter(counts))
    }
}

/// Alternative label sets ("rows"); a job needs to match only one. Serialized as one list or as a
/// list of lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "WrittenLabels", into = "Vec<Labels>")]
pub struct LabelRows(Vec<Labels>);

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenLabels {
    Row(Labels),
    Rows(Vec<Labels>),
}

impl LabelRows {
    /// Creates a single row.
    #[must_use]
    pub fn one(row: Labels) -> Self {
        Self(vec![row])
    }

    /// Creates rows. Drops empty ones, which serve no job.
    #[must_use]
    pub fn new(mut rows: Vec<Labels>) -> Self {
        rows.retain(|row| !row.is_empty());
        Self(rows)
    }

    /// Returns whether there are no rows, so that no job matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the rows in their written order.
    pub fn iter(&self) -> impl Iterator<Item = &Labels> {
        self.0.iter()
    }

    /// Returns the labels to register a runner with: the labels of all rows plus `self-hosted`,
    /// which most jobs also request.
    #[must_use]
    pub fn carried(&self) -> Labels {
        Labels::new(self.0.iter().flat_map(Labels::iter).chain([SELF_HOSTED]))
    }
}

impl From<WrittenLabels> for LabelRows {
    fn from(written: WrittenLabels) -> Self {
        Self::new(match written {
            WrittenLabels::Row(row) => vec![row],
            WrittenLabels::Rows(rows) => rows,
        })
    }
}

impl From<LabelRows> for Vec<Labels> {
    fn from(rows: LabelRows) -> Self {
        rows.0
    }
}

impl From<Vec<String>> for Labels {
    fn from(labels: Vec<String>) -> Self {
        Self::new(labels)
    }
}

impl From<Labels> for Vec<String> {
    fn from(labels: Labels) -> Self {
        labels.0.to_vec()
    }
}

/// Quotes each label, because one label can look like several (terraform-aws-github-runner #4760).
impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted: Vec<String> = self.iter().map(|label| format!("\"{label}\"")).collect();
        f.write_str(&quoted.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_takes_jobs_that_ask_for_a_subset_in_any_case() {
        let runner = Labels::new(["Linux", "X64", "gpu"]);
        assert!(runner.missing_for(&Labels::new(["linux", "GPU"])).is_empty());
        assert!(runner.missing_for(&Labels::new(["self-hosted"])).is_empty());
        assert!(runner.missing_for(&Labels::new(["self-hosted", "x64"])).is_empty());
        assert_eq!(runner.missing_for(&Labels::new(["arm64", "gpu"])), ["arm64"]);
    }

    /// The built-in pool's label compared with labels that other self-hosted runners use.
    #[test]
    fn a_word_of_ones_own_takes_nobody_elses_jobs() {
        let (own, common) = (Labels::new(["muster"]), Labels::new(["muster", "linux", "x64"]));
        let elses = Labels::new(["self-hosted", "linux", "x64"]);
        assert!(
            common.missing_for(&elses).is_empty(),
            "the word alone protects nothing, as long as others stand beside it"
        );
        assert_eq!(own.missing_for(&elses), ["linux", "x64"]);
        assert!(own.missing_for(&Labels::new(["self-hosted", "muster"])).is_empty());
        assert!(own.missing_for(&Labels::new(["muster"])).is_empty());
    }

    #[test]
    fn one_label_does_not_read_like_several() {
        let text = |labels: &[&str]| Labels::new(labels).to_string();
        assert_eq!(text(&["a, b, c", "d"]), r#""a, b, c", "d""#);
        assert_eq!(text(&["a", "b", "c", "d"]), r#""a", "b", "c", "d""#);
    }

    #[test]
    fn exactly_is_without_regard_to_order_case_and_self_hosted() {
        let row = Labels::new(["linux", "gpu"]);
        assert!(row.is_exactly(&Labels::new(["GPU", "Linux"])));
        assert!(row.is_exactly(&Labels::new(["gpu", "self-hosted", "linux"])));
        assert!(!row.is_exactly(&Labels::new(["linux"])));
        assert!(!row.is_exactly(&Labels::new(["linux", "gpu", "big"])));
    }

    #[test]
    fn rows_are_one_list_or_a_list_of_lists() {
        let read = |text: &str| serde_json::from_str::<LabelRows>(text).expect("rows");
        let one = read(r#"["linux", "X64"]"#);
        assert_eq!(one, LabelRows::one(Labels::new(["linux", "x64"])));
        let two = read(r#"[["linux", "x64"], [], ["gpu"]]"#);
        assert_eq!(two.iter().count(), 2);
        assert_eq!(two.carried(), Labels::new(["gpu", "linux", "self-hosted", "x64"]));
        assert_eq!(one.carried(), Labels::new(["linux", "self-hosted", "x64"]));
        let written = serde_json::to_string(&two).expect("text");
        assert_eq!(written, r#"[["linux","x64"],["gpu"]]"#);
        assert_eq!(read(&written), two);
        assert!(read("[]").is_empty());
    }
}
