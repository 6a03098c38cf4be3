//! Points in time and whole-second durations.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time, in milliseconds since the Unix epoch.
///
/// Written as RFC 3339 in UTC with exactly three decimals, so that the text sorts chronologically:
/// table indexes compare it as a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// Creates a time from milliseconds since the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the whole seconds since the Unix epoch, the unit of DynamoDB's TTL.
    #[must_use]
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Returns the duration since `earlier`, or zero if that is in the future (the clocks of two
    /// Lambdas differ).
    #[must_use]
    pub fn since(self, earlier: Self) -> Seconds {
        let seconds = (self.0 - earlier.0).max(0) / 1000;
        Seconds(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    /// Formats the time of day in UTC, with the date unless it is the day of `now`.
    #[must_use]
    pub fn clock(self, now: Self) -> String {
        let (text, today) = (self.to_string(), now.to_string());
        match (text.split_once('T'), today.split_once('T')) {
            (Some((day, time)), Some((same, _))) => {
                let seconds = time.get(..8).unwrap_or(time);
                if day == same { seconds.to_owned() } else { format!("{day} {seconds}") }
            }
            _ => text,
        }
    }

    /// Returns whether at least `wait` has passed since `earlier`.
    #[must_use]
    pub fn is_past(self, earlier: Self, wait: Seconds) -> bool {
        self >= earlier + wait
    }
}

impl Add<Seconds> for Time {
    type Output = Self;

    fn add(self, wait: Seconds) -> Self {
        Self(self.0.saturating_add(wait.as_millis()))
    }
}

impl Sub<Seconds> for Time {
    type Output = Self;

    fn sub(self, wait: Seconds) -> Self {
        Self(self.0.saturating_sub(wait.as_millis()))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

/// The error for a text that is not a time.
#[derive(Clone, Debug, thiserror::Error)]
#[error("not a time: {text:?}: {source}")]
pub struct ParseTimeError {
    text: String,
    source: jiff::Error,
}

impl FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        let timestamp: jiff::Timestamp =
            text.parse().map_err(|source| ParseTimeError { text: text.to_owned(), source })?;
        Ok(Self(timestamp.as_millisecond()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A duration in whole seconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seconds(pub u32);

impl Seconds {
    const fn as_millis(self) -> i64 {
        // A widening cast: a `u32` always fits, and `From` is not const.
        self.0 as i64 * 1000
    }
}

/// Rounds down: `41 s`, `12 min`, `3 h`, `2 d`.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s < 120 => write!(f, "{s} s"),
            s if s < 7_200 => write!(f, "{} min", s / 60),
            s if s < 172_800 => write!(f, "{} h", s / 3600),
            s => write!(f, "{} d", s / 86_400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_sorts_like_time() {
        let times = [0, 1, 999, 1000, 1001, 1_795_000_000_000, 1_795_000_000_500];
        let texts: Vec<String> = times.iter().map(|t| Time(*t).to_string()).collect();
        let mut sorted = texts.clone();
        sorted.sort();
        assert_eq!(texts, sorted);
        for (time, text) in times.iter().zip(&texts) {
            assert_eq!(text.parse::<Time>().ok(), Some(Time(*time)));
        }
    }

    #[test]
    fn spans_keep_two_figures() {
        let told =
            [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(|span| Seconds(span).to_string());
        assert_eq!(told, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"]);
    }

    #[test]
    fn only_another_day_is_named() {
        let at = |text: &str| text.parse::<Time>().expect("a time");
        let now = at("2026-11-25T08:10:00Z");
        assert_eq!(at("2026-11-25T07:02:41.5Z").clock(now), "07:02:41");
        assert_eq!(at("2026-11-24T07:02:41Z").clock(now), "2026-11-24 07:02:41");
    }

    #[test]
    fn a_later_clock_never_makes_a_negative_age() {
        assert_eq!(Time(1000).since(Time(5000)), Seconds(0));
    }
}
