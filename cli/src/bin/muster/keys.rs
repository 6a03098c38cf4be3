//! Reads keys from the terminal: the key that ends a watch, and whether a line was typed.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// The byte that Ctrl-C sends in raw mode.
const CTRL_C: u8 = 3;

/// Waits for `q` or Ctrl-C. Returns false if one of them was pressed, and `None` if stdin is not a terminal.
///
/// Raw mode is on only while this waits. A Ctrl-C at any other time ends the command and leaves the terminal as it was.
pub(crate) fn wait(time: Duration) -> Option<bool> {
    let before = tcgetattr(stdin()).ok()?;
    let mut by_key = before.clone();
    by_key.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    tcsetattr(stdin(), OptionalActions::Now, &by_key).ok()?;
    let is_ended = is_ended(Instant::now() + time);
    tcsetattr(stdin(), OptionalActions::Now, &before).ok()?;
    Some(!is_ended)
}

/// Returns whether a read of stdin would return at once.
pub(crate) fn has_line() -> bool {
    let keyboard = stdin();
    let mut descriptors = [PollFd::new(&keyboard, PollFlags::IN)];
    matches!(poll(&mut descriptors, Some(&Timespec::default())), Ok(1..))
}

fn is_ended(until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        let keyboard = stdin();
        let mut descriptors = [PollFd::new(&keyboard, PollFlags::IN)];
        match poll(&mut descriptors, Some(&left)) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return true,
        }
        let mut key = [0];
        match rustix::io::read(stdin(), &mut key) {
            Ok(1) if key != [b'q'] && key != [CTRL_C] => {}
            _ => return true,
        }
    }
}
