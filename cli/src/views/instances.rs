//! Instances: a list, or the details of one.

use muster_api::answers::{InstanceList, InstanceSummary, OrphanStatus, ShownInstance};
use muster_domain::instance::{RunnerState, State, Waiting};
use muster_domain::time::Time;

use super::{audit_of_one, more, phases};
use crate::page::{Screen, TextPage};
use crate::table::{Cell, Column, DataTable, Medium, Subject, Text, TextStyle};
use crate::words::{clock, count, span};

const COLUMNS: [Column; 12] = [
    Column::name("Instance"),
    Column::name("Pool").only(Medium::Browser).below(),
    Column::short("State"),
    Column::short("Runner").below(),
    Column::short("Machine").from(175),
    Column::short("Type").below().optional(),
    Column::short("Zone").below().optional(),
    Column::short("Market").below().optional(),
    Column::name("Key").from(200).only(Medium::Terminal),
    Column::text("Job").at_least(22),
    Column::number("Age"),
    Column::text("Waits for"),
];

/// Minimum width for all columns; on narrower terminals some are merged.
const WIDE: u16 = 150;

const NARROW: [Column; 7] = [
    Column::name("Instance"),
    Column::short("State"),
    Column::short("Type").optional(),
    Column::short("Market").from(100),
    Column::name("Machine").from(125),
    Column::number("Age").from(90),
    Column::text("Job, or waits for").at_least(22),
];

/// Returns the table of instances.
pub(crate) fn table<'a>(
    instances: impl IntoIterator<Item = &'a InstanceSummary>,
    now: Time,
) -> DataTable {
    DataTable::new(COLUMNS, instances.into_iter().map(|one| row(one, now)))
}

const ORPHANS: [Column; 5] = [
    Column::name("Machine"),
    Column::name("Of"),
    Column::short("Since"),
    Column::number("Attempts"),
    Column::text("Last error"),
];

/// Returns the table of the orphan ledger.
pub(crate) fn orphans(all: &[OrphanStatus], now: Time) -> DataTable {
    let row = |one: &OrphanStatus| {
        let of = one.instance.as_ref().map(|name| Subject::Instance(name.to_string()));
        vec![
            Cell::from(one.machine.as_str()),
            match (&one.instance, of) {
                (Some(name), Some(of)) => Cell::link(name.as_str(), of),
                _ => Text::none().into(),
            },
            Cell::time(Some(one.since), now),
            Cell::from(one.attempts.to_string()),
            Text::known(one.last_error.as_ref()).into(),
        ]
    };
    DataTable::new(ORPHANS, all.iter().map(row))
}

/// Renders the answer to `list`.
#[must_use]
pub fn list(answer: &InstanceList, now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if answer.instances.is_empty() && !page.is_piped() {
        page.line(["No live instances.".into()]);
    } else {
        let instances = answer.instances.iter();
        if page.width().is_some_and(|width| width < WIDE) {
            page.table(&DataTable::new(NARROW, instances.map(|one| narrow(one, now))));
        } else {
            page.table(&table(instances, now));
        }
    }
    more(&mut page, &answer.more);
    if !answer.unreadable.is_empty() && !page.is_piped() {
        page.gap();
        let records = count(answer.unreadable.len(), "record");
        let said = format!("{records} of a different release: {}", answer.unreadable.join(", "));
        page.marked([(Text::new("!", TextStyle::Warning), said.into())]);
    }
    page.into_text()
}

fn row(one: &InstanceSummary, now: Time) -> Vec<Cell> {
    let state = state(one.state);
    let state = match one.forced {
        true => Text::new(format!("{}, forced", state.text()), state.style()),
        false => state,
    };
    let name = one.name.as_str();
    vec![
        Cell::link(name, Subject::Instance(name.to_owned())),
        Cell::pool(Some(&one.pool)),
        Cell::state(state),
        Cell::state(runner(one.runner_state)),
        Text::known(one.machine.as_ref()).into(),
        Text::known(one.make.kind.as_ref()).into(),
        Text::known(one.make.zone.as_ref()).into(),
        Text::known(one.make.market).into(),
        Text::known(one.key()).into(),
        match (one.key(), job(one)) {
            (Some(key), Some(name)) => Cell::link(name, Subject::Job(key)),
            (_, name) => Text::known(name).into(),
        },
        span(one.age_seconds).into(),
        waits_for(one, now).into(),
    ]
}

/// Merges state and runner, and type and zone. An instance that waits shows what it waits for;
/// `show` has more about its job.
fn narrow(one: &InstanceSummary, now: Time) -> Vec<Text> {
    let waits = waits_for(one, now);
    let is_running = one.state == State::Running;
    let zone = one.make.zone.as_deref().map(|zone| zone.rsplit('-').next().unwrap_or(zone));
    let place = [one.make.kind.as_deref(), zone].into_iter().flatten().collect::<Vec<_>>();
    vec![
        Text::from(one.name.as_str()),
        if is_running { runner(one.runner_state) } else { state(one.state) },
        if place.is_empty() { Text::none() } else { place.join(" ").into() },
        Text::known(one.make.market),
        Text::known(one.machine.as_ref()),
        Text::from(span(one.age_seconds)),
        if waits.is_none() { Text::known(job(one)) } else { waits },
    ]
}

/// Returns the job that it runs, ran or will run, by name or else by key.
pub(crate) fn job(one: &InstanceSummary) -> Option<String> {
    let title = one.job.as_ref().and_then(|job| job.title.as_ref());
    let named = title.map(|title| format!("{} {}", title.repository, title.name));
    named.or_else(|| one.key().map(|key| key.to_string()))
}

pub(crate) fn state(state: State) -> Text {
    let look = match state {
        State::PendingCreate | State::Creating => TextStyle::Dim,
        State::Running => TextStyle::Good,
        State::Error => TextStyle::Bad,
        State::PendingDelete | State::PendingForceDelete | State::Deleting => TextStyle::Warning,
        State::Deleted => TextStyle::Plain,
    };
    Text::new(state.as_str(), look)
}

pub(crate) fn runner(state: RunnerState) -> Text {
    let look = match state {
        RunnerState::Active => TextStyle::Good,
        RunnerState::Failed => TextStyle::Bad,
        RunnerState::Pending | RunnerState::Terminated => TextStyle::Dim,
        RunnerState::Installing | RunnerState::Idle => TextStyle::Plain,
    };
    Text::new(state.as_str(), look)
}

pub(crate) fn waits_for(one: &InstanceSummary, now: Time) -> Text {
    let Some(waiting) = &one.waiting_for else {
        return match one.kept_until.filter(|until| one.state == State::Running && *until > now) {
            Some(until) => {
                let said = format!("inspection of its failed job, until {}", clock(until, now));
                Text::new(said, TextStyle::Warning)
            }
            None => Text::none(),
        };
    };
    let tries = match one.attempts {
        0 => String::new(),
        times => format!(", {} failed", count(times as usize, "call")),
    };
    let next = match one.due_at.filter(|due| *due > now) {
        Some(due) => format!(", next check {}", clock(due, now)),
        None => String::new(),
    };
    Text::new(format!("{}{tries}{next}", waiting.as_str()), look(waiting))
}

fn look(waiting: &Waiting) -> TextStyle {
    match waiting {
        Waiting::Registering
        | Waiting::JobRunning
        | Waiting::Busy
        | Waiting::SecondRead
        | Waiting::LaunchOpen
        | Waiting::Absent => TextStyle::Plain,
        Waiting::RateLimited | Waiting::GithubUnavailable | Waiting::SwitchedOff => {
            TextStyle::Warning
        }
        Waiting::Unauthorized | Waiting::Provider => TextStyle::Bad,
    }
}

/// Renders the answer to `show`: history, explanation and audit trail.
#[must_use]
pub fn show(answer: &ShownInstance, now: Time, screen: Screen) -> String {
    let one = &answer.instance;
    let mut page = TextPage::new(screen);
    let machine = one.machine().map(|id| format!("  {id}")).unwrap_or_default();
    let agent = one.runner.agent.map(|agent| format!(", agent {}", agent.version));
    let agent = agent.unwrap_or_default();
    let runner = answer.runner_name.as_ref().map(|name| format!("  runner {name}{agent}"));
    page.line([
        Text::new(one.name.as_str(), TextStyle::Strong),
        Text::from("  "),
        state(one.state()),
        Text::from(format!("{machine}{}", runner.unwrap_or_default())),
    ]);
    page.line([Text::new(
        format!(
            "pool {}, of {}, launch {}, planned {}",
            one.pool,
            one.entity,
            one.launch,
            clock(one.created_at, now)
        ),
        TextStyle::Dim,
    )]);
    phases::of_one(&mut page, one);
    page.gap();
    page.marked(one.events.iter().map(|event| {
        let after = span(event.at.since(one.created_at));
        (Text::new(format!("+{after}"), TextStyle::Dim), Text::from(&*event.what))
    }));
    page.gap();
    page.marked(
        answer.explanation.iter().map(|said| (Text::new("·", TextStyle::Dim), said.into())),
    );
    if let Some(error) = &one.last_error {
        let said = format!("{} at {}", error, clock(error.at, now));
        page.marked([(Text::new("!", TextStyle::Bad), said.into())]);
    }
    if !answer.audit.is_empty() {
        page.gap();
        page.table(&audit_of_one(&answer.audit, now));
    }
    page.into_text()
}
