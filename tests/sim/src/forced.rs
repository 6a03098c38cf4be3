//! I6: a forced row ends in bounded time, whatever EC2 answers. Looked at with every minute of the
//! schedule, during faults as well.

use muster_domain::instance::{Instance, State};

use crate::agenda::{MINUTE, Millis};
use crate::fault::Fault;
use crate::github::CallOutcome;
use crate::world::{Window, World};

/// Force gives up on EC2 at its next error after this long.
const GIVES_UP: Millis = 10 * MINUTE;
/// What that error may take to come, and to be written down: leases of stopped passes, lost
/// wake-ups and missed ticks, refused commits, a terminate that is accepted and does nothing. Each
/// costs three minutes and may follow another.
const SLACK: Millis = 30 * MINUTE;

impl World {
    /// The clock of a forced row runs while nothing that force must wait for stands in its way.
    pub(crate) fn look_at_forced(&mut self) {
        if self.checker.forced.is_empty() {
            return;
        }
        let now = self.now;
        // Nothing of ours runs then, or can write anything down.
        let stands = |one: &Window| matches!(one.fault, Fault::OutageTable | Fault::OutageLambda);
        let stands = self.windows.iter().any(|one| stands(one) && one.is_open(now));
        let rows = self.tables.live_rows();
        let bound: Vec<_> =
            rows.filter(|row| !stands && self.must_end(row)).map(|row| row.name.clone()).collect();
        let mut clocks = std::mem::take(&mut self.checker.forced_since);
        clocks.retain(|name, _| bound.contains(name));
        for name in bound {
            let since = *clocks.entry(name.clone()).or_insert(now);
            if now - since > GIVES_UP + SLACK {
                let row = self.tables.instances.get(&name);
                let told =
                    row.map(|row| (row.state(), row.mark().cloned(), row.last_error.clone()));
                self.broken("I6", || {
                    format!("{name}, forced, for {} minutes: {told:?}", (now - since) / MINUTE)
                });
            }
        }
        self.checker.forced_since = clocks;
    }

    /// Ordered with force, and neither a job nor GitHub nor an open launch holds it.
    fn must_end(&self, row: &Instance) -> bool {
        let Some(machine) = row.machine().and_then(|id| self.ec2.number(id)) else { return false };
        let machine = self.ec2.at(machine);
        let works = machine.job.is_some() || machine.works_on.is_some();
        row.is_forced() && !row.runner.is_busy() && !works && self.is_let_go(row)
    }

    /// Whether nothing that GitHub says, or does not say, holds a forced row.
    fn is_let_go(&self, row: &Instance) -> bool {
        let asks_nobody = row.state() == State::Deleting
            || row.runner.exit.is_some()
            || row.runner.n == 0
            || row.may_kill_job()
            || row.mark().is_some_and(|mark| mark.deregistered);
        if asks_nobody {
            return true;
        }
        let bypasses = row.order().is_some_and(|order| order.bypass_github_unauthorized);
        match self.github.last_outcome(row) {
            None | Some(CallOutcome::Answered) => true,
            Some(CallOutcome::Refused) => bypasses,
            Some(CallOutcome::Busy | CallOutcome::Limited | CallOutcome::Silent) => false,
        }
    }
}
