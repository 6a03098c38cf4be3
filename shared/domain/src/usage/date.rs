//! Calendar days in UTC.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::{ParseTimeError, Time};

const MILLIS: i64 = 24 * 3_600_000;

/// A day, as a number of days since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date(i64);

impl Date {
    /// Returns the day of a time.
    #[must_use]
    pub const fn of(at: Time) -> Self {
        Self(at.as_millis().div_euclid(MILLIS))
    }

    /// Returns its first moment.
    #[must_use]
    pub const fn begin(self) -> Time {
        Time::from_millis(self.0 * MILLIS)
    }

    /// Returns the previous day.
    #[must_use]
    pub const fn before(self) -> Self {
        Self(self.0 - 1)
    }

    /// Returns the next day.
    #[must_use]
    pub const fn after(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the days between two days, both included, in order.
    pub fn days(from: Self, to: Self) -> impl DoubleEndedIterator<Item = Self> {
        (from.0..=to.0).map(Self)
    }
}

impl FromStr for Date {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        format!("{text}T00:00:00Z").parse().map(Self::of)
    }
}

impl TryFrom<String> for Date {
    type Error = ParseTimeError;

    fn try_from(text: String) -> Result<Self, ParseTimeError> {
        text.parse()
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}

/// Formats as `2026-11-25`.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.begin().to_string().get(..10).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_and_ends_in_utc() {
        let at = |text: &str| text.parse::<Time>().expect("a time");
        for (time, day) in [
            ("2026-11-25T00:00:00.000Z", "2026-11-25"),
            ("2026-11-25T23:59:59.999Z", "2026-11-25"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31"),
        ] {
            assert_eq!(Date::of(at(time)).to_string(), day);
        }
        let turn = Date::of(at("2027-01-01T07:00:00.000Z"));
        assert_eq!(turn.before().to_string(), "2026-12-31");
        assert_eq!(turn.begin(), at("2027-01-01T00:00:00.000Z"));
        let read: Date = "2026-12-30".parse().expect("a day");
        let days: Vec<String> = Date::days(read, turn).map(String::from).collect();
        assert_eq!(days, ["2026-12-30", "2026-12-31", "2027-01-01"]);
        assert!("2026-12-32".parse::<Date>().is_err());
    }
}
