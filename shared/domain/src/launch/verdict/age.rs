//! Brake: the job is younger than the pool's minimum age. A runner that becomes free may take it.

use super::{Block, BlockScope, Brake, Case, Wanted};

pub(super) fn brake(case: &Case<'_>) -> Option<Block> {
    let Wanted::Job(job) = case.wanted else { return None };
    let from = case.pool.launches_at(job);
    (case.now < from).then(|| Block {
        brake: Brake::Age,
        until: Some(from),
        why: format!(
            "pool {} launches no machine for a job before it has waited for {}",
            case.pool.name, case.pool.job_age_seconds
        ),
        scope: BlockScope::Job,
        elsewhere: false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{For, Scene};
    use super::{BlockScope, Brake};
    use crate::testkit::{With as _, at};
    use crate::time::Seconds;

    #[test]
    fn the_time_before_an_approval_does_not_count() {
        let all = Scene::new().with(|all| {
            all.pool.job_age_seconds = Seconds(200);
            all.job.opened_at = Some(at(900));
        });
        let told = all.says(Brake::Age, For::Job).map(|(_, until, ..)| until);
        assert_eq!(told, Some(Some(1100)));
    }

    #[test]
    fn a_young_job_waits_for_a_runner_that_comes_free() {
        let why = "pool default launches no machine for a job before it has waited for 20 min";
        // The job was queued in second 1.
        let rows = [
            ("no age", 0, For::Job, None),
            ("just old enough", 999, For::Job, None),
            (
                "too young",
                1200,
                For::Job,
                Some((why.to_owned(), Some(1201), BlockScope::Job, false)),
            ),
            ("a slot", 1200, For::Slot, None),
            ("the min idle", 1200, For::Idle, None),
        ];
        for (name, age, what, told) in rows {
            let all = Scene::new().with(|all| all.pool.job_age_seconds = Seconds(age));
            assert_eq!(all.says(Brake::Age, what), told, "{name}");
        }
    }
}
