//! The errors that an operator is told.

use muster_domain::pool_file::Problem;
use serde::Serialize;
use strum::VariantArray as _;

use crate::causes::with_causes;
use crate::ports::{CommitError, ReadError};
use crate::writes::{MayConflict, PassError};

/// What kind of error it is: a word for programs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AdminErrorCode {
    /// The instance is deleted already.
    AlreadyDeleted,
    /// The stack has an App that answers.
    AppExists,
    /// The pool file has mistakes.
    BadPoolFile,
    /// The request is not one that the function knows, or a field of it is out of bounds.
    BadRequest,
    /// The request is of another version, or of none.
    BadVersion,
    /// A job runs on the machine.
    Busy,
    /// Somebody else writes the record.
    BusyRecord,
    /// GitHub or EC2 refuses the call.
    NotAllowed,
    /// There is no such record.
    NotFound,
    /// No machine is launched now.
    NotLaunched,
    /// Deletes are switched off.
    SwitchedOff,
    /// A service gives no answer.
    Unavailable,
    /// Another release wrote the record.
    UnreadableRecord,
}

impl AdminErrorCode {
    /// All codes.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// As the JSON has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An error that the operator is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdminError {
    /// What kind of error it is.
    pub code: AdminErrorCode,
    /// A sentence for people, with what to do.
    pub message: String,
    /// Of a pool file: every mistake, with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Problem>,
}

impl AdminError {
    pub(super) fn new(code: AdminErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), errors: Vec::new() }
    }
}

impl From<PassError> for AdminError {
    fn from(error: PassError) -> Self {
        let told = with_causes(&error);
        let (code, advice) = match &error {
            PassError::Commit(CommitError::Conflict) => (AdminErrorCode::BusyRecord, "try again"),
            PassError::Read(ReadError::Unreadable { key, .. }) => {
                (AdminErrorCode::UnreadableRecord, repair(key))
            }
            PassError::Read(ReadError::Unavailable(_))
            | PassError::Commit(CommitError::Unavailable(_))
            | PassError::Queue(_) => (AdminErrorCode::Unavailable, "nothing was lost, try again"),
        };
        Self::new(code, format!("{told}; {advice}"))
    }
}

/// The command that repairs a record that cannot be read.
pub(super) fn repair(key: &str) -> &'static str {
    match key {
        "pools" => {
            "restore a version: muster pools restore N, with a version of muster pools history"
        }
        "switches" => {
            "write it anew with muster resume launches or muster pause launches; what was paused before is lost"
        }
        "cooldowns" => "write it anew: muster resume launches",
        "notices" | "inquiries" | "prices" => {
            "delete the item from the control table, and it is written anew"
        }
        key if key.starts_with("pools#") => "another version: muster pools history",
        _ => "deploy the release that wrote it, or repair the item in the table",
    }
}

impl MayConflict for AdminError {
    fn is_conflict(&self) -> bool {
        self.code == AdminErrorCode::BusyRecord
    }
}

impl From<CommitError> for AdminError {
    fn from(error: CommitError) -> Self {
        PassError::from(error).into()
    }
}

impl From<ReadError> for AdminError {
    fn from(error: ReadError) -> Self {
        PassError::from(error).into()
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
