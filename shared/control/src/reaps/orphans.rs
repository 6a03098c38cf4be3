//! The orphan ledger: machines without an owner, terminated until EC2 reports that they are gone.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use muster_domain::absence::Absence;
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::causes::with_causes;
use muster_domain::ids::MachineId;
use muster_domain::observation::{Machine, Termination};
use muster_domain::orphan::Orphan;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::Line;

use crate::context::{Context, Wired};
use crate::ports::{Compute, MAX_LOOKED_AT, ShownMachine, Table, Write};
use crate::reaps::terminate;
use crate::writes::{self, PassError};

/// Number of entries written concurrently. Each write has its own connection.
const WRITES_AT_ONCE: usize = 10;

/// The state of an orphan after a check or a termination attempt.
enum OrphanState {
    /// EC2 reports it gone, or it no longer belongs to our stack.
    Leaves,
    /// It is left alone for now; the value is its updated entry.
    Rests(Orphan),
    /// It exists, or may exist, and should be terminated; the value is its entry before EC2's
    /// answer.
    Lives(Orphan),
}

/// The results of a pass over the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerReport {
    /// Entries removed from the ledger.
    pub gone: usize,
    /// Entries that remain.
    pub left: usize,
    /// Entries not checked; the next pass starts with them.
    pub postponed: usize,
    /// Entries that could not be written.
    pub problems: Vec<String>,
}

/// A pass over the ledger, after a sweep.
pub struct Ledger<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Compute: Compute>> Ledger<'_, W> {
    /// Terminates orphans in parts: each part is checked, terminated and recorded before the next
    /// one, so an interrupted pass keeps its progress. Starts with those that were checked longest
    /// ago, so the next pass continues where this one stops. No part starts after the time for the
    /// last call.
    pub async fn work(
        &self,
        mut orphans: Vec<Stored<Orphan>>,
        last_call: Time,
        clock: impl Fn() -> Time,
    ) -> LedgerReport {
        orphans.sort_by(|one, other| one.turn().cmp(&other.turn()));
        let mut report = LedgerReport::default();
        for part in orphans.chunks(MAX_LOOKED_AT) {
            if clock() < last_call {
                self.try_part(part, last_call, &clock, &mut report).await;
            } else {
                report.postponed += part.len();
            }
        }
        report
    }

    /// Processes one part. A failure of one entry does not affect the others.
    async fn try_part(
        &self,
        part: &[Stored<Orphan>],
        last_call: Time,
        clock: &impl Fn() -> Time,
        report: &mut LedgerReport,
    ) {
        let now = clock();
        let shown = self.look(part).await;
        let seen: Vec<OrphanState> =
            part.iter().map(|orphan| self.judged(orphan, shown.as_ref(), now)).collect();
        let living =
            part.iter().zip(&seen).filter(|(_, seen)| matches!(seen, OrphanState::Lives(_)));
        let living = living.map(|(orphan, _)| orphan.machine.clone()).collect();
        let may_go_on = || clock() < last_call;
        let mut answers =
            terminate::while_it_may(self.context.compute, living, now, may_go_on).await;
        let ended = part.iter().zip(seen).map(|(orphan, seen)| {
            match (seen, answers.remove(&orphan.machine)) {
                (OrphanState::Lives(entry), Some(answer)) => (orphan, answered(entry, answer)),
                (seen, _) => (orphan, seen),
            }
        });
        let mut ended = ended.collect::<Vec<_>>().into_iter();
        loop {
            let some = ended.by_ref().take(WRITES_AT_ONCE);
            let written =
                join_all(some.map(|(orphan, seen)| self.write_down(orphan, seen, now))).await;
            if written.is_empty() {
                return;
            }
            for done in written {
                match done {
                    Ok(true) => report.gone += 1,
                    Ok(false) => report.left += 1,
                    Err(error) => report.problems.push(with_causes(&error).to_string()),
                }
            }
        }
    }

    /// Returns EC2's state of these orphans, if EC2 answers.
    async fn look(&self, part: &[Stored<Orphan>]) -> Option<BTreeMap<MachineId, ShownMachine>> {
        let ids: BTreeSet<MachineId> = part.iter().map(|orphan| orphan.machine.clone()).collect();
        match self.context.compute.machines(&ids).await {
            Ok(shown) => Some(shown),
            Err(error) => {
                tracing::warn!(error = with_causes(&error), "failed to check orphans");
                None
            }
        }
    }

    fn judged(
        &self,
        orphan: &Orphan,
        shown: Option<&BTreeMap<MachineId, ShownMachine>>,
        now: Time,
    ) -> OrphanState {
        let looked_at = orphan.launch.is_some().then_some(now);
        let entry = Orphan { looked_at, ..orphan.clone() };
        let lives = |entry: Orphan| match entry.launch {
            Some(_) => OrphanState::Lives(entry),
            None => OrphanState::Rests(entry),
        };
        let Some(shown) = shown else { return lives(entry) };
        let Some(machine) = shown.get(&orphan.machine) else {
            return self.absent(entry, now);
        };
        let stranger = orphan.launch.is_none();
        if machine.state == Some(Machine::Gone) || (stranger && !machine.is_ours) {
            return OrphanState::Leaves;
        }
        let launch = entry.launch.or_else(|| machine.launch.clone());
        // It is visible again, so an earlier denial proves nothing.
        lives(Orphan { absence: None, launch, ..entry })
    }

    /// Judges an orphan that EC2 does not know: gone after the same delay as for instances.
    fn absent(&self, entry: Orphan, now: Time) -> OrphanState {
        let absence = Absence::denied(entry.absence, now);
        if absence.is_certain(&self.context.settings.timings) {
            return OrphanState::Leaves;
        }
        OrphanState::Rests(Orphan { absence: Some(absence), ..entry })
    }

    /// Records an orphan's state. Returns whether it left the ledger.
    async fn write_down(
        &self,
        orphan: &Stored<Orphan>,
        seen: OrphanState,
        now: Time,
    ) -> Result<bool, PassError> {
        let leaves = matches!(seen, OrphanState::Leaves);
        let writes = match seen {
            OrphanState::Leaves => {
                let gone = orphan.launch.is_some().then(|| Write::Audit(gone(orphan, now)));
                let struck = Write::OrphanGone(orphan.machine.clone());
                let line = Line::of_orphan(orphan, now).map(Write::from);
                [struck].into_iter().chain(gone).chain(line).collect()
            }
            OrphanState::Rests(next) | OrphanState::Lives(next) if next == *orphan.record() => {
                return Ok(false);
            }
            OrphanState::Rests(next) | OrphanState::Lives(next) => vec![orphan.change(next).into()],
        };
        Ok(writes::commit_unless_changed(self.context.table, &writes).await? && leaves)
    }
}

/// Returns what EC2's answer to a termination means for an orphan.
fn answered(entry: Orphan, answer: Termination) -> OrphanState {
    match answer {
        Termination::Accepted(Machine::Gone) => OrphanState::Leaves,
        Termination::Accepted(_) => OrphanState::Rests(entry),
        Termination::NotFound(fault) | Termination::Failed(_, fault) => {
            OrphanState::Rests(Orphan {
                attempts: entry.attempts + 1,
                last_error: Some(fault),
                ..entry
            })
        }
    }
}

fn gone(orphan: &Orphan, now: Time) -> Audit {
    Audit {
        at: now,
        kind: AuditKind::OrphanTerminated,
        subject: orphan.machine.as_str().to_owned(),
        by: "muster".to_owned(),
        why: "orphan ledger".to_owned(),
    }
}
