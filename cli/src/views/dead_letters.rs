//! The messages in the dead-letter queues.

use muster_domain::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::args::Dead;
use crate::page::{Screen, TextPage};
use crate::table::{Cell, Column, DataTable, Subject, Text, TextStyle};
use crate::words::{clock, count};

/// A dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterQueue {
    pub queue: Dead,
    /// The approximate number of messages.
    pub messages: u64,
    /// The approximate number of messages that are being read.
    pub hidden: u64,
    pub url: String,
    pub arn: String,
}

impl DeadLetterQueue {
    /// Returns its name on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.queue.name()
    }

    /// Returns what its messages are, and what to do with them.
    #[must_use]
    pub const fn what(&self) -> &'static str {
        match self.queue {
            Dead::Jobs => "job events; redrive them once the cause is fixed",
            Dead::Launches | Dead::Reaps => {
                "wake-ups; no action needed, because the sweep finds due records"
            }
        }
    }

    /// Returns the count, such as `2 messages`.
    #[must_use]
    pub fn count(&self) -> String {
        count(usize::try_from(self.messages).unwrap_or(usize::MAX), "message")
    }

    /// Returns the approximate number of messages, and how many are being read.
    #[must_use]
    pub fn sum(&self) -> String {
        match self.hidden {
            0 => self.messages.to_string(),
            hidden => format!("{} ({hidden} being read)", self.messages),
        }
    }

    /// Returns the queue for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let Self { messages, hidden, url, .. } = self;
        json!({ "queue": self.name(), "messages": messages, "hidden": hidden, "url": url })
    }
}

/// A dead-lettered message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// When it was first sent.
    pub sent_at: Option<Time>,
    pub body: String,
}

/// A queue with the messages that were read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letters {
    pub queue: DeadLetterQueue,
    pub messages: Vec<DeadLetter>,
}

const COLUMNS: [Column; 3] =
    [Column::name("Queue"), Column::number("Messages"), Column::text("What")];

/// Returns the table of queues.
pub(crate) fn table(all: &[DeadLetterQueue]) -> DataTable {
    let row = |queue: &DeadLetterQueue| {
        let style = match (queue.messages, queue.queue) {
            (0, _) => TextStyle::Dim,
            (_, Dead::Jobs) => TextStyle::Bad,
            (_, Dead::Launches | Dead::Reaps) => TextStyle::Plain,
        };
        let name = Text::new(queue.name(), TextStyle::Strong);
        vec![
            Cell::link(name, Subject::DeadLetters(queue.queue)),
            Text::new(queue.sum(), style).into(),
            queue.what().into(),
        ]
    };
    DataTable::new(COLUMNS, all.iter().map(row))
}

/// Renders the sizes of the queues.
#[must_use]
pub fn list(all: &[DeadLetterQueue], screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    page.table(&table(all));
    page.into_text()
}

/// Returns the table of messages.
pub(crate) fn letters(all: &[DeadLetter], now: Time) -> DataTable {
    let row = |one: &DeadLetter| vec![Cell::time(one.sent_at, now), (&one.body).into()];
    DataTable::new([Column::short("Sent"), Column::text("Message")], all.iter().map(row))
}

/// Renders the messages of a queue.
#[must_use]
pub fn messages(all: &[DeadLetter], queue: &DeadLetterQueue, now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    let sent = |one: &DeadLetter| one.sent_at.map_or_else(String::new, |at| clock(at, now));
    if page.is_piped() {
        for one in all {
            page.tabs(&[&sent(one), &one.body]);
        }
        return page.into_text();
    }
    if all.is_empty() {
        page.line([format!("No messages of {} are visible right now.", queue.name()).into()]);
    }
    for one in all {
        page.line([Text::new(sent(one), TextStyle::Dim), Text::from("  "), Text::from(&one.body)]);
    }
    let shown = all.len() as u64;
    if queue.messages > shown && shown > 0 {
        page.gap();
        let said = format!("{shown} of about {} are shown", queue.messages);
        page.marked([(Text::new("…", TextStyle::Dim), Text::new(said, TextStyle::Dim))]);
    }
    page.into_text()
}

/// Returns the result for an empty queue.
#[must_use]
pub fn none(queue: &DeadLetterQueue) -> String {
    format!("{} has no messages to redrive.", queue.name())
}

/// Returns the result of a redrive.
#[must_use]
pub fn on_the_way(what: &str) -> String {
    format!("{what} on the way back. Messages that fail again return here later")
}
