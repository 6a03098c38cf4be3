//! The page that confirms an order: what it would do, a field for the reason, and a button.

use maud::{Markup, html};
use muster_api::{MIN_REASON, To, is_reason};
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::frame::{About, still};
use super::order::{Delete, Hook, Order, Switched};
use super::plan::{Plan, told};
use super::text::{Said, shown};
use crate::failure::Failure;
use crate::words::read_pause;

/// The fields that the user filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub reason: String,
    /// The typed name.
    pub typed: String,
    /// The length of a pause, such as `2h`; empty for no end.
    pub length: String,
}

impl Given {
    /// Checks that the fields are complete.
    ///
    /// # Errors
    /// Describes what is missing.
    pub fn check(&self, order: &Order) -> Result<(), String> {
        if order.has_reason() && !is_reason(&self.reason) {
            return Err(format!("Give a reason of at least {MIN_REASON} characters."));
        }
        self.seconds(order)?;
        match order.typed() {
            Some(name) if self.typed.trim() != name => {
                Err(format!("The typed name is not {name}. Nothing was changed."))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the length of a pause.
    fn seconds(&self, order: &Order) -> Result<Option<Seconds>, String> {
        match self.length.trim() {
            length if is_pause(order) && !length.is_empty() => read_pause(length).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the order's request with the fields. Expects what [`Self::check`] accepts.
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

/// Renders the confirmation page. `wrong`: the missing fields, if any.
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

/// Renders the page of an order that the function refused or did not answer.
#[must_use]
pub fn refused(order: &Order, failure: &Failure, about: &About) -> String {
    let body = html! {
        div.wrong role="alert" { p { (Said(&failure.sentence())) } }
        p { a.button href=(order.confirmed_at()) { "Check again" } " " a href=(order.shown_at().address()) { "Back" } }
    };
    still(&title(order), about, &body)
}

/// Renders the page of a form that is not a valid order.
#[must_use]
pub fn unread(action: &str, about: &About) -> String {
    let body = html! {
        div.wrong role="alert" { p { (Order::unread(action)) } }
        p { "Go back and check what you typed." }
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
                input #reason name="reason" required minlength=(MIN_REASON) maxlength="1000" value=(shown(&given.reason)) autocomplete="off" aria-describedby="reason-about";
                p.quiet #reason-about { (MIN_REASON) " characters or more; it is recorded in the audit trail." }
            } @else { p.quiet { (order.kept()) } }
            @if is_pause(order) {
                label for="length" { "Duration" }
                input #length name="for" placeholder="2h" value=(shown(&given.length)) autocomplete="off" aria-describedby="length-about";
                p.quiet #length-about { "1m to 30d. Leave it empty to pause until someone resumes." }
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
        Order::Canary { pool, .. } => format!("Launch a test machine in pool {pool}"),
        Order::Redrive { queue } => format!("Redrive {}", queue.name()),
        Order::Hook(Hook::Test) => "Redeliver GitHub's newest delivery".to_owned(),
        Order::Hook(Hook::Set) => "Point the webhook at this stack".to_owned(),
        Order::Hook(Hook::Rotate) => "Rotate the webhook secret".to_owned(),
        Order::Hook(Hook::Remove) => "Remove the webhook".to_owned(),
        Order::Adopt { repository } => format!("Import jobs of {repository}"),
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
        Order::Adopt { .. } => "Import them",
        Order::Hook(Hook::Test) => "Redeliver it",
        Order::Hook(Hook::Set) => "Point it here",
        Order::Hook(Hook::Rotate) => "Rotate the secret",
        Order::Hook(Hook::Remove) => "Remove it",
    }
}

fn switched(what: &Switched) -> String {
    match what {
        Switched::Launches | Switched::Deletes => what.as_str().to_owned(),
        Switched::Pool(name) => format!("pool {name}"),
    }
}
