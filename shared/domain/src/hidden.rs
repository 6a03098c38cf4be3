//! A text that must not appear in logs, responses or records.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret on its way to a store. Serialized only where it is sent, and hidden in debug output.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// Returns the text, for sending or storing it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cfg(test)]
mod tests {
    use super::Hidden;

    #[test]
    fn it_is_not_printed() {
        let hidden = Hidden::from("canary".to_owned());
        assert_eq!(format!("{hidden:?} {:?}", Some(&hidden)), "[hidden] Some([hidden])");
        assert_eq!(hidden.expose(), "canary");
    }
}
