//! What happened, in words that cost nothing until somebody reads them.

use std::fmt;

/// A sentence with up to three numbers, which stand where it says `{}`.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    words: &'static str,
    numbers: [u8; 3],
    /// What followed at once.
    last: Option<&'static str>,
}

impl Act {
    /// A sentence without numbers.
    #[must_use]
    pub const fn new(words: &'static str) -> Self {
        Self { words, numbers: [0; 3], last: None }
    }

    /// A sentence with one number.
    #[must_use]
    pub const fn of(words: &'static str, number: u8) -> Self {
        Self { words, numbers: [number, 0, 0], last: None }
    }

    /// A sentence with two numbers.
    #[must_use]
    pub const fn with(words: &'static str, first: u8, second: u8) -> Self {
        Self { words, numbers: [first, second, 0], last: None }
    }

    /// This one, and at once another by the same hand. Of more than two, the first and the last.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        let last = match next.last {
            Some(last) => last,
            None => next.words,
        };
        Self { last: Some(last), ..self }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.words.split("{}").enumerate() {
            if index > 0 {
                write!(f, "{}", self.numbers[index - 1])?;
            }
            f.write_str(part)?;
        }
        match self.last {
            Some(last) => write!(f, " … {}", last.replace(" (worker {})", "")),
            None => Ok(()),
        }
    }
}
