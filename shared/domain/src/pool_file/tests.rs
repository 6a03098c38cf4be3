//! What a file says, and every way to say it wrong.

mod names;
mod right;
mod schema;
mod wrong;

use serde_json::Value;

use super::{Answers, PoolFile, Problem};

/// The file of a text.
fn file(text: &str) -> Result<PoolFile, Vec<Problem>> {
    read(yaml(text))
}

/// A file that names nothing.
fn read(value: Value) -> Result<PoolFile, Vec<Problem>> {
    match super::read(value, &Answers::default()) {
        Ok(reading) => {
            assert_eq!(reading.resolved, Vec::<String>::new());
            Ok(reading.file)
        }
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
