//! Jobs that GitHub reports as ended while their machine reports no end: the machine hangs, was
//! restarted, or its job stopped its agent. It would otherwise occupy its slot for the pool's
//! maximum lifetime.
//!
//! After an hour GitHub's report is accepted, but that alone deletes no machine: the kill gate
//! checks twice whether the runner is busy, and GitHub answers the DELETE. A runner that GitHub
//! still reports as busy is kept and polled until that changes or its machine is too old.

use super::{Record, Step};
use crate::audit::{Audit, AuditKind};
use crate::instance::Instance;
use crate::time::Time;

/// Returns the step that accepts GitHub's report, if that is old enough.
pub(super) fn write_off(instance: &Instance, now: Time) -> Option<Step> {
    let (over, _) = instance.runner.called_over().filter(|(_, believed)| now >= *believed)?;
    let mut next = instance.clone();
    next.write_job_off(now);
    let why = format!("GitHub reported the end of its job at {over}, and the machine has not");
    let audit = Audit::new(&instance.name, AuditKind::JobWrittenOff, "muster", &why, now);
    let records = vec![Record::Audit(audit)];
    Some(Step::Act { next: Box::new(next), records, effect: None })
}
