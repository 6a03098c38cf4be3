//! Days as DynamoDB items.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::date::Date;
use super::fold::{Day, Group, PoolWaits};

/// Maximum bytes of the text of one item. DynamoDB accepts items of 400 KB, and UTF-8 counts as its
/// bytes.
/// Source: docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
pub const MOST_BYTES: usize = 350_000;
/// The first letter of a group's row.
const GROUP: char = 'g';
/// The first letter of the row of a pool's waits.
const WAITS: char = 'w';

/// A part of a day that fits into one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOfDay {
    /// The day.
    pub date: Date,
    /// Number of the part, from 0.
    pub part: usize,
    /// Number of parts that the day has.
    pub parts: usize,
    /// Its groups and waits, a row of JSON for each. Reading a text is many times faster than
    /// reading an item with as many attributes.
    pub text: String,
}

impl Day {
    /// Returns the day as items, split by their size. A day of nothing has one item, so that it is
    /// known to be over.
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

    /// Returns the day of items in any order. None if one is missing or cannot be read. A day that
    /// was rolled up again to fewer items has old ones after them.
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
            self.groups.push(serde_json::from_str::<Group>(group).ok()?);
        } else {
            let waits = row.strip_prefix(WAITS)?;
            self.waits.push(serde_json::from_str::<PoolWaits>(waits).ok()?);
        }
        Some(())
    }
}

fn row(letter: char, of: &impl Serialize) -> String {
    // These types have no map whose keys are not text, so this cannot fail.
    let json = serde_json::to_string(of).unwrap_or_default();
    format!("{letter}{json}\n")
}
