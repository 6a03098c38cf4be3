//! Texts and times on pages. Job names and errors of EC2 and GitHub are untrusted.

use maud::{Markup, Render, html};
use muster_domain::time::Time;

use crate::display::marked;
use crate::words::{clock, span};

/// Untrusted text. It is never markup; hidden characters are shown as `␛`, and its writing
/// direction is isolated.
pub(super) struct Said<'a>(pub &'a str);

impl Render for Said<'_> {
    fn render(&self) -> Markup {
        html! { bdi { (shown(self.0)) } }
    }
}

/// Returns the text with a mark in place of each hidden character.
pub(super) fn shown(text: &str) -> String {
    marked(text, '␛')
}

/// Returns untrusted text with its line breaks.
pub(super) fn lines(text: &str) -> String {
    text.lines().map(shown).collect::<Vec<_>>().join("\n")
}

/// A time, and how long ago it was.
pub(super) fn ago(at: Time, now: Time) -> Markup {
    html! { (moment(at, now)) " (" (span(now.since(at))) " ago)" }
}

/// A time in UTC; with its date unless it is today.
pub(super) fn moment(at: Time, now: Time) -> Markup {
    html! { time datetime=(at) title={ (at) " (UTC)" } { (clock(at, now)) } }
}

/// Formats a number with thousands separators.
pub(super) fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut told = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            told.push(',');
        }
        told.push(digit);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_has_a_mark() {
        let told = html! { (Said("<b>\u{1b}[31m\u{202e}x\"&\n")) }.into_string();
        assert_eq!(told, "<bdi>&lt;b&gt;␛[31m␛x&quot;&amp;␛</bdi>");
    }

    #[test]
    fn numbers_are_read_in_threes() {
        let told = [0, 999, 1_000, 12_345, 1_234_567].map(number);
        assert_eq!(told, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }
}
