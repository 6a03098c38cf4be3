//! The jobs of lines.

use std::collections::BTreeMap;

use muster_domain::ids::{Entity, JobKey};
use muster_domain::usage::{Line, UsageKind};

use super::ReplayedJob;
use crate::agenda::Millis;

/// Each job once, by when it came, in milliseconds after `begin`.
pub(super) fn of(lines: &[Line], begin: Millis) -> Vec<ReplayedJob> {
    let mut jobs: BTreeMap<JobKey, &Line> = BTreeMap::new();
    for line in lines {
        let Some(job) = &line.job else { continue };
        let known = jobs.entry(job.key).or_insert(line);
        // The line of its machine knows more.
        if known.kind == UsageKind::Job {
            *known = line;
        }
    }
    let mut jobs: Vec<ReplayedJob> = jobs.values().filter_map(|line| job(line, begin)).collect();
    jobs.sort_by(|a, b| (a.at, &a.repository, a.length).cmp(&(b.at, &b.repository, b.length)));
    jobs
}

fn job(line: &Line, begin: Millis) -> Option<ReplayedJob> {
    let job = line.job.as_ref()?;
    let (at, t) = (line.since.as_millis() - begin, &line.t);
    let end = t.completed.unwrap_or(t.ended);
    let ran = t.started.map(|started| (end - started).max(0));
    let has_left = line.kind == UsageKind::Job;
    if has_left && end < 0 {
        // It ended before it could have had a runner.
        return None;
    }
    Some(ReplayedJob {
        at,
        left_at: has_left.then(|| at + t.started.unwrap_or(end).max(0)),
        repository: job.repository.to_string(),
        private: job.private,
        labels: job.labels.clone(),
        // One that left would have worked until somebody cancelled it.
        length: ran.filter(|_| !has_left),
    })
}

/// The owner of most jobs' repositories.
#[must_use]
pub fn owner(lines: &[Line]) -> Option<Entity> {
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    for job in lines.iter().filter_map(|line| line.job.as_ref()) {
        *owners.entry(job.repository.split('/').next()?).or_default() += 1;
    }
    owners.into_iter().max_by_key(|(_, jobs)| *jobs)?.0.parse().ok()
}
