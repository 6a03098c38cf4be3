//! Runner processes, and what GitHub says of them.

use muster_domain::agent::AgentDownload;
use muster_domain::ec2::Arch;

use super::id_of;
use crate::agenda::{Event, HOUR, MINUTE, Millis, SECOND};
use crate::fault::Fault;
use crate::world::World;

impl World {
    /// The agents that GitHub lists, as its client reads them.
    #[must_use]
    pub fn listed_agents(&self) -> Vec<AgentDownload> {
        let agents = self.github.truth.agents.listed.iter();
        let read = agents.map(|one| AgentDownload {
            version: one.version.parse().expect("a version"),
            arch: if one.architecture == "arm64" { Arch::Arm64 } else { Arch::X64 },
            url: one.download_url.clone(),
            sha256: one.sha256.clone(),
        });
        read.collect()
    }

    /// An agent presents its registration. False when there is none any more.
    pub fn connect(&mut self, machine: u32, id: u64) -> bool {
        let place = self.ec2.at(machine).id.as_str();
        let truth = &mut self.github.truth;
        let connected = truth.connect(id, Some(place), self.now);
        if connected.and_then(|()| truth.await_job(id, self.now)).is_err() {
            return false;
        }
        self.ec2.at_mut(machine).runner = Some(id);
        self.dispatch_soon();
        true
    }

    /// An agent could not take the job that it was given, and its registration is used up; it
    /// listens on.
    pub fn forget_runner(&mut self, machine: u32) {
        let Some(id) = self.ec2.at(machine).runner else { return };
        if self.github.truth.forget_runner(id, self.now) {
            self.narrate(|| format!("GitHub forgets runner {id}"));
        }
    }

    /// An agent is done with its job; being ephemeral, its registration goes with it.
    pub fn agent_done(&mut self, id: u64, number: u32, conclusion: &'static str) {
        let done = self.github.truth.job_done(id, id_of(number), conclusion, self.now);
        if done.is_ok() {
            self.carry_out_news();
        }
    }

    /// The agent's process is gone without a word.
    pub fn runner_lost(&mut self, machine: u32, why: &str) {
        let machine = self.ec2.at_mut(machine);
        let (works_on, job) = (machine.works_on.take(), machine.job.take());
        let Some(id) = machine.runner.take() else { return };
        if job.is_some() && works_on.is_some() && why != "terminated" {
            self.tally.lost_to_cloud += 1;
        }
        self.github.truth.agent_lost(id, why, self.now);
        self.carry_out_news();
        if self.strikes(Fault::RunnerMissed) && self.github.truth.go_on_offering(id) {
            let noticed = self.now + self.between(MINUTE, 10 * MINUTE);
            self.agenda.at(noticed, Event::Noticed(id));
            self.dispatch_soon();
        }
    }

    /// GitHub waits in vain for a runner to take its job, and queues the job again.
    pub fn offer_lapses(&mut self, id: u64) {
        if self.github.truth.forget_runner(id, self.now) {
            self.narrate(|| format!("runner {id} has not taken its job: GitHub queues it again"));
        }
        self.dispatch_soon();
    }

    /// Whether there is such a registration and its agent. GitHub sees the agent's end some time
    /// later; here at once.
    pub(crate) fn is_connected(&self, id: u64) -> bool {
        let truth = &self.github.truth;
        truth.runner(id).is_some() && truth.session(id).is_some_and(|session| session.alive)
    }

    /// When GitHub will call the runner of a job idle that is about to start: from then until then.
    pub(super) fn plan_lies(&mut self) -> [(Millis, Millis); 2] {
        let now = self.now;
        let early = if self.strikes(Fault::BusyLieEarly) {
            (now, now + self.between(25 * SECOND, MINUTE))
        } else {
            (0, 0)
        };
        let late = if self.strikes(Fault::BusyLieLate) {
            // Seen for up to 12 minutes; nothing says that it cannot last longer.
            let longest = if self.rng.chance(100_000) { HOUR } else { 12 * MINUTE };
            (now + self.between(MINUTE, 8 * MINUTE), now + self.between(9 * MINUTE, longest))
        } else {
            (0, 0)
        };
        [early, late]
    }

    /// Whether GitHub shows the runner as busy.
    pub(super) fn looks_busy(&mut self, id: u64) -> bool {
        let busy = self.is_called_busy(id);
        if !busy {
            self.says_quiet(id);
        }
        busy
    }

    /// GitHub answers that a registered runner is not busy, or not there.
    pub(super) fn says_quiet(&mut self, id: u64) {
        self.github.not_busy.entry(id).or_default().push(self.now);
    }

    fn is_called_busy(&mut self, id: u64) -> bool {
        let Some(job) = self.github.job_on(id) else {
            return self.strikes(Fault::BusyLieIdle);
        };
        let lies = self.github.job(job).lies;
        let lying = lies.iter().any(|(from, until)| (*from..*until).contains(&self.now));
        if lying || self.github.script.always_lies {
            self.narrate(|| "GitHub calls a busy runner idle".to_owned());
            self.lies_about(id);
            return false;
        }
        true
    }

    /// GitHub hides from us that a runner is busy.
    pub(super) fn lies_about(&mut self, id: u64) {
        if let Some(job) = self.github.job_on(id) {
            self.github.job_mut(job).lied_at = Some(self.now);
        }
    }
}
