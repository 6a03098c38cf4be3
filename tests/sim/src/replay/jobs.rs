//! The jobs of lines.

use std::collections::BTreeMap;

use muster_domain::ids::{Entity, JobKey};
use muster_domain::usage::{Line, OfJob, UsageKind};

use super::ReplayedJob;
use crate::agenda::Millis;

/// A job of a workflow run, in whichever attempt: repository, run and name.
type RunJob<'a> = (&'a str, u64, &'a str);

fn run_job(job: &OfJob) -> RunJob<'_> {
    (&job.repository, job.run, &job.name)
}

/// The jobs of attempts that Muster ordered, for which it prefers On-Demand. `true` for a job that was in an
/// earlier attempt too: such a job is an effect of the pools. A job that needs the interrupted one is new there.
pub(super) type Reruns = BTreeMap<JobKey, bool>;

pub(super) fn reruns<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Reruns {
    let mut later: Vec<&OfJob> = Vec::new();
    let mut first: BTreeMap<RunJob<'_>, u32> = BTreeMap::new();
    for line in lines {
        let Some(job) = &line.job else { continue };
        let note = |attempt: &mut u32| *attempt = job.attempt.min(*attempt);
        first.entry(run_job(job)).and_modify(note).or_insert(job.attempt);
        if job.rerun.is_some() {
            later.push(job);
        }
    }
    let is_again = |job: &OfJob| first.get(&run_job(job)).is_some_and(|first| job.attempt > *first);
    later.into_iter().map(|job| (job.key, is_again(job))).collect()
}

pub(super) fn is_rerun(line: &Line, reruns: &Reruns) -> bool {
    line.job.as_ref().is_some_and(|job| reruns.get(&job.key) == Some(&true))
}

/// Returns each job once, by when it came, in milliseconds after `begin`.
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
    let reruns = reruns(lines);
    let lengths = Lengths::of(&jobs, &reruns);
    let own = jobs.values().filter(|line| !is_rerun(line, &reruns));
    let mut jobs: Vec<ReplayedJob> = own.filter_map(|line| job(line, begin, &lengths)).collect();
    jobs.sort_by(|a, b| (a.at, &a.repository, a.length).cmp(&(b.at, &b.repository, b.length)));
    jobs
}

/// How long jobs take that ended early.
struct Lengths<'a> {
    /// The last re-run of a job.
    again: BTreeMap<RunJob<'a>, Millis>,
    /// All jobs of a name in a repository.
    names: BTreeMap<(&'a str, &'a str), Vec<Millis>>,
}

impl<'a> Lengths<'a> {
    /// GitHub numbers jobs in order, so later attempts follow earlier ones.
    fn of(jobs: &BTreeMap<JobKey, &'a Line>, reruns: &Reruns) -> Self {
        let mut lengths = Self { again: BTreeMap::new(), names: BTreeMap::new() };
        for line in jobs.values().filter(|line| !line.is_interrupted()) {
            let Some((job, ran)) = line.job.as_ref().zip(ran(line)) else { continue };
            if is_rerun(line, reruns) {
                lengths.again.insert(run_job(job), ran);
            }
            lengths.names.entry((&job.repository, &job.name)).or_default().push(ran);
        }
        lengths.names.values_mut().for_each(|all| all.sort_unstable());
        lengths
    }

    /// Returns how long a job takes that does not end early. Unless it ran again, the median of its name is an estimate.
    fn whole(&self, line: &Line, job: &OfJob) -> Option<Millis> {
        let own = ran(line);
        if job.conclusion.as_deref() == Some("success") {
            return own;
        }
        let usual = || {
            let all = self.names.get(&(&*job.repository, &*job.name))?;
            all.get(all.len() / 2).copied().filter(|_| line.is_interrupted())
        };
        // An end before the usual one is no evidence that the job is shorter, a later end is.
        self.again.get(&run_job(job)).copied().or_else(usual).max(own)
    }
}

/// Returns how long a job ran on a machine.
fn ran(line: &Line) -> Option<Millis> {
    let started = line.t.started.filter(|_| line.kind != UsageKind::Job)?;
    Some((line.t.completed.unwrap_or(line.t.ended) - started).max(0))
}

fn job(line: &Line, begin: Millis, lengths: &Lengths<'_>) -> Option<ReplayedJob> {
    let job = line.job.as_ref()?;
    let (at, t) = (line.since.as_millis() - begin, &line.t);
    let end = t.completed.unwrap_or(t.ended);
    // One that left would have worked until somebody cancelled it.
    let length = lengths.whole(line, job);
    let has_left = line.kind == UsageKind::Job && length.is_none();
    if has_left && end < 0 {
        // It ended before it could have had a runner.
        return None;
    }
    Some(ReplayedJob {
        at,
        left_at: has_left.then(|| at + t.started.unwrap_or(end).max(0)),
        repository: job.repository.to_string(),
        private: job.private,
        // Muster re-runs no job of a run that somebody cancelled. In the model, a job that left
        // counts as cancelled, so it has a run of its own.
        run: if has_left { u64::MAX - job.key.job } else { job.run },
        name: job.name.clone(),
        labels: job.labels.clone(),
        length,
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
