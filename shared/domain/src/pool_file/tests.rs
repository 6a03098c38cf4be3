//! Reading pool files, and every way in which they can be invalid.

mod names;
mod right;
mod rights;
mod schema;
mod wrong;

use serde_json::Value;

use super::{Answers, FoundPlacement, FoundTemplate, NamedTemplate, PoolFile, Problem};

/// Reads a file from its text.
fn file(text: &str) -> Result<PoolFile, Vec<Problem>> {
    read(yaml(text))
}

/// EC2's answers for the names in the example and in generated files.
fn known() -> Answers {
    let found = FoundTemplate {
        version: 3,
        is_ours: true,
        role: Some("AROA1".to_owned()),
        ..FoundTemplate::default()
    };
    let template = |version| {
        let id = "lt-0a1b2c3d4e5f60718".to_owned();
        (NamedTemplate { id, version }, Some(found.clone()))
    };
    let group = FoundPlacement { is_ours: true, is_cluster: false };
    let groups = ["acme-release", "acme build"];
    Answers {
        templates: [template(None), template(Some(3))].into(),
        placements: groups.map(|name| (name.to_owned(), Some(group.clone()))).into(),
        ..Answers::default()
    }
}

/// Reads a file without further names.
fn read(value: Value) -> Result<PoolFile, Vec<Problem>> {
    match super::read(value, &known()) {
        Ok(reading) => Ok(reading.file),
        Err(unread) => {
            assert!(unread.open.is_empty(), "{unread:?}");
            Err(unread.problems)
        }
    }
}

fn yaml(text: &str) -> Value {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options)
        .unwrap_or_else(|error| panic!("not even YAML: {error}\n{text}"))
}

fn right(text: &str) -> PoolFile {
    file(text).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"))
}

const EXAMPLE: &str = include_str!("../../../../infra/pools.example.yaml");
