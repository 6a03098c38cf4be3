//! Brake: jobs that GitHub withholds. Their runners are connected and idle, but GitHub assigns them
//! no job. It does so with `max-parallel`, reporting all the jobs as queued, and for hours during
//! incidents. A further machine cannot help, since to GitHub it is equivalent to the idle ones; but
//! if the idle runner is faulty, the next one does help.

use std::collections::BTreeMap;

use super::{Block, BlockScope, Brake, Case, Wanted};
use crate::backoff;
use crate::ids::Entity;
use crate::instance::{Instance, RunnerState};
use crate::job::{Job, PassedOver};
use crate::pool::Pool;
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// Maximum wait before a further machine is launched for withheld jobs, and so their maximum delay
/// once GitHub assigns them again.
const MAX_WAIT: Seconds = Seconds(900);

/// When to check again if no wait determines it: an idle runner may have taken a job.
const LOOK_AGAIN: Seconds = Seconds(300);

/// What may be launched for an entity whose jobs GitHub withholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Withheld {
    /// Maximum number of machines.
    pub(super) most: u32,
    /// When more may be launched.
    pub(super) again_at: Time,
}

pub(super) fn brake(case: &Case<'_>) -> Option<Block> {
    if matches!(case.wanted, Wanted::Slot(_)) {
        return None;
    }
    let entity = case.entity.as_ref()?;
    let withheld = case.conditions.withheld(entity).filter(|withheld| withheld.most == 0)?;
    Some(Block {
        brake: Brake::Withheld,
        until: Some(withheld.again_at),
        why: format!(
            "GitHub leaves connected runners of {entity} idle while their jobs wait (check the \
             runner \
             group's access, and max-parallel)"
        ),
        scope: BlockScope::Entity,
        // To GitHub, a machine of a different pool is equivalent.
        elsewhere: false,
    })
}

/// Returns whether a pool's live instances must be read: only then can this brake apply.
pub(super) fn is_suspected(demand: &[impl AsRef<Job>]) -> bool {
    demand.iter().any(|job| job.as_ref().passed_over.is_some())
}

/// Returns what may be launched for each entity that has withheld jobs, by the entity's name in lower
/// case. `demand`: all jobs of the pool without a claim. `live`: its instances.
pub(super) fn judge(
    pool: &Pool,
    demand: &[impl AsRef<Job>],
    live: &[impl AsRef<Instance>],
    now: Time,
    timings: &Timings,
) -> BTreeMap<Entity, Withheld> {
    let mut jobs: BTreeMap<Entity, Vec<&Job>> = BTreeMap::new();
    for job in demand.iter().map(AsRef::as_ref) {
        if let Some(entity) = pool.entity_for(job) {
            jobs.entry(entity.lower_case()).or_default().push(job);
        }
    }
    jobs.retain(|_, jobs| jobs.iter().any(|job| job.passed_over.is_some()));
    let withheld = |(entity, jobs): (Entity, Vec<&Job>)| {
        let own: Vec<&Instance> =
            live.iter().map(AsRef::as_ref).filter(|one| one.entity.same_as(&entity)).collect();
        let most = most(&jobs, &own, now, timings);
        let probe = next_probe(&jobs, timings).filter(|at| *at > now);
        (entity, Withheld { most, again_at: probe.unwrap_or(now + LOOK_AGAIN) })
    };
    jobs.into_iter().map(withheld).collect()
}

/// Returns the maximum number of machines.
///
/// Jobs that were never passed over get machines, minus the runners that idle already. For the
/// others, as many runners may be starting as are running jobs, but at least one: once GitHub
/// assigns jobs again, that doubles with each round. The total never exceeds the number of waiting
/// jobs plus one.
fn most(jobs: &[&Job], live: &[&Instance], now: Time, timings: &Timings) -> u32 {
    let withheld = jobs.iter().filter(|job| job.passed_over.is_some()).count();
    let busy = live.iter().filter(|one| one.runner.is_busy()).count();
    let (unused, coming): (Vec<&Instance>, Vec<&Instance>) =
        live.iter().copied().filter(|one| may_take_a_job(one)).partition(|one| one.passed_over);
    let untried = (jobs.len() - withheld).saturating_sub(unused.len());
    let claimed = coming.iter().filter(|one| one.claim().is_some()).count();
    // Instances being deleted count too: they cost the same.
    let above = (jobs.len() + claimed + 1).saturating_sub(live.len() - busy);
    let probes = match next_probe(jobs, timings) {
        Some(at) if now < at => 0,
        _ => busy.max(1).saturating_sub(coming.len()).min(above),
    };
    u32::try_from(untried + probes).unwrap_or(u32::MAX)
}

/// Returns when the next runner may probe whether GitHub assigns jobs again. The first idle runner
/// of each job is no evidence yet; each further one that was passed over lengthens the next wait,
/// whichever job it was for.
fn next_probe(jobs: &[&Job], timings: &Timings) -> Option<Time> {
    let withheld: Vec<PassedOver> = jobs.iter().filter_map(|job| job.passed_over).collect();
    let last = withheld.iter().map(|one| one.at).max()?;
    let wasted: u32 = withheld.iter().map(|one| one.times - 1).sum();
    Some(last + backoff::grown(timings.launch_retry_seconds, wasted + 1, MAX_WAIT))
}

/// Returns whether a runner, or an instance that becomes one, has not taken a job yet.
fn may_take_a_job(instance: &Instance) -> bool {
    instance.state().is_serving()
        && instance.mark().is_none()
        && instance.runner.state <= RunnerState::Idle
        && instance.runner.exit.is_none()
        && !instance.runner.has_taken_job()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{For, Scene, withhold};
    use super::*;
    use crate::testkit::{Story as _, With as _, active, at, booting, idle, job, pool, timings};

    fn passed(n: u32, times: u32, when: u32) -> Job {
        job(n).with(|job| job.passed_over = Some(PassedOver { times, at: at(when) }))
    }

    fn unused() -> Instance {
        idle().unclaimed().with(|row| row.passed_over = true)
    }

    #[test]
    fn one_runner_more_finds_out_and_the_others_wait() {
        let ten = || (1..=10).map(|n| passed(n, 1, 100)).collect::<Vec<_>>();
        let many = |count: usize, row: fn() -> Instance| vec![row(); count];
        let rows = [
            ("none was passed over", vec![job(1)], many(3, idle), 200, None),
            ("the wait of the first", vec![passed(1, 1, 100)], many(1, unused), 114, Some(0)),
            (
                "a runner that may be at fault",
                vec![passed(1, 1, 100)],
                many(1, unused),
                115,
                Some(1),
            ),
            ("one for ten", ten(), many(10, unused), 115, Some(1)),
            ("one at a time", ten(), [many(9, unused), many(1, booting)].concat(), 115, Some(0)),
            ("eleven are enough", ten(), many(11, unused), 900, Some(0)),
            ("its connection is lost: it ends", vec![passed(1, 1, 100)], vec![], 115, Some(1)),
            ("another one in vain", vec![passed(1, 2, 100)], many(1, unused), 129, Some(0)),
            (
                "whichever job it was for",
                [ten(), vec![passed(11, 3, 100)]].concat(),
                vec![],
                159,
                Some(0),
            ),
            ("and then again", [ten(), vec![passed(11, 3, 100)]].concat(), vec![], 160, Some(1)),
            ("a quarter of an hour at most", vec![passed(1, 40, 100)], vec![], 1000, Some(1)),
            ("as many as are at work", ten(), many(4, active), 115, Some(4)),
            (
                "a job of which nothing is known",
                vec![passed(1, 1, 100), job(2)],
                vec![],
                101,
                Some(1),
            ),
            (
                "it has a runner there",
                vec![passed(1, 1, 100), job(2)],
                many(1, unused),
                101,
                Some(0),
            ),
        ];
        for (name, demand, live, now, most) in rows {
            let all = judge(&pool(), &demand, &live, at(now), &timings());
            assert_eq!(all.values().map(|one| one.most).next(), most, "{name}");
        }
    }

    #[test]
    fn each_entity_is_judged_by_its_own_runners() {
        let pool = pool();
        let demand = [passed(1, 1, 100)];
        let others = vec![unused().with(|row| row.entity = "other".parse().expect("valid")); 5];
        let most = |live: &[Instance]| {
            let all = judge(&pool, &demand, live, at(115), &timings());
            all.into_values().map(|one| one.most).collect::<Vec<_>>()
        };
        assert_eq!(most(&others), [1]);
        // Of the job's own entity, in another letter case.
        let own = vec![booting().with(|row| row.entity = "ACME".parse().expect("valid"))];
        assert_eq!(most(&own), [0]);
    }

    #[test]
    fn jobs_that_github_withholds_wait_for_one_runner_at_a_time() {
        let soon = Scene::new().with(withhold);
        let due = soon.clone().with(|all| all.job.passed_over = passed(1, 1, 900).passed_over);
        let out = due.clone().with(|all| all.live = vec![booting()]);
        let other = soon.clone().with(|all| {
            all.pool.entity = None;
            all.slot.entity = "other".parse().expect("valid");
        });
        let rows = [
            ("it had no runner yet", Scene::new(), For::Job, None),
            ("it is too early", soon.clone(), For::Job, Some(1010)),
            ("one may find out", due, For::Job, None),
            ("one is on its way", out, For::Job, Some(1300)),
            ("the min idle is the same to GitHub", soon.clone(), For::Idle, Some(1010)),
            ("a slot is on its way already", soon, For::Slot, None),
            ("of any entity", other, For::Job, Some(1010)),
        ];
        for (name, all, what, until) in rows {
            let why = "GitHub leaves connected runners of acme idle while their jobs wait (check \
                the \
                       runner group's access, and max-parallel)";
            let told = until.map(|until| (why.to_owned(), Some(until), BlockScope::Entity, false));
            assert_eq!(all.says(Brake::Withheld, what), told, "{name}");
        }
    }
}
