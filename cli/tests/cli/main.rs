//! The command as its users meet it: its pages, its questions, and the program itself.
//!
//! After a change that is meant to change what is shown: `UPDATE=1 cargo test -p muster-cli --test cli`, and look at the
//! difference.

mod binary;
mod doctor;
mod fake;
mod findings;
mod github;
mod image;
mod notices;
mod orders;
mod pages;
mod rightsize;
mod services;
mod setup;
mod simulate;
mod teardown;
mod ui;

use std::path::Path;

use serde_json::Value;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli"))
}

/// Compares a text with the file of its name in `pages/`.
fn compare(name: &str, text: &str) {
    let path = folder().join("pages").join(name);
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(&path, text).expect("writable");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    let lines = text.lines().map(Some).chain(std::iter::repeat(None));
    let known = recorded.lines().map(Some).chain(std::iter::repeat(None));
    let differ = lines.zip(known).take_while(|pair| *pair != (None, None)).find(|(a, b)| a != b);
    let note = "UPDATE=1 records it; then read the difference in git";
    assert!(text == recorded, "{name} differs first here: {differ:#?}\n{note}");
}

/// An answer of the admin function, as it was recorded in the simulated cloud.
fn recorded(name: &str) -> Value {
    let path = folder().join("../../../tests/sim/tests/fleet/answers").join(format!("{name}.json"));
    json(&path)
}

/// An answer that shows more than those.
fn drawn(name: &str) -> Value {
    json(&folder().join("answers").join(format!("{name}.json")))
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}
