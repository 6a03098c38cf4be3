//! The launch pass: which runner serves which job, what is requested from EC2, and what its
//! response means.

mod apply;
mod cooling;
mod demand;
mod hostile;
mod idle;
mod requests;
mod searches;

use super::{Plan, View, plan};
use crate::image::ImageChoice;
use crate::instance::{Instance, Slot};
use crate::job::Job;
use crate::launch::verdict::Conditions;
use crate::pool::Pool;
use crate::stored::{Stored, Version};
use crate::testkit::{Story, With, at, booting, idle, installing, slot, timings};
use crate::timings::Timings;

/// A free instance named after `n`, in the state of `instance`.
pub(super) fn free(instance: Instance, n: u32) -> Instance {
    instance.unclaimed().with(|i| i.name = slot(n).name)
}

pub(super) fn free_slot(n: u32) -> Instance {
    Instance::planned(Slot { claim: None, ..slot(n) }, at(0), &timings())
}

pub(super) fn free_idle(n: u32) -> Instance {
    free(idle(), n)
}

pub(super) fn free_installing(n: u32) -> Instance {
    free(installing(), n)
}

pub(super) fn free_booting(n: u32) -> Instance {
    free(booting(), n)
}

/// The version of all records that these tests read.
pub(super) const READ: Version = Version(3);

pub(crate) fn read<T>(records: impl IntoIterator<Item = T>) -> Vec<Stored<T>> {
    records.into_iter().map(|record| Stored::read(record, READ)).collect()
}

/// A view without any blocks.
pub(crate) fn view<'a>(pool: &'a Pool, timings: &'a Timings, demand: Vec<Job>) -> View<'a> {
    View {
        warm: &[],
        images: ImageChoice::default(),
        stack: "prod",
        pool,
        conditions: Conditions::default(),
        demand: read(demand),
        supply: Vec::new(),
        retries: Vec::new(),
        seed: 0x00c0_ffee,
        now: at(1000),
        timings,
    }
}

/// The assignments: `job 1 to default-l-4`.
pub(super) fn claims(plan: &Plan) -> Vec<String> {
    plan.claims
        .iter()
        .map(|(job, instance)| {
            assert_eq!(job.claim.as_ref(), Some(&instance.name));
            assert_eq!(instance.claim(), Some(job.key()));
            format!("job {} to {}", job.key().job, instance.name)
        })
        .collect()
}

/// Number of jobs over the pool's maximum.
pub(super) fn over_maximum(plan: &Plan) -> usize {
    plan.left.iter().filter(|left| left.block.is_for_room()).count()
}

/// The jobs that are not served, with reasons.
pub(super) fn left(plan: &Plan) -> Vec<(u64, &str)> {
    plan.left.iter().map(|left| (left.job.key().job, left.block.why.as_str())).collect()
}

/// The jobs that machines are launched for, by launch.
pub(super) fn launched(plan: &Plan) -> Vec<Vec<u64>> {
    plan.launches
        .iter()
        .filter(|launch| launch.idle.is_empty())
        .map(|launch| launch.fresh.iter().map(|(_, job)| job.key().job).collect())
        .collect()
}
