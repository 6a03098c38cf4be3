//! Messages that the queues gave up.

use muster_domain::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::args::Dead;
use crate::page::{Column, Look, Page, Screen, Text};
use crate::words::{clock, count};

/// A queue of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    pub queue: Dead,
    /// About so many, says SQS.
    pub messages: u64,
    /// Those that somebody looks at now.
    pub hidden: u64,
    pub url: String,
    pub arn: String,
}

impl Queue {
    /// As the command line has it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.queue.name()
    }

    /// What they are, and what they ask for.
    #[must_use]
    pub const fn what(&self) -> &'static str {
        match self.queue {
            Dead::Jobs => "events of jobs; back with them once the cause is gone",
            Dead::Launches | Dead::Reaps => {
                "wake-ups; they ask for nothing, since the sweep finds what is due"
            }
        }
    }

    /// `2 messages`.
    #[must_use]
    pub fn count(&self) -> String {
        count(usize::try_from(self.messages).unwrap_or(usize::MAX), "message")
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let Self { messages, hidden, url, .. } = self;
        json!({ "queue": self.name(), "messages": messages, "hidden": hidden, "url": url })
    }
}

/// A message that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// When it was first sent.
    pub sent_at: Option<Time>,
    pub body: String,
}

/// A queue, and what was seen of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letters {
    pub queue: Queue,
    pub messages: Vec<Message>,
}

const COLUMNS: [Column; 3] =
    [Column::whole("QUEUE"), Column::whole("MESSAGES"), Column::text("WHAT")];

/// How many there are.
#[must_use]
pub fn list(all: &[Queue], screen: Screen) -> String {
    let mut page = Page::new(screen);
    let rows = all.iter().map(|queue| {
        let look = match (queue.messages, queue.queue) {
            (0, _) => Look::Dim,
            (_, Dead::Jobs) => Look::Bad,
            (_, Dead::Launches | Dead::Reaps) => Look::Plain,
        };
        let hidden = match queue.hidden {
            0 => String::new(),
            hidden => format!(" ({hidden} being read)"),
        };
        vec![
            Text::new(queue.name(), Look::Strong),
            Text::new(format!("{}{hidden}", queue.messages), look),
            Text::from(queue.what()),
        ]
    });
    page.table(&COLUMNS, rows.collect());
    page.into_text()
}

/// What they say.
#[must_use]
pub fn messages(all: &[Message], queue: &Queue, now: Time, screen: Screen) -> String {
    let mut page = Page::new(screen);
    let sent = |one: &Message| one.sent_at.map_or_else(String::new, |at| clock(at, now));
    if page.is_piped() {
        for one in all {
            page.tabs(&[&sent(one), &one.body]);
        }
        return page.into_text();
    }
    if all.is_empty() {
        page.line([format!("No message of {} can be seen now.", queue.name()).into()]);
    }
    for one in all {
        page.line([Text::new(sent(one), Look::Dim), Text::from("  "), Text::from(&one.body)]);
    }
    let shown = all.len() as u64;
    if queue.messages > shown && shown > 0 {
        page.gap();
        let said = format!("{shown} of about {} are shown", queue.messages);
        page.marked([(Text::new("…", Look::Dim), Text::new(said, Look::Dim))]);
    }
    page.into_text()
}

/// There is nothing to send back.
#[must_use]
pub fn none(queue: &Queue, screen: Screen) -> String {
    let mut page = Page::new(screen);
    page.line([format!("No message of {} is to be sent back.", queue.name()).into()]);
    page.into_text()
}

/// What came of a redrive.
#[must_use]
pub fn sent_back(what: &str, screen: Screen) -> String {
    let mut page = Page::new(screen);
    let said = format!(" {}: muster dead-letters", on_the_way(what));
    page.line([Text::new("✓", Look::Good), Text::from(said)]);
    page.into_text()
}

/// The same without a mark.
#[must_use]
pub fn on_the_way(what: &str) -> String {
    format!("{what} on the way back. What fails again is there again later")
}
