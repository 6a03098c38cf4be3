//! The result of an order: the page that shows it, or a page of its own.

use maud::{Markup, html};
use muster_api::answers::{AdoptedJobs, TestedHook};
use muster_domain::time::Time;
use serde_json::Value;

use super::adopt;
use super::confirm::title;
use super::frame::{About, still};
use super::memory::read;
use super::order::{Hook, Order};
use super::page::Page;
use super::parts::Tone;
use super::text::Said;
use crate::failure::Failure;
use crate::page::Screen;
use crate::views::dead_letters::{Queue, none, on_the_way};
use crate::views::github::tested;

/// The result of an order.
#[derive(Clone, Debug)]
pub enum Done {
    /// An existing page shows it.
    At(Page),
    /// No existing page shows it; this is its text.
    Said(Markup),
}

/// Reads the answer to an order.
///
/// # Errors
/// Fails when it does not answer this order.
pub fn of(order: &Order, answer: Value, now: Time) -> Result<Done, Failure> {
    Ok(match order {
        Order::Canary { .. } => Done::At(match answer["name"].as_str() {
            Some(name) => Page::Machine(name.to_owned()),
            None => order.shown_at(),
        }),
        Order::Redrive { .. } => {
            let queue: Queue = read("dead letters", answer)?;
            let said = match queue.messages {
                0 => none(&queue, Screen::PIPE),
                _ => format!("{}.", on_the_way(&queue.count())),
            };
            Done::Said(html! { p { (Said(said.trim_end())) } })
        }
        Order::Hook(Hook::Test) => {
            let told: TestedHook = read("github", answer)?;
            let (is_good, said) = tested(&told);
            let tone = if is_good { Tone::Good } else { Tone::Bad };
            Done::Said(
                html! { p class=(tone.class()) { span.dot aria-hidden="true" {} " " (Said(&said)) } },
            )
        }
        Order::Adopt { .. } => {
            let taken: AdoptedJobs = read("jobs", answer)?;
            Done::Said(adopt::taken_in(&taken, now))
        }
        Order::Switch { .. }
        | Order::Delete { .. }
        | Order::Apply { .. }
        | Order::Restore { .. }
        | Order::Hook(Hook::Set | Hook::Rotate | Hook::Remove) => Done::At(order.shown_at()),
    })
}

/// Renders a result that no existing page shows.
#[must_use]
pub fn page(order: &Order, said: &Markup, about: &About) -> String {
    let body = html! {
        section.said role="status" aria-label="Result" { (said) }
        p { a.button href=(order.shown_at().address()) { "Back" } }
    };
    still(&title(order), about, &body)
}
