//! A service that gives no answer.

use std::error::Error;

use crate::causes::Cause;

/// A service did not answer, or refused for a reason that is not ours. What it was to do may have
/// happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Unavailable {
    what: String,
    #[source]
    cause: Option<Cause>,
}

impl Unavailable {
    /// `what` is the call, or what is wrong with it.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None }
    }

    /// `what` is the call that failed.
    #[must_use]
    pub fn caused(what: impl Into<String>, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { what: what.into(), cause: Some(Cause::new(cause)) }
    }
}
