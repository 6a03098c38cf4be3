//! The stack as a whole: the pools, and what needs attention.

use muster_api::answers::{Finding, Overview, PoolStatus, Severity};
use muster_domain::instance::Groups;

use super::jobs::labels;
use crate::page::{Screen, TextPage};
use crate::table::{Cell, Column, DataTable, Medium, Subject, Text, TextStyle};
use crate::words::{clock, minute, span};

const COLUMNS: [Column; 10] = [
    Column::name("Pool"),
    Column::text("Labels").only(Medium::Terminal).optional(),
    Column::short("Live/max"),
    Column::number("Busy").from(120),
    Column::number("Starting").from(120),
    Column::number("Idle").from(120),
    Column::number("Ending").from(100),
    Column::number("Waiting"),
    Column::number("Oldest"),
    Column::text("Note").lead(),
];

/// Returns the table of pools.
pub(crate) fn pools(answer: &Overview) -> DataTable {
    DataTable::new(COLUMNS, answer.pools.iter().map(row))
}

/// Renders the answer to `overview` or `status`. `region`: the stack's region.
#[must_use]
pub fn page(answer: &Overview, region: &str, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if !page.is_piped() {
        page.line([
            Text::new(&answer.stack, TextStyle::Strong),
            Text::from(format!("  {region}  {}  ", answer.release)),
            Text::new(minute(answer.now), TextStyle::Dim),
        ]);
        page.line(of_app(answer));
        page.gap();
    }
    page.table(&pools(answer));
    if !page.is_piped() {
        page.gap();
        page.marked(marked(&answer.findings));
        let rest = "Not checked here: the AWS account, the network, images, functions and alarms; run muster doctor.";
        page.marked([(Text::new("", TextStyle::Dim), Text::new(rest, TextStyle::Dim))]);
    }
    page.into_text()
}

/// Renders what needs attention, for stderr if the page goes through a pipe.
#[must_use]
pub fn talk(answer: &Overview) -> String {
    let mut page = TextPage::new(Screen::PIPE);
    page.marked(marked(&answer.findings));
    page.into_text()
}

/// Returns whether the App works, according to the findings about it, and when it was checked.
fn of_app(answer: &Overview) -> [Text; 3] {
    let is_of_app = |one: &&Finding| one.kind().starts_with("app-");
    let worst = answer.findings.iter().filter(is_of_app).map(|one| one.severity).min();
    let (mark, look) = match (answer.app_checked_at, worst) {
        (_, Some(Severity::Error)) => ("✗", TextStyle::Bad),
        (Some(_), None) => ("✓", TextStyle::Good),
        _ => ("?", TextStyle::Warning),
    };
    let when = match answer.app_checked_at {
        Some(at) if at == answer.now => String::new(),
        Some(at) => format!("  checked {}", clock(at, answer.now)),
        None => "  not checked yet".to_owned(),
    };
    [Text::new("GitHub App ", look), Text::new(mark, look), Text::new(when, TextStyle::Dim)]
}

fn row(pool: &PoolStatus) -> Vec<Cell> {
    let served: Vec<String> = pool.labels.iter().map(labels).collect();
    let full = pool.live >= pool.max;
    let number = |count: usize| match count {
        0 => Cell::from(Text::new("0", TextStyle::Dim)),
        count => count.to_string().into(),
    };
    let Groups { ending, free, retrying, starting, taken } = pool.groups;
    let name = Text::new(pool.name.as_str(), TextStyle::Strong);
    vec![
        Cell::link(name, Subject::Pool(pool.name.clone())),
        served.join(", ").into(),
        Cell::room(
            pool.live as usize,
            pool.max as usize,
            if full && pool.waiting_jobs > 0 { TextStyle::Warning } else { TextStyle::Plain },
        ),
        number(taken),
        number(starting + retrying),
        number(free),
        number(ending),
        number(pool.waiting_jobs),
        Text::known(pool.oldest_waiting_job_seconds.map(span)).into(),
        note(pool).into(),
    ]
}

/// Returns what keeps the pool from launching, or else which event keeps runners ready.
fn note(pool: &PoolStatus) -> Text {
    let look = |severity| match severity {
        Severity::Error => TextStyle::Bad,
        Severity::Warning => TextStyle::Warning,
        Severity::Note => TextStyle::Plain,
    };
    pool.note.as_ref().map_or_else(
        || Text::from(pool.warm.clone().unwrap_or_default()),
        |note| Text::new(&note.message, look(note.severity)),
    )
}

/// Returns the findings, each with its fix.
pub(crate) fn marked(all: &[Finding]) -> Vec<(Text, Text)> {
    let row = |one: &Finding| {
        let mark = match one.severity {
            Severity::Error => Text::new("✗", TextStyle::Bad),
            Severity::Warning => Text::new("!", TextStyle::Warning),
            Severity::Note => Text::from("·"),
        };
        let fix = one.fix.as_ref().map(|fix| format!(" → {fix}")).unwrap_or_default();
        (mark, Text::from(format!("{}{fix}", one.message)))
    };
    all.iter().map(row).collect()
}
