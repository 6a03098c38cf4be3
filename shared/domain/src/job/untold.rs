//! Jobs that an agent has taken, and GitHub has not said so yet. The hook's report and GitHub's
//! `in_progress` travel apart: a pass between the two finds the job waiting and its runner busy,
//! and would launch a machine for a job that runs.

use crate::instance::Instance;
use crate::job::Job;
use crate::time::{Seconds, Time};

/// How long GitHub has to say which job it was. An event that is later than that may never come,
/// and a job that waits is not to wait for it.
const PATIENCE: Seconds = Seconds(30);

/// What is left of a demand without the jobs that runners without a claim have taken, and when to
/// look again, if any was. A hook tells the run and not the job, so one of the run's jobs stays
/// behind for each runner, the oldest first.
#[must_use]
pub fn without<J: AsRef<Job>, I: AsRef<Instance>>(
    mut demand: Vec<J>,
    free: &[I],
    now: Time,
) -> (Vec<J>, Option<Time>) {
    let until = |taker: &Instance| {
        let started = taker.runner.started.as_ref().filter(|_| taker.has_untold_job())?;
        Some(started.at + PATIENCE).filter(|until| *until > now)
    };
    let mut takers: Vec<(Time, &Instance)> =
        free.iter().map(AsRef::as_ref).filter_map(|taker| Some((until(taker)?, taker))).collect();
    let mut look_again: Option<Time> = None;
    demand.sort_by_key(|job| (job.as_ref().queued_at(), job.as_ref().key()));
    demand.retain(|job| {
        let job = job.as_ref();
        let Some(index) = takers.iter().position(|(_, taker)| is_of_run(taker, job)) else {
            return true;
        };
        let (until, _) = takers.swap_remove(index);
        look_again = Some(look_again.map_or(until, |earlier| earlier.min(until)));
        false
    });
    (demand, look_again)
}

fn is_of_run(taker: &Instance, job: &Job) -> bool {
    taker.runner.started.as_ref().is_some_and(|started| {
        started.run == job.last_event.run && started.repository == *job.last_event.repository
    })
}

#[cfg(test)]
mod tests {
    use super::without;
    use crate::instance::Instance;
    use crate::job::Job;
    use crate::testkit::{Story, active, active_by_github, at, idle, job};
    use crate::time::Time;

    fn of_run(n: u32, run: u64) -> Job {
        let mut job = job(n);
        job.last_event.run = run;
        job
    }

    fn of(repository: &str) -> Job {
        let mut job = job(1);
        job.last_event.repository = repository.into();
        job
    }

    fn left(demand: &[Job], free: &[Instance], now: Time) -> (Vec<u64>, Option<Time>) {
        let (left, again) = without(demand.to_vec(), free, now);
        (left.iter().map(|job| job.key().job).collect(), again)
    }

    /// The hook of `active()` reported a job of run 3 of acme/web at second 50.
    #[test]
    fn a_runner_without_a_claim_that_reports_a_job_stands_for_one_of_its_run() {
        let takers = |n: usize| vec![active().unclaimed(); n];
        let three = [job(3), job(1), job(2)];
        assert_eq!(left(&three, &takers(0), at(60)), (vec![1, 2, 3], None));
        assert_eq!(left(&three, &takers(1), at(60)), (vec![2, 3], Some(at(80))));
        assert_eq!(left(&three, &takers(4), at(60)), (vec![], Some(at(80))));
        assert_eq!(left(&[of_run(1, 4), job(2)], &takers(2), at(60)), (vec![1], Some(at(80))));
        assert_eq!(left(&[of("acme/api")], &takers(1), at(60)), (vec![1], None));
    }

    #[test]
    fn github_has_half_a_minute_to_say_which_job_it_was() {
        let takers = [active().unclaimed()];
        assert_eq!(left(&[job(1)], &takers, at(79)), (vec![], Some(at(80))));
        assert_eq!(left(&[job(1)], &takers, at(80)), (vec![1], None));
    }

    #[test]
    fn a_job_waits_for_no_other_runner() {
        let rows = [
            ("has a claim of its own", active()),
            ("idle", idle().unclaimed()),
            ("told", active_by_github().unclaimed()),
        ];
        for (name, instance) in rows {
            assert_eq!(left(&[job(1)], &[instance], at(60)), (vec![1], None), "{name}");
        }
    }
}
