//! Makes untrusted text safe to display: which characters are never displayed, and how many columns the others need.
//!
//! Anyone who can start a workflow chooses the names of jobs, and errors of EC2, GitHub and other hosts are free text.
//! A terminal interprets some characters as commands, and others hide or reorder the text next to them.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns whether a character is never displayed, neither on a terminal nor on a page: the C0 and C1 controls, DEL,
/// marks of writing direction, line separators, and all characters without a glyph.
/// Source: unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt, `Default_Ignorable_Code_Point`
#[must_use]
pub fn is_hidden(one: char) -> bool {
    one.is_control()
        || matches!(one,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
                | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text with `mark` in place of each hidden character.
///
/// A joiner or a variation selector after a symbol is part of an emoji and is removed, because terminals disagree on
/// the width of the result.
#[must_use]
pub fn marked(text: &str, mark: char) -> String {
    let mut shown = String::with_capacity(text.len());
    for one in text.chars() {
        let is_of_emoji = matches!(one, '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
        match shown.chars().next_back() {
            _ if !is_hidden(one) => shown.push(one),
            Some(before) if is_of_emoji && is_symbol(before) && before != mark => {}
            _ => shown.push(mark),
        }
    }
    shown
}

fn is_symbol(one: char) -> bool {
    !one.is_ascii() && !one.is_alphanumeric()
}

/// Returns the text as one line that is safe on a terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    marked(text, ' ')
}

/// Returns the text as lines that are safe on a terminal.
#[must_use]
pub fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Returns a page that is safe on a terminal: colours are kept, all other escape sequences are removed.
#[must_use]
pub fn clean_page(page: &str) -> String {
    let mut parts = page.split('\u{1b}');
    let mut text = clean_lines(parts.next().unwrap_or_default());
    for part in parts {
        match colour(part) {
            Some((sequence, rest)) => {
                text.push('\u{1b}');
                text.push_str(sequence);
                text.push_str(&clean_lines(rest));
            }
            None => {
                text.push(' ');
                text.push_str(&clean_lines(part));
            }
        }
    }
    text
}

/// Splits off a colour sequence after an escape character: `[31m`, and the rest.
/// Source: ECMA-48, 8.3.117
fn colour(text: &str) -> Option<(&str, &str)> {
    let parameters = text.strip_prefix('[')?;
    let end = parameters.find(|one: char| !one.is_ascii_digit() && one != ';')?;
    parameters[end..].starts_with('m').then(|| text.split_at(end + 2))
}

/// Returns the same JSON with each hidden character escaped. JSON allows most of them unescaped in strings.
#[must_use]
pub fn escaped_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for one in json.chars() {
        if is_hidden(one) && !"\n\r\t".contains(one) {
            let mut units = [0; 2];
            for unit in one.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(one);
        }
    }
    text
}

/// Returns the number of terminal columns that a text needs.
#[must_use]
pub fn width(text: &str) -> usize {
    text.width()
}

/// Returns the longest beginning of a text that fits into a number of columns. A character of two columns is not split.
#[must_use]
pub fn fitted(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, one) in text.char_indices() {
        used += one.width().unwrap_or_default();
        if used > columns {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind of hidden character, by its first and last one.
    const HIDDEN: [(&str, char, char); 23] = [
        ("C0 controls", '\u{0}', '\u{1f}'),
        ("DEL and the C1 controls", '\u{7f}', '\u{9f}'),
        ("soft hyphen", '\u{ad}', '\u{ad}'),
        ("grapheme joiner", '\u{34f}', '\u{34f}'),
        ("Arabic letter mark", '\u{61c}', '\u{61c}'),
        ("Hangul fillers", '\u{115f}', '\u{1160}'),
        ("Khmer inherent vowels", '\u{17b4}', '\u{17b5}'),
        ("Mongolian selectors", '\u{180b}', '\u{180f}'),
        ("zero width space and joiners", '\u{200b}', '\u{200d}'),
        ("direction marks", '\u{200e}', '\u{200f}'),
        ("line and paragraph separators", '\u{2028}', '\u{2029}'),
        ("embeddings and overrides", '\u{202a}', '\u{202e}'),
        ("word joiner and invisible operators", '\u{2060}', '\u{2064}'),
        ("isolates", '\u{2066}', '\u{2069}'),
        ("deprecated formats", '\u{206a}', '\u{206f}'),
        ("Hangul filler", '\u{3164}', '\u{3164}'),
        ("variation selectors", '\u{fe00}', '\u{fe0f}'),
        ("byte order mark", '\u{feff}', '\u{feff}'),
        ("halfwidth Hangul filler", '\u{ffa0}', '\u{ffa0}'),
        ("interlinear annotations", '\u{fff9}', '\u{fffb}'),
        ("shorthand controls", '\u{1bca0}', '\u{1bca3}'),
        ("musical controls", '\u{1d173}', '\u{1d17a}'),
        ("tags and more variation selectors", '\u{e0000}', '\u{e0fff}'),
    ];

    #[test]
    fn hidden_characters_reach_no_screen() {
        for (what, first, last) in HIDDEN {
            for one in first..=last {
                assert!(is_hidden(one), "{what}: {one:?}");
                assert_eq!(clean(&format!("a{one}b")), "a b", "{what}: {one:?}");
                assert_eq!(marked(&format!("a{one}b"), '␛'), "a␛b", "{what}: {one:?}");
                let json = escaped_json(&serde_json::json!(format!("a{one}b")).to_string());
                assert!(json.is_ascii(), "{what}: {json:?}");
                let back: String = serde_json::from_str(&json).expect("JSON");
                assert_eq!(back, format!("a{one}b"), "{what}");
            }
        }
        let shown = ('\u{20}'..='\u{7e}').chain("äß½→日本語ｱ한שלוםعربي👷⚙é\u{301}".chars());
        for one in shown {
            assert!(!is_hidden(one), "{one:?}");
        }
    }

    #[test]
    fn lines_and_colours_stay_where_they_are_ours() {
        let hostile = "\u{1b}]52;c;b3du\u{7}\u{1b}[2J\u{9b}31m\u{202e}x";
        for (told, text) in [
            (clean("a\u{1b}[2J\tb\n\u{202e}c 👷"), "a [2J b  c 👷"),
            (clean_lines("a\n\u{1b}[31mb\r\nc"), "a\n [31mb \nc"),
            (clean_page("\u{1b}[1;31ma\u{1b}[0m\nb"), "\u{1b}[1;31ma\u{1b}[0m\nb"),
            (clean_page(hostile), " ]52;c;b3du  [2J 31m x"),
            (
                clean_page("\u{1b}[38;5;9mred\u{1b}[39m\u{1b}[H\u{1b}"),
                "\u{1b}[38;5;9mred\u{1b}[39m [H ",
            ),
        ] {
            assert_eq!(told, text);
        }
    }

    #[test]
    fn a_text_is_as_wide_as_its_columns() {
        for (text, columns, in_five) in [
            ("", 0, ""),
            ("build", 5, "build"),
            ("builds", 6, "build"),
            ("日本語", 6, "日本"),
            ("a日本語", 7, "a日本"),
            ("ﾋﾞﾙﾄﾞ", 5, "ﾋﾞﾙﾄﾞ"),
            ("한국어", 6, "한국"),
            ("👷👷👷", 6, "👷👷"),
            ("e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}e\u{301}"),
            ("äöü→", 4, "äöü→"),
            ("שלום", 4, "שלום"),
        ] {
            assert_eq!(width(text), columns, "{text}");
            assert_eq!(fitted(text, 5), in_five, "{text}");
        }
        // Emoji of several characters have the same width everywhere once their joiners are removed.
        for (text, shown, columns) in [
            ("👩\u{200d}💻 x", "👩💻 x", 6),
            ("⚙\u{fe0f} x", "⚙ x", 3),
            ("❤\u{fe0f}\u{200d}🔥", "❤🔥", 3),
        ] {
            assert_eq!((clean(text).as_str(), width(&clean(text))), (shown, columns));
        }
    }
}
