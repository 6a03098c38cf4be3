//! The configuration of a stack, read from the environment that the template writes.

use std::fmt;

use serde::de::DeserializeOwned;

use muster_domain::pool::Pool;
use muster_domain::timings::Timings;

/// Everything that is wrong with the configuration, at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {}", self.0.join("; "))
    }
}

impl std::error::Error for ConfigError {}

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
    pub fn required(&mut self, name: &str) -> String {
        match self.optional(name) {
            Some(value) => value,
            None => {
                self.problems.push(format!("{name} is not set"));
                String::new()
            }
        }
    }

    /// A variable that may be missing or empty.
    #[must_use]
    pub fn optional(&self, name: &str) -> Option<String> {
        (self.get)(name).filter(|value| !value.trim().is_empty())
    }

    /// A variable that holds JSON; the default when it is missing.
    pub fn json<T: DeserializeOwned + Default>(&mut self, name: &str) -> T {
        let Some(text) = self.optional(name) else {
            return T::default();
        };
        serde_json::from_str(&text).unwrap_or_else(|error| {
            self.problems.push(format!("{name} is not valid: {error}"));
            T::default()
        })
    }

    /// `MUSTER_POOLS`, checked.
    pub fn pools(&mut self) -> Vec<Pool> {
        let pools: Vec<Pool> = self.json("MUSTER_POOLS");
        for (index, pool) in pools.iter().enumerate() {
            let mut problem = |what: &str| {
                self.problems.push(format!("MUSTER_POOLS[{index}] ({}): {what}", pool.name));
            };
            if pool.labels.is_empty() {
                problem("labels must not be empty");
            }
            if pool.instance_types.is_empty() == pool.requirements.is_none() {
                problem("needs either instance_types or requirements");
            }
            if pool.subnets.is_empty() {
                problem("subnets must not be empty");
            }
            if pool.launch_template_version.parse::<u64>().is_err() {
                problem("launch_template_version must be a number");
            }
            if pools.iter().take(index).any(|other| other.name == pool.name) {
                problem("the name is used twice");
            }
        }
        pools
    }

    /// `MUSTER_TIMINGS`.
    pub fn timings(&mut self) -> Timings {
        self.json("MUSTER_TIMINGS")
    }

    /// The value that was built from what was read, if nothing was wrong.
    ///
    /// # Errors
    /// Every problem found so far.
    pub fn finish<T>(self, value: T) -> Result<T, ConfigError> {
        if self.problems.is_empty() { Ok(value) } else { Err(ConfigError(self.problems)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named_at_once() {
        let get = |name: &str| {
            match name {
            "MUSTER_POOLS" => Some(
                r#"[{"name":"a","labels":[],"launch_template_id":"lt","launch_template_version":"$Latest",
                     "instance_types":["m7i.large"],"subnets":[],"max":1}]"#
                    .to_owned(),
            ),
            "MUSTER_TIMINGS" => Some(r#"{"boot_deadlin":1}"#.to_owned()),
            _ => None,
        }
        };
        let mut reader = Reader::new(&get);
        let (_, _, _) = (reader.pools(), reader.timings(), reader.required("MUSTER_STACK"));
        let Err(ConfigError(problems)) = reader.finish(()) else { panic!("accepted") };
        assert_eq!(problems.len(), 5, "{problems:#?}");
    }

    #[test]
    fn timings_default_to_production() {
        let get = |_: &str| Some(r#"{"boot_deadline_seconds":20}"#.to_owned());
        let timings = Reader::new(&get).timings();
        assert_eq!(timings.boot_deadline_seconds.0, 20);
        assert_eq!(timings.busy_reads_apart_seconds.0, 180);
    }
}
