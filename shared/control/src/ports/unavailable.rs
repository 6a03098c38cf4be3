//! The error of a service that does not answer.

use std::error::Error;

use muster_domain::causes::Cause;

/// A service did not answer, or failed for a reason that is not our fault. The operation may have
/// happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Unavailable {
    what: String,
    #[source]
    cause: Option<Cause>,
}

impl Unavailable {
    /// Creates an error; `what` is the call, or the problem with it.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None }
    }

    /// Creates an error with a cause; `what` is the call that failed.
    #[must_use]
    pub fn caused(what: impl Into<String>, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { what: what.into(), cause: Some(Cause::new(cause)) }
    }
}
