//! The audit trail by time, for incidents in which no names are known yet.

use muster_api::answers::{Answer, AuditList};
use muster_api::{AdminError, AdminErrorCode, AuditRequest, MAX_LIMIT};
use muster_domain::time::{Seconds, Time};

use super::Admin;
use crate::context::Ports;
use crate::ports::Operations as _;

/// How far back a request reads by default.
const USUAL_SPAN: Seconds = Seconds(7 * 24 * 3600);
/// Maximum time range of a request: each month of it is a separate read.
const MAX_SPAN: Seconds = Seconds(400 * 24 * 3600);

impl<P: Ports> Admin<'_, P> {
    pub(super) async fn audit(
        &self,
        request: &AuditRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let AuditRequest { subject, since, until, limit } = request;
        let until = until.unwrap_or(now);
        let since = since.unwrap_or(until - USUAL_SPAN);
        if !(1..=MAX_LIMIT).contains(limit) {
            return Err(bad(format!("\"limit\" must be 1 to {MAX_LIMIT}")));
        }
        if until.is_past(since, MAX_SPAN) {
            return Err(bad("\"since\" must be less than 400 days back".to_owned()));
        }
        let table = self.context.table;
        let mut lines = match subject {
            // A subject has few lines.
            Some(subject) => {
                let mut lines = table.audit(subject, MAX_LIMIT).await?;
                lines.retain(|line| (since..=until).contains(&line.at));
                lines
            }
            None => table.audit_between(since, until, limit + 1).await?,
        };
        let next = lines.get(*limit as usize).map(|line| line.at);
        lines.truncate(*limit as usize);
        Ok(Answer::Audit(AuditList { lines, next }))
    }
}

fn bad(message: String) -> AdminError {
    AdminError::new(AdminErrorCode::BadRequest, message)
}
