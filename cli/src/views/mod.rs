//! Answers as pages: each a pure function of the answer, the time, and the screen.

pub mod alarms;
pub mod canary;
pub mod costs;
pub mod dead_letters;
pub mod doctor;
pub mod github;
pub mod instances;
pub mod job;
pub mod jobs;
pub mod lines;
pub mod logs;
pub mod machine_log;
pub mod orders;
pub mod phases;
pub mod pools;
pub mod setup;
pub mod simulate;
pub mod status;
pub mod waits;
pub mod watch;

use muster_control::admin::answers::More;
use muster_domain::audit::Audit;
use muster_domain::time::Time;

use crate::page::{Column, Look, Page, Screen, Text};
use crate::words::clock;

/// The function's sentence in the words of this command: it names the fields of a request.
#[must_use]
pub fn told(message: &str) -> String {
    const WORDS: [(&str, &str); 11] = [
        ("\"kill_running_job\": true", "--kill-running-job"),
        ("\"force\": true", "--force"),
        ("a \"pool\"", "a --pool"),
        ("name an \"entity\"", "give --entity"),
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

/// Sentences, one a line.
#[must_use]
pub fn sentences(said: &[String], screen: Screen) -> String {
    let mut page = Page::new(screen);
    page.marked(said.iter().enumerate().map(|(index, sentence)| {
        let look = if index == 0 { Look::Strong } else { Look::Plain };
        (Text::new("", look), Text::new(sentence, look))
    }));
    page.into_text()
}

/// What stands below a list that is not whole; for people.
fn more(page: &mut Page, more: &More) {
    if more.more && !page.is_piped() {
        page.gap();
        let hint = "Not all are shown: a larger --limit shows more, --find and --pool narrow it.";
        page.marked([(Text::new("…", Look::Dim), Text::new(hint, Look::Dim))]);
    }
}

const AUDIT: [Column; 4] =
    [Column::whole("AT"), Column::whole("WHAT"), Column::whole("BY"), Column::text("WHY")];

/// The answer to `audit`.
#[must_use]
pub fn trail(lines: &[Audit], now: Time, screen: Screen) -> String {
    let mut page = Page::new(screen);
    if lines.is_empty() && !page.is_piped() {
        page.line(["Nothing was ordered, refused, switched or applied in that time.".into()]);
        return page.into_text();
    }
    let rows = lines.iter().map(|line| {
        let mut row = row(line, now);
        row.insert(2, Text::from(&line.subject));
        row
    });
    page.table(&TRAIL, rows.collect());
    page.into_text()
}

const TRAIL: [Column; 5] = [
    Column::whole("AT"),
    Column::whole("WHAT"),
    Column::text("OF").at_least(16),
    Column::whole("BY"),
    Column::text("WHY").at_least(16),
];

/// Lines of the audit trail of one subject.
fn audit(page: &mut Page, lines: &[Audit], now: Time) {
    page.table(&AUDIT, lines.iter().map(|line| row(line, now)).collect());
}

fn row(line: &Audit, now: Time) -> Vec<Text> {
    let kind = serde_json::json!(line.kind);
    vec![
        Text::from(clock(line.at, now)),
        Text::from(kind.as_str().unwrap_or_default()),
        Text::from(&line.by),
        Text::from(&line.why),
    ]
}
