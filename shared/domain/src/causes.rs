//! Formats errors with their causes on one line.

use std::error::Error;
use std::iter::successors;
use std::sync::Arc;

/// The cause that another error stores: a library's error, or our own text.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    /// Wraps an error or a text.
    #[must_use]
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }
}

/// Compares the texts, because few error types can be compared.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        with_causes(self) == with_causes(other)
    }
}

impl Eq for Cause {}

/// Returns an error and its causes in one line, without text that an outer error already contains:
/// several layers repeat their cause.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    for cause in causes(error) {
        let text = cause.to_string();
        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
    }
    line
}

/// Returns an error, its cause, the cause of that, and so on.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::{Cause, with_causes};

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    #[test]
    fn each_cause_is_told_once() {
        let inner = Layer("connection refused", None);
        let middle = Layer("dispatch failure: connection refused", Some(Box::new(inner)));
        let outer = Layer("GetItem", Some(Box::new(middle)));
        assert_eq!(with_causes(&outer), "GetItem: dispatch failure: connection refused");
    }

    #[test]
    fn a_kept_cause_is_told_with_its_own_causes() {
        let inner = Layer("connection refused", None);
        let kept = Cause::new(Layer("dispatch failure", Some(Box::new(inner))));
        assert_eq!(with_causes(&kept), "dispatch failure: connection refused");
        assert_eq!(kept, Cause::new("dispatch failure: connection refused"));
        assert_ne!(kept, Cause::new("dispatch failure"));
    }
}
