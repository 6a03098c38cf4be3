//! Converts errors of the passes to errors of the admin API.

use muster_api::{AdminError, AdminErrorCode};
use muster_domain::causes::with_causes;

use crate::ports::{CommitError, ReadError};
use crate::writes::{MayConflict, PassError};

impl From<PassError> for AdminError {
    fn from(error: PassError) -> Self {
        let problem = with_causes(&error);
        let (code, advice) = match &error {
            PassError::Commit(CommitError::Conflict) => (AdminErrorCode::BusyRecord, "try again"),
            PassError::Read(ReadError::Unreadable { key, .. }) => {
                (AdminErrorCode::UnreadableRecord, repair(key))
            }
            PassError::Read(ReadError::Unavailable(_))
            | PassError::Commit(CommitError::Unavailable(_))
            | PassError::Queue(_) => (AdminErrorCode::Unavailable, "no data was lost, try again"),
        };
        Self::new(code, format!("{problem}; {advice}"))
    }
}

/// Returns how to repair a record that cannot be parsed.
pub(super) fn repair(key: &str) -> &'static str {
    match key {
        "pools" => {
            "restore a version: muster pools restore N, with a version of muster pools history"
        }
        "switches" => {
            "rewrite it with muster resume launches or muster pause launches; earlier pauses are lost"
        }
        "images" => {
            "rewrite it with muster image on or muster image off; images are then built anew, and earlier ones deleted"
        }
        "cooldowns" => "the next sweep rewrites it within a minute; or now: muster resume launches",
        "notices" | "inquiries" | "prices" => "the next sweep rewrites it within a minute",
        key if key.starts_with("redeliveries") => "the next sweep rewrites it within a minute",
        key if key.starts_with("pools#") => "choose a different version: muster pools history",
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
