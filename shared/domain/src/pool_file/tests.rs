//! What a file says, and every way to say it wrong.

mod right;
mod schema;
mod wrong;

use serde_json::Value;

use super::{PoolFile, Wrong, read};

/// The file of a text.
fn file(text: &str) -> Result<PoolFile, Vec<Wrong>> {
    read(yaml(text))
}

fn yaml(text: &str) -> Value {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options)
        .unwrap_or_else(|error| panic!("not even YAML: {error}\n{text}"))
}

fn right(text: &str) -> PoolFile {
    file(text).unwrap_or_else(|wrongs| panic!("{wrongs:#?}\n{text}"))
}

const EXAMPLE: &str = include_str!("../../../../infra/pools.example.yaml");
