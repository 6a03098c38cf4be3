//! The last output of a machine: the log of a failed boot, or the end of its console if it could
//! not report. A missing route or endpoint and a wrong image show up only on the console.

use super::Instance;

/// Maximum length of stored console text, in bytes. Equal to that of a failed boot's log.
const MAX_KEPT: usize = 4096;
/// Minimum length of a run of characters that is redacted as a possible credential, as in the log
/// of a failed boot (`infra/machine/machine.py`).
const SECRET: usize = 32;
/// Maximum number of log lines quoted in a sentence.
const LINES: usize = 3;
/// Maximum characters of each quoted line.
const MAX_LINE: usize = 160;

impl Instance {
    /// Stores the end of the console output. Blank output is dropped.
    pub(crate) fn keep_console(&mut self, output: &str) {
        self.console = Some(console_text(output)).filter(|kept| !kept.trim().is_empty());
    }

    /// Iterates over the last lines that the machine logged, oldest first.
    pub fn last_words(&self) -> impl Iterator<Item = &str> {
        let log = self.runner.exit.as_ref().and_then(|exit| exit.log.as_deref());
        let text = log.or(self.console.as_deref()).unwrap_or_default();
        text.lines().map(str::trim).filter(|line| !line.is_empty())
    }

    /// Appends the last lines to a sentence.
    pub(crate) fn with_last_words(&self, what: &str) -> String {
        let lines: Vec<&str> = self.last_words().collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        if last.is_empty() {
            return what.to_owned();
        }
        let quoted: Vec<String> = last
            .iter()
            .map(|line| format!("\"{}\"", line.chars().take(MAX_LINE).collect::<String>()))
            .collect();
        format!("{what}; last log lines: {}", quoted.join(", "))
    }
}

/// Returns the end of the output as printable text, with possible credentials redacted.
#[must_use]
pub fn console_text(output: &str) -> String {
    let (mut kept, mut word) = (String::new(), String::new());
    let end_word = |kept: &mut String, word: &mut String| {
        kept.push_str(if word.len() < SECRET { word } else { "[...]" });
        word.clear();
    };
    let mut rest = output.chars().peekable();
    while let Some(next) = rest.next() {
        if next == '\u{1b}' && rest.peek() == Some(&'[') {
            // A terminal escape sequence (colour or cursor movement), up to its final letter.
            let _ = rest.by_ref().take(16).find(char::is_ascii_alphabetic);
        } else if next.is_ascii_alphanumeric() || "+/=_-".contains(next) {
            word.push(next);
        } else if next.is_ascii_graphic() || matches!(next, ' ' | '\t' | '\n') {
            end_word(&mut kept, &mut word);
            kept.push(next);
        }
    }
    end_word(&mut kept, &mut word);
    kept.split_off(kept.len().saturating_sub(MAX_KEPT))
}

#[cfg(test)]
mod tests {
    use super::{MAX_KEPT, console_text};
    use crate::testkit::{With, boot_failed, booting};

    #[test]
    fn of_a_console_the_end_is_kept_and_nothing_that_may_be_a_credential() {
        let rows = [
            ("plain", "[ 1.5] eth0: up\r\nno route\n", "[ 1.5] eth0: up\nno route\n"),
            ("coloured", "\u{1b}[0;1;31mFailed\u{1b}[0m to start\u{7}", "Failed to start"),
            ("not ASCII", "caf\u{e9} \u{fffd}\tok", "caf \tok"),
            ("a token", "token ghs_0123456789012345678901234567890123 end", "token [...] end"),
            ("cut in an escape", "end\u{1b}[", "end"),
            ("a long word at the end", "AQoDYXdzEJr1K9QXk/+0123456789abcdef=", "[...]"),
        ];
        for (what, output, expected) in rows {
            assert_eq!(console_text(output), expected, "{what}");
        }
        let long = "a line\n".repeat(MAX_KEPT);
        assert_eq!(console_text(&long).len(), MAX_KEPT);
        assert!(long.ends_with(&console_text(&long)));
    }

    #[test]
    fn the_log_of_a_failed_boot_comes_before_the_console() {
        let silent = booting().with(|i| i.keep_console(" \r\n"));
        assert_eq!((silent.console.as_deref(), silent.last_words().next()), (None, None));
        assert_eq!(silent.with_last_words("it ended"), "it ended");
        let mute = booting().with(|i| i.keep_console("one\ntwo\n\n three \nfour\n"));
        assert_eq!(mute.last_words().collect::<Vec<_>>(), ["one", "two", "three", "four"]);
        let told = "it ended; last log lines: \"two\", \"three\", \"four\"";
        assert_eq!(mute.with_last_words("it ended"), told);
        let told = boot_failed().with(|i| i.keep_console("console"));
        assert_eq!(told.last_words().collect::<Vec<_>>(), ["no disk"]);
    }
}
