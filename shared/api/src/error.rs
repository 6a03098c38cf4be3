//! Errors that an operator sees.

use muster_domain::app::{NOT_INSTALLED, is_before_github};
use muster_domain::pool_file::Problem;
use muster_domain::provider::{ErrorDetail, ProviderError};
use serde::Serialize;
use strum::VariantArray as _;

/// The kind of an error, for programs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AdminErrorCode {
    /// The instance is already deleted.
    AlreadyDeleted,
    /// The stack has a working App.
    AppExists,
    /// The pool file has errors.
    BadPoolFile,
    /// The request is unknown, or one of its fields is out of range.
    BadRequest,
    /// The request's version is unsupported or missing.
    BadVersion,
    /// A job is running on the machine.
    Busy,
    /// Concurrent writes to the record conflict.
    BusyRecord,
    /// GitHub or EC2 denies the call.
    NotAllowed,
    /// The record does not exist.
    NotFound,
    /// Launching is not possible now.
    NotLaunched,
    /// Deletes are switched off.
    SwitchedOff,
    /// A service does not answer.
    Unavailable,
    /// A different release wrote the record.
    UnreadableRecord,
}

impl AdminErrorCode {
    /// All codes.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the code as in the JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An error that an operator sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdminError {
    /// The kind of error.
    pub code: AdminErrorCode,
    /// A sentence for people, with what to do.
    pub message: String,
    /// The errors of a pool file, each with its path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Problem>,
}

impl AdminError {
    /// Creates an error without errors of a pool file.
    #[must_use]
    pub fn new(code: AdminErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), errors: Vec::new() }
    }
}

/// Returns the code and a sentence for an operator about a failed call.
#[must_use]
pub fn call_failure(provider: &str, trouble: &ProviderError) -> (AdminErrorCode, String) {
    let call =
        |fault: &ErrorDetail| format!("{}: {} ({})", fault.operation, fault.message, fault.code);
    match trouble {
        ProviderError::Unauthorized(fault) if is_before_github(&fault.code) => {
            (AdminErrorCode::NotAllowed, format!("{provider} was not called: {}", fault.message))
        }
        ProviderError::Unavailable(fault) if is_before_github(&fault.code) => (
            AdminErrorCode::Unavailable,
            format!("{provider} was not called: {}; try again", fault.message),
        ),
        ProviderError::Unauthorized(fault) if fault.code == NOT_INSTALLED => {
            (AdminErrorCode::NotAllowed, fault.message.clone())
        }
        ProviderError::Unavailable(fault) => (
            AdminErrorCode::Unavailable,
            format!("{provider} did not answer {}; try again", call(fault)),
        ),
        ProviderError::RateLimited(until) => (
            AdminErrorCode::Unavailable,
            format!("{provider}'s rate limit lasts until {until}; try again then"),
        ),
        ProviderError::Unauthorized(fault) => (
            AdminErrorCode::NotAllowed,
            format!("{provider} denies {}; grant the permission first", call(fault)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::AdminErrorCode;

    #[test]
    fn the_json_has_each_code_as_its_word() {
        for code in AdminErrorCode::ALL.iter().copied() {
            assert_eq!(serde_json::json!(code), code.as_str());
        }
    }
}
