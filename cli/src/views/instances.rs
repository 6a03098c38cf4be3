//! Instances: many in short, or one whole.

use muster_control::admin::answers::{InstanceList, InstanceSummary, ShownInstance};
use muster_domain::instance::{RunnerState, State, Waiting};
use muster_domain::time::Time;

use super::{audit, more, phases};
use crate::page::{Column, Look, Page, Screen, Text};
use crate::words::{clock, count, span};

const COLUMNS: [Column; 7] = [
    Column::whole("INSTANCE"),
    Column::whole("STATE"),
    Column::whole("RUNNER"),
    Column::whole("MACHINE").from(90),
    Column::whole("JOB").from(125),
    Column::whole("AGE"),
    Column::text("WAITS FOR"),
];

/// The answer to `list`.
#[must_use]
pub fn list(answer: &InstanceList, now: Time, screen: Screen) -> String {
    let mut page = Page::new(screen);
    if answer.instances.is_empty() && !page.is_piped() {
        page.line(["No instance is live.".into()]);
    } else {
        let rows = answer.instances.iter().map(|one| {
            vec![
                Text::from(one.name.as_str()),
                state(one.state),
                runner(one.runner_state),
                one.machine.as_ref().map_or_else(Text::none, |id| id.as_str().into()),
                one.claim.map_or_else(Text::none, |key| key.to_string().into()),
                Text::from(span(one.age_seconds)),
                waits_for(one, now),
            ]
        });
        page.table(&COLUMNS, rows.collect());
    }
    more(&mut page, &answer.more);
    if !answer.unreadable.is_empty() && !page.is_piped() {
        page.gap();
        let records = count(answer.unreadable.len(), "record");
        let said = format!("{records} of another release: {}", answer.unreadable.join(", "));
        page.marked([(Text::new("!", Look::Warning), said.into())]);
    }
    page.into_text()
}

fn state(state: State) -> Text {
    let look = match state {
        State::PendingCreate | State::Creating => Look::Dim,
        State::Running => Look::Plain,
        State::Error => Look::Bad,
        State::PendingDelete | State::PendingForceDelete | State::Deleting | State::Deleted => {
            Look::Warning
        }
    };
    Text::new(state.as_str(), look)
}

fn runner(state: RunnerState) -> Text {
    let look = match state {
        RunnerState::Active => Look::Good,
        RunnerState::Failed => Look::Bad,
        RunnerState::Pending | RunnerState::Terminated => Look::Dim,
        RunnerState::Installing | RunnerState::Idle => Look::Plain,
    };
    Text::new(state.as_str(), look)
}

pub(crate) fn waits_for(one: &InstanceSummary, now: Time) -> Text {
    let Some(waiting) = &one.waiting_for else {
        return match one.kept_until.filter(|until| one.state == State::Running && *until > now) {
            Some(until) => {
                let said =
                    format!("somebody's look at its failed job, until {}", clock(until, now));
                Text::new(said, Look::Warning)
            }
            None => Text::none(),
        };
    };
    let tries = match one.attempts {
        0 => String::new(),
        times => format!(", {} failed", count(times as usize, "call")),
    };
    let next = match one.due_at.filter(|due| *due > now) {
        Some(due) => format!(", next look {}", clock(due, now)),
        None => String::new(),
    };
    Text::new(format!("{}{tries}{next}", waiting.as_str()), look(waiting))
}

fn look(waiting: &Waiting) -> Look {
    match waiting {
        Waiting::Registering
        | Waiting::JobRunning
        | Waiting::Busy
        | Waiting::SecondRead
        | Waiting::LaunchOpen
        | Waiting::Absent => Look::Plain,
        Waiting::RateLimited | Waiting::GithubUnavailable | Waiting::SwitchedOff => Look::Warning,
        Waiting::Unauthorized | Waiting::Provider => Look::Bad,
    }
}

/// The answer to `show`: its story, sentences, and audit trail.
#[must_use]
pub fn show(answer: &ShownInstance, now: Time, screen: Screen) -> String {
    let one = &answer.instance;
    let mut page = Page::new(screen);
    let machine = one.machine().map(|id| format!("  {id}")).unwrap_or_default();
    let agent = one.runner.agent.map(|agent| format!(", agent {}", agent.version));
    let agent = agent.unwrap_or_default();
    let runner = answer.runner_name.as_ref().map(|name| format!("  runner {name}{agent}"));
    page.line([
        Text::new(one.name.as_str(), Look::Strong),
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
        Look::Dim,
    )]);
    phases::of_one(&mut page, one);
    page.gap();
    page.marked(one.events.iter().map(|event| {
        let after = span(event.at.since(one.created_at));
        (Text::new(format!("+{after}"), Look::Dim), Text::from(&*event.what))
    }));
    page.gap();
    page.marked(answer.explanation.iter().map(|said| (Text::new("·", Look::Dim), said.into())));
    if let Some(error) = &one.last_error {
        let said = format!("{} at {}", error, clock(error.at, now));
        page.marked([(Text::new("!", Look::Bad), said.into())]);
    }
    if !answer.audit.is_empty() {
        page.gap();
        audit(&mut page, &answer.audit, now);
    }
    page.into_text()
}
