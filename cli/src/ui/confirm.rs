//! The page that confirms an order: what it would do, a field for the reason, and a button.

use maud::{Markup, html};
use muster_api::{ImageOrder, MIN_REASON, To, is_reason};
use muster_domain::time::Seconds;
use serde_json::Value;

use super::frame::{About, still};
use super::text::{Said, shown};
use crate::failure::Failure;
use crate::orders::plan::OrderPlan;
use crate::orders::{DeleteFlags, Details, HookAction, Order, Reason, Risk};
use crate::words::read_pause;

/// The fields that the user filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfirmForm {
    pub reason: String,
    /// The typed name.
    pub typed: String,
    /// The length of a pause, such as `2h`; empty for no end.
    pub length: String,
}

impl ConfirmForm {
    /// Checks that the fields are complete.
    ///
    /// # Errors
    /// Describes what is missing.
    pub fn check(&self, order: &Order) -> Result<(), String> {
        let is_missing = self.reason.trim().is_empty() && order.reason() != Reason::Required;
        if order.reason() != Reason::None && !is_missing && !is_reason(&self.reason) {
            return Err(format!("Give a reason of at least {MIN_REASON} characters."));
        }
        self.seconds(order)?;
        match order.risk() {
            Risk::Type(name) if self.typed.trim() != name => {
                Err(format!("The typed name is not {name}. Nothing was changed."))
            }
            Risk::Type(_) | Risk::Confirm | Risk::None => Ok(()),
        }
    }

    /// Returns the length of a pause.
    fn seconds(&self, order: &Order) -> Result<Option<Seconds>, String> {
        match self.length.trim() {
            length if is_pause(order) && !length.is_empty() => read_pause(length).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the order's request with the fields; `None` for an order that goes to SQS. Expects what [`Self::check`]
    /// accepts.
    #[must_use]
    pub fn request(&self, order: &Order, by: Option<&str>) -> Option<Value> {
        let reason = Some(self.reason.trim().to_owned()).filter(|reason| !reason.is_empty());
        let length = self.seconds(order).unwrap_or_default();
        order.request(&Details { reason, by: by.map(str::to_owned), length })
    }
}

const fn is_pause(order: &Order) -> bool {
    match order {
        Order::Switch { to, .. } => matches!(to, To::Off),
        Order::Delete { .. }
        | Order::Apply { .. }
        | Order::Restore { .. }
        | Order::Canary { .. }
        | Order::Redrive { .. }
        | Order::Adopt { .. }
        | Order::Hook(..)
        | Order::Image { .. } => false,
    }
}

/// Renders the confirmation page. `wrong`: the missing fields, if any.
#[must_use]
pub fn page(
    order: &Order,
    plan: &Result<OrderPlan, Failure>,
    given: &ConfirmForm,
    wrong: Option<&str>,
    token: &str,
    about: &About,
) -> String {
    let body = match plan {
        Err(failure) => html! {
            div.wrong role="alert" { p { (Said(&failure.sentence())) } }
            // A pause must work in trouble, when the query for its effect fails.
            @if order.risk() == Risk::None { (form(order, given, wrong, token)) }
            @else { p { a.button href=(order.shown_at().address()) { "Back" } } }
        },
        Ok(plan) => html! {
            section.said aria-label="What it does" { @for sentence in plan.sentences(order) { p { (Said(&sentence)) } } }
            @if plan.is_empty() { p { a.button href=(order.shown_at().address()) { "Back" } } }
            @else { (form(order, given, wrong, token)) }
        },
    };
    still(
        &order.title(),
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
    still(&order.title(), about, &body)
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

fn form(order: &Order, given: &ConfirmForm, wrong: Option<&str>, token: &str) -> Markup {
    html! {
        form.order method="post" action={ "/do/" (order.action()) } {
            @if let Some(wrong) = wrong { div.wrong role="alert" { p { (Said(wrong)) } } }
            input type="hidden" name="token" value=(token);
            @for (name, value) in order.fields() { input type="hidden" name=(name) value=(value); }
            @if order.reason() != Reason::None {
                label for="reason" { "Reason" @if order.reason() == Reason::Optional { " (optional)" } }
                input #reason name="reason" required[order.reason() == Reason::Required] minlength=(MIN_REASON) maxlength="1000" value=(shown(&given.reason)) autocomplete="off" aria-describedby="reason-about";
                p.quiet #reason-about { (MIN_REASON) " characters or more; it is recorded in the audit trail." }
            } @else { p.quiet { (order.kept()) } }
            @if is_pause(order) {
                label for="length" { "Duration" }
                input #length name="for" placeholder="2h" value=(shown(&given.length)) autocomplete="off" aria-describedby="length-about";
                p.quiet #length-about { "1m to 30d. Leave it empty to pause until someone resumes." }
            }
            @if let Risk::Type(typed) = order.risk() {
                label for="typed" { "Type the name: " code { (typed) } }
                input #typed name="typed" required value=(shown(&given.typed)) autocomplete="off" spellcheck="false" autocapitalize="off";
            }
            p.orders {
                button class=(if is_grave(order) { "danger" } else { "main" }) { (button(order)) }
                " " a href=(order.shown_at().address()) { "Back" }
            }
        }
    }
}

/// Returns whether work, a machine or job events may be lost.
fn is_grave(order: &Order) -> bool {
    matches!(order.risk(), Risk::Type(_)) || matches!(order, Order::Hook(HookAction::Remove, _))
}

fn button(order: &Order) -> &'static str {
    match order {
        Order::Switch { to: To::Off, .. } => "Pause",
        Order::Switch { to: To::On, .. } => "Resume",
        Order::Delete { flags: DeleteFlags { kill: true, .. }, .. } => "Kill the job and delete",
        Order::Delete { flags: DeleteFlags { force: true, .. }, .. } => "Force the delete",
        Order::Delete { flags: DeleteFlags { bypass: true, .. }, .. } => "Delete without GitHub",
        Order::Delete { .. } => "Delete",
        Order::Apply { .. } => "Apply",
        Order::Restore { .. } => "Restore",
        Order::Canary { .. } => "Launch it",
        Order::Redrive { .. } => "Redrive",
        Order::Adopt { .. } => "Import them",
        Order::Image { what: ImageOrder::On, .. } => "Turn images on",
        Order::Image { what: ImageOrder::Off, .. } => "Turn images off",
        Order::Image { what: ImageOrder::Build, .. } => "Build it",
        Order::Image { what: ImageOrder::Rollback, .. } => "Go back",
        Order::Image { what: ImageOrder::Delete, .. } => "Delete them",
        Order::Hook(HookAction::Test, _) => "Redeliver it",
        Order::Hook(HookAction::Set, _) => "Point it here",
        Order::Hook(HookAction::Rotate, _) => "Rotate the secret",
        Order::Hook(HookAction::Remove, _) => "Remove it",
    }
}
