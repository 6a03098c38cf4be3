//! The changes that an apply makes, pool by pool, in the pool file's terms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PoolSet;
use crate::ids::PoolName;
use crate::pool::Pool;
use crate::pool_file;
use crate::pool_file::fields::default_of;

/// A change of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The field's name, for example `limits.max`.
    pub field: String,
    /// The current value. `None` if the default applies.
    pub from: Option<Value>,
    /// The new value.
    pub to: Option<Value>,
}

/// What happens to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is new, or its removal is undone.
    Added,
    /// Some of its fields change.
    Changed,
    /// It is no longer in the file: it drains and is then removed.
    Removed,
    /// It was removed by an earlier apply and is still draining.
    Draining,
    /// It does not change.
    Unchanged,
}

/// The changes of one pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolDiff {
    /// The pool.
    pub pool: PoolName,
    /// What happens to it.
    pub fate: Fate,
    /// The changed fields; for a new pool, all its fields.
    pub changes: Vec<FieldChange>,
    /// Whether its idle machines are replaced.
    pub replaces_machines: bool,
}

/// All changes of an apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// Changes outside the pools: the stack's limits and balance.
    pub stack: Vec<FieldChange>,
    /// The pools, in the order of the new set.
    pub pools: Vec<PoolDiff>,
}

impl Diff {
    /// Compares a set with its successor.
    #[must_use]
    pub fn between(before: &PoolSet, after: &PoolSet) -> Self {
        let stack = changes(
            &pool_file::written_stack(&before.limits, before.balance),
            &pool_file::written_stack(&after.limits, after.balance),
        );
        let pools = after.pools.iter().map(|pool| pool_diff(before.pool(&pool.name), pool));
        Self { stack, pools: pools.collect() }
    }

    /// Returns whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let changes = |pool: &PoolDiff| !matches!(pool.fate, Fate::Unchanged | Fate::Draining);
        self.stack.is_empty() && !self.pools.iter().any(changes)
    }

    /// Formats the changes as sentences, one per line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.stack.iter().map(|change| format!("~ {}", in_words(change, false))).collect();
        for pool in &self.pools {
            let name = &pool.pool;
            lines.push(match pool.fate {
                Fate::Added => format!("+ pool {name} is added"),
                Fate::Changed => format!("~ pool {name} changes"),
                Fate::Removed => format!(
                    "- pool {name} is removed: it gets no new jobs, its idle machines end, and \
                     its waiting jobs are matched again"
                ),
                Fate::Draining => format!("- pool {name} was removed before and still drains"),
                Fate::Unchanged => format!("  pool {name} stays as it is"),
            });
            let is_new = pool.fate == Fate::Added;
            let changes = pool.changes.iter();
            lines.extend(changes.map(|change| format!("    {}", in_words(change, is_new))));
            // Always shown, because the market affects costs most.
            if is_new && !pool.changes.iter().any(|change| change.field == "market") {
                lines.push(format!("    market: {}", unwritten("market")));
            }
            if pool.replaces_machines {
                lines.push("    its idle machines are replaced".to_owned());
            }
        }
        lines
    }
}

fn pool_diff(before: Option<&Pool>, after: &Pool) -> PoolDiff {
    let was = before.filter(|pool| !pool.is_removed());
    let fate = match (was, after.is_removed()) {
        (None, false) => Fate::Added,
        (None, true) => Fate::Draining,
        (Some(_), true) => Fate::Removed,
        (Some(before), false) if before.generation == after.generation => Fate::Unchanged,
        (Some(_), false) => Fate::Changed,
    };
    let nothing = Value::Object(serde_json::Map::new());
    let from = was.map_or(nothing, pool_file::written);
    let mut changes = match fate {
        Fate::Added | Fate::Changed => changes(&from, &pool_file::written(after)),
        Fate::Removed | Fate::Draining | Fate::Unchanged => Vec::new(),
    };
    changes.retain(|change| change.field != "name");
    let replaces_machines = was.is_some_and(|before| before.machines_since != after.machines_since);
    PoolDiff { pool: after.name.clone(), fate, changes, replaces_machines }
}

/// Formats a change as a line. For a new pool, only the new value.
fn in_words(FieldChange { field, from, to }: &FieldChange, is_new: bool) -> String {
    let shown =
        |value: &Option<Value>| value.as_ref().map_or_else(|| unwritten(field), Value::to_string);
    match (from, to) {
        (None, Some(to)) if is_new || default_of(field).is_none() => format!("{field}: {to}"),
        (from, to) => format!("{field}: {} → {}", shown(from), shown(to)),
    }
}

/// Describes the effective value of a field that is not in the file.
fn unwritten(field: &str) -> String {
    default_of(field).map_or_else(|| "(none)".to_owned(), |default| format!("(default: {default})"))
}

fn changes(from: &Value, to: &Value) -> Vec<FieldChange> {
    let (mut before, after) = (leaves(from), leaves(to));
    let mut changes = Vec::new();
    for (field, value) in after {
        let from = before.remove(&field);
        if from.as_ref() != Some(&value) {
            changes.push(FieldChange { field, from, to: Some(value) });
        }
    }
    let gone = before.into_iter();
    changes.extend(gone.map(|(field, from)| FieldChange { field, from: Some(from), to: None }));
    changes.sort_by(|a, b| a.field.cmp(&b.field));
    changes
}

/// Returns the leaf values of a tree by their paths; a list is one value.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    collect(value, "", &mut all);
    all
}

fn collect(value: &Value, path: &str, all: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(value, &path, all);
            }
        }
        _ => drop(all.insert(path.to_owned(), value.clone())),
    }
}
