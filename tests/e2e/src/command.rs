//! The operator's command, run as a person would run it at this stack.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::Stack;

/// What a run of the command has said.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its exit code.
    pub code: i32,
    /// What it answered.
    pub out: String,
    /// What it said beside that.
    pub err: String,
}

impl Said {
    /// The line of the answer, or of what was said beside it, that holds all of these words.
    ///
    /// # Errors
    /// When there is none; the message has the whole answer.
    pub fn line(&self, words: &[&str]) -> Result<&str> {
        let mut said = self.out.lines().chain(self.err.lines());
        let found = said.find(|line| words.iter().all(|word| line.contains(word)));
        found.with_context(|| format!("no line with {words:?} in:\n{}{}", self.out, self.err))
    }
}

impl Stack {
    /// Runs `muster` with these words. Through a pipe, so its tables are lines with tabs.
    ///
    /// # Errors
    /// When it is not built, or cannot be run.
    pub async fn muster(&self, words: &[&str]) -> Result<Said> {
        let program = program()?;
        let mut command = tokio::process::Command::new(&program);
        command.args(words).env("MUSTER_STACK", &self.name);
        for name in [
            "AWS_ENDPOINT_URL",
            "AWS_ENDPOINT_URL_EC2",
            "AWS_REGION",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
        ] {
            command.env(name, self.env.get(name)?);
        }
        // A person's own settings must not lead it elsewhere.
        command.env_remove("AWS_PROFILE").env_remove("AWS_SESSION_TOKEN");
        let output = command.output().await.with_context(|| program.display().to_string())?;
        Ok(Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

/// It is built beside the tests, by a command of its own: see tests/run.
fn program() -> Result<PathBuf> {
    let tests = std::env::current_exe()?;
    let built = tests.ancestors().nth(2).context("the tests' folder")?.join("muster");
    ensure!(
        built.is_file(),
        "{} is not built: cargo build --profile local --package muster-cli",
        built.display()
    );
    Ok(built)
}
