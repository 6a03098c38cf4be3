//! The outcome of an order.

use muster_api::answers::{
    AdoptedJobs, AppliedPools, ImagesStatus, OrderedCanary, OrderedDelete, ShownGithub,
    SwitchedNow, TestedHook,
};
use muster_domain::time::Time;
use serde_json::Value;

use super::{HookAction, Order};
use crate::failure::{Failure, parsed};
use crate::page::{Screen, TextPage};
use crate::table::{Text, TextStyle};
use crate::views;
use crate::views::dead_letters::{DeadLetterQueue, none, on_the_way};
use crate::views::status::marked;
use crate::words::clock;

/// The outcome of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Done(String),
    /// It was carried out; the findings that now hold.
    Switched(Box<SwitchedNow>),
    /// The imported jobs.
    Adopted(Box<AdoptedJobs>),
    /// It was carried out, and shows that something is wrong.
    Failed(String),
}

impl Outcome {
    /// Reads the answer to an order.
    ///
    /// # Errors
    /// Fails when it does not answer this order.
    pub fn read(order: &Order, answer: Value, now: Time) -> Result<Self, Failure> {
        Ok(match order {
            Order::Switch { .. } => Self::Switched(Box::new(parsed("switch", answer)?)),
            Order::Delete { .. } => Self::Done(deleted(&parsed("delete", answer)?, now)),
            Order::Apply { .. } | Order::Restore { .. } => {
                let AppliedPools { pools_version, .. } = parsed("pools", answer)?;
                Self::Done(format!("Version {pools_version} is in force"))
            }
            Order::Canary { .. } => {
                let canary: OrderedCanary = parsed("canary", answer)?;
                let name = canary.name.map_or_else(String::new, |name| name.to_string());
                Self::Done(format!("{name} is being launched: muster watch {name}"))
            }
            Order::Redrive { .. } => {
                let queue: DeadLetterQueue = parsed("dead letters", answer)?;
                Self::Done(match queue.messages {
                    0 => none(&queue),
                    _ => on_the_way(&queue.count()),
                })
            }
            Order::Hook(HookAction::Test, _) => {
                let tested: TestedHook = parsed("github", answer)?;
                match views::github::tested(&tested) {
                    (true, text) => Self::Done(text),
                    (false, text) => Self::Failed(text),
                }
            }
            Order::Hook(HookAction::Rotate, _) => {
                Self::Done("The webhook secret is rotated, here and on GitHub".to_owned())
            }
            Order::Hook(HookAction::Set | HookAction::Remove, _) => {
                let github: ShownGithub = parsed("github", answer)?;
                Self::Done(match (order, views::github::hooked(&github)) {
                    (_, (Some(true), url)) => format!("GitHub sends events to {url}"),
                    (Order::Hook(HookAction::Remove, _), (Some(false), _)) => {
                        "GitHub no longer sends events to this stack".to_owned()
                    }
                    (_, (_, other)) => format!("The webhook: {other}"),
                })
            }
            Order::Image { what, .. } => {
                let images: ImagesStatus = parsed("images", answer)?;
                Self::Done(views::images::done(*what, &images))
            }
            Order::Adopt { .. } => Self::Adopted(Box::new(parsed("jobs", answer)?)),
        })
    }

    /// Renders the outcome.
    #[must_use]
    pub fn page(&self, now: Time, screen: Screen) -> String {
        let mut page = TextPage::new(screen);
        match self {
            Self::Adopted(jobs) => return views::jobs::adopted(jobs, now, screen),
            Self::Done(text) => {
                page.line([Text::new("✓", TextStyle::Good), Text::from(format!(" {text}"))]);
            }
            Self::Failed(text) => {
                page.line([Text::new("✗", TextStyle::Bad), Text::from(format!(" {text}"))]);
            }
            Self::Switched(answer) => {
                let off = answer.switches.findings(now);
                if off.is_empty() {
                    page.line(["Launches and deletes are on.".into()]);
                }
                page.marked(marked(&off));
            }
        }
        page.into_text()
    }

    /// Returns the outcome as sentences without a layout.
    #[must_use]
    pub fn sentences(&self, now: Time) -> Vec<String> {
        let page = self.page(now, Screen::PIPE);
        let plain = |line: &str| line.trim_start_matches(['✓', '✗', '!', ' ']).to_owned();
        page.lines().map(plain).collect()
    }
}

fn deleted(answer: &OrderedDelete, now: Time) -> String {
    let OrderedDelete { name, state, order, .. } = answer;
    let by = order.as_ref().map(|order| format!(" at {} by {}", clock(order.at, now), order.by));
    let by = by.unwrap_or_default();
    format!("{name} is {state}, ordered{by}. The reaper does the rest: muster explain {name}")
}
