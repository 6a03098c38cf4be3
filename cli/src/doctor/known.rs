//! Sorts the findings of the admin function into checks.

use super::{Check, CheckGroup, Facts, found, unasked};

/// The checks, each with the prefixes of its kinds of findings. A finding belongs to the first
/// check that has a matching prefix.
const CHECKS: [(CheckGroup, &str, &[&str]); 12] = [
    (CheckGroup::Github, "app", &["app-"]),
    (CheckGroup::Github, "registration", &["entity-refused", "registrations-fail", "github-limit"]),
    (CheckGroup::Jobs, "served", &["unserved", "awaiting-approval"]),
    (CheckGroup::Jobs, "switches", &["launches-paused", "deletes-paused", "pool-paused"]),
    (CheckGroup::Jobs, "limits", &["limit-reached"]),
    (CheckGroup::Jobs, "machines", &["pool-failing", "pool-late-end", "pool-agent"]),
    (CheckGroup::Jobs, "pools", &["pool-"]),
    (CheckGroup::Jobs, "EC2", &["ec2-"]),
    (CheckGroup::Jobs, "interruptions", &["spot-", "rerun-"]),
    (CheckGroup::Jobs, "orphans", &["orphans", "strays"]),
    (CheckGroup::Stack, "image builds", &["image-builds"]),
    (CheckGroup::Stack, "records", &[""]),
];

pub(super) fn check(facts: &Facts) -> Vec<Check> {
    let Some(running) = &facts.running else { return Vec::new() };
    let status = match running.said() {
        Ok(status) => status,
        Err(unknown) => {
            let checks = [(CheckGroup::Github, "app"), (CheckGroup::Jobs, "served")];
            return checks.map(|(group, id)| unasked(group, id, &unknown)).into();
        }
    };
    let place = |kind: &str| {
        let begins = |words: &[&str]| words.iter().any(|word| kind.starts_with(word));
        CHECKS.iter().position(|(_, _, words)| begins(words))
    };
    let check = |(number, (group, id, _)): (usize, &(CheckGroup, &'static str, _))| {
        let all = status.overview.findings.iter();
        let own = all.filter(|one| place(one.kind()) == Some(number));
        found(*group, id, own.cloned().collect())
    };
    CHECKS.iter().enumerate().flat_map(check).collect()
}
