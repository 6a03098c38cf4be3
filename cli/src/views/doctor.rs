//! The result of `doctor`: a line for each group, then the problems and their fixes.

use std::collections::BTreeSet;

use muster_api::answers::Finding;

use crate::doctor::{Check, CheckGroup, Facts, Level};
use crate::page::{Screen, TextPage};
use crate::table::{Column, DataTable, Text, TextStyle};
use crate::words::count;

const COLUMNS: [Column; 6] = [
    Column::short("Level"),
    Column::short("Group"),
    Column::short("Check"),
    Column::text("Found"),
    Column::text("Fix"),
    Column::text("Address"),
];

/// Renders the whole page.
#[must_use]
pub fn page(facts: &Facts, all: &[Check], screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if page.is_piped() {
        page.table(&DataTable::new(COLUMNS, all.iter().map(row)));
        return page.into_text();
    }
    page.cut([
        Text::new(&facts.stack, TextStyle::Strong),
        Text::from(format!("  {}", facts.region)),
        Text::from(facts.account.caller.as_ref().map_or_else(
            |_| String::new(),
            |caller| format!("  {}  {}", caller.account, caller.arn),
        )),
    ]);
    page.gap();
    groups(&mut page, all);
    let mut wrongs: Vec<&Check> = all.iter().filter(|one| is_told(one)).collect();
    wrongs.sort_by_key(|one| std::cmp::Reverse(one.level));
    if !wrongs.is_empty() {
        page.gap();
        wrongs.into_iter().for_each(|one| told(&mut page, one));
    }
    page.gap();
    page.line([sum(all)]);
    page.into_text()
}

/// Returns whether the check is listed. The last line lists missing permissions.
fn is_told(one: &Check) -> bool {
    one.level != Level::Ok && one.right.is_none()
}

/// Adds a line for each group: its checks with their worst results.
fn groups(page: &mut TextPage, all: &[Check]) {
    let present: BTreeSet<CheckGroup> = all.iter().map(|one| one.group).collect();
    for group in present {
        let mut checks: Vec<(&str, Level)> = Vec::new();
        for one in all.iter().filter(|one| one.group == group) {
            match checks.iter_mut().find(|(id, _)| *id == one.id) {
                Some((_, level)) => *level = one.level.max(*level),
                None => checks.push((one.id, one.level)),
            }
        }
        lines_of(page, group, &checks);
    }
}

/// Adds lines with as many checks as fit on the screen.
fn lines_of(page: &mut TextPage, group: CheckGroup, checks: &[(&str, Level)]) {
    const TITLE: usize = 8;
    let most = page.width().map_or(usize::MAX, usize::from);
    let mut parts = vec![Text::new(format!("{:TITLE$}", group.title()), TextStyle::Strong)];
    let mut used = TITLE;
    for (id, level) in checks {
        let wide = 4 + id.chars().count();
        if used + wide > most && used > TITLE {
            page.line(std::mem::replace(&mut parts, vec![Text::from(" ".repeat(TITLE))]));
            used = TITLE;
        }
        used += wide;
        let name = if *level == Level::Ok { TextStyle::Plain } else { look(*level) };
        parts.extend([
            Text::from("  "),
            Text::new(mark(*level), look(*level)),
            Text::new(format!(" {id}"), name),
        ]);
    }
    page.line(parts);
}

pub(super) fn told(page: &mut TextPage, one: &Check) {
    let message = one.message().unwrap_or_default();
    let mut rows = vec![(Text::new(mark(one.level), look(one.level)), Text::from(message))];
    let part = |of: fn(&Finding) -> Option<&String>| one.finding.as_ref().and_then(of);
    if let Some(fix) = part(|one| one.fix.as_ref()) {
        rows.push((Text::new("", TextStyle::Plain), Text::from(format!("→ {fix}"))));
    }
    page.marked(rows);
    // A URL must be on one line, or a terminal cannot open it.
    if let Some(url) = part(|one| one.url.as_ref()).filter(|url| !message.contains(*url)) {
        page.line([Text::from(format!("  → {url}"))]);
    }
}

fn sum(all: &[Check]) -> Text {
    let of = |level: Level| all.iter().filter(|one| one.level == level).count();
    let (errors, warnings) = (of(Level::Error), of(Level::Warning));
    let (notes, unknown) = (of(Level::Note), of(Level::Unknown));
    let rights: BTreeSet<&str> = all.iter().filter_map(|one| one.right.as_deref()).collect();
    let rights: Vec<&str> = rights.into_iter().collect();
    let rights = match rights.as_slice() {
        [] => String::new(),
        rights => format!(" (needs {})", rights.join(", ")),
    };
    let parts = [
        (errors, count(errors, "error")),
        (warnings, count(warnings, "warning")),
        (notes, count(notes, "note")),
        (unknown, format!("{unknown} unknown{rights}")),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, said)| said).collect();
    if parts.is_empty() {
        return Text::new(format!("{} checks: all is well.", of(Level::Ok)), TextStyle::Good);
    }
    let worst = all.iter().map(|one| one.level).max().unwrap_or(Level::Ok);
    Text::new(format!("{}.", parts.join(", ")), look(worst))
}

fn row(one: &Check) -> Vec<Text> {
    let level = serde_json::json!(one.level);
    let part = |of: fn(&Finding) -> Option<&String>| {
        let text = one.finding.as_ref().and_then(of);
        Text::from(text.map_or("", String::as_str))
    };
    vec![
        Text::from(level.as_str().unwrap_or_default()),
        Text::from(one.group.title()),
        Text::from(one.id),
        Text::from(one.message().unwrap_or_default()),
        part(|one| one.fix.as_ref()),
        part(|one| one.url.as_ref()),
    ]
}

const fn mark(level: Level) -> &'static str {
    match level {
        Level::Ok => "✓",
        Level::Unknown => "?",
        Level::Note => "·",
        Level::Warning => "!",
        Level::Error => "✗",
    }
}

const fn look(level: Level) -> TextStyle {
    match level {
        Level::Ok => TextStyle::Good,
        Level::Unknown => TextStyle::Dim,
        Level::Note => TextStyle::Plain,
        Level::Warning => TextStyle::Warning,
        Level::Error => TextStyle::Bad,
    }
}
