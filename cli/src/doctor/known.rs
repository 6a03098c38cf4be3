//! Sorts the findings of the admin function into checks.

use super::{Check, Facts, Group, found, unasked};

/// The checks, each with the prefixes of its kinds of findings. A finding belongs to the first
/// check that has a matching prefix.
const CHECKS: [(Group, &str, &[&str]); 10] = [
    (Group::Github, "app", &["app-"]),
    (Group::Github, "registration", &["entity-refused", "registrations-fail", "github-limit"]),
    (Group::Jobs, "served", &["unserved", "awaiting-approval"]),
    (Group::Jobs, "switches", &["launches-paused", "deletes-paused", "pool-paused"]),
    (Group::Jobs, "limits", &["limit-reached"]),
    (Group::Jobs, "machines", &["pool-failing", "pool-late-end", "pool-agent"]),
    (Group::Jobs, "pools", &["pool-"]),
    (Group::Jobs, "EC2", &["ec2-"]),
    (Group::Jobs, "orphans", &["orphans", "strays"]),
    (Group::Stack, "records", &[""]),
];

pub(super) fn check(facts: &Facts) -> Vec<Check> {
    let Some(running) = &facts.running else { return Vec::new() };
    let status = match running.said() {
        Ok(status) => status,
        Err(unknown) => {
            let checks = [(Group::Github, "app"), (Group::Jobs, "served")];
            return checks.map(|(group, id)| unasked(group, id, &unknown)).into();
        }
    };
    let place = |kind: &str| {
        let begins = |words: &[&str]| words.iter().any(|word| kind.starts_with(word));
        CHECKS.iter().position(|(_, _, words)| begins(words))
    };
    let check = |(number, (group, id, _)): (usize, &(Group, &'static str, _))| {
        let all = status.overview.findings.iter();
        let own = all.filter(|one| place(one.kind()) == Some(number));
        found(*group, id, own.cloned().collect())
    };
    CHECKS.iter().enumerate().flat_map(check).collect()
}
