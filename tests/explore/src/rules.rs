//! The rules that the worlds run on: those of the `domain` crate, one by one replaceable by a naive
//! one.
//!
//! The naive ones are what a first version, or a peer, does. A test shows that each is caught.

use muster_domain::instance::{Instance, Order, ReportError, Start, StartReport};
use muster_domain::lifecycle::{self, Policy, Step};
use muster_domain::observation::Observation;
use muster_domain::time::Time;

/// Every rule of a world.
#[derive(Clone, Copy)]
pub struct Rules {
    /// [`lifecycle::decide`]
    pub decide: fn(&Instance, &Observation, &Policy<'_>, Time) -> Step,
    /// [`Instance::job_started`]
    pub job_started: fn(&mut Instance, &str, StartReport, Time) -> Result<Start, ReportError>,
    /// [`Instance::order_delete`]
    pub order: fn(&mut Instance, &Order, Time),
    /// A write names the version that it replaces.
    pub versions_are_checked: bool,
}

impl Rules {
    /// The rules as they are.
    #[must_use]
    pub fn real() -> Self {
        Self {
            decide: lifecycle::decide,
            job_started: Instance::job_started,
            order: Instance::order_delete,
            versions_are_checked: true,
        }
    }
}
