//! Errors with their causes, in one line.

use std::error::Error;
use std::iter::successors;

/// An error and what caused it. Several layers repeat their cause in their own text: what was said
/// already is left out.
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

/// An error, its cause, the cause of that, and so on.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::with_causes;

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
}
