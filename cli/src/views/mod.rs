//! Renders answers as pages: each view is a pure function of the answer, the time and the screen.

pub mod alarms;
pub mod canary;
pub mod costs;
pub mod dead_letters;
pub mod doctor;
pub mod github;
pub mod images;
pub mod instances;
pub mod job;
pub mod jobs;
pub mod lines;
pub mod logs;
pub mod machine_log;
pub mod phases;
pub mod pools;
pub mod rightsize;
pub mod setup;
pub mod simulate;
pub mod status;
pub mod waits;
pub mod watch;

use muster_api::answers::More;
use muster_domain::audit::Audit;
use muster_domain::time::Time;

use crate::page::{Screen, TextPage};
use crate::table::{Cell, Column, DataTable, Subject, Text, TextStyle};

/// Replaces the names of request fields in the function's message with the command's options.
#[must_use]
pub fn told(message: &str) -> String {
    const WORDS: [(&str, &str); 12] = [
        ("\"kill_running_job\": true", "--kill-running-job"),
        ("\"force\": true", "--force"),
        ("a \"pool\"", "a --pool"),
        ("name an \"entity\"", "pass --entity"),
        ("name a \"family\"", "pass --family"),
        ("\"entity\"", "--entity"),
        ("\"limit\"", "--limit"),
        ("\"reason\"", "--reason"),
        ("\"since\"", "--since"),
        ("\"replace\": true", "--replace"),
        ("\"connect\"", "muster github connect"),
        (r#"{"action":"github","hook":"set"}"#, "muster github hook set"),
    ];
    WORDS.iter().fold(message.to_owned(), |told, (field, flag)| told.replace(field, flag))
}

/// Renders sentences, one per line.
#[must_use]
pub fn sentences(said: &[String], screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    page.marked(said.iter().enumerate().map(|(index, sentence)| {
        let look = if index == 0 { TextStyle::Strong } else { TextStyle::Plain };
        (Text::new("", look), Text::new(sentence, look))
    }));
    page.into_text()
}

/// Adds a hint below an incomplete list; for people only.
fn more(page: &mut TextPage, more: &More) {
    if more.more && !page.is_piped() {
        page.gap();
        let hint = "Not all rows are shown: raise --limit, or narrow the list with --find and \
            --pool.";
        page.marked([(Text::new("…", TextStyle::Dim), Text::new(hint, TextStyle::Dim))]);
    }
}

/// Renders the answer to `audit`.
#[must_use]
pub fn trail(lines: &[Audit], now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if lines.is_empty() && !page.is_piped() {
        page.line([
            "No entries in that period. Orders, refusals, pauses and pool files appear here."
                .into(),
        ]);
        return page.into_text();
    }
    page.table(&audit(lines, now));
    page.into_text()
}

/// The title of the column that names the subject.
const OF: &str = "Of";

const AUDIT: [Column; 5] = [
    Column::short("At"),
    Column::short("What"),
    Column::text(OF).at_least(16),
    Column::name("By"),
    Column::text("Why").at_least(16),
];

/// Returns audit lines.
pub(crate) fn audit(lines: &[Audit], now: Time) -> DataTable {
    DataTable::new(AUDIT, lines.iter().map(|line| row(line, now)))
}

/// Returns the audit lines of one subject, without its name.
pub(crate) fn audit_of_one(lines: &[Audit], now: Time) -> DataTable {
    let mut table = audit(lines, now);
    table.keep(|column| column.title != OF);
    table
}

fn row(line: &Audit, now: Time) -> Vec<Cell> {
    let kind = serde_json::json!(line.kind);
    vec![
        Cell::time(Some(line.at), now),
        kind.as_str().unwrap_or_default().replace('_', " ").into(),
        Cell::link(&line.subject, Subject::Audited(line.subject.clone())),
        (&line.by).into(),
        (&line.why).into(),
    ]
}
