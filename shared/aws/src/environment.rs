//! Reads the environment that the template sets, and reports all its problems together.

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;

/// All problems of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {}", self.0.join("; "))
    }
}

impl std::error::Error for ConfigError {}

/// An environment variable.
#[derive(Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// A description of its value, for the configuration page.
    pub meaning: &'static str,
}

/// Reads variables and collects their problems.
pub struct EnvironmentReader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl<'a> EnvironmentReader<'a> {
    /// Creates a reader that uses `get`: the environment in a Lambda, a map in a test.
    #[must_use]
    pub fn new(get: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { get, problems: Vec::new() }
    }

    /// Reads a variable that must be set. If it is not, records the problem and returns an empty
    /// text.
    pub fn required(&mut self, variable: &Variable) -> String {
        match self.optional(variable) {
            Some(value) => value,
            None => {
                self.problem(format!("{} is not set", variable.name));
                String::new()
            }
        }
    }

    /// Reads a variable that may be unset or empty.
    #[must_use]
    pub fn optional(&self, variable: &Variable) -> Option<String> {
        (self.get)(variable.name).filter(|value| !value.trim().is_empty())
    }

    /// Reads a variable that must be a whole number. If it is not, records the problem and returns
    /// zero.
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

    /// Reads a variable with one of a few words, or returns the default if it is unset.
    pub fn word<W: FromStr + Default>(&mut self, variable: &Variable) -> W {
        let Some(text) = self.optional(variable) else { return W::default() };
        text.parse().unwrap_or_else(|_| {
            self.problem(format!("{} is not known: {text}", variable.name));
            W::default()
        })
    }

    /// Reads a variable with JSON, or returns the default if it is unset.
    pub fn json<T: DeserializeOwned + Default>(&mut self, variable: &Variable) -> T {
        let Some(text) = self.optional(variable) else {
            return T::default();
        };
        serde_json::from_str(&text).unwrap_or_else(|error| {
            self.problem(format!("{} is not valid: {error}", variable.name));
            T::default()
        })
    }

    /// Records a problem with a value.
    pub fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Returns the value built from the variables, if there was no problem.
    ///
    /// # Errors
    /// All problems found so far.
    pub fn finish<T>(self, value: T) -> Result<T, ConfigError> {
        if self.problems.is_empty() { Ok(value) } else { Err(ConfigError(self.problems)) }
    }
}
