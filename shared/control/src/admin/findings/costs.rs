//! Costs that are not rolled up.

use muster_api::answers::{Finding, Location, Severity};
use muster_domain::time::Time;

/// Returns the finding for a roll-up that is outstanding since `due`.
#[must_use]
pub fn not_rolled_up(due: Time, now: Time) -> Finding {
    let message = format!(
        "costs have not been rolled up since {}: after 90 days they are lost with their lines",
        due.clock(now)
    );
    let finding = Finding::new("costs", Severity::Warning, Location::Stack, &message);
    finding.since(due).fix("muster logs reaper")
}
