//! What protects a running job: the kill gate, the order of the way out, and who may cut a job off.

use muster_domain::audit::AuditKind;
use muster_domain::ids::instance_of_runner;
use muster_domain::instance::{DeleteReason, Instance, StartedJob, State, Waiting};
use muster_domain::time::Seconds;

use crate::agenda::SECOND;
use crate::github::CallOutcome;
use crate::world::World;

impl World {
    /// GitHub removes a registration because we asked. With a job's steps under way that is wrong,
    /// whatever GitHub says, unless an order or the lifetime allows it.
    pub(crate) fn check_removal(&mut self, id: u64) {
        let Some(runner) = self.github.truth.runner(id) else { return };
        let name = runner.name.clone();
        let machine = self.machine_of(id);
        self.check_gate(id);
        self.checker.removed.insert(name.clone());
        self.note_unseen(machine);
        let Some(machine) = machine.map(|number| self.ec2.at(number)) else { return };
        if machine.works_on.is_none() || machine.behaviour.no_hooks {
            return;
        }
        let owner = self.owner(&machine.id);
        if !owner.is_some_and(|row| self.may_kill(row)) {
            self.broken("I1", || format!("{name} was deregistered while its job's steps run"));
        }
    }

    /// The kill gate: an unforced DELETE rests on two "not busy" answers since the mark, far enough
    /// apart, unless the machine's hook refuses every job and none has started. What was answered
    /// in between is not asked here: a pass that heard "busy" may have been stopped.
    fn check_gate(&mut self, id: u64) {
        let Some(runner) = self.github.truth.runner(id) else { return };
        let row = instance_of_runner(&runner.name).and_then(|row| self.tables.instances.get(&row));
        let Some((row, mark)) = row.and_then(|row| Some((row, row.mark()?))) else { return };
        // Force has no gate, and neither has age; a registration without an agent has no job, and
        // an operator's own DELETE is forced. Two clocks, each up to four seconds off.
        let pool = self.checker.pools.iter().find(|pool| pool.name == row.pool);
        let is_old = pool.is_some_and(|pool| {
            self.time() + Seconds(8) >= row.launched_at() + pool.max_lifetime_seconds
        });
        // The hook of a machine that tries an image refuses every job.
        let refuses =
            row.order().is_some() || mark.reason == DeleteReason::SpotNotice || row.build.is_some();
        let is_shut = refuses && row.runner.started.is_none();
        let gated = self.github.truth.session(id).is_some()
            && !is_shut
            && !row.is_forced()
            && !is_old
            && !self.checker.forced.contains(&row.name)
            && !row.may_kill_job()
            && row.runner_name() == runner.name
            && row.state() != State::Running
            && row.state().is_live();
        // Two clocks, each up to four seconds off; and a pass counts from its start, so that the
        // first answer may be as much younger as a pass lasts.
        let marked = mark.at.as_millis() - 8_000;
        let not_busy = self.github.not_busy(id);
        let first = not_busy.iter().find(|at| **at >= marked).copied();
        let enough = first.zip(not_busy.last()).is_some_and(|(a, b)| b - a >= 180_000 - 68_000);
        if gated && !enough {
            let what = format!("DELETE of {} after {not_busy:?}", runner.name);
            self.broken("gate", || what);
        }
    }

    /// The kill gate: once a runner is known to be busy, all evidence for its end is void.
    pub(crate) fn check_gate_of(&mut self, next: &Instance) {
        let open = next.mark().is_some_and(|mark| {
            mark.waiting == Some(Waiting::Busy)
                && (mark.gate_passed || mark.not_busy_since.is_some())
        });
        if open && !next.is_forced() && !next.may_kill_job() {
            self.broken("gate", || format!("{} is busy, and its gate stays open", next.name));
        }
    }

    /// Older than its pool allows, whatever its end began with.
    fn is_past_lifetime(&self, row: &Instance) -> bool {
        let pool = self.checker.pools.iter().find(|pool| pool.name == row.pool);
        pool.is_some_and(|pool| self.time() >= row.launched_at() + pool.max_lifetime_seconds)
    }

    /// Deregister, then terminate: no machine goes while GitHub may still give its agent a job.
    fn check_deregistered(&mut self, number: u32) {
        let machine = self.ec2.at(number);
        let registered = machine.runner.is_some_and(|id| self.github.truth.runner(id).is_some());
        if !registered || machine.task.is_none() {
            return;
        }
        let excused = self.owner(&machine.id).is_none_or(|row| {
            let stopped = row.mark().is_some_and(|mark| {
                matches!(mark.reason, DeleteReason::MachineStopped | DeleteReason::MaxLifetime)
            });
            let bypassed = row.order().is_some_and(|order| {
                let waited = self.now - order.at.as_millis() >= 590_000;
                (order.force && waited)
                    || order.bypass_github_unauthorized
                    || order.kill_running_job
            });
            stopped || bypassed || row.runner.exit.is_some() || self.is_past_lifetime(row)
        });
        if !excused {
            self.broken("order", || format!("machine {number} is terminated while registered"));
        }
    }

    /// I1, I14: a machine is about to be terminated.
    pub(crate) fn check_kill(&mut self, number: u32) {
        let machine = self.ec2.at(number);
        let owner = self.owner(&machine.id);
        // The hook was told yes, and the steps are about to begin.
        let promised = machine.task.is_some()
            && owner.is_some_and(|row| {
                let started = row.runner.started.as_ref();
                row.runner.exit.is_none() && started.is_some_and(StartedJob::is_under_way)
            });
        if self.ec2.is_gone(number) || (machine.works_on.is_none() && !promised) {
            self.check_deregistered(number);
            return;
        }
        let Some(owner) = owner.cloned() else {
            return self.busy_kill(number, None);
        };
        if !self.may_kill(&owner) {
            return self.busy_kill(number, Some(&owner));
        }
        if machine.works_on.is_some() {
            self.tally.killed_by_order += 1;
            self.count_if_cut_short(&owner, number);
            self.check_kill_audit(&owner, number);
        }
    }

    /// The age of a machine ends a job that has not had the half of it that any job may count on.
    fn count_if_cut_short(&mut self, owner: &Instance, number: u32) {
        let ordered = owner.order().is_some_and(|order| order.kill_running_job);
        let pool = self.checker.pools.iter().find(|pool| pool.name == owner.pool);
        let job = self.ec2.at(number).works_on.and_then(|job| self.github.truth_of(job));
        let (Some(pool), Some(job), false) = (pool, job, ordered) else { return };
        // A mark shortly before the job takes the rest.
        let promised = i64::from(pool.max_lifetime_seconds.0) * SECOND / 2 - 60 * SECOND;
        let begun = job.started_at.unwrap_or(self.now);
        self.tally.cut_short += u64::from(self.now - begun < promised);
    }

    /// GitHub removes, on its own lie, a busy runner that nobody else told us of: from here on
    /// nothing that is learnt can save its job.
    fn note_unseen(&mut self, machine: Option<u32>) {
        let Some(machine) = machine.map(|number| self.ec2.at(number)) else { return };
        // Also one whose steps have yet to begin.
        let job = machine.works_on.or(machine.job);
        let Some(job) = job.filter(|_| machine.behaviour.no_hooks) else { return };
        let known = self.owner(&machine.id).is_some_and(|row| row.runner.is_busy());
        self.github.job_mut(job).given_up_unseen |= !known;
    }

    /// What GitHub had said, in the pass that decided, of a runner that it had not let go.
    pub(crate) fn note_passage(&mut self, before: &Instance, next: &Instance) {
        if next.state() != State::Deleting || before.state() == State::Deleting {
            return;
        }
        let let_go = next.mark().is_some_and(|mark| mark.deregistered);
        let heard = self.github.outcome_for(self.current, next, self.now);
        match heard.filter(|_| !let_go) {
            Some(outcome) => self.checker.passages.insert(next.name.clone(), outcome),
            None => self.checker.passages.remove(&next.name),
        };
    }

    /// By an order, or by the pool's longest life.
    fn may_kill(&self, row: &Instance) -> bool {
        let pool = self.checker.pools.iter().find(|pool| pool.name == row.pool);
        let oldest = pool.map(|pool| row.launched_at() + pool.max_lifetime_seconds);
        let now = muster_domain::time::Time::from_millis(self.now + 4_000);
        row.may_kill_job() || oldest.is_some_and(|oldest| now >= oldest)
    }

    /// A running job is cut off, and nobody ordered it. On GitHub's lie alone that cannot be
    /// excluded; with a true answer of GitHub, or with the job on record, it must never happen.
    fn busy_kill(&mut self, number: u32, owner: Option<&Instance>) {
        let machine = self.ec2.at(number);
        // Only a lie since the mark is evidence for this end. The mark's clock may be off, and a
        // pass counts from its start, which is earlier.
        let marked = owner.and_then(Instance::mark).map(|mark| mark.at.as_millis() - 4_000);
        let lied_at = machine.works_on.and_then(|job| self.github.job(job).lied_at);
        let lied = lied_at.zip(marked).is_some_and(|(lied, marked)| lied >= marked);
        let unseen = machine.works_on.is_some_and(|job| self.github.job(job).given_up_unseen);
        let on_record = owner.is_some_and(|row| row.runner.is_busy());
        let known = !machine.behaviour.no_hooks || (on_record && !unseen);
        let bypassed = owner.is_some_and(|row| {
            let refused = self.checker.passages.get(&row.name) == Some(&CallOutcome::Refused);
            refused && row.order().is_some_and(|order| order.bypass_github_unauthorized)
        });
        match (known, lied) {
            (false, _) if bypassed => {
                self.tally.busy_kills_bypassed += 1;
                return;
            }
            (false, true) => {
                self.tally.busy_kills_unseen += 1;
                return;
            }
            (true, true) => self.tally.busy_kills_hooked += 1,
            (_, false) => self.tally.busy_kills_truthful += 1,
        }
        let name = owner.map(|row| row.name.clone());
        self.broken("I1", || {
            let github = if lied { "lied" } else { "told the truth" };
            let hook = if known { "on record" } else { "not on record" };
            format!(
                "machine {number} ({name:?}) is terminated with a job on it; GitHub {github}, \
                 the job is {hook}"
            )
        });
    }

    /// I14: a job that an order ends has its line. Of a job without hooks nobody may have heard.
    fn check_kill_audit(&mut self, owner: &Instance, number: u32) {
        let killed = |line: &muster_domain::audit::Audit| {
            line.kind == AuditKind::JobKilled && line.subject == owner.name.as_str()
        };
        if owner.runner.is_busy() && !self.tables.audits.iter().any(killed) {
            self.broken("I14", || {
                format!("the job on machine {number} is killed without an audit")
            });
        }
    }

    /// I9: the steps of a job begin.
    pub(crate) fn job_begins(&mut self, machine: u32, job: u32) {
        let truth = self.github.truth_of(job);
        let runner = truth.and_then(|truth| truth.runner.as_ref());
        let (id, name) = runner.map(|one| (one.id, one.name.clone())).unwrap_or_default();
        let key = self.github.job(job).key;
        // An agent whose power just went may have this moment left.
        let _ = self.github.truth.job_began(id, key.job, self.now);
        let here = self.ec2.at_mut(machine);
        here.works_on = Some(job);
        here.has_worked = true;
        let hooked = !here.behaviour.no_hooks;
        self.github.job_mut(job).hooked = hooked;
        self.narrate(|| format!("job {job} begins on {name}"));
        if self.checker.not_started.contains(&job) {
            self.broken("I9", || format!("a step of job {job} runs, whose start was refused"));
        }
        if hooked && self.checker.removed.contains(&name) {
            self.broken("I9", || format!("job {job} begins on {name}, which we deregistered"));
        }
    }
}
