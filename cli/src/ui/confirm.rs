//! An order before it is given: what it would do, why, and a button. A page of its own.

use maud::{Markup, html};
use muster_control::admin::To;
use muster_control::admin::answers::{AppliedPools, DeleteDryRun, Overview, ShownInstance};

use serde_json::Value;

use super::frame::{About, still};
use super::memory::read;
use super::order::{Delete, Order, Switched};
use super::text::{Said, shown};
use crate::args;
use crate::failure::Failure;
use crate::page::Screen;
use crate::views;
use crate::words::count;

/// Shortest reason, characters; the function's own bound.
const REASON: usize = 5;

/// What an order would do, as far as that was asked.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Of a switch, in sentences: the function has no dry run of it.
    Switch(Box<Overview>),
    Delete(Box<ShownInstance>, DeleteDryRun),
    Pools(AppliedPools),
}

impl Plan {
    /// Reads what was asked first, and what the dry run said.
    ///
    /// # Errors
    /// When that is not what was asked.
    pub fn read(
        order: &Order,
        first: Option<Value>,
        would: Option<Value>,
    ) -> Result<Self, Failure> {
        let (first, would) = (first.unwrap_or_default(), would.unwrap_or_default());
        match order {
            Order::Switch { .. } => Ok(Self::Switch(Box::new(read("overview", first)?))),
            Order::Delete { .. } => {
                Ok(Self::Delete(Box::new(read("show", first)?), read("delete", would)?))
            }
            Order::Apply { .. } | Order::Restore { .. } => Ok(Self::Pools(read("pools", would)?)),
        }
    }
}

/// What a person filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub reason: String,
    /// The name, typed.
    pub typed: String,
}

impl Given {
    /// What is missing, in a sentence.
    ///
    /// # Errors
    /// That sentence.
    pub fn check(&self, order: &Order) -> Result<(), String> {
        if self.reason.trim().chars().count() < REASON {
            return Err(format!("Say why, in {REASON} characters or more."));
        }
        match order.typed() {
            Some(name) if self.typed.trim() != name => {
                Err(format!("Type {name}: it is not what was typed. Nothing was ordered."))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The page that asks. `wrong`: what was missing.
#[must_use]
pub fn page(
    order: &Order,
    plan: &Result<Plan, Failure>,
    given: &Given,
    wrong: Option<&str>,
    token: &str,
    about: &About,
) -> String {
    let body = match plan {
        Err(failure) => html! {
            div.wrong role="alert" { p { (Said(&failure.sentence())) } }
            p { a.button href=(order.shown_at().address()) { "Back" } }
        },
        Ok(plan) => html! {
            section.said aria-label="What it does" { @for said in told(order, plan) { p { (Said(&said)) } } }
            @if is_empty(plan) { p { a.button href=(order.shown_at().address()) { "Back" } } }
            @else { (form(order, given, wrong, token)) }
        },
    };
    still(
        &title(order),
        about,
        &html! { (body) p.quiet { "As a command: " code { (order.command()) } } },
    )
}

/// An order that the function refused, or did not answer.
#[must_use]
pub fn refused(order: &Order, failure: &Failure, about: &About) -> String {
    let body = html! {
        div.wrong role="alert" { p { (Said(&failure.sentence())) } }
        p { a.button href=(order.confirmed_at()) { "Look again" } " " a href=(order.shown_at().address()) { "Back" } }
    };
    still(&title(order), about, &body)
}

fn form(order: &Order, given: &Given, wrong: Option<&str>, token: &str) -> Markup {
    let (name, value) = order.field();
    html! {
        form.order method="post" action={ "/do/" (order.action()) } {
            @if let Some(wrong) = wrong { div.wrong role="alert" { p { (Said(wrong)) } } }
            input type="hidden" name="token" value=(token);
            input type="hidden" name=(name) value=(value);
            label for="reason" { "Reason" }
            input #reason name="reason" required minlength=(REASON) maxlength="1000" value=(shown(&given.reason)) autocomplete="off" aria-describedby="reason-about";
            p.quiet #reason-about { (REASON) " characters or more; it goes into the audit trail." }
            @if let Some(typed) = order.typed() {
                label for="typed" { "Type the name: " code { (typed) } }
                input #typed name="typed" required value=(shown(&given.typed)) autocomplete="off" spellcheck="false" autocapitalize="off";
            }
            p.orders {
                button class=(if order.typed().is_some() { "danger" } else { "main" }) { (button(order)) }
                " " a href=(order.shown_at().address()) { "Back" }
            }
        }
    }
}

/// Whether there is nothing to do.
fn is_empty(plan: &Plan) -> bool {
    matches!(plan, Plan::Pools(told) if told.diff.is_empty() && told.pools_version > 0)
}

fn title(order: &Order) -> String {
    match order {
        Order::Switch { what, to: To::Off } => format!("Pause {}", switched(what)),
        Order::Switch { what, to: To::On } => format!("Resume {}", switched(what)),
        Order::Delete { name, how: Delete::Plain } => format!("Delete {name}"),
        Order::Delete { name, how: Delete::Force } => format!("Delete {name} by force"),
        Order::Delete { name, how: Delete::Kill } => format!("Kill the job of {name}"),
        Order::Apply { .. } => "Apply a pool file".to_owned(),
        Order::Restore { version } => format!("Restore version {version} of the pools"),
    }
}

fn button(order: &Order) -> &'static str {
    match order {
        Order::Switch { to: To::Off, .. } => "Pause",
        Order::Switch { to: To::On, .. } => "Resume",
        Order::Delete { how: Delete::Plain, .. } => "Delete",
        Order::Delete { how: Delete::Force, .. } => "Force the delete",
        Order::Delete { how: Delete::Kill, .. } => "Kill the job and delete",
        Order::Apply { .. } => "Apply",
        Order::Restore { .. } => "Restore",
    }
}

fn switched(what: &Switched) -> String {
    match what {
        Switched::Launches | Switched::Deletes => what.as_str().to_owned(),
        Switched::Pool(name) => format!("pool {name}"),
    }
}

/// What it would do, in sentences.
fn told(order: &Order, plan: &Plan) -> Vec<String> {
    match plan {
        Plan::Switch(told) => match order {
            Order::Switch { what, to } => of_switch(what, *to, told),
            Order::Delete { .. } | Order::Apply { .. } | Order::Restore { .. } => Vec::new(),
        },
        Plan::Delete(shown, would) => of_delete(order, shown, would),
        Plan::Pools(told) if is_empty(plan) => {
            vec![format!("It changes nothing: version {} says the same.", told.pools_version)]
        }
        Plan::Pools(told) => {
            views::pools::changes(told, Screen::PIPE).lines().map(str::to_owned).collect()
        }
    }
}

fn of_switch(what: &Switched, to: To, told: &Overview) -> Vec<String> {
    let off = match what {
        Switched::Launches => told.switches.launches.as_ref(),
        Switched::Deletes => told.switches.deletes.as_ref(),
        Switched::Pool(name) => told.switches.pools.get(name),
    };
    let is_of = |pool: &&muster_control::admin::answers::PoolStatus| match what {
        Switched::Launches => true,
        Switched::Deletes => false,
        Switched::Pool(name) => pool.name == *name,
    };
    let waiting: usize = told.pools.iter().filter(is_of).map(|pool| pool.waiting_jobs).sum();
    let which = match what {
        Switched::Launches => "Launches".to_owned(),
        Switched::Deletes => "Deletes".to_owned(),
        Switched::Pool(name) => format!("Launches of pool {name}"),
    };
    let now = match off {
        Some(off) => format!("{which} are off now, by {}: {}.", off.by, off.reason),
        None => format!("{which} are on now."),
    };
    let then = match (what, to) {
        (Switched::Deletes, To::Off) => {
            "No instance is deregistered or terminated any more, unless it is forced. Runners go on taking jobs.".to_owned()
        }
        (Switched::Deletes, To::On) => "What is to end goes on ending.".to_owned(),
        (Switched::Launches | Switched::Pool(_), To::Off) => format!(
            "No machine is launched any more, and jobs wait ({} now). Machines that are there go on.",
            count(waiting, "job")
        ),
        (Switched::Launches | Switched::Pool(_), To::On) => {
            format!("Machines are launched for the jobs that wait ({} now).", count(waiting, "job"))
        }
    };
    vec![now, then]
}

/// The command line's own sentences.
fn of_delete(order: &Order, shown: &ShownInstance, would: &DeleteDryRun) -> Vec<String> {
    let Order::Delete { how, .. } = order else { return Vec::new() };
    let order = args::Delete {
        name: would.name.to_string(),
        order: args::Order { reason: None, by: None },
        force: *how == Delete::Force,
        kill_running_job: *how == Delete::Kill,
        bypass_github_unauthorized: false,
        dry_run: true,
        yes: false,
    };
    let told = views::orders::plan(shown, would, &order, Screen::PIPE);
    told.lines().map(|line| line.trim_start_matches("! ").to_owned()).collect()
}
