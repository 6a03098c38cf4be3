//! The alarms and their handbook pages.

use muster_domain::time::Time;

use crate::alarms::{Alarm, AlarmState};
use crate::handbook;
use crate::page::{Screen, TextPage};
use crate::table::{Column, DataTable, Text, TextStyle};
use crate::words::{clock, span};

const COLUMNS: [Column; 4] =
    [Column::name("Alarm"), Column::short("State"), Column::short("Since"), Column::text("What")];

/// Renders the firing alarms, each with the first sentence of its advice, and the names of the
/// quiet ones.
#[must_use]
pub fn list(all: &[Alarm], stack: &str, now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    let mut all: Vec<&Alarm> = all.iter().collect();
    all.sort_by(|a, b| (a.state, &a.name).cmp(&(b.state, &b.name)));
    let is_listed = |alarm: &&&Alarm| page.is_piped() || alarm.state != AlarmState::Quiet;
    let listed: Vec<&Alarm> = all.iter().filter(is_listed).copied().collect();
    if !listed.is_empty() {
        let rows = listed.iter().map(|alarm| {
            vec![
                Text::new(&alarm.name, TextStyle::Strong),
                state(alarm.state),
                alarm.since.map_or_else(Text::none, |at| clock(at, now).into()),
                Text::from(&alarm.what),
            ]
        });
        page.table(&DataTable::new(COLUMNS, rows));
    }
    if page.is_piped() {
        return page.into_text();
    }
    let red = listed.iter().filter(|alarm| alarm.state == AlarmState::Red);
    let asks: Vec<(Text, Text)> = red
        .filter_map(|alarm| {
            let first = handbook::first(&alarm.name, stack)?;
            let said = format!("{}: {first}  muster alarms {}", alarm.name, alarm.name);
            Some((Text::new("!", TextStyle::Bad), Text::from(said)))
        })
        .collect();
    if !asks.is_empty() {
        page.gap();
        page.marked(asks);
    }
    let quiet = all.iter().filter(|alarm| alarm.state == AlarmState::Quiet);
    let quiet: Vec<&str> = quiet.map(|alarm| alarm.name.as_str()).collect();
    if !quiet.is_empty() {
        page.gap();
        page.marked([(
            Text::new("✓", TextStyle::Good),
            format!("quiet: {}", quiet.join(", ")).into(),
        )]);
    }
    page.into_text()
}

/// Renders one alarm with its whole page.
#[must_use]
pub fn one(alarm: &Alarm, asks: &[String], now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    let since =
        alarm.since.map(|at| format!(" since {} ({})", clock(at, now), span(now.since(at))));
    page.line([
        Text::new(&alarm.name, TextStyle::Strong),
        Text::from("  "),
        state(alarm.state),
        Text::from(since.unwrap_or_default()),
    ]);
    page.marked([(Text::from(""), Text::from(&alarm.what))]);
    if !alarm.reason.is_empty() {
        page.marked([(Text::from(""), Text::new(&alarm.reason, TextStyle::Dim))]);
    }
    let mut was_row = false;
    for part in asks {
        let (mark, said, is_row) = match part.strip_prefix("- ") {
            Some(row) => ("-", row, true),
            None => ("", part.as_str(), false),
        };
        if !(is_row && was_row) {
            page.gap();
        }
        was_row = is_row;
        page.marked([(Text::from(mark), Text::from(said))]);
    }
    page.into_text()
}

fn state(state: AlarmState) -> Text {
    match state {
        AlarmState::Red => Text::new("red", TextStyle::Bad),
        AlarmState::NoData => Text::new("no data", TextStyle::Dim),
        AlarmState::Quiet => Text::new("quiet", TextStyle::Good),
    }
}
