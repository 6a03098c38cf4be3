//! What came of an order: where it shows, or a page that says it.

use maud::{Markup, html};
use muster_control::admin::answers::{AdoptedJobs, TestedHook};
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

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// This page shows it.
    At(Page),
    /// No other page does.
    Said(Markup),
}

/// Reads an answer.
///
/// # Errors
/// When it is none to this order.
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

/// The page that says what no other shows.
#[must_use]
pub fn page(order: &Order, said: &Markup, about: &About) -> String {
    let body = html! {
        section.said role="status" aria-label="What came of it" { (said) }
        p { a.button href=(order.shown_at().address()) { "Back" } }
    };
    still(&title(order), about, &body)
}
