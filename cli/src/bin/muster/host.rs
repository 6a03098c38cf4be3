//! The operator's machine: its output, its clock and its random bytes.

use std::io::{IsTerminal as _, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use muster_cli::display::{clean_lines, clean_page};
use muster_cli::failure::Failure;
use muster_domain::time::Time;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Writes to stdout. On a terminal, control characters are removed. A reader that closes the pipe early, as in `muster
/// jobs | head`, is not an error.
pub(crate) fn print(text: &str) {
    match std::io::stdout().is_terminal() {
        true => write(&clean_page(text)),
        false => write(text),
    }
}

pub(crate) fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes text to stderr, without control characters.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", clean_lines(text));
}

/// Returns the current time.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since.as_millis()).unwrap_or_default())
}

/// Returns random bytes from the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| {
        Failure::Unknown("The operating system returned no random bytes.".to_owned())
    })?;
    Ok(bytes)
}
