//! The page after an order: the page where its effect is visible, with its outcome, or a page of its own.

use maud::{Markup, html};
use muster_domain::time::Time;
use serde_json::Value;

use super::adopt;
use super::frame::{About, still};
use super::page::UiPage;
use super::parts::Tone;
use super::text::Said;
use crate::failure::Failure;
use crate::orders::outcome::Outcome;
use crate::orders::{HookAction, Order};

/// The page after an order.
#[derive(Clone, Debug)]
pub enum OrderResult {
    /// An existing page, which shows these sentences for a while.
    At(UiPage, Vec<String>),
    /// A page of its own.
    Said(Markup),
}

/// Reads the answer to an order.
///
/// # Errors
/// Fails when it does not answer this order.
pub fn of(order: &Order, answer: Value, now: Time) -> Result<OrderResult, Failure> {
    let page = match order {
        Order::Canary { .. } => match answer["name"].as_str() {
            Some(name) => UiPage::Machine(name.to_owned()),
            None => order.shown_at(),
        },
        _ => order.shown_at(),
    };
    let outcome = Outcome::read(order, answer, now)?;
    let sentences = outcome.sentences(now);
    Ok(match &outcome {
        Outcome::Adopted(jobs) => OrderResult::Said(adopt::taken_in(jobs, now)),
        _ if matches!(order, Order::Redrive { .. } | Order::Hook(HookAction::Test, _)) => {
            let tone = if matches!(outcome, Outcome::Failed(_)) { Tone::Bad } else { Tone::Good };
            OrderResult::Said(html! { @for sentence in &sentences {
                p class=(tone.class()) { span.dot aria-hidden="true" {} " " (Said(sentence)) }
            } })
        }
        _ => OrderResult::At(page, sentences),
    })
}

/// Renders a result that no existing page shows.
#[must_use]
pub fn page(order: &Order, said: &Markup, about: &About) -> String {
    let body = html! {
        section.said role="status" aria-label="Result" { (said) }
        p { a.button href=(order.shown_at().address()) { "Back" } }
    };
    still(&order.title(), about, &body)
}
