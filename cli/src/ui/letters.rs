//! The dead-letter queues: counts, messages, and redriving.

use maud::{Markup, html};
use muster_domain::time::Time;

use super::frame::About;
use super::memory::Memory;
use super::page::UiPage;
use super::parts::{table, with_actions};
use crate::args::Dead;
use crate::orders::Order;
use crate::views::dead_letters::{self, DeadLetterQueue};

/// Renders all queues.
pub(super) fn all(memory: &Memory, about: &About) -> Option<Markup> {
    let queues = memory.dead_letters()?;
    Some(html! {
        p.quiet { "Messages that failed too often. SQS counts them, with your own permissions." }
        @if queues.is_empty() { p.empty { "The stack has no such queue." } }
        @else { (with_actions(&dead_letters::table(queues), "Action", |index| {
            let queue = queues.get(index).filter(|queue| has_way(queue, about))?;
            Some(html! { a href=(redrive(queue)) { "Redrive…" } })
        })) }
        p.quiet { "As a command: " code { "muster dead-letters" } }
    })
}

fn has_way(queue: &DeadLetterQueue, about: &About) -> bool {
    queue.messages > 0 && !about.is_read_only
}

fn redrive(queue: &DeadLetterQueue) -> String {
    Order::Redrive { queue: queue.queue }.confirmed_at()
}

/// Renders one queue with its messages.
pub(super) fn one(name: Dead, memory: &Memory, about: &About, now: Time) -> Option<Markup> {
    let told = memory.letters(name)?;
    let (queue, shown) = (&told.queue, told.messages.as_slice());
    Some(html! {
        p.lead { (queue.sum()) " " @if queue.messages == 1 { "message" } @else { "messages" } ": " (queue.what()) "." }
        @if has_way(queue, about) { p { a.button href=(redrive(queue)) { "Redrive…" } } }
        @if shown.is_empty() { p.empty { "No messages of " (queue.name()) " are visible right now." } }
        @else { (table(&dead_letters::letters(shown, now))) }
        @if queue.messages > shown.len() as u64 && !shown.is_empty() {
            p.quiet { (shown.len()) " of about " (queue.messages) " are shown." }
        }
        p.quiet { "Showing messages does not remove them. As a command: " code { "muster dead-letters " (queue.name()) " --show" } }
        p { a href=(UiPage::DeadLetters(None).address()) { "All queues" } }
    })
}
