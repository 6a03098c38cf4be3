//! Waiting for something to become true, with a message worth reading when it does not.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Waits are given as a quiet machine needs them; a busy one gets this many times more. It costs
/// nothing while things go well.
const PATIENCE: u64 = 3;

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
/// Some time after `seconds`, with the last state that was seen.
pub async fn wait_for<T>(
    what: &str,
    seconds: u64,
    mut look: impl AsyncFnMut() -> Result<Seen<T>>,
) -> Result<T> {
    let begun = Instant::now();
    let limit = Duration::from_secs(seconds * PATIENCE);
    loop {
        let last = match look().await {
            Ok(Seen::Done(value)) => return Ok(value),
            Ok(Seen::Not(state)) => state,
            Err(error) => format!("the look itself failed: {error:#}"),
        };
        if begun.elapsed() > limit {
            bail!("waited {} s for {what}; last seen: {last}", limit.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
