//! The dead-letter queues: counts, messages, and redriving.

use maud::{Markup, html};
use muster_domain::time::Time;

use super::frame::About;
use super::memory::Memory;
use super::page::UiPage;
use super::parts::none;
use super::text::{Said, moment};
use crate::args::Dead;
use crate::orders::Order;
use crate::views::dead_letters::{DeadLetter, DeadLetterQueue};

/// Renders all queues.
pub(super) fn all(memory: &Memory, about: &About) -> Option<Markup> {
    let queues = memory.dead_letters()?;
    Some(html! {
        p.quiet { "Messages that failed too often. SQS counts them, with your own permissions." }
        @if queues.is_empty() { p.empty { "The stack has no such queue." } }
        @else { table {
            thead { tr {
                th scope="col" { "Queue" } th.number scope="col" { "Messages" } th scope="col" { "Contents" } th scope="col" { "Action" }
            } }
            tbody { @for queue in queues { tr {
                th scope="row" { a href=(UiPage::DeadLetters(Some(queue.queue)).address()) { (queue.name()) } }
                td.number data-label="Messages" { (messages(queue)) }
                td.free data-label="Contents" { (queue.what()) }
                td data-label="Action" { @if has_way(queue, about) { a href=(redrive(queue)) { "Redrive…" } } @else { (none()) } }
            } } }
        } }
        p.quiet { "As a command: " code { "muster dead-letters" } }
    })
}

/// Renders the approximate number of messages, and how many are being read.
fn messages(queue: &DeadLetterQueue) -> Markup {
    html! { (queue.messages) @if queue.hidden > 0 { " (" (queue.hidden) " being read)" } }
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
        p.lead { (messages(queue)) " " @if queue.messages == 1 { "message" } @else { "messages" } ": " (queue.what()) "." }
        @if has_way(queue, about) { p { a.button href=(redrive(queue)) { "Redrive…" } } }
        @if shown.is_empty() { p.empty { "No messages of " (queue.name()) " are visible right now." } }
        @else { (table(shown, now)) }
        @if queue.messages > shown.len() as u64 && !shown.is_empty() {
            p.quiet { (shown.len()) " of about " (queue.messages) " are shown." }
        }
        p.quiet { "Showing messages does not remove them. As a command: " code { "muster dead-letters " (queue.name()) " --show" } }
        p { a href=(UiPage::DeadLetters(None).address()) { "All queues" } }
    })
}

fn table(shown: &[DeadLetter], now: Time) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "Sent" } th scope="col" { "Message" } } }
            tbody { @for one in shown { tr {
                td.short data-label="Sent" { @match one.sent_at { Some(at) => (moment(at, now)), None => (none()) } }
                td.free data-label="Message" { code { (Said(&one.body)) } }
            } } }
        }
    }
}
