//! What a commit changes besides states: told in a scenario's timeline, and in the trace of a seed.

use muster_control::ports::Write;
use muster_domain::job::Job;

use crate::world::World;

impl World {
    /// Tells of claims, holds, the orphan ledger and the audit trail.
    pub(crate) fn narrate_commit(&mut self, writes: &[Write]) {
        if !self.is_told() {
            return;
        }
        for write in writes {
            match write {
                Write::Job(next) => self.narrate_job(next, writes),
                Write::Orphan(next) if next.replaces().is_none() => {
                    self.narrate(|| format!("{} enters the orphan ledger", next.machine));
                }
                Write::OrphanGone(machine) => {
                    self.narrate(|| format!("{machine} is struck from the orphan ledger"));
                }
                Write::Audit(line) => self.narrate(|| {
                    format!("audit: {:?} {}, by {}: {}", line.kind, line.subject, line.by, line.why)
                }),
                _ => {}
            }
        }
    }

    /// A new instance tells itself for which job it is planned.
    fn narrate_job(&mut self, next: &Job, writes: &[Write]) {
        let Some(before) = self.tables.jobs.get(&next.key()).cloned() else { return };
        if !next.is_waiting() {
            return;
        }
        let key = next.key();
        let planned = writes.iter().any(|write| {
            matches!(write, Write::Instance(one)
                if one.replaces().is_none() && Some(&one.name) == next.claim.as_ref())
        });
        if before.claim != next.claim && !planned {
            self.narrate(|| match &next.claim {
                Some(name) => format!("job {key} waits for {name}"),
                None => format!("job {key} waits for nobody"),
            });
        }
    }
}
