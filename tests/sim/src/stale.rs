//! Whoever replaces a record has seen what it replaces. `Stored` and `Change` see to that; this
//! asks the records themselves.

use muster_control::ports::Write;
use muster_domain::instance::Instance;

use crate::world::World;

impl World {
    /// Asked for every write of a commit whose conditions hold.
    pub(crate) fn check_seen(&mut self, write: &Write) {
        match write {
            Write::Instance(next) => {
                let before = self.tables.instances.get(&next.name).cloned();
                if before.is_some_and(|before| !continues(&before, next)) {
                    self.broken("stale", || format!("{}: a line of its story is lost", next.name));
                }
            }
            Write::Job(next) => {
                let before = self.tables.jobs.get(&next.key()).map(|job| job.last_event.status);
                if before.is_some_and(|status| status > next.last_event.status) {
                    let (key, now) = (next.key(), next.last_event.status);
                    self.broken("stale", || format!("job {key} goes back to {now:?}"));
                }
            }
            _ => {}
        }
    }
}

/// Lines are added behind, and the oldest go.
fn continues(before: &Instance, next: &Instance) -> bool {
    before.events.last().is_none_or(|last| next.events.iter().rev().any(|line| line == last))
}
