//! The stack as a whole: the pools, and what is not as it should be.

use muster_control::admin::answers::{AppStatus, Overview, PoolStatus, Severity, Want};

use super::jobs::labels;
use crate::page::{Column, Look, Page, Screen, Text};
use crate::words::{minute, span};

const COLUMNS: [Column; 7] = [
    Column::whole("POOL"),
    Column::text("LABELS"),
    Column::whole("LIVE/MAX"),
    Column::whole("ENDING").from(100),
    Column::whole("WAITING"),
    Column::whole("OLDEST"),
    Column::text("NOTE"),
];

/// The answer to `overview`, or that to `status` with what it says of the App. `region` is where the
/// stack was asked.
#[must_use]
pub fn page(answer: &Overview, app: Option<&AppStatus>, region: &str, screen: Screen) -> String {
    let mut page = Page::new(screen);
    if !page.is_piped() {
        page.line([
            Text::new(&answer.stack, Look::Strong),
            Text::from(format!("  {region}  {}  ", answer.release)),
            Text::new(minute(answer.now), Look::Dim),
        ]);
        if let Some(known) = app {
            page.line([of_app(known)]);
        }
        page.gap();
    }
    let rows = answer.pools.iter().map(row);
    page.table(&COLUMNS, rows.collect());
    if !page.is_piped() && !answer.wants.is_empty() {
        page.gap();
        page.marked(marked(&answer.wants));
    }
    page.into_text()
}

/// What somebody should look at, for stderr where the page goes through a pipe.
#[must_use]
pub fn talk(answer: &Overview) -> String {
    let mut page = Page::new(Screen::PIPE);
    page.marked(marked(&answer.wants));
    page.into_text()
}

fn of_app(app: &AppStatus) -> Text {
    match (app.lacks.is_empty(), app.unknown.is_empty()) {
        (true, true) => Text::new("GitHub App ✓", Look::Good),
        (false, _) => Text::new("GitHub App ✗", Look::Bad),
        (true, false) => Text::new("GitHub App ?", Look::Warning),
    }
}

fn row(pool: &PoolStatus) -> Vec<Text> {
    let served: Vec<String> = pool.labels.iter().map(labels).collect();
    let full = pool.live >= pool.max;
    let number = |count: usize| {
        if count == 0 { Text::new("0", Look::Dim) } else { count.to_string().into() }
    };
    vec![
        Text::new(pool.name.as_str(), Look::Strong),
        Text::from(served.join(", ")),
        Text::new(
            format!("{}/{}", pool.live, pool.max),
            if full && pool.waiting_jobs > 0 { Look::Warning } else { Look::Plain },
        ),
        number(pool.groups.ending),
        number(pool.waiting_jobs),
        pool.oldest_waiting_job_seconds.map_or_else(Text::none, |age| span(age).into()),
        note(pool),
    ]
}

/// What keeps the pool from launching.
fn note(pool: &PoolStatus) -> Text {
    let look = |severity| match severity {
        Severity::Error => Look::Bad,
        Severity::Warning => Look::Warning,
        Severity::Note => Look::Plain,
    };
    pool.note
        .as_ref()
        .map_or_else(|| Text::from(""), |note| Text::new(&note.said, look(note.severity)))
}

/// What somebody should look at, and the command that ends it or shows more.
pub(super) fn marked(wants: &[Want]) -> Vec<(Text, Text)> {
    let row = |want: &Want| {
        let mark = match want.severity {
            Severity::Error => Text::new("!", Look::Bad),
            Severity::Warning => Text::new("!", Look::Warning),
            Severity::Note => Text::from("·"),
        };
        let run = want.run.as_ref().map(|run| format!(".  {run}")).unwrap_or_default();
        (mark, Text::from(format!("{}{run}", want.sentence)))
    };
    wants.iter().map(row).collect()
}
