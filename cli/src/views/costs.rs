//! The costs of machines.

use muster_api::answers::{CostsList, CostsRow};
use muster_domain::time::Time;
use muster_domain::usage::{By, OwnPrices, Parts, Sum};

use crate::csv::Csv;
use crate::money::{dollars, share, thousands};
use crate::page::{Screen, TextPage};
use crate::table::{Cell, Column, DataTable, Text, TextStyle};
use crate::words::{count, minute};

/// The fee that GitHub has announced per minute on self-hosted machines, in millionths of a dollar.
const FEE: u64 = 2_000;

const fn heading(by: By) -> Column {
    match by {
        By::Repository => Column::text("Repository"),
        By::Workflow => Column::text("Workflow"),
        By::Job => Column::text("Job"),
        By::PullRequest => Column::text("Pull request"),
        By::Actor => Column::text("Actor"),
        By::Pool => Column::name("Pool"),
        By::Type => Column::short("Type"),
        By::Attempt => Column::short("Attempt"),
        By::Day => Column::short("Day"),
    }
}

/// Returns the table of costs, with the costs without a group and the total at its end.
pub(crate) fn table(told: &CostsList) -> DataTable {
    let mut table = rows(told);
    table.rows.extend(below(told, told.by.is_of_machines()));
    table
}

/// Returns the table of costs without its end.
fn rows(told: &CostsList) -> DataTable {
    let (of_machines, whole) = (told.by.is_of_machines(), told.all.money.sum());
    DataTable::new(columns(told.by), told.rows.iter().map(|one| row(one, of_machines, whole)))
}

/// Renders the answer to `costs`.
#[must_use]
pub fn page(told: &CostsList, _: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if !page.is_piped() {
        page.line([Text::new(format!("{} to {}", told.from, told.to), TextStyle::Strong)]);
        page.gap();
    }
    if told.all.machines == 0 && !page.is_piped() {
        page.line([
            "No machines ended in this period. A machine is listed when it has ended.".into()
        ]);
        return page.into_text();
    }
    page.table(&if page.is_piped() { rows(told) } else { table(told) });
    if !page.is_piped() {
        page.gap();
        page.marked(notes(told).into_iter().map(|said| (Text::new("·", TextStyle::Dim), said)));
    }
    page.into_text()
}

/// Returns what the jobs would have cost on GitHub's runners, by the operator's rates in a file.
/// Empty without rates, and for a pipe.
#[must_use]
pub fn on_github(told: &CostsList, own: &OwnPrices, file: &str, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    let Sum { cpu_minutes, private_minutes, .. } = &told.all;
    if own.github.is_empty() || page.is_piped() {
        return String::new();
    }
    let (cost, priced) = own.on_github(cpu_minutes);
    let mut said = format!(
        "On GitHub's runners these jobs would have cost {}, by the rates in {file}. Free minutes are \
         not deducted, and jobs of public repositories are not included.",
        dollars(cost)
    );
    let unknown = private_minutes.saturating_sub(priced);
    if unknown > 0 {
        said.push_str(&format!(
            " Neither are {} of {} minutes: the number of CPUs is unknown or has no rate.",
            thousands(unknown),
            thousands(*private_minutes)
        ));
    }
    page.marked([(Text::new("·", TextStyle::Dim), Text::from(said))]);
    page.into_text()
}

fn columns(by: By) -> Vec<Column> {
    let mut columns = vec![heading(by), Column::number("Jobs"), Column::number("Minutes")];
    columns.extend(match by.is_of_machines() {
        true => ["Jobs $", "Idle", "Wasted"].map(Column::number),
        false => ["Start", "Work", "End"].map(|name| Column::number(name).from(100)),
    });
    columns.extend([Column::number("Dollars"), Column::number("Share")]);
    columns
}

fn row(CostsRow { name, sum }: &CostsRow, of_machines: bool, whole: u64) -> Vec<Cell> {
    let Sum { jobs, minutes, money, .. } = sum;
    let mut row = vec![name.into(), thousands(*jobs).into(), thousands(*minutes).into()];
    let Parts { start, work, end, idle, vain } = *money;
    let parts = if of_machines { [money.of_job(), idle, vain] } else { [start, work, end] };
    row.extend(parts.map(|part| Cell::from(dollars(part))));
    if sum.unpriced == sum.machines {
        row.extend([Text::new("no price", TextStyle::Warning), Text::none()].map(Cell::from));
        return row;
    }
    row.extend([dollars(money.sum()).into(), share(money.sum(), whole).into()]);
    row
}

/// Returns the rows for costs without a group, and the total.
fn below(told: &CostsList, of_machines: bool) -> Vec<Vec<Cell>> {
    let whole = told.all.money.sum();
    let line = |name: &str, money: u64| {
        let mut row = vec![Cell::from(name)];
        row.extend(std::iter::repeat_n(Cell::from(""), 5));
        row.extend([dollars(money), share(money, whole)].map(Cell::from));
        row
    };
    let mut rows = Vec::new();
    let rest = &told.rest.money;
    if !of_machines {
        let own = [("idle", rest.idle), ("wasted", rest.vain), ("unknown job", rest.of_job())];
        let own = own.into_iter().filter(|(_, money)| *money > 0);
        rows.extend(own.map(|(name, money)| line(name, money)));
    }
    let total = CostsRow { name: "total".to_owned(), sum: told.all.clone() };
    rows.push(row(&total, of_machines, whole));
    rows
}

pub(crate) fn notes(told: &CostsList) -> Vec<Text> {
    let mut notes = Vec::new();
    let CostsList { all, unpriced, .. } = told;
    if told.left_out > 0 {
        let rows = count(told.left_out, "more row");
        notes.push(Text::from(format!(
            "{rows} are included in the sums; --csv writes only the rows above."
        )));
    }
    if !all.in_vain.is_empty() {
        let mut why: Vec<_> = all.in_vain.iter().collect();
        why.sort_by_key(|(_, one)| std::cmp::Reverse(one.machines));
        let machines: u64 = why.iter().map(|(_, one)| one.machines).sum();
        let why: Vec<String> =
            why.into_iter().map(|(why, one)| format!("{} {why}", one.machines)).collect();
        let machines = count(usize::try_from(machines).unwrap_or(usize::MAX), "machine");
        let said =
            format!("Wasted: {machines} launched for jobs but never ran one: {}.", why.join(", "));
        notes.push(Text::new(said, TextStyle::Warning));
    }
    if all.unpriced > 0 {
        let kinds: Vec<&str> = unpriced.keys().map(String::as_str).collect();
        let machines = count(usize::try_from(all.unpriced).unwrap_or(usize::MAX), "machine");
        let said = format!(
            "No price: {machines} ({}). They are not included in the dollars; --prices sets your \
            own prices.",
            kinds.join(", ")
        );
        notes.push(Text::new(said, TextStyle::Warning));
    }
    if all.spot > 0 {
        let part = |machines: u64, money: u64, what: &str| {
            (machines > 0).then(|| format!("{} {what}, ", dollars(money))).unwrap_or_default()
        };
        let Sum { interrupted, ordered_reruns: reruns, .. } = all;
        notes.push(Text::from(format!(
            "Spot: {} of {} jobs interrupted; {}{}{} saved.",
            thousands(interrupted.machines),
            thousands(all.spot_jobs),
            part(interrupted.machines, interrupted.money, "of work lost"),
            part(reruns.machines, reruns.money, "for re-runs"),
            dollars(all.on_demand.saturating_sub(all.spot)),
        )));
    }
    if told.by == By::Actor && told.rows.iter().all(|row| row.name == By::NO_ACTOR) {
        notes.push(Text::from(
            "No actors are recorded. The stack parameter UsageActors=yes records them for new jobs.",
        ));
    }
    if all.minutes > 0 {
        let public = all.minutes - all.private_minutes;
        notes.push(Text::from(format!(
            "GitHub's announced fee of $0.002 a minute, not charged yet, would be {} for private \
             repositories and {} for public ones.",
            dollars(all.private_minutes * FEE),
            dollars(public * FEE)
        )));
    }
    let prices = match (told.spot_at, told.listed_at) {
        (None, _) => "No prices are known yet: the reaper fetches them once an hour.".to_owned(),
        (Some(spot), None) => format!(
            "Spot prices are hourly, the last of {}; the price list has not answered.",
            minute(spot)
        ),
        (Some(spot), Some(list)) => format!(
            "Spot prices are hourly, the last of {}; the price list's of {}.",
            minute(spot),
            minute(list)
        ),
    };
    notes.push(Text::new(prices, TextStyle::Dim));
    let not_in = "Not included: discounts, public addresses, NAT, data transfer, Muster's own functions and \
        tables.";
    notes.push(Text::new(not_in, TextStyle::Dim));
    notes
}

/// Returns the rows as CSV, including costs without a group.
#[must_use]
pub fn csv(told: &CostsList) -> String {
    let by = serde_json::json!(told.by);
    let name = by.as_str().unwrap_or("name");
    let mut csv = Csv::new(&[
        name, "jobs", "failed", "minutes", "start", "work", "end", "idle", "in_vain", "dollars",
        "machines", "unpriced",
    ]);
    let rest = [("(none)".to_owned(), &told.rest)];
    let rest = rest.into_iter().filter(|(_, sum)| sum.machines > 0);
    let rows = told.rows.iter().map(|row| (row.name.clone(), &row.sum)).chain(rest);
    for (name, sum) in rows {
        let Parts { start, work, end, idle, vain } = sum.money;
        let money = [start, work, end, idle, vain, sum.money.sum()].map(crate::money::exact);
        let mut row = vec![name];
        row.extend([sum.jobs, sum.failed, sum.minutes].map(|number| number.to_string()));
        row.extend(money);
        row.extend([sum.machines, sum.unpriced].map(|number| number.to_string()));
        csv.row(&row);
    }
    csv.into_text()
}
