//! What other pools would have cost.

use serde_json::{Value, json};

use super::lines::millis;
use crate::money::{dollars, thousands};
use crate::page::{Column, Look, Page, Screen, Text};
use crate::simulate::Trial;

/// Hundredths by which the model may be off before somebody is told to read the rest with that.
const NEAR: u64 = 5;
/// The first trial is the record itself, the second the model of it.
const MODEL: usize = 1;

/// All of it. The first two trials are what was and the model of that.
#[must_use]
pub fn page(trials: &[Trial], screen: Screen) -> String {
    let mut page = Page::new(screen);
    let mut columns = vec![Column::text("POOLS").at_least(12), Column::whole("DOLLARS")];
    columns.extend(["MACHINES", "P50", "P95", "P99"].map(Column::whole));
    columns.push(Column::text("BESIDE").at_least(20));
    let model = trials.get(MODEL);
    let rows = trials.iter().enumerate().map(|(at, one)| row(one, at, model, trials)).collect();
    page.table(&columns, rows);
    if page.is_piped() {
        return page.into_text();
    }
    page.gap();
    let marks =
        notes(trials).into_iter().map(|(look, said)| (Text::new("·", look), Text::new(said, look)));
    page.marked(marks);
    page.into_text()
}

fn notes(trials: &[Trial]) -> Vec<(Look, String)> {
    let mut notes = Vec::new();
    if let [real, model, ..] = trials {
        let (dollars, p95) =
            (off(model.outcome.dollars, real.outcome.dollars), off(p(model, 95), p(real, 95)));
        let said = format!("The model is off by {dollars} % in dollars and {p95} % in p95");
        notes.push(match dollars.max(p95) > NEAR {
            true => (Look::Warning, format!("{said}: read the rest with that.")),
            false => (Look::Dim, format!("{said}.")),
        });
    }
    if trials.len() > MODEL + 1 {
        notes.push((Look::Dim, "● costs least of all that wait no longer (p95).".to_owned()));
    }
    notes.push((
        Look::Dim,
        "Not in it: what EC2 refuses or takes back, GitHub's limits, other images. A pool's hour costs \
         what it did on average."
            .to_owned(),
    ));
    notes
}

fn row(one: &Trial, at: usize, model: Option<&Trial>, trials: &[Trial]) -> Vec<Text> {
    let outcome = &one.outcome;
    let mark = if is_best(at, trials) { "● " } else { "" };
    let beside = match model.filter(|_| at > MODEL) {
        Some(model) => format!(
            "{mark}{} dollars, {} p95",
            change(outcome.dollars, model.outcome.dollars),
            change(p(one, 95), p(model, 95))
        ),
        None => String::new(),
    };
    let mut cells = vec![
        Text::new(&one.name, if at > MODEL { Look::Plain } else { Look::Strong }),
        dollars(outcome.dollars).into(),
        thousands(outcome.machines).into(),
    ];
    cells.extend([50, 95, 99].map(|of| Text::from(millis(p(one, of)))));
    cells.push(beside.into());
    cells
}

/// Whether no other set of pools is as quick for less, or quicker for as much. What was is no choice.
fn is_best(at: usize, trials: &[Trial]) -> bool {
    let key = |one: &Trial| (one.outcome.dollars, p(one, 95));
    let (dollars, wait) = key(&trials[at]);
    let beats = |one: &Trial| {
        let (other, quicker) = key(one);
        other <= dollars && quicker <= wait && (other, quicker) != (dollars, wait)
    };
    at > MODEL && !trials.iter().skip(MODEL).any(beats)
}

fn p(one: &Trial, of_hundred: u64) -> u64 {
    one.outcome.waits.percentile(of_hundred).unwrap_or_default()
}

fn off(predicted: u64, real: u64) -> u64 {
    (100 * predicted.abs_diff(real) + real / 2) / real.max(1)
}

/// `+12 %`.
fn change(now: u64, before: u64) -> String {
    let sign = if now < before { "−" } else { "+" };
    format!("{sign}{} %", off(now, before))
}

/// For programs.
#[must_use]
pub fn json(trials: &[Trial]) -> Value {
    let one = |(at, one): (usize, &Trial)| {
        json!({
            "pools": one.name,
            "dollars": one.outcome.dollars as f64 / 1e6,
            "machines": one.outcome.machines,
            "jobs": one.outcome.jobs,
            "p50_s": p(one, 50) as f64 / 1e3,
            "p95_s": p(one, 95) as f64 / 1e3,
            "p99_s": p(one, 99) as f64 / 1e3,
            "best": is_best(at, trials),
        })
    };
    json!({ "trials": trials.iter().enumerate().map(one).collect::<Vec<_>>() })
}
