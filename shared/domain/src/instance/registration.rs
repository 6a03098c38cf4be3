//! Failed registrations of a machine's runner, and their explanation for operators.

use serde::{Deserialize, Serialize};

use super::Instance;
use crate::app::{NOT_INSTALLED, is_before_github};
use crate::provider::ErrorDetail;
use crate::text::first;
use crate::time::Time;

/// Maximum length of a recorded message, in characters.
const MAX_MESSAGE: usize = 300;
/// The code of an error caused by a GitHub rate limit.
pub const RATE_LIMIT: &str = "rate-limit";
/// The code of an error caused by a runner name that is in use.
pub const NAME_TAKEN: &str = "409";

/// A series of failed attempts to register a runner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailedRegistration {
    /// When the first attempt failed.
    pub since: Time,
    /// Number of failed attempts.
    pub tries: u32,
    /// The error of the last attempt.
    pub last: ErrorDetail,
}

impl FailedRegistration {
    /// Formats the failure for operators, without a final full stop.
    #[must_use]
    pub fn sentence(&self, now: Time) -> String {
        let Self { since, tries, last } = self;
        let tried = match tries {
            1 => format!("tried once at {}", since.clock(now)),
            many => format!("tried {many} times since {}", since.clock(now)),
        };
        format!("{}; {tried}; {}", cause(last), remedy(last))
    }
}

impl Instance {
    /// Records that a registration failed. The next success removes the record.
    pub fn registration_failed(&mut self, error: &ErrorDetail) {
        let (since, tries) =
            self.unregistered.as_ref().map_or((error.at, 0), |one| (one.since, one.tries));
        let last = bounded(error);
        self.unregistered = Some(FailedRegistration { since, tries: tries + 1, last });
    }
}

/// Returns the error with its message cut to the maximum length of a record.
#[must_use]
pub fn bounded(error: &ErrorDetail) -> ErrorDetail {
    let message = first(error.message.trim(), MAX_MESSAGE).to_owned();
    ErrorDetail { message, ..error.clone() }
}

/// Formats who failed and how: the service, its status and its message.
#[must_use]
pub fn cause(error: &ErrorDetail) -> String {
    let ErrorDetail { operation, code, message, .. } = error;
    let call = match operation.as_str() {
        "generate-jitconfig" => "the registration",
        "create-installation-token" => "the request for an installation token",
        "get-installation" => "the request for the App's installation",
        other => other,
    };
    let suffix = if message.is_empty() { String::new() } else { format!(": {message}") };
    if is_before_github(code) || code == NOT_INSTALLED {
        return message.clone();
    }
    match code.as_str() {
        RATE_LIMIT => format!("GitHub limits the rate of registrations{suffix}"),
        status if status.parse::<u16>().is_ok() => {
            format!("GitHub answers {status} to {call}{suffix}")
        }
        "refused" => format!("GitHub refuses the connection for {call}{suffix}"),
        "unreadable" => format!("GitHub's answer to {call} cannot be read{suffix}"),
        _ => format!("GitHub does not answer {call}{suffix}"),
    }
}

/// Returns the recommended fix.
fn remedy(error: &ErrorDetail) -> &'static str {
    match error.code.as_str() {
        code if is_before_github(code) => "muster doctor shows the fix",
        NOT_INSTALLED => "the machine retries",
        "401" => "check the App's key: muster doctor",
        "403" => "check the App's permissions and its access to the pool's runner group",
        "404" | "422" | "400" => "check the pool's entity and runner group",
        NAME_TAKEN => "the machine retries with a new name",
        RATE_LIMIT => "the machine retries when the limit ends",
        _ => "the machine retries; see githubstatus.com",
    }
}

#[cfg(test)]
mod tests;
