//! What is switched off stays off, asked at the very commit or call that could go against it:
//! - a pool that is disabled launches nothing, and neither does one whose launches an
//!   operator has switched off;
//! - nothing is deregistered or terminated while deletes are off, but by force, or by runner-api
//!   taking back what nobody got.
//!
//! A pass reads a switch before it commits, and clocks are off by some seconds: what is newer than
//! that is excused.

use muster_control::ports::Write;
use muster_domain::ids::MachineId;
use muster_domain::instance::Instance;
use muster_domain::stored::Committed;
use muster_domain::switches::{SwitchedOff, Switches};
use muster_domain::time::Time;

use crate::agenda::{Millis, SECOND};
use crate::executor::LATEST_LANDING;
use crate::world::World;

/// A function's time limit and the error of a clock.
const JUST_NOW: Millis = 70 * SECOND;

impl World {
    /// How long ago what was switched, or applied, may be unknown to who calls now: a pass may have
    /// begun before, and its last call may arrive after its end.
    const fn just_now(&self) -> Millis {
        JUST_NOW + if self.is_landing { LATEST_LANDING } else { 0 }
    }

    /// The latest that the clock of a function may show: a pause may be over by it.
    const fn clocks_later(&self) -> Time {
        Time::from_millis(self.now + JUST_NOW)
    }

    /// Whether every pass knows that something is switched off. The order may have arrived after
    /// the end of who gave it, long after the time that it names.
    fn is_off_for_long(&self, off: &SwitchedOff) -> bool {
        let stored = self.checker.switched_at.unwrap_or_default();
        self.now - off.since.as_millis().max(stored) > self.just_now()
    }

    /// Whether no pass that is still under way may have begun with other pools.
    pub(crate) fn is_settled(&self) -> bool {
        self.checker.changed_at.is_none_or(|at| self.now - at > self.just_now())
    }

    /// Asked for every write of a commit whose conditions hold.
    pub(crate) fn check_held(&mut self, write: &Write) {
        let Write::Instance(next) = write else { return };
        if next.replaces().is_some() || !self.is_settled() {
            return;
        }
        let Some(pool) = self.checker.pool(&next.pool) else { return };
        let later = self.clocks_later();
        let off = self.tables.switches.as_ref().and_then(|all| all.launches_off(&next.pool, later));
        if !pool.enabled || off.is_some_and(|off| self.is_off_for_long(off)) {
            let (name, pool) = (&next.name, &next.pool);
            self.broken("held", || format!("{name} is launched, and launches of {pool} are off"));
        }
    }

    /// Deletes are off, and this is none that passes.
    pub(crate) fn check_deletes_off(&mut self, row: Option<&Instance>, what: &str) {
        let later = self.clocks_later();
        let off = self.tables.switches.as_ref().and_then(|all| all.deletes_off(later));
        let long = off.is_some_and(|off| self.is_off_for_long(off));
        if long && !row.is_some_and(Instance::is_forced) {
            self.broken("held", || format!("{what} although deletes are off"));
        }
    }

    pub(crate) fn check_terminate_allowed(&mut self, id: &MachineId) {
        let row = self.owner(id).cloned();
        // The ledger goes on when deletes come on again, and an entry of force was ordered.
        self.check_deletes_off(row.as_ref(), &format!("terminate of {id}"));
    }

    /// The faults are over: nothing stays switched off.
    pub(crate) fn switch_all_on(&mut self) {
        if let Some(switches) = &mut self.tables.switches {
            let on = switches.change(Switches::default());
            *switches = on.stored(&Committed::by_table());
        }
    }
}
