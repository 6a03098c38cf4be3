//! Jobs taken by runners that were meant for other jobs.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Started, assign, release, set_job_claim, settle_started};
use crate::claim::can_serve;
use crate::ids::{InstanceName, JobKey};
use crate::instance::tests::slot;
use crate::instance::{DeleteReason, Instance, Slot};
use crate::job::labels::Labels;
use crate::job::{Job, JobStatus};
use crate::pool::Pool;
use crate::testkit::{Story, With, active, at, idle, job, machine, pool, searched, timings};

/// An idle runner of slot `n`, meant for job `n`.
fn runner(n: u32) -> Instance {
    let own = slot(n);
    Instance::planned(own, at(0), &timings()).with(|i| {
        i.bind(machine(n), at(5), &timings());
        assert_eq!(i.ask_configuration(at(30)), Ok(None));
        i.configured(crate::testkit::RUNNER, at(31));
        let name = i.runner_name();
        assert_eq!(i.runner_started(&name, at(40), &timings()), Ok(()));
    })
}

/// Job `n`, meant for runner `n`.
fn meant(n: u32) -> Job {
    job(n).with(|job| job.claim = Some(slot(n).name))
}

/// GitHub gave job 2 to runner 1, which was meant for job 1. Job 2 was meant for runner 2.
fn theft() -> Started {
    let taken = meant(2).with(|job| job.last_event.status = JobStatus::InProgress);
    let taker = runner(1).with(|i| assert!(i.github_started(taken.key(), at(60))));
    Started { job: taken, taker, left: Some(meant(1)), spared: Some(runner(2)) }
}

fn settled(started: Started) -> Started {
    settle_started(started, |instance, job| can_serve(&pool(), instance, job), at(60))
}

/// Formats the claims of the taken job, its taker, the job that was left and the spared runner.
fn told(all: &Started) -> String {
    let name = |claim: &Option<InstanceName>| {
        claim
            .as_ref()
            .map_or("nobody".to_owned(), |name| name.as_str().replace("default-l-", "runner "))
    };
    let key = |claim: Option<JobKey>| {
        claim.map_or("nothing".to_owned(), |key| format!("job {}", key.job))
    };
    let mut words = vec![
        format!("taken by {}", name(&all.job.claim)),
        format!("taker has {}", key(all.taker.claim())),
    ];
    words.extend(all.left.iter().map(|left| format!("left for {}", name(&left.claim))));
    words.extend(all.spared.iter().map(|spared| format!("spared for {}", key(spared.claim()))));
    words.join(", ")
}

/// Runners are registered at `acme`.
#[test]
fn a_runner_can_be_given_the_jobs_of_its_pool_at_its_own_entity() {
    type Change = fn(&mut Pool, &mut Instance, &mut Job);
    let rows: [(&str, Change, bool); 8] = [
        ("its own", |_, _, _| (), true),
        ("the pool names it in another case", |pool, _, _| pool.entity = "ACME".parse().ok(), true),
        (
            "GitHub names it in another case",
            |_, _, job| job.last_event.repository = "Acme/web".into(),
            true,
        ),
        ("another pool's", |_, row, _| row.pool = "other".parse().expect("a pool"), false),
        ("registered elsewhere", |_, row, _| row.entity = "zoo".parse().expect("valid"), false),
        (
            "registered at the repository",
            |_, row, _| row.entity = "acme/web".parse().expect("valid"),
            false,
        ),
        ("other labels", |_, _, job| job.last_event.labels = Labels::new(["gpu"]), false),
        ("the pool is disabled", |pool, _, _| pool.enabled = false, false),
    ];
    for (name, change, can) in rows {
        let (mut pool, mut row, mut job) = (pool(), idle(), job(1));
        change(&mut pool, &mut row, &mut job);
        assert_eq!(can_serve(&pool, &row, &job), can, "{name}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: a row for each situation")]
fn a_job_taken_by_another_runner_swaps_the_claims_where_that_helps() {
    let swapped = "taken by runner 1, taker has job 2, left for runner 2, spared for job 1";
    let parted = "taken by runner 1, taker has job 2, left for nobody, spared for nothing";
    let spared = |change: fn(&mut Instance)| {
        theft().with(|all| change(all.spared.as_mut().expect("a spared runner")))
    };
    let left = |change: fn(&mut Job)| {
        theft().with(|all| change(all.left.as_mut().expect("a job that was left")))
    };
    let of_pool = |name: &str| Slot { pool: name.parse().expect("valid"), ..slot(2) };
    let at_entity = |name: &str| Slot { entity: name.parse().expect("valid"), ..slot(2) };
    let made = |slot: Slot| {
        theft().with(|all| all.spared = Some(Instance::planned(slot, at(0), &timings())))
    };
    let rows = [
        ("both can serve both", theft(), swapped),
        ("the spared slot has no machine yet", made(slot(2)), swapped),
        ("the spared runner is of another pool", made(of_pool("other")), parted),
        ("the spared runner is registered elsewhere", made(at_entity("acme/api")), parted),
        (
            "the left job asks for other labels",
            left(|job| job.last_event.labels = Labels::new(["windows"])),
            parted,
        ),
        (
            "the left job is of a public repository",
            left(|job| job.last_event.private = false),
            parted,
        ),
        ("the spared runner is marked", spared(|i| i.set_mark(DeleteReason::Idle, at(55))), parted),
        (
            "the spared runner is on its way out, and its claim has ended",
            spared(|i| i.to_pending_delete(DeleteReason::Idle, at(55))),
            parted,
        ),
        (
            "the spared runner runs another job",
            spared(|i| assert!(i.github_started(job(9).key(), at(55)))),
            parted,
        ),
        (
            "the spared runner ended",
            spared(|i| i.runner_ended(Some(1), None, at(55), &timings())),
            parted,
        ),
        ("GitHub passed the spared runner over", spared(|i| i.passed_over = true), parted),
        (
            "the left job was cancelled",
            left(|job| job.last_event.status = JobStatus::Completed),
            parted,
        ),
        ("the left job expired", left(|job| job.expired = true), parted),
        (
            "the taken job had no claim",
            theft().with(|all| {
                all.job.claim = None;
                all.spared = None;
            }),
            "taken by runner 1, taker has job 2, left for nobody",
        ),
        (
            "the taker had no claim",
            theft().with(|all| {
                all.taker.clear_claim(at(55), "cancelled");
                all.left = None;
            }),
            "taken by runner 1, taker has job 2, spared for nothing",
        ),
        (
            "the job was taken by the runner that was meant for it",
            Started {
                job: meant(1).with(|job| job.last_event.status = JobStatus::InProgress),
                taker: runner(1),
                left: None,
                spared: None,
            },
            "taken by runner 1, taker has job 1",
        ),
    ];
    for (name, started, expected) in rows {
        assert_eq!(told(&settled(started)), expected, "{name}");
    }
}

#[test]
fn the_same_news_twice_changes_nothing() {
    let once = settled(theft());
    // The second delivery reads the current records: the taker claims the job, so no other record
    // is touched.
    let twice = settled(Started { left: None, spared: None, ..once.clone() });
    assert_eq!((&twice.job, &twice.taker), (&once.job, &once.taker));
}

#[test]
fn claims_that_others_have_changed_meanwhile_are_left_alone() {
    let elsewhere = theft().with(|all| {
        let spared = all.spared.as_mut().expect("a spared runner");
        spared.set_claim(job(7).key(), at(55));
        all.left.as_mut().expect("a job that was left").claim = Some(slot(8).name);
    });
    assert_eq!(
        told(&settled(elsewhere)),
        "taken by runner 1, taker has job 2, left for runner 8, spared for job 7"
    );
    let one_side = theft().with(|all| {
        all.left.as_mut().expect("a job that was left").claim = Some(slot(8).name);
    });
    assert_eq!(
        told(&settled(one_side)),
        "taken by runner 1, taker has job 2, left for runner 8, spared for nothing"
    );
    let other_side = theft().with(|all| {
        all.spared.as_mut().expect("a spared runner").set_claim(job(7).key(), at(55));
    });
    assert_eq!(
        told(&settled(other_side)),
        "taken by runner 1, taker has job 2, left for nobody, spared for job 7"
    );
}

#[test]
fn a_lost_runner_releases_its_job_while_that_waits() {
    let own = slot(1).name;
    let released = release(&meant(1), &own).expect("it waits");
    assert_eq!(released.claim, None);
    let started = meant(1).with(|job| job.last_event.status = JobStatus::InProgress);
    assert_eq!(release(&started, &own), None, "it is taken");
    assert_eq!(release(&meant(2), &own), None, "it is another's");
    assert_eq!(release(&job(1), &own), None, "it is nobody's");
}

#[test]
fn a_claim_stands_in_both_records() {
    let (mut job, mut instance) = (job(3), idle().unclaimed());
    assign(&mut job, &mut instance, at(60), &timings());
    assert_eq!((job.claim.as_ref(), instance.claim()), (Some(&instance.name), Some(job.key())));
    assert_eq!(instance.claimed_at, Some(at(60)));
    let known = job.clone();
    set_job_claim(&mut job, Some(instance.name.clone()));
    assert_eq!(job, known);
}

/// Runners and jobs, with each claim recorded on both sides.
#[derive(Clone, Debug)]
struct Fleet {
    runners: BTreeMap<InstanceName, Instance>,
    jobs: BTreeMap<JobKey, Job>,
}

/// Returns the runner in one of several states in which it cannot take a job.
fn troubled(runner: Instance, trouble: u8) -> Instance {
    match trouble {
        0 => runner.with(|i| i.set_mark(DeleteReason::Idle, at(55))),
        1 => runner.with(|i| i.runner_ended(Some(1), None, at(55), &timings())),
        2 => runner.with(|i| i.passed_over = true),
        3 => active().with(|i| {
            i.name = runner.name.clone();
            i.clear_claim(at(55), "");
            if let Some(job) = runner.claim() {
                i.set_claim(job, at(55));
            }
        }),
        _ => runner,
    }
}

fn fleet() -> impl Strategy<Value = Fleet> {
    let kind = (any::<bool>(), 0..12_u8);
    (prop::collection::vec(kind, 4), prop::collection::vec(0..3_u8, 4)).prop_map(
        |(runners, jobs)| {
            let mut fleet = Fleet { runners: BTreeMap::new(), jobs: BTreeMap::new() };
            for (n, ((claims, trouble), matter)) in (1..).zip(runners.into_iter().zip(jobs)) {
                let own = if claims { runner(n) } else { runner(n).unclaimed() };
                let own = troubled(own, trouble);
                let job = if claims { meant(n) } else { job(n) };
                let job = job.with(|job| match matter {
                    0 => job.expired = true,
                    1 => job.last_event.labels = Labels::new(["windows"]),
                    _ => {}
                });
                fleet.jobs.insert(job.key(), job);
                fleet.runners.insert(own.name.clone(), own);
            }
            fleet
        },
    )
}

impl Fleet {
    /// GitHub reports that runner `taker` took job `taken`; handled as in the ingest pass.
    fn take(&mut self, taker: u32, taken: u32) {
        let mut job = self.jobs[&job(taken).key()].clone();
        let taker = self.runners[&slot(taker).name].clone();
        if job.status() != JobStatus::Queued || taker.runner.has_taken_job() {
            return;
        }
        job.last_event.status = JobStatus::InProgress;
        let others = job.claim.as_ref().filter(|name| **name != taker.name);
        let spared = others.map(|name| self.runners[name].clone());
        let left = taker.claim().filter(|key| *key != job.key()).map(|key| self.jobs[&key].clone());
        let taker =
            taker.with(|i| assert!(i.runner.exit.is_some() || i.github_started(job.key(), at(60))));
        let all = settled(Started { job, taker, left, spared });
        assert_eq!(all.job.claim.as_ref(), Some(&all.taker.name));
        assert_eq!(all.taker.claim(), Some(all.job.key()));
        for job in [Some(all.job), all.left].into_iter().flatten() {
            self.jobs.insert(job.key(), job);
        }
        for instance in [Some(all.taker), all.spared].into_iter().flatten() {
            self.runners.insert(instance.name.clone(), instance);
        }
    }

    /// Returns whether every claim of a waiting job is recorded on both sides, so that no job has
    /// two runners and none is forgotten.
    fn is_level(&self) -> bool {
        let jobs = self.jobs.values().filter(|job| job.is_waiting()).all(|job| {
            job.claim.as_ref().is_none_or(|name| self.runners[name].claim() == Some(job.key()))
        });
        let runners = self.runners.values().all(|runner| {
            runner.claim().is_none_or(|key| {
                let job = &self.jobs[&key];
                !job.is_waiting() || job.claim.as_ref() == Some(&runner.name)
            })
        });
        jobs && runners
    }
}

/// Otherwise the runner could rest until an idle limit of hours, and GitHub may never give it the
/// job.
#[test]
fn an_idle_runner_is_looked_at_when_its_claim_has_had_its_time() {
    let claimed = |mut row: Instance| {
        assign(&mut job(7), &mut row, at(1_000), &timings());
        row.due_at()
    };
    let resting = || idle().unclaimed();
    let far = resting().with(|i| i.set_due(at(9_000)));
    assert_eq!(claimed(far.clone()), Some(at(1_060)));
    let soon = resting().with(|i| i.set_due(at(1_010)));
    assert_eq!(claimed(soon), Some(at(1_010)));
    // A booting instance has its deadline.
    let boots = Instance::planned(slot(1), at(0), &timings()).unclaimed();
    assert_eq!(claimed(boots.clone()), boots.due_at());
}

proptest! {
    #![proptest_config(searched(400))]

    #[test]
    fn claims_stay_level_whoever_takes_what(
        fleet in fleet(),
        takes in prop::collection::vec((1..5_u32, 1..5_u32), 0..8),
    ) {
        let mut fleet = fleet;
        prop_assert!(fleet.is_level());
        for (taker, taken) in takes {
            let before = fleet.clone();
            fleet.take(taker, taken);
            prop_assert!(fleet.is_level(), "{taker} took {taken}: {before:#?} {fleet:#?}");
        }
    }
}
