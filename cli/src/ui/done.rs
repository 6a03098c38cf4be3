//! What came of an order: where it shows, or a page that says it.

use maud::html;
use serde_json::Value;

use super::confirm::title;
use super::frame::{About, still};
use super::memory::read;
use super::order::Order;
use super::page::Page;
use super::text::Said;
use crate::failure::Failure;
use crate::page::Screen;
use crate::views::dead_letters::{Queue, none, on_the_way};

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// This page shows it.
    At(Page),
    /// No other page does.
    Said(Vec<String>),
}

/// Reads an answer.
///
/// # Errors
/// When it is none to this order.
pub fn of(order: &Order, answer: Value) -> Result<Done, Failure> {
    Ok(match order {
        Order::Canary { .. } => Done::At(match answer["name"].as_str() {
            Some(name) => Page::Machine(name.to_owned()),
            None => order.shown_at(),
        }),
        Order::Redrive { .. } => {
            let queue: Queue = read("dead letters", answer)?;
            Done::Said(vec![match queue.messages {
                0 => none(&queue, Screen::PIPE).trim_end().to_owned(),
                _ => format!("{}.", on_the_way(&queue.count())),
            }])
        }
        Order::Switch { .. }
        | Order::Delete { .. }
        | Order::Apply { .. }
        | Order::Restore { .. } => Done::At(order.shown_at()),
    })
}

/// The page that says it.
#[must_use]
pub fn page(order: &Order, said: &[String], about: &About) -> String {
    let body = html! {
        section.said role="status" aria-label="What came of it" { @for said in said { p { (Said(said)) } } }
        p { a.button href=(order.shown_at().address()) { "Back" } }
    };
    still(&title(order), about, &body)
}
