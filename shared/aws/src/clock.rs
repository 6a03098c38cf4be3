//! The clock. A handler reads it once per event and passes the time on.

use std::time::SystemTime;

use muster_domain::time::Time;

/// Returns the current time of this machine's clock.
#[must_use]
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Converts an invocation's deadline from Lambda, in milliseconds of Unix time.
#[must_use]
pub fn deadline(millis: u64) -> Time {
    Time::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}
