//! Formats and parses times, durations and counts for people.

use muster_domain::switches::{LONGEST_PAUSE, SHORTEST_PAUSE};
use muster_domain::time::{Seconds, Time};

/// Formats a duration, rounded down: `41 s`, `12 min`, `3 h`, `2 d`.
#[must_use]
pub fn span(span: Seconds) -> String {
    span.to_string()
}

/// Formats a duration in seconds up to 15 minutes, such as `170 s`; longer ones as [`span`] does.
#[must_use]
pub fn seconds(Seconds(seconds): Seconds) -> String {
    if seconds < 900 { format!("{seconds} s") } else { span(Seconds(seconds)) }
}

/// Parses a duration such as `90s`, `15m`, `2h` or `7d`.
///
/// # Errors
/// Describes the expected form.
pub fn read_span(text: &str) -> Result<Seconds, String> {
    let wrong = || format!("{text:?} is not a duration; examples: 90s, 15m, 2h, 7d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u32 = text.strip_suffix(unit).unwrap_or_default().parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|span| *span > 0).map(Seconds).ok_or_else(wrong)
}

/// Parses the length of a pause, within the admin function's limits.
///
/// # Errors
/// Describes the expected form.
pub fn read_pause(text: &str) -> Result<Seconds, String> {
    let length = read_span(text)?;
    if (SHORTEST_PAUSE..=LONGEST_PAUSE).contains(&length) {
        return Ok(length);
    }
    let (least, most) = (span(SHORTEST_PAUSE), span(LONGEST_PAUSE));
    Err(format!("a pause lasts {least} to {most}; without --for it lasts until muster resume"))
}

/// Decodes the text of a file. PowerShell's `>` writes UTF-16, and editors on Windows add a byte
/// order mark to UTF-8.
///
/// # Errors
/// Fails for any other encoding; the message explains how to save the file.
pub fn decoded(bytes: Vec<u8>) -> Result<String, &'static str> {
    const WRONG: &str = "this is not UTF-8 text; save the file as UTF-8";
    let wide = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, odd) = rest.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
        if odd.is_empty() { String::from_utf16(&units).map_err(|_| WRONG) } else { Err(WRONG) }
    };
    match bytes.as_slice() {
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8(rest.to_vec()).map_err(|_| WRONG),
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        [1..=255, 0, ..] => wide(&bytes, u16::from_le_bytes),
        [0, 1..=255, ..] => wide(&bytes, u16::from_be_bytes),
        _ => String::from_utf8(bytes).map_err(|_| WRONG),
    }
}

/// Formats a time in UTC, without its date if it is today.
#[must_use]
pub fn clock(at: Time, now: Time) -> String {
    at.clock(now)
}

/// Formats a time in UTC with milliseconds.
#[must_use]
pub fn moment(at: Time, now: Time) -> String {
    let text = at.to_string();
    let fraction = text.get(19..23).unwrap_or_default();
    format!("{}{fraction}", clock(at, now))
}

/// Formats the date and minute of a time in UTC.
#[must_use]
pub fn minute(at: Time) -> String {
    let text = at.to_string();
    match text.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", time.get(..5).unwrap_or(time)),
        None => text,
    }
}

/// Formats a count with its noun: `1 job`, `2 jobs`.
#[must_use]
pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_any_editor_is_read() {
        let text = "pools:\n- name: größer\n";
        let units =
            |unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        let (little, big) = (units(u16::to_le_bytes), units(u16::to_be_bytes));
        let marked = |mark: &[u8], rest: &[u8]| [mark, rest].concat();
        let rows = [
            ("UTF-8", text.as_bytes().to_vec()),
            ("UTF-8 with a mark", marked(&[0xEF, 0xBB, 0xBF], text.as_bytes())),
            ("PowerShell's >", marked(&[0xFF, 0xFE], &little)),
            ("UTF-16, big end first", marked(&[0xFE, 0xFF], &big)),
            ("UTF-16 without a mark", little),
            ("the same, big end first", big),
        ];
        for (name, bytes) in rows {
            assert_eq!(decoded(bytes).as_deref(), Ok(text), "{name}");
        }
        for bytes in [vec![0xFF, 0xFE, 0x61], vec![0xFF, 0xFE, 0x00, 0xD8], vec![0x67, 0xF6, 0xDF]]
        {
            assert!(decoded(bytes.clone()).is_err_and(|why| why.contains("UTF-8")), "{bytes:?}");
        }
        assert_eq!(decoded(Vec::new()).as_deref(), Ok(""));
    }

    #[test]
    fn a_pause_has_bounds() {
        assert_eq!(read_pause("2h"), Ok(Seconds(7_200)));
        for text in ["1m", "60s", "30d"] {
            assert!(read_pause(text).is_ok(), "{text}");
        }
        for text in ["59s", "31d", "0m", "2", "-2h", "2 h", "soon"] {
            assert!(read_pause(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        let told = ["90s", "15m", "2h", "7d"].map(read_span);
        assert_eq!(told, [90, 900, 7_200, 604_800].map(|seconds| Ok(Seconds(seconds))));
        for text in ["", "h", "1", "0s", "-1h", "1w", "1hh", "1.5h", "99999d", "1µ"] {
            assert!(read_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_have_their_fraction_and_minutes_their_day() {
        let at = |text: &str| text.parse::<Time>().expect("a time");
        let now = at("2026-11-25T08:10:00Z");
        assert_eq!(moment(at("2026-11-25T07:02:41.5Z"), now), "07:02:41.500");
        assert_eq!(minute(now), "2026-11-25 08:10 UTC");
    }
}
