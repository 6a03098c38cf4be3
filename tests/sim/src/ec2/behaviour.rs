//! How a machine misbehaves, and what will end it before its time.

use muster_domain::agent::AgentVersion;

use crate::agenda::{Arrival, Event, HOUR, MINUTE, Millis, SECOND};
use crate::fault::Fault;
use crate::world::World;

use super::NOTICE;

/// The agent that images bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageAgent {
    /// Nothing is told of it, and GitHub takes it.
    #[default]
    Untold,
    /// None.
    Missing,
    /// This version.
    Has(AgentVersion),
}

/// How a machine misbehaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Nothing ever runs.
    pub never_boots: bool,
    /// Added to the usual boot.
    pub slower_by: Millis,
    /// The boot script fails.
    pub boot_fails: bool,
    /// The agent comes up, and ends without a job.
    pub gives_up: bool,
    /// The agent's hooks do not run.
    pub no_hooks: bool,
    /// `shutdown` does nothing.
    pub never_shuts_down: bool,
    /// EC2 ends it while it is pending.
    pub aborted: bool,
    /// Every terminate fails until then.
    pub blocked_until: Millis,
}

impl World {
    pub(super) fn behaviour(&mut self) -> Behaviour {
        if !self.ec2.scripted.is_empty() {
            return self.ec2.scripted.remove(0);
        }
        Behaviour {
            never_boots: self.strikes(Fault::NeverBoots),
            slower_by: if self.strikes(Fault::BootSlow) {
                self.between(MINUTE, 12 * MINUTE)
            } else {
                0
            },
            boot_fails: self.strikes(Fault::BootFails),
            gives_up: self.strikes(Fault::AgentGivesUp),
            no_hooks: self.strikes(Fault::HooksLost),
            never_shuts_down: self.strikes(Fault::NeverShutsDown),
            aborted: self.strikes(Fault::LaunchAborted) || self.is_away(Fault::OutageBoots),
            blocked_until: if self.strikes(Fault::TerminateBlocked) {
                // Somebody may have forgotten to take the protection off.
                let longest = if self.rng.chance(200_000) { 14 * HOUR } else { HOUR };
                (self.now + self.between(10 * MINUTE, longest)).min(self.faults_end)
            } else {
                0
            },
        }
    }

    /// What will end the machine before its time.
    pub(super) fn plan_mishaps(&mut self, number: u32, is_spot: bool) {
        if let Some(after) = self.interrupted_after(number) {
            let at = self.now + after;
            self.agenda.at(at, Event::Machine(number, Arrival::Reclaimed));
            self.agenda.at((at - 2 * MINUTE).max(self.now), Event::Notice(number));
            self.announce_reclaim(number, at);
        }
        if is_spot && self.strikes(Fault::SpotReclaim) {
            let at = self.mishap(number, Arrival::Reclaimed);
            // The notice comes two minutes ahead.
            let notice = (at - 2 * MINUTE).max(self.now);
            self.agenda.at(notice, Event::StateEvent(number, NOTICE, notice));
            self.announce_reclaim(number, at);
        } else if is_spot && self.strikes(Fault::SpotWithoutNotice) {
            self.mishap(number, Arrival::Reclaimed);
        }
        for (fault, arrival) in [
            (Fault::MachineDies, Arrival::Died),
            (Fault::MachineHangs, Arrival::Hung),
            (Fault::MachineStopped, Arrival::Halted),
            (Fault::RunnerForgotten, Arrival::Forgotten),
        ] {
            if self.strikes(fault) {
                self.mishap(number, arrival);
            }
        }
    }

    fn mishap(&mut self, number: u32, arrival: Arrival) -> Millis {
        let at = self.now + self.between(5 * SECOND, 30 * MINUTE);
        self.agenda.at(at, Event::Machine(number, arrival));
        at
    }
}
