//! The values of a file, each with its path.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

/// A value and its path, for example `pools[2].limits.max`.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) value: NodeKind,
}

/// The type and content of a value.
#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
}

impl Node {
    pub(super) fn new(value: Value, path: String) -> Self {
        let value = match value {
            Value::Null => NodeKind::Null,
            Value::Bool(value) => NodeKind::Bool(value),
            Value::Number(number) => NodeKind::Number(number),
            Value::String(text) => NodeKind::Text(text),
            Value::Array(items) => {
                let items = items.into_iter().enumerate();
                NodeKind::List(
                    items.map(|(n, item)| Self::new(item, format!("{path}[{n}]"))).collect(),
                )
            }
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| {
                    let node = Self::new(value, below(&path, &name));
                    (name, node)
                });
                NodeKind::Map(fields.collect())
            }
        };
        Self { path, value }
    }

    /// Describes the value for a message about an unexpected type.
    pub(super) fn described(&self) -> String {
        match &self.value {
            NodeKind::Null => "nothing".to_owned(),
            NodeKind::Bool(value) => format!("the truth value {value}"),
            NodeKind::Number(number) => format!("the number {number}"),
            NodeKind::Text(text) => format!("the text {text:?}"),
            NodeKind::List(_) => "a list".to_owned(),
            NodeKind::Map(_) => "a group of fields".to_owned(),
        }
    }
}

/// Returns the path of a field.
pub(super) fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

/// Merges a pool's fields over those of `defaults`. Groups are merged field by field; `whole`
/// groups and all other values are replaced. A field with an empty value (`disk:`) cancels the
/// default.
pub(super) fn merged(defaults: &Node, own: Node, whole: &[&str]) -> Node {
    let (NodeKind::Map(defaults), NodeKind::Map(fields)) = (&defaults.value, &own.value) else {
        return own;
    };
    let mut all = defaults.clone();
    for (name, node) in fields {
        let merged = match all.remove(name) {
            Some(default) if !whole.contains(&name.as_str()) => merged(&default, node.clone(), &[]),
            _ => node.clone(),
        };
        all.insert(name.clone(), merged);
    }
    Node { path: own.path, value: NodeKind::Map(all) }
}
