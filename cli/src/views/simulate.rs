//! The result of `simulate`: costs and waits with different pools.

use muster_domain::ids::PoolName;

use crate::money::{dollars, thousands};
use crate::page::{Screen, TextPage};
use crate::simulate::{Figures, Simulation, TrialRow, Tried};
use crate::table::{Column, DataTable, Text, TextStyle};
use crate::words::{count, minute};

use super::waits::span;

/// The limits of the model.
const NOT_MODELLED: &str = "Not in the model: refusals by EC2, GitHub's limits, machines that do \
    not boot, images that change. Boot, registration, pick-up, prices and interruptions are taken from the same days.";

#[must_use]
pub fn page(told: &Simulation, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if !page.is_piped() {
        let of = told.pool.as_ref().map_or_else(String::new, |pool| format!(" · pool {pool}"));
        let jobs = thousands(told.jobs as u64);
        let title = format!("{} to {} · {jobs} jobs · seed {}{of}", told.from, told.to, told.seed);
        page.line([Text::new(title, TextStyle::Strong)]);
        page.gap();
    }
    let has_reruns = told.all().any(|figures| figures.reruns > 0 || figures.lost > 0);
    let mut columns = vec![Column::text("Pools").at_least(18)];
    columns.extend(figures_columns(has_reruns));
    let row = |name: &str, figures: &Figures| row(name, figures, has_reruns);
    let mut rows = vec![row("as it was", &told.real), row("in force, model", &told.predicted)];
    rows.extend(told.new.iter().map(|(name, figures)| row(&format!("{name}, model"), figures)));
    page.table(&DataTable::new(columns, rows));
    if let Some(tried) = &told.tried {
        page.gap();
        let mut columns = vec![Column::short(tried.field)];
        columns.extend(figures_columns(has_reruns));
        columns.push(Column::number("Unbeaten"));
        let rows = tried.rows.iter().map(|TrialRow { value, figures, is_unbeaten }| {
            let mut cells = row(&value.to_string(), figures);
            cells.push(if *is_unbeaten { Text::new("●", TextStyle::Good) } else { Text::none() });
            cells
        });
        page.table(&DataTable::new(columns, rows));
    }
    page.gap();
    let notes = notes(told).into_iter().map(|said| (Text::new("·", TextStyle::Dim), said));
    if page.is_piped() {
        let notes: Vec<_> =
            notes.filter(|_| !told.off.is_empty() || !told.broken.is_empty()).collect();
        page.marked(notes);
    } else {
        page.marked(notes);
    }
    page.into_text()
}

fn figures_columns(has_reruns: bool) -> impl Iterator<Item = Column> {
    let reruns: &[_] = if has_reruns { &["Re-runs", "Lost"] } else { &[] };
    ["Dollars", "P50", "P95", "P99", "Machines"].iter().chain(reruns).copied().map(Column::number)
}

fn row(name: &str, figures: &Figures, has_reruns: bool) -> Vec<Text> {
    let Figures { money, lost, reruns, p50, p95, p99, machines, unpriced, .. } = *figures;
    let money = match unpriced {
        unpriced if unpriced == machines && machines > 0 => {
            Text::new("no price", TextStyle::Warning)
        }
        _ => dollars(money).into(),
    };
    let mut cells = vec![Text::from(name), money];
    cells.extend([p50, p95, p99].map(span));
    cells.push(thousands(machines).into());
    if has_reruns {
        cells.extend([thousands(reruns).into(), dollars(lost).into()]);
    }
    cells
}

fn notes(told: &Simulation) -> Vec<Text> {
    let mut notes = Vec::new();
    for (of, broken) in &told.broken {
        notes.push(Text::new(format!("An invariant broke with {of}: {broken}"), TextStyle::Bad));
    }
    if !told.off.is_empty() {
        let how = |off: u64| match off {
            ..1_000 => format!("{off} %"),
            _ => "more than tenfold".to_owned(),
        };
        let off: Vec<String> =
            told.off.iter().map(|(name, off)| format!("{} in {name}", how(*off))).collect();
        let said = format!(
            "The model is off by {}; read the other figures with that in mind.",
            off.join(", ")
        );
        notes.push(Text::new(said, TextStyle::Warning));
    }
    if !told.gone.is_empty() {
        let names: Vec<&str> = told.gone.iter().map(PoolName::as_str).collect();
        let said = format!(
            "These pools had machines in these days and are not in the current file: {}. Their \
            jobs go to other pools that match their labels.",
            names.join(", ")
        );
        notes.push(Text::new(said, TextStyle::Warning));
    }
    if let Some(at) = told.applied_at {
        let said = format!(
            "The current file was applied on {}: the model does not know the file before it.",
            minute(at)
        );
        notes.push(Text::new(said, TextStyle::Warning));
    }
    if told.all().any(|figures| figures.unpriced > 0) {
        let said = "Some machines have no price and are not included in the dollars: their type or \
            market was not used in these days.";
        notes.push(Text::new(said, TextStyle::Warning));
    }
    let unserved = told.all().map(|figures| figures.unserved).max().unwrap_or(0);
    if unserved > 0 {
        let jobs = count(usize::try_from(unserved).unwrap_or(usize::MAX), "job");
        let said = format!(
            "In one of these rows {jobs} got no runner by the end or within 24 hours: they are not \
            included in the waits."
        );
        notes.push(Text::new(said, TextStyle::Warning));
    }
    if let Some(Tried { of, .. }) = &told.tried {
        let said = format!("Pool {of}. ●: no other row costs less and has a P95 as short.");
        notes.push(Text::from(said));
    }
    notes.push(Text::new(NOT_MODELLED, TextStyle::Dim));
    notes
}
