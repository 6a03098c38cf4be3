//! A service that gives no answer.

use std::error::Error;
use std::sync::Arc;

/// A service did not answer, or refused for a reason that is not ours. What it was to do may have
/// happened.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}")]
pub struct Unavailable {
    what: String,
    #[source]
    cause: Option<Arc<dyn Error + Send + Sync>>,
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
        Self { what: what.into(), cause: Some(Arc::new(cause)) }
    }
}

/// Causes are not compared: few of them can be.
impl PartialEq for Unavailable {
    fn eq(&self, other: &Self) -> bool {
        self.what == other.what
    }
}

impl Eq for Unavailable {}
