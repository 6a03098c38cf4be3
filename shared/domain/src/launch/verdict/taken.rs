//! Brake: an agent has taken the job, but GitHub has not reported that yet. The hook's report and
//! GitHub's `in_progress` event arrive separately: a pass between the two sees the job waiting and
//! its runner busy, and would launch a machine for a job that already runs.

use std::collections::BTreeMap;

use super::{Block, BlockScope, Brake, Case, Wanted};
use crate::ids::JobKey;
use crate::instance::Instance;
use crate::job::Job;
use crate::time::{Seconds, Time};

/// How long to wait for GitHub's event that identifies the job. A later event may never arrive, and
/// a job that really waits must not be delayed by it.
const PATIENCE: Seconds = Seconds(30);

pub(super) fn brake(case: &Case<'_>) -> Option<Block> {
    let Wanted::Job(job) = case.wanted else { return None };
    let until = case.conditions.taken_until(job.key())?;
    Some(Block {
        brake: Brake::Taken,
        until: Some(until),
        why: "a runner has reported a job of its run, and GitHub has not reported which".to_owned(),
        scope: BlockScope::Job,
        elsewhere: false,
    })
}

/// Returns the jobs that runners without a claim have taken, and until when that is assumed. A hook
/// reports the run but not the job, so each runner accounts for one of the run's jobs, the oldest
/// first.
pub(super) fn judge(
    demand: &[impl AsRef<Job>],
    free: &[impl AsRef<Instance>],
    now: Time,
) -> BTreeMap<JobKey, Time> {
    let until = |taker: &Instance| {
        let started = taker.runner.started.as_ref().filter(|_| taker.has_untold_job())?;
        Some(started.at + PATIENCE).filter(|until| *until > now)
    };
    let mut takers: Vec<(Time, &Instance)> =
        free.iter().map(AsRef::as_ref).filter_map(|taker| Some((until(taker)?, taker))).collect();
    if takers.is_empty() {
        return BTreeMap::new();
    }
    let mut jobs: Vec<&Job> = demand.iter().map(AsRef::as_ref).collect();
    jobs.sort_by_key(|job| (job.queued_at(), job.key()));
    let taken = |job: &Job| {
        let index = takers.iter().position(|(_, taker)| matches_run(taker, job))?;
        Some((job.key(), takers.swap_remove(index).0))
    };
    jobs.into_iter().filter_map(taken).collect()
}

fn matches_run(taker: &Instance, job: &Job) -> bool {
    taker.runner.started.as_ref().is_some_and(|started| {
        started.run == job.last_event.run
            && started.repository.eq_ignore_ascii_case(&job.last_event.repository)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{For, Scene};
    use super::{BlockScope, Brake, judge};
    use crate::instance::Instance;
    use crate::job::Job;
    use crate::testkit::{Story as _, With as _, active, active_by_github, at, idle, job, second};

    /// The hook of `active()` reported a job of run 3 of acme/web at second 50.
    #[test]
    fn a_runner_without_a_claim_that_reports_a_job_stands_for_one_of_its_run() {
        let takers = |n: usize| vec![active().unclaimed(); n];
        let three = || vec![job(3), job(1), job(2)];
        let of_run = |run| job(1).with(|job| job.last_event.run = run);
        let of =
            |repository: &str| job(1).with(|job| job.last_event.repository = repository.into());
        type Row = (&'static str, Vec<Job>, Vec<Instance>, u32, &'static [u64]);
        let rows: [Row; 11] = [
            ("nobody", three(), vec![], 60, &[]),
            ("one", three(), takers(1), 60, &[1]),
            ("all", three(), takers(4), 60, &[1, 2, 3]),
            ("of another run", vec![of_run(4), job(2)], takers(2), 60, &[2]),
            ("in another letter case", vec![of("Acme/Web")], takers(1), 60, &[1]),
            ("of another repository", vec![of("acme/api")], takers(1), 60, &[]),
            ("for half a minute", three(), takers(1), 79, &[1]),
            ("and no longer", three(), takers(1), 80, &[]),
            ("it has a claim of its own", three(), vec![active()], 60, &[]),
            ("it is idle", three(), vec![idle().unclaimed()], 60, &[]),
            ("GitHub has told", three(), vec![active_by_github().unclaimed()], 60, &[]),
        ];
        for (name, demand, free, now, taken) in rows {
            let all = judge(&demand, &free, at(now));
            assert_eq!(all.keys().map(|key| key.job).collect::<Vec<_>>(), taken, "{name}");
            assert!(all.values().all(|until| second(*until) == 80), "{name}");
        }
    }

    #[test]
    fn no_machine_is_launched_for_it_here_or_elsewhere() {
        let taken = Scene::new().with(super::super::tests::take);
        let why = "a runner has reported a job of its run, and GitHub has not reported which";
        let told = Some((why.to_owned(), Some(1010), BlockScope::Job, false));
        assert_eq!(taken.says(Brake::Taken, For::Job), told);
        assert_eq!(taken.says(Brake::Taken, For::Slot), None);
        assert_eq!(taken.says(Brake::Taken, For::Idle), None);
    }
}
