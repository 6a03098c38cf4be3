//! The orphan ledger: machines that nobody owns any more, killed on until EC2 says that they are
//! gone.

use std::collections::BTreeSet;

use muster_domain::SCHEMA;
use muster_domain::absence::Absence;
use muster_domain::audit::{Audit, AuditKind};
use muster_domain::ids::{InstanceName, MachineId};
use muster_domain::observation::{Machine, Termination};
use muster_domain::orphan::Orphan;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;

use crate::context::Wired;
use crate::ports::{CommitError, Compute, Operations as _, Queue, ReadError, Table, Write};
use crate::reaps::sweep::{Sweep, SweepReport};
use crate::reaps::terminate;
use crate::writes::{self, PassError};

/// What is known of an orphan after a look, or after an attempt to end it.
enum Seen {
    /// EC2 says that it is gone.
    Gone,
    /// It is left alone for now: its entry as it should be.
    Rests(Orphan),
    /// It is there, or may be, and is to be ended: its entry before the answer.
    Lives(Orphan),
}

impl<W: Wired<Table: Table, Queue: Queue, Compute: Compute>> Sweep<'_, W> {
    /// Goes on killing what force gave up. With deletes switched off, orphans are left alone and
    /// still counted.
    pub(crate) async fn work_ledger(
        &self,
        orphans: Result<Vec<Stored<Orphan>>, ReadError>,
        may_end: bool,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        let orphans = orphans?;
        if !may_end {
            report.orphans = orphans.len();
            return Ok(());
        }
        self.try_orphans(orphans, now, report).await
    }

    /// Into the ledger first, so that the intent is durable; the ledger does the rest.
    pub(crate) async fn enter_strays(
        &self,
        strays: Vec<MachineId>,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        let mut entered = Vec::new();
        for machine in strays {
            if self.context.table.orphan(&machine).await?.is_some() {
                continue;
            }
            let entry = Change::create(stray(machine, now));
            let committed = match self.context.table.commit(&[entry.clone().into()]).await {
                Ok(committed) => committed,
                Err(CommitError::Conflict) => continue,
                Err(error) => return Err(error.into()),
            };
            tracing::warn!(machine.id = %entry.machine, "found a machine without a record");
            entered.push(entry.stored(&committed));
        }
        self.try_orphans(entered, now, report).await
    }

    /// Looks at each, ends all that live in one call, and writes down what came of it. What fails
    /// for one does not keep the others from it.
    async fn try_orphans(
        &self,
        orphans: Vec<Stored<Orphan>>,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        let mut seen = Vec::with_capacity(orphans.len());
        for orphan in orphans {
            let look = self.look_at_orphan(&orphan, now).await;
            seen.push((orphan, look));
        }
        let living = seen.iter().filter(|(_, seen)| matches!(seen, Seen::Lives(_)));
        let living: BTreeSet<MachineId> =
            living.map(|(orphan, _)| orphan.machine.clone()).collect();
        let mut answers = terminate::all(self.context.compute, living, now).await;
        let mut outcome = Ok(());
        for (orphan, seen) in seen {
            let seen = match (seen, answers.remove(&orphan.machine)) {
                (Seen::Lives(entry), Some(answer)) => answered(entry, answer),
                (seen, _) => seen,
            };
            match self.write_down(&orphan, seen, now).await {
                Ok(true) => report.orphans_gone += 1,
                Ok(false) => report.orphans += 1,
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    async fn look_at_orphan(&self, orphan: &Orphan, now: Time) -> Seen {
        match self.context.compute.machine(&orphan.machine).await.map(|seen| seen.state) {
            Ok(Machine::Gone) => Seen::Gone,
            Ok(Machine::Absent) => self.absent_orphan(orphan, now),
            // Shown again: an earlier denial proves nothing any more.
            Ok(_) => Seen::Lives(Orphan { absence: None, ..orphan.clone() }),
            Err(_) => Seen::Lives(orphan.clone()),
        }
    }

    /// Absent counts after as long as for instances.
    fn absent_orphan(&self, orphan: &Orphan, now: Time) -> Seen {
        let absence = Absence::denied(orphan.absence, now);
        if absence.is_certain(&self.context.settings.timings) {
            return Seen::Gone;
        }
        Seen::Rests(Orphan { absence: Some(absence), ..orphan.clone() })
    }

    /// Whether the orphan is gone now.
    async fn write_down(
        &self,
        orphan: &Stored<Orphan>,
        seen: Seen,
        now: Time,
    ) -> Result<bool, PassError> {
        let is_gone = matches!(seen, Seen::Gone);
        let writes = match seen {
            Seen::Gone => {
                vec![Write::OrphanGone(orphan.machine.clone()), Write::Audit(gone(orphan, now))]
            }
            Seen::Rests(next) | Seen::Lives(next) if next == *orphan.record() => return Ok(false),
            Seen::Rests(next) | Seen::Lives(next) => {
                vec![orphan.change(next).into()]
            }
        };
        Ok(writes::commit_unless_changed(self.context.table, &writes).await? && is_gone)
    }
}

/// What EC2's answer to a terminate says of an orphan.
fn answered(entry: Orphan, answer: Termination) -> Seen {
    match answer {
        Termination::Accepted(Machine::Gone) => Seen::Gone,
        Termination::Accepted(_) => Seen::Rests(entry),
        Termination::NotFound(fault) | Termination::Failed(_, fault) => {
            Seen::Rests(Orphan { attempts: entry.attempts + 1, last_error: Some(fault), ..entry })
        }
    }
}

fn stray(machine: MachineId, now: Time) -> Orphan {
    Orphan {
        schema: SCHEMA,
        machine,
        instance: None::<InstanceName>,
        since: now,
        attempts: 0,
        last_error: None,
        absence: None,
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
