//! The rules that the worlds run on: those of the `domain` crate, one by one replaceable by a naive
//! one.
//!
//! The naive ones are what a first version, or a peer, does. A test shows that each is caught.

use muster_domain::ids::{InstanceName, MachineId};
use muster_domain::instance::{Instance, Order, ReportError, Start, StartReport};
use muster_domain::job::claim::{self, Started};
use muster_domain::job::{Job, JobEvent};
use muster_domain::launch::Launch;
use muster_domain::launch::plan::{self, Answered, Outcome};
use muster_domain::lifecycle::{self, Policy, Step};
use muster_domain::observation::Observation;
use muster_domain::time::Time;
use muster_domain::timings::Timings;

/// Can an instance serve a job?
pub type CanServe<'a> = &'a dyn Fn(&Instance, &Job) -> bool;
/// See [`plan::apply`].
pub type Apply =
    fn(&Launch, Vec<Instance>, &Answered, &dyn Fn(&MachineId) -> bool, Time, &Timings) -> Outcome;

/// Every rule of a world.
#[derive(Clone, Copy)]
pub struct Rules {
    /// [`lifecycle::decide`]
    pub decide: fn(&Instance, &Observation, &Policy<'_>, Time) -> Step,
    /// [`plan::apply`]
    pub apply: Apply,
    /// [`muster_domain::job::fold`]
    pub fold: fn(Option<Job>, JobEvent, Time) -> Job,
    /// [`claim::settle_started`]
    pub settle_started: fn(Started, CanServe<'_>, Time) -> Started,
    /// [`claim::release`]
    pub release: fn(&Job, &InstanceName) -> Option<Job>,
    /// [`Instance::job_started`]
    pub job_started: fn(&mut Instance, &str, StartReport, Time) -> Result<Start, ReportError>,
    /// [`Instance::order_delete`]
    pub order: fn(&mut Instance, &Order, Time),
    /// `machine#i-…` must not exist when a machine is bound.
    pub machines_are_unique: bool,
    /// A write names the generation that it replaces.
    pub generations_are_checked: bool,
    /// The pool's counter refuses to exceed the maximum, in the commit of the launch.
    pub counter_is_checked: bool,
    /// What is to be done is committed before it is done.
    pub intent_comes_first: bool,
}

impl Rules {
    /// The rules as they are.
    #[must_use]
    pub fn real() -> Self {
        Self {
            decide: lifecycle::decide,
            apply: |launch, slots, answered, owned, now, timings| {
                plan::apply(launch, slots, answered, owned, now, timings)
            },
            fold: muster_domain::job::fold,
            settle_started: |all, can_serve, now| claim::settle_started(all, can_serve, now),
            release: claim::release,
            job_started: Instance::job_started,
            order: Instance::order_delete,
            machines_are_unique: true,
            generations_are_checked: true,
            counter_is_checked: true,
            intent_comes_first: true,
        }
    }
}
