//! Waiting for something to become true, with a message worth reading when it does not.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// What a look brought.
pub enum Seen<T> {
    /// What was waited for.
    Done(T),
    /// Not yet; how it stands, in a few words.
    Not(String),
}

impl<T> Seen<T> {
    /// Done when there is a value; `state` says how it stands otherwise.
    pub fn from(value: Option<T>, state: impl FnOnce() -> String) -> Self {
        value.map_or_else(|| Self::Not(state()), Self::Done)
    }
}

/// Done when `done`.
pub fn when(done: bool, state: impl FnOnce() -> String) -> Seen<()> {
    Seen::from(done.then_some(()), state)
}

/// Looks again and again. A look that fails counts as "not yet": the stack may be busy.
///
/// # Errors
/// After `seconds`, with the last state that was seen.
pub async fn wait_for<T>(
    what: &str,
    seconds: u64,
    mut look: impl AsyncFnMut() -> Result<Seen<T>>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        let last = match look().await {
            Ok(Seen::Done(value)) => return Ok(value),
            Ok(Seen::Not(state)) => state,
            Err(error) => format!("the look itself failed: {error:#}"),
        };
        if begun.elapsed() > Duration::from_secs(seconds) {
            bail!("waited {seconds} s for {what}; last seen: {last}");
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
