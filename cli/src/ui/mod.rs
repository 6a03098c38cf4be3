//! The pages of `muster ui`: each a pure function of the cached answers and the time.

pub mod assets;
pub mod confirm;
pub mod done;
pub mod door;
pub mod fields;
pub mod frame;
pub mod go;
pub mod memory;
pub mod page;
pub mod report;

mod adopt;
mod audit;
mod costs;
mod find;
mod findings;
mod github;
mod job;
mod jobs;
mod letters;
mod machine;
mod machines;
mod order;
mod overview;
mod parts;
mod plot;
mod pools;
mod text;
mod waits;

use maud::html;
use muster_domain::time::Time;

use self::frame::About;
use self::memory::Memory;
use self::page::UiPage;

/// The settings of the server.
#[derive(Clone, Debug)]
pub struct Serving {
    pub about: About,
    /// The port. `None`: any free one.
    pub port: Option<u16>,
    /// Whether to open the browser.
    pub opens: bool,
    /// The name that is recorded for orders.
    pub by: Option<String>,
}

/// Renders a page.
#[must_use]
pub fn render(page: &UiPage, memory: &Memory, about: &About, now: Time) -> String {
    let body = match page {
        UiPage::Overview => overview::body(memory, about, now),
        UiPage::Machines(filter) => machines::body(filter, memory, now),
        UiPage::Machine(name) => machine::body(name, memory, about, now),
        UiPage::Jobs(filter) => jobs::body(filter, memory, now)
            .map(|list| html! { (adopt::way(about)) (list) (adopt::form(about)) }),
        UiPage::Job(key) => job::body(*key, memory, about, now),
        UiPage::Pools => pools::body(memory, about, now),
        UiPage::Pool(name) => pools::one(name, memory, about, now),
        UiPage::Costs(view) => costs::body(view, memory),
        UiPage::Audit { back } => audit::body(*back, memory, now),
        UiPage::GitHub => github::body(memory, about, now),
        UiPage::DeadLetters(None) => letters::all(memory, about),
        UiPage::DeadLetters(Some(queue)) => letters::one(*queue, memory, about, now),
    };
    frame::page(page, body.as_ref(), memory, about, now)
}
