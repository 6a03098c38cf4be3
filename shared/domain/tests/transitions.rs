//! docs/design/deletes.md shows the transition table of the code. `UPDATE=1 cargo test -p
//! muster-domain` rewrites it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use muster_domain::instance::TRANSITIONS;

const START: &str = "<!-- transitions -->\n";
const END: &str = "<!-- /transitions -->";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/deletes.md")
}

fn table() -> String {
    let mut table = "| from | to | cause |\n|---|---|---|\n".to_owned();
    for transition in TRANSITIONS {
        let from = transition.from.map_or("∅", |state| state.as_str());
        let (to, cause) = (transition.to.as_str(), transition.cause);
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| {from} | {to} | {cause} |");
    }
    table
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the page is written anew when asked for")]
fn architecture_shows_the_transitions_of_the_code() {
    let text = fs::read_to_string(page()).expect("the page is readable");
    let (before, rest) = text.split_once(START).expect("the start mark");
    let (shown, after) = rest.split_once(END).expect("the end mark");
    if std::env::var_os("UPDATE").is_some() {
        let updated = format!("{before}{START}{}{END}{after}", table());
        fs::write(page(), updated).expect("the page is writable");
        return;
    }
    assert_eq!(shown, table(), "run: UPDATE=1 cargo test -p muster-domain --test transitions");
}
