//! Conversion of days to and from DynamoDB items.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::date::Date;
use super::fold::{Day, PoolWaits, UsageGroup};

/// Maximum bytes of an item's text. DynamoDB accepts items of 400 KB, and counts the bytes of
/// UTF-8.
/// Source: docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
pub const MOST_BYTES: usize = 350_000;
/// The first letter of a group's row.
const GROUP: char = 'g';
/// The first letter of a row with a pool's waits.
const WAITS: char = 'w';

/// A part of a day that fits into one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOfDay {
    /// The day.
    pub date: Date,
    /// The number of this part, from 0.
    pub part: usize,
    /// The number of parts of the day.
    pub parts: usize,
    /// Its groups and waits, one row of JSON each. Reading a text is many times faster than reading
    /// an item with as many attributes.
    pub text: String,
}

impl Day {
    /// Splits the day into items by size. An empty day becomes one empty item, so that the day is
    /// known to be complete.
    #[must_use]
    pub fn to_parts(&self) -> Vec<PartOfDay> {
        let groups = self.groups.iter().map(|group| row(GROUP, group));
        let waits = self.waits.iter().map(|waits| row(WAITS, waits));
        let mut texts = vec![String::new()];
        for row in groups.chain(waits) {
            if texts.last().is_some_and(|text| text.len() + row.len() > MOST_BYTES) {
                texts.push(String::new());
            }
            if let Some(text) = texts.last_mut() {
                text.push_str(&row);
            }
        }
        let parts = texts.len();
        let part = |(part, text)| PartOfDay { date: self.date, part, parts, text };
        texts.into_iter().enumerate().map(part).collect()
    }

    /// Joins items, in any order, into a day. `None` if an item is missing or unreadable. Ignores
    /// surplus items: they remain if the day was rolled up again into fewer items.
    #[must_use]
    pub fn of_parts(items: Vec<PartOfDay>) -> Option<Self> {
        let items: BTreeMap<usize, PartOfDay> =
            items.into_iter().map(|item| (item.part, item)).collect();
        let (date, parts) = items.get(&0).map(|first| (first.date, first.parts))?;
        let mut day = Self { date, groups: Vec::new(), waits: Vec::new() };
        for (number, (part, item)) in items.into_iter().take(parts).enumerate() {
            if part != number || item.parts != parts {
                return None;
            }
            item.text.lines().try_for_each(|row| day.add(row))?;
        }
        Some(day)
    }

    fn add(&mut self, row: &str) -> Option<()> {
        if let Some(group) = row.strip_prefix(GROUP) {
            self.groups.push(serde_json::from_str::<UsageGroup>(group).ok()?);
        } else {
            let waits = row.strip_prefix(WAITS)?;
            self.waits.push(serde_json::from_str::<PoolWaits>(waits).ok()?);
        }
        Some(())
    }
}

fn row(letter: char, of: &impl Serialize) -> String {
    // Cannot fail: these types have no map with non-text keys.
    let json = serde_json::to_string(of).unwrap_or_default();
    format!("{letter}{json}\n")
}
