//! Records to write: those of the conformance suite, and further ones for these tests.

use muster_domain::instance::{DeleteOrder, Instance};
use muster_domain::timings::Timings;

pub(crate) use muster_conformance::records::*;

/// Returns the instance's tombstone, after a forced order at a second.
pub(crate) fn deleted(instance: &Instance, second: u32) -> Instance {
    let mut instance = instance.clone();
    instance.order_delete(&order(second), at(second));
    instance.to_deleting(at(second), "test", &Timings::default());
    instance.to_deleted(at(second), "test");
    instance
}

pub(crate) fn order(second: u32) -> DeleteOrder {
    DeleteOrder {
        at: at(second),
        by: "somebody".into(),
        reason: "a test".into(),
        force: true,
        bypass_github_unauthorized: false,
        kill_running_job: false,
    }
}
