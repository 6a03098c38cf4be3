//! A job that GitHub calls over, on a machine that says nothing of its end: it hangs, has restarted,
//! or its own job has stopped its agent. It would keep its slot for the longest life of its pool.
//!
//! GitHub's word is taken after an hour, and it ends nothing: the kill gate reads twice whether the
//! runner is busy, and GitHub answers the DELETE. One that it still calls busy stays, and is asked
//! for again until that changes or its machine is too old.

use super::{Record, Step};
use crate::audit::{Audit, AuditKind};
use crate::instance::Instance;
use crate::time::Time;

/// The step that takes GitHub's word, if that is old enough.
pub(super) fn write_off(instance: &Instance, now: Time) -> Option<Step> {
    let (over, _) = instance.runner.called_over().filter(|(_, believed)| now >= *believed)?;
    let mut next = instance.clone();
    next.write_job_off(now);
    let why = format!("GitHub has called its job over since {over}, and the machine is silent");
    let audit = Audit::new(&instance.name, AuditKind::JobWrittenOff, "muster", &why, now);
    let records = vec![Record::Audit(audit)];
    Some(Step::Act { next: Box::new(next), records, effect: None })
}
