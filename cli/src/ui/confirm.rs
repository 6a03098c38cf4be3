//! An order before it is given: what it would do, why, and a button. A page of its own.

use maud::{Markup, html};
use muster_control::admin::To;
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::frame::{About, still};
use super::order::{Delete, Hook, Order, Switched};
use super::plan::{Plan, told};
use super::text::{Said, shown};
use crate::failure::Failure;
use crate::words::read_pause;

/// Shortest reason, characters; the function's own bound.
const REASON: usize = 5;

/// What a person filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub reason: String,
    /// The name, typed.
    pub typed: String,
    /// How long a pause lasts, for example `2h`; empty for one without an end.
    pub length: String,
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
        self.seconds(order)?;
        match order.typed() {
            Some(name) if self.typed.trim() != name => {
                Err(format!("Type {name}: it is not what was typed. Nothing was ordered."))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The length of a pause.
    fn seconds(&self, order: &Order) -> Result<Option<Seconds>, String> {
        match self.length.trim() {
            length if is_pause(order) && !length.is_empty() => read_pause(length).map(Some),
            _ => Ok(None),
        }
    }

    /// The order's request with what was filled in. Expects what [`Self::check`] accepts.
    #[must_use]
    pub fn request(&self, order: &Order, by: Option<&str>) -> Option<Value> {
        let mut request = order.request(self.reason.trim(), by, false)?;
        if let Ok(Some(length)) = self.seconds(order) {
            request["for_seconds"] = json!(length);
        }
        Some(request)
    }
}

const fn is_pause(order: &Order) -> bool {
    matches!(order, Order::Switch { to: To::Off, .. })
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
            @if is_pause(order) {
                label for="length" { "For how long" }
                input #length name="for" placeholder="2h" value=(shown(&given.length)) autocomplete="off" aria-describedby="length-about";
                p.quiet #length-about { "1m to 30d. Empty: until somebody resumes it." }
            }
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
