//! Answers as pages: each a pure function of the answer, the time, and the screen.

pub mod instances;
pub mod jobs;
pub mod orders;
pub mod pools;
pub mod status;

use muster_control::admin::answers::More;
use muster_domain::audit::Audit;
use muster_domain::time::Time;

use crate::page::{Column, Look, Page, Screen, Text};
use crate::words::clock;

/// The function's sentence in the words of this command: it names the fields of a request.
#[must_use]
pub fn told(message: &str) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("\"kill_running_job\": true", "--kill-running-job"),
        ("\"force\": true", "--force"),
        ("a \"pool\"", "a --pool"),
        ("\"limit\"", "--limit"),
        ("\"reason\"", "--reason"),
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
    if let Some(hint) = more.hint.as_deref().filter(|_| !page.is_piped()) {
        page.gap();
        page.marked([(Text::new("…", Look::Dim), Text::new(told(hint), Look::Dim))]);
    }
}

const AUDIT: [Column; 4] =
    [Column::whole("AT"), Column::whole("WHAT"), Column::whole("BY"), Column::text("WHY")];

/// Lines of the audit trail.
fn audit(page: &mut Page, lines: &[Audit], now: Time) {
    let rows = lines.iter().map(|line| {
        let kind = serde_json::json!(line.kind);
        vec![
            Text::from(clock(line.at, now)),
            Text::from(kind.as_str().unwrap_or_default()),
            Text::from(&line.by),
            Text::from(&line.why),
        ]
    });
    page.table(&AUDIT, rows.collect());
}
