//! Costs that are not rolled up.

use muster_domain::time::Time;

use super::super::answers::{Place, Severity, Want};

/// Returns what to say of a roll-up that is outstanding since `due`.
#[must_use]
pub fn not_rolled_up(due: Time, now: Time) -> Want {
    let said = format!(
        "costs have not been rolled up since {}: after 90 days they are lost with their lines",
        due.clock(now)
    );
    let want = Want::new("costs".to_owned(), Severity::Warning, &said, Place::Stack);
    want.since(due).run("muster logs reaper".to_owned())
}
