//! An order before it is given: what it would do, why, and a button. A page of its own.

use maud::{Markup, html};
use muster_control::admin::To;

use super::frame::{About, still};
use super::order::{Delete, Hook, Order, Switched};
use super::plan::{Plan, told};
use super::text::{Said, shown};
use crate::failure::Failure;

/// Shortest reason, characters; the function's own bound.
const REASON: usize = 5;

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
        if order.has_reason() && self.reason.trim().chars().count() < REASON {
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
            @if plan.is_empty() { p { a.button href=(order.shown_at().address()) { "Back" } } }
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

/// What was typed makes no order.
#[must_use]
pub fn unread(action: &str, about: &About) -> String {
    let body = html! {
        div.wrong role="alert" { p { (Order::unread(action)) } }
        p { "Go back, and look at what was typed." }
    };
    still("Nothing to confirm", about, &body)
}

fn form(order: &Order, given: &Given, wrong: Option<&str>, token: &str) -> Markup {
    html! {
        form.order method="post" action={ "/do/" (order.action()) } {
            @if let Some(wrong) = wrong { div.wrong role="alert" { p { (Said(wrong)) } } }
            input type="hidden" name="token" value=(token);
            @for (name, value) in order.fields() { input type="hidden" name=(name) value=(value); }
            @if order.has_reason() {
                label for="reason" { "Reason" }
                input #reason name="reason" required minlength=(REASON) maxlength="1000" value=(shown(&given.reason)) autocomplete="off" aria-describedby="reason-about";
                p.quiet #reason-about { (REASON) " characters or more; it goes into the audit trail." }
            } @else { p.quiet { (order.kept()) } }
            @if let Some(typed) = order.typed() {
                label for="typed" { "Type the name: " code { (typed) } }
                input #typed name="typed" required value=(shown(&given.typed)) autocomplete="off" spellcheck="false" autocapitalize="off";
            }
            p.orders {
                button class=(if order.is_grave() { "danger" } else { "main" }) { (button(order)) }
                " " a href=(order.shown_at().address()) { "Back" }
            }
        }
    }
}

pub(super) fn title(order: &Order) -> String {
    match order {
        Order::Switch { what, to: To::Off } => format!("Pause {}", switched(what)),
        Order::Switch { what, to: To::On } => format!("Resume {}", switched(what)),
        Order::Delete { name, how: Delete::Plain } => format!("Delete {name}"),
        Order::Delete { name, how: Delete::Force } => format!("Delete {name} by force"),
        Order::Delete { name, how: Delete::Bypass } => format!("Delete {name} without GitHub"),
        Order::Delete { name, how: Delete::Kill } => format!("Kill the job of {name}"),
        Order::Apply { .. } => "Apply a pool file".to_owned(),
        Order::Restore { version } => format!("Restore version {version} of the pools"),
        Order::Canary { pool, .. } => format!("Try a machine of pool {pool}"),
        Order::Redrive { queue } => format!("Redrive {}", queue.name()),
        Order::Hook(Hook::Test) => "Have GitHub send its newest delivery again".to_owned(),
        Order::Hook(Hook::Set) => "Point the webhook at this stack".to_owned(),
        Order::Hook(Hook::Rotate) => "Make another webhook secret".to_owned(),
        Order::Hook(Hook::Remove) => "Remove the webhook".to_owned(),
        Order::Adopt { repository } => format!("Take in jobs of {repository}"),
    }
}

fn button(order: &Order) -> &'static str {
    match order {
        Order::Switch { to: To::Off, .. } => "Pause",
        Order::Switch { to: To::On, .. } => "Resume",
        Order::Delete { how: Delete::Plain, .. } => "Delete",
        Order::Delete { how: Delete::Force, .. } => "Force the delete",
        Order::Delete { how: Delete::Bypass, .. } => "Delete without GitHub",
        Order::Delete { how: Delete::Kill, .. } => "Kill the job and delete",
        Order::Apply { .. } => "Apply",
        Order::Restore { .. } => "Restore",
        Order::Canary { .. } => "Launch it",
        Order::Redrive { .. } => "Redrive",
        Order::Adopt { .. } => "Take them in",
        Order::Hook(Hook::Test) => "Send it again",
        Order::Hook(Hook::Set) => "Point it here",
        Order::Hook(Hook::Rotate) => "Make another secret",
        Order::Hook(Hook::Remove) => "Remove it",
    }
}

fn switched(what: &Switched) -> String {
    match what {
        Switched::Launches | Switched::Deletes => what.as_str().to_owned(),
        Switched::Pool(name) => format!("pool {name}"),
    }
}
