//! Stored text that comes from other systems, and sentences for people.

use crate::time::Time;

/// Returns the first characters of a text. DynamoDB limits an item to 400 KB: a record that reached
/// that could never change again, and its machine would never end.
#[must_use]
pub fn first(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// Returns the text as a sentence, with a capital letter and a full stop. A name at its beginning
/// does not change. An address at its end, also as part of a command, gets no full stop: people copy
/// it.
#[must_use]
pub fn sentence(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default();
    let mut letters = text.chars();
    let mut text = match letters.next() {
        Some(letter) if word.chars().all(char::is_alphabetic) => {
            letter.to_uppercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    };
    let ends_with_address = text.rsplit(' ').next().is_some_and(|word| word.contains("://"));
    if !text.ends_with(['.', '!', '?']) && !ends_with_address {
        text.push('.');
    }
    text
}

/// Returns the first address in a text.
#[must_use]
pub fn address(text: &str) -> Option<&str> {
    let url = text.split_whitespace().find(|word| word.starts_with("https://"))?;
    Some(url.trim_end_matches([',', ';', ':', '.', ')']))
}

/// Returns the text with each RFC 3339 time replaced by what a clock shows.
#[must_use]
pub fn with_clocks(text: &str, now: Time) -> String {
    let clock = |word: &str| {
        let (end, _) = word.match_indices('Z').next_back()?;
        let (time, rest) = word.split_at(end + 1);
        let begin = time.find(|letter: char| letter.is_ascii_digit())?;
        let at: Time = time[begin..].parse().ok()?;
        Some(format!("{}{}{rest}", &time[..begin], at.clock(now)))
    };
    let words = text.split(' ').map(|word| clock(word).unwrap_or_else(|| word.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_whole_characters() {
        for (text, most, kept) in [("", 0, ""), ("ab", 2, "ab"), ("abc", 2, "ab"), ("ééé", 2, "éé")]
        {
            assert_eq!(first(text, most), kept, "{text}");
        }
    }

    #[test]
    fn a_sentence_has_a_capital_letter_and_a_full_stop() {
        for (text, expected) in [
            ("", "."),
            ("the App is gone", "The App is gone."),
            ("Is it?", "Is it?"),
            ("2 jobs wait", "2 jobs wait."),
            ("gpu-1-0 should end", "gpu-1-0 should end."),
            ("muster/app-key is empty", "muster/app-key is empty."),
            ("install it at https://github.com/x", "Install it at https://github.com/x"),
            ("aws put file:///dev/stdin", "Aws put file:///dev/stdin"),
        ] {
            assert_eq!(sentence(text), expected);
        }
    }

    #[test]
    fn times_are_shown_as_clocks() {
        let now = "2026-11-21T08:00:00Z".parse().expect("a time");
        let text = "refused since 2026-11-20T23:56:40.000Z (at 2026-11-21T07:00:01Z: no Z); 5 Z";
        let expected = "refused since 2026-11-20 23:56:40 (at 07:00:01: no Z); 5 Z";
        assert_eq!(with_clocks(text, now), expected);
    }
}
