//! Reads the environment that the template writes, and says at once all that is wrong with it.

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;

/// Everything that is wrong with the configuration, at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {}", self.0.join("; "))
    }
}

impl std::error::Error for ConfigError {}

/// A variable of the environment.
#[derive(Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it holds, for the page on configuration.
    pub meaning: &'static str,
}

/// Reads variables and collects what is wrong with them.
pub struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Reads through `get`: the environment in a Lambda, a map in a test.
    #[must_use]
    pub fn new(get: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { get, problems: Vec::new() }
    }

    /// A variable that must be there. Answers with an empty text, and notes the problem, when it is
    /// not.
    pub fn required(&mut self, variable: &Variable) -> String {
        match self.optional(variable) {
            Some(value) => value,
            None => {
                self.problem(format!("{} is not set", variable.name));
                String::new()
            }
        }
    }

    /// A variable that may be missing or empty.
    #[must_use]
    pub fn optional(&self, variable: &Variable) -> Option<String> {
        (self.get)(variable.name).filter(|value| !value.trim().is_empty())
    }

    /// A variable that must hold a whole number. Answers with zero, and notes the problem, when it
    /// does not.
    pub fn number<N: FromStr + Default>(&mut self, variable: &Variable) -> N {
        let text = self.required(variable);
        if text.is_empty() {
            return N::default();
        }
        text.trim().parse().unwrap_or_else(|_| {
            self.problem(format!("{} is not a number: {text}", variable.name));
            N::default()
        })
    }

    /// A variable that holds one of few words; the default when it is missing.
    pub fn word<W: FromStr + Default>(&mut self, variable: &Variable) -> W {
        let Some(text) = self.optional(variable) else { return W::default() };
        text.parse().unwrap_or_else(|_| {
            self.problem(format!("{} is not known: {text}", variable.name));
            W::default()
        })
    }

    /// A variable that holds JSON; the default when it is missing.
    pub fn json<T: DeserializeOwned + Default>(&mut self, variable: &Variable) -> T {
        let Some(text) = self.optional(variable) else {
            return T::default();
        };
        serde_json::from_str(&text).unwrap_or_else(|error| {
            self.problem(format!("{} is not valid: {error}", variable.name));
            T::default()
        })
    }

    /// Notes what is wrong with a value.
    pub fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// The value that was built from what was read, if nothing was wrong.
    ///
    /// # Errors
    /// Every problem found so far.
    pub fn finish<T>(self, value: T) -> Result<T, ConfigError> {
        if self.problems.is_empty() { Ok(value) } else { Err(ConfigError(self.problems)) }
    }
}
