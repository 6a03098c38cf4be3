//! Times and texts as people read them.

use muster_domain::time::{Seconds, Time};

/// A span, rounded down: `41 s`, `12 min`, `3 h`, `2 d`.
#[must_use]
pub fn span(span: Seconds) -> String {
    span.to_string()
}

/// A span whose seconds matter: `170 s`; from a quarter of an hour on as any other.
#[must_use]
pub fn seconds(Seconds(seconds): Seconds) -> String {
    if seconds < 900 { format!("{seconds} s") } else { span(Seconds(seconds)) }
}

/// A span as people write it: `90s`, `15m`, `2h`, `7d`.
///
/// # Errors
/// What it should look like.
pub fn read_span(text: &str) -> Result<Seconds, String> {
    let wrong = || format!("{text:?} is not a span; one looks like 90s, 15m, 2h or 7d");
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

/// A time of UTC: of the same day without its date.
#[must_use]
pub fn clock(at: Time, now: Time) -> String {
    at.clock(now)
}

/// The same, with milliseconds.
#[must_use]
pub fn moment(at: Time, now: Time) -> String {
    let text = at.to_string();
    let fraction = text.get(19..23).unwrap_or_default();
    format!("{}{fraction}", clock(at, now))
}

/// Date and minute of a time, in UTC.
#[must_use]
pub fn minute(at: Time) -> String {
    let text = at.to_string();
    match text.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", time.get(..5).unwrap_or(time)),
        None => text,
    }
}

/// `1 job`, `2 jobs`.
#[must_use]
pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

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
