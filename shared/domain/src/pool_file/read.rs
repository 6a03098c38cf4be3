//! Readers of single values, which collect all problems.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::Problem;
use super::node::{Node, NodeKind, below};
use crate::time::Seconds;

/// The problems found in the file so far, without duplicates, in the order found.
#[derive(Debug, Default)]
pub(super) struct Wrongs {
    list: Vec<Problem>,
    known: BTreeSet<Problem>,
}

impl Wrongs {
    pub(super) fn add(&mut self, path: &str, what: impl Into<String>) {
        let wrong = Problem { path: path.to_owned(), what: what.into() };
        // A default is read once for every pool that uses it.
        if self.known.insert(wrong.clone()) {
            self.list.push(wrong);
        }
    }

    pub(super) fn into_list(self) -> Vec<Problem> {
        self.list
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn unlike(&mut self, node: &Node, wanted: &str) {
        self.add(&node.path, format!("this is {}; write {wanted}", node.described()));
    }
}

/// A group of fields with known names.
pub(super) struct Section {
    pub(super) path: String,
    fields: BTreeMap<String, Node>,
    /// Whether the file has a value of a different type here. That is reported once, and the fields
    /// are not reported as missing.
    pub(super) is_other: bool,
}

impl Section {
    /// Reads a group and rejects unknown fields. A value that is not a group reads as an empty
    /// group.
    pub(super) fn open(node: Node, known: &[&str], problems: &mut Wrongs) -> Self {
        let NodeKind::Map(fields) = node.value else {
            problems.unlike(&node, &format!("a group of fields: {}", known.join(", ")));
            return Self { is_other: true, ..Self::empty(node.path) };
        };
        for (name, field) in &fields {
            if !known.contains(&name.as_str()) {
                let advice = match nearest(name, known) {
                    Some(meant) => format!("did you mean {meant:?}?"),
                    None => format!("the fields here are {}", known.join(", ")),
                };
                problems.add(&field.path, format!("there is no such field; {advice}"));
            }
        }
        Self { path: node.path, fields, is_other: false }
    }

    pub(super) const fn empty(path: String) -> Self {
        Self { path, fields: BTreeMap::new(), is_other: false }
    }

    /// Returns a field. An empty value counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.fields.get(name).filter(|node| !matches!(node.value, NodeKind::Null))
    }

    /// Returns a field's path, whether or not it is present.
    pub(super) fn path_of(&self, name: &str) -> String {
        self.fields.get(name).map_or_else(|| below(&self.path, name), |node| node.path.clone())
    }

    /// Reads a group among the fields.
    pub(super) fn section(&self, name: &str, known: &[&str], problems: &mut Wrongs) -> Self {
        match self.get(name) {
            Some(node) => Self::open(node.clone(), known, problems),
            None => Self::empty(below(&self.path, name)),
        }
    }

    /// Reads a field with a reader function.
    pub(super) fn read<T>(
        &self,
        name: &str,
        problems: &mut Wrongs,
        read: impl FnOnce(&Node, &mut Wrongs) -> Option<T>,
    ) -> Option<T> {
        self.get(name).and_then(|node| read(node, problems))
    }
}

/// Reads a text. A number or a truth value is accepted as text: the YAML parser only produces those
/// that print exactly as written.
pub(super) fn text(node: &Node, problems: &mut Wrongs) -> Option<String> {
    match &node.value {
        NodeKind::Text(text) if !text.is_empty() => Some(text.clone()),
        NodeKind::Text(_) => {
            problems.add(&node.path, "this is empty");
            None
        }
        NodeKind::Bool(value) => Some(value.to_string()),
        NodeKind::Number(number) => Some(number.to_string()),
        NodeKind::Null => {
            problems.unlike(node, "a text; in quotes if it is the word null or ~");
            None
        }
        _ => {
            problems.unlike(node, "a text");
            None
        }
    }
}

pub(super) fn boolean(node: &Node, problems: &mut Wrongs) -> Option<bool> {
    if let NodeKind::Bool(value) = node.value {
        return Some(value);
    }
    problems.unlike(node, "true or false");
    None
}

/// Reads a whole number within bounds.
pub(super) fn number(
    node: &Node,
    range: RangeInclusive<u64>,
    problems: &mut Wrongs,
) -> Option<u64> {
    let read = match &node.value {
        NodeKind::Number(number) => number.as_u64().filter(|number| range.contains(number)),
        _ => None,
    };
    if read.is_none() {
        let (least, most) = (range.start(), range.end());
        problems.unlike(node, &format!("a whole number from {least} to {most}"));
    }
    read
}

/// Reads a whole number of 32 bits within bounds.
pub(super) fn count(node: &Node, range: RangeInclusive<u32>, problems: &mut Wrongs) -> Option<u32> {
    let range = u64::from(*range.start())..=u64::from(*range.end());
    number(node, range, problems).and_then(|number| u32::try_from(number).ok())
}

/// Reads a duration: `90s`, `15m`, `12h`, `2d`, or seconds as a number.
pub(super) fn duration(
    node: &Node,
    range: RangeInclusive<u32>,
    problems: &mut Wrongs,
) -> Option<Seconds> {
    let seconds = match &node.value {
        NodeKind::Number(number) => number.as_u64(),
        NodeKind::Text(text) => seconds_of(text),
        _ => None,
    };
    let Some(seconds) = seconds else {
        problems.unlike(node, "a time like 90s, 15m, 12h or 2d, or a number of seconds");
        return None;
    };
    match u32::try_from(seconds).ok().filter(|seconds| range.contains(seconds)) {
        Some(seconds) => Some(Seconds(seconds)),
        None => {
            let (least, most) = (written(Seconds(*range.start())), written(Seconds(*range.end())));
            problems.unlike(node, &format!("a time from {least} to {most}"));
            None
        }
    }
}

/// The units of durations, largest first.
const UNITS: &[(char, u64)] = &[('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

fn seconds_of(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let digits = text.strip_suffix(unit)?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| digits.parse::<u64>().ok()).flatten()?.checked_mul(*size)
}

/// Formats a duration in the largest unit that divides it.
pub(super) fn written(time: Seconds) -> String {
    let seconds = u64::from(time.0);
    let fits = |size: &u64| seconds != 0 && seconds.is_multiple_of(*size);
    let (unit, size) = UNITS.iter().find(|(_, size)| fits(size)).unwrap_or(&('s', 1));
    format!("{}{unit}", seconds / size)
}

/// Reads one of the allowed words.
pub(super) fn one_of<T: Copy>(
    node: &Node,
    words: &[(&str, T)],
    problems: &mut Wrongs,
) -> Option<T> {
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    let text = match &node.value {
        NodeKind::Text(text) => text.as_str(),
        _ => "",
    };
    let found = words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    if found.is_none() {
        let meant = nearest(text, &names).map(|name| format!(" (did you mean {name:?}?)"));
        let wanted = format!("one of {}{}", names.join(", "), meant.unwrap_or_default());
        problems.unlike(node, &wanted);
    }
    found
}

/// Reads a text and parses it.
pub(super) fn parsed<T: FromStr<Err: Display>>(node: &Node, problems: &mut Wrongs) -> Option<T> {
    let text = text(node, problems)?;
    text.parse().map_err(|error: T::Err| problems.add(&node.path, error.to_string())).ok()
}

/// Reads a list of at least one item. `None` if any item is invalid.
pub(super) fn list<T>(
    node: &Node,
    of_what: &str,
    problems: &mut Wrongs,
    mut read: impl FnMut(&Node, &mut Wrongs) -> Option<T>,
) -> Option<Vec<T>> {
    match &node.value {
        NodeKind::List(items) if items.is_empty() => {
            problems.add(&node.path, format!("this list is empty; write {of_what}"));
            None
        }
        NodeKind::List(items) => {
            let read: Vec<Option<T>> = items.iter().map(|item| read(item, problems)).collect();
            read.into_iter().collect()
        }
        _ => {
            problems.unlike(node, &format!("a list of {of_what}"));
            None
        }
    }
}

/// Reads a list of distinct texts that satisfy a rule.
pub(super) fn texts(
    node: &Node,
    of_what: &str,
    problems: &mut Wrongs,
    fits: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    let mut seen: Vec<String> = Vec::new();
    list(node, of_what, problems, |item, problems| {
        let text = text(item, problems)?;
        if !fits(&text) {
            problems.add(&item.path, format!("{text:?} is not among {of_what}"));
            return None;
        }
        if seen.contains(&text) {
            problems.add(&item.path, format!("{text:?} is listed twice"));
            return None;
        }
        seen.push(text.clone());
        Some(text)
    })
}

/// Reads any number of names with values.
pub(super) fn named<T>(
    node: &Node,
    problems: &mut Wrongs,
    mut read: impl FnMut(&str, &Node, &mut Wrongs) -> Option<T>,
) -> Option<BTreeMap<String, T>> {
    let NodeKind::Map(fields) = &node.value else {
        problems.unlike(node, "names with values, each on its own line");
        return None;
    };
    let read: Vec<Option<(String, T)>> = fields
        .iter()
        .filter(|(_, node)| !matches!(node.value, NodeKind::Null))
        .map(|(name, node)| read(name, node, problems).map(|value| (name.clone(), value)))
        .collect();
    read.into_iter().collect()
}

/// Returns the known name that was most likely intended.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let distance = |other: &str| strsim::levenshtein(&name, &other.to_lowercase());
    let close = known.iter().map(|other| (distance(other), *other));
    let (distance, other) = close.min()?;
    // If more than a third differs, it is not a typo.
    (!name.is_empty() && distance <= (other.chars().count() / 3).max(1)).then_some(other)
}
