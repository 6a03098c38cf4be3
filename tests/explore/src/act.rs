//! What happened, in words that cost nothing until somebody reads them.

use std::fmt;

/// A sentence with up to two numbers, which stand where it says `{}`.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    first: Sentence,
    /// What followed at once.
    last: Option<Sentence>,
}

#[derive(Clone, Copy, Debug)]
struct Sentence {
    words: &'static str,
    numbers: [u8; 2],
}

impl Act {
    /// A sentence without numbers.
    #[must_use]
    pub const fn new(words: &'static str) -> Self {
        Self::with(words, 0, 0)
    }

    /// A sentence with one number.
    #[must_use]
    pub const fn of(words: &'static str, number: u8) -> Self {
        Self::with(words, number, 0)
    }

    /// A sentence with two numbers.
    #[must_use]
    pub const fn with(words: &'static str, first: u8, second: u8) -> Self {
        Self { first: Sentence { words, numbers: [first, second] }, last: None }
    }

    /// This one, and at once another by the same hand. Of more than two, the first and the last.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        let last = match next.last {
            Some(last) => last,
            None => next.first,
        };
        Self { last: Some(last), ..self }
    }

    /// Its sentences, without their numbers.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.first.words).chain(self.last.map(|last| last.words))
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.words.split("{}").enumerate() {
            if index > 0 {
                write!(f, "{}", self.numbers[index - 1])?;
            }
            f.write_str(part)?;
        }
        Ok(())
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        match self.last {
            Some(last) => write!(f, " … {last}"),
            None => Ok(()),
        }
    }
}
