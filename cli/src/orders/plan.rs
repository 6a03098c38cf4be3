//! What an order will do, and what will still block it.

use muster_api::answers::{
    AppliedPools, DeleteDryRun, ImagesStatus, OrderedCanary, Overview, PoolStatus, ShownGithub,
    ShownInstance,
};
use muster_api::{To, VERSION};
use muster_domain::ids::PoolName;
use serde_json::{Value, json};

use super::{DeleteFlags, HookAction, Order, Switched};
use crate::failure::{Failure, parsed};
use crate::page::{Screen, TextPage};
use crate::queues;
use crate::table::{Text, TextStyle};
use crate::views;
use crate::views::dead_letters::{self, DeadLetterQueue};
use crate::words::count;

/// The answers that tell what an order will do.
#[derive(Clone, Debug)]
pub enum OrderPlan {
    /// A switch, which has no dry run.
    Switch(Box<Overview>),
    Delete(Box<ShownInstance>, DeleteDryRun),
    Pools(AppliedPools),
    Canary(Box<OrderedCanary>),
    Redrive(DeadLetterQueue),
    Hook(Box<ShownGithub>),
    Images(Box<ImagesStatus>),
    /// An import: GitHub is queried only when it is ordered.
    Adopt,
}

impl OrderPlan {
    /// Reads the answers to the order's lookup and to its dry run.
    ///
    /// # Errors
    /// Fails when an answer has a different form.
    pub fn read(
        order: &Order,
        found: Option<Value>,
        would: Option<Value>,
    ) -> Result<Self, Failure> {
        let (found, would) = (found.unwrap_or_default(), would.unwrap_or_default());
        Ok(match order {
            Order::Switch { .. } => Self::Switch(Box::new(parsed("overview", found)?)),
            Order::Delete { .. } => {
                Self::Delete(Box::new(parsed("show", found)?), parsed("delete", would)?)
            }
            Order::Apply { .. } | Order::Restore { .. } => Self::Pools(parsed("pools", would)?),
            Order::Canary { .. } => Self::Canary(Box::new(parsed("canary", would)?)),
            Order::Image { .. } => Self::Images(Box::new(parsed("images", would)?)),
            Order::Adopt { .. } => Self::Adopt,
            Order::Hook(..) => Self::Hook(Box::new(parsed("github", found)?)),
            Order::Redrive { queue } => {
                Self::Redrive(queues::of(parsed("dead letters", found)?, *queue)?)
            }
        })
    }

    /// Returns whether there is nothing to order. It is then not sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Redrive(queue) => queue.messages == 0,
            Self::Hook(_) => self.blocked().is_some(),
            Self::Images(images) => images.changes.is_empty(),
            Self::Switch(_) | Self::Delete(..) | Self::Pools(_) | Self::Canary(_) | Self::Adopt => {
                false
            }
        }
    }

    /// Returns whether the pools stay as they are. Such a file is applied without a confirmation: Muster takes it as a
    /// fix, and retries what it had delayed.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        // The first file replaces the stack's parameters even if it equals them.
        matches!(self, Self::Pools(pools) if pools.diff.is_empty() && pools.pools_version > 0)
    }

    /// Returns why an order cannot be given: without an App there is no webhook.
    #[must_use]
    pub fn blocked(&self) -> Option<String> {
        let Self::Hook(github) = self else { return None };
        match (&github.app, github.unknown.as_slice()) {
            (Some(_), _) => None,
            (None, []) => Some(format!("There is no GitHub App yet: {}.", views::github::WAYS)),
            (None, unknown) => Some(unknown.join(" ")),
        }
    }

    /// Renders the plan.
    #[must_use]
    pub fn page(&self, order: &Order, screen: Screen) -> String {
        let mut page = TextPage::new(screen);
        let sentences = match (self, order) {
            (Self::Switch(overview), Order::Switch { what, to }) => {
                what.iter().flat_map(|what| of_switch(what, *to, overview)).collect()
            }
            (Self::Delete(shown, would), Order::Delete { flags, .. }) => {
                of_delete(&mut page, shown, would, *flags);
                return page.into_text();
            }
            (Self::Pools(pools), _) if self.is_unchanged() => vec![format!(
                "No changes: version {} is identical. Launches that were delayed after failures are \
                 retried now.",
                pools.pools_version
            )],
            (Self::Pools(pools), _) => return views::pools::changes(pools, screen),
            (Self::Redrive(queue), _) if self.is_empty() => vec![dead_letters::none(queue)],
            (Self::Redrive(queue), _) => vec![
                format!("This redrives {} from {}.", queue.count(), queue.name()),
                format!("They are {}. Messages that fail again return here later.", queue.what()),
            ],
            (Self::Hook(github), Order::Hook(hook, _)) => {
                self.blocked().map_or_else(|| of_hook(*hook, github), |why| vec![why])
            }
            (Self::Adopt, _) => vec![
                "Imports jobs that are queued at GitHub: from before the webhook worked, or because \
                 GitHub never sent their event. Each is handled as if its event had just arrived."
                    .to_owned(),
                "Machines are launched for jobs that a pool serves, at the same cost as for any \
                 other job."
                    .to_owned(),
            ],
            (Self::Images(images), Order::Image { what, .. }) => {
                views::images::plan(*what, images)
            }
            (Self::Canary(canary), _) => {
                vec![views::canary::starts(canary), views::canary::alone(canary)]
            }
            (Self::Switch(_) | Self::Delete(..) | Self::Hook(_) | Self::Images(_), _) => Vec::new(),
        };
        for sentence in sentences {
            page.wrapped(Text::from(sentence));
        }
        page.into_text()
    }

    /// Returns the plan for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        with_version(match self {
            Self::Delete(_, would) => json!(would),
            Self::Pools(pools) => json!(pools),
            Self::Canary(canary) => json!(canary),
            Self::Redrive(queue) => queue.json(),
            Self::Hook(github) => json!(github),
            Self::Images(images) => json!(images),
            Self::Switch(_) | Self::Adopt => json!({}),
        })
    }

    /// Returns the plan as sentences without a layout.
    #[must_use]
    pub fn sentences(&self, order: &Order) -> Vec<String> {
        let page = self.page(order, Screen::PIPE);
        page.lines().map(|line| line.trim_start_matches("! ").to_owned()).collect()
    }
}

/// Adds what every answer for programs has.
pub(crate) fn with_version(mut answer: Value) -> Value {
    answer["version"] = json!(VERSION);
    answer["ok"] = json!(true);
    answer
}

fn of_hook(hook: HookAction, github: &ShownGithub) -> Vec<String> {
    let own = github.webhook_url.as_deref().unwrap_or("an address that the stack does not know");
    let now = match views::github::hooked(github) {
        (Some(true), url) => format!("GitHub sends events to {url}, which is this stack."),
        (Some(false), other) => format!("The webhook's address now: {other}."),
        (None, _) => "It is unknown where GitHub sends events.".to_owned(),
    };
    let then = match hook {
        HookAction::Test => {
            "GitHub redelivers its newest delivery, and the response is shown: this tests the \
            address, certificate, gateway and secret without a job. It takes up to half a minute."
                .to_owned()
        }
        HookAction::Set => {
            format!("GitHub will send events to {own}, signed with this stack's secret.")
        }
        HookAction::Rotate => {
            "A new secret is created here and on GitHub; the old one stays valid for a day. A test \
            of the webhook shows whether the new one works."
                .to_owned()
        }
        HookAction::Remove => "GitHub will stop sending events, and new jobs will wait.".to_owned(),
    };
    vec![now, then]
}

fn of_switch(what: &Switched, to: To, overview: &Overview) -> Vec<String> {
    let off = match what {
        Switched::Launches => overview.switches.launches.as_ref(),
        Switched::Deletes => overview.switches.deletes.as_ref(),
        Switched::Pool(name) => overview.switches.pools.get(name),
    };
    let is_of = |pool: &&PoolStatus| match what {
        Switched::Launches => true,
        Switched::Deletes => false,
        Switched::Pool(name) => pool.name == *name,
    };
    let waiting: usize = overview.pools.iter().filter(is_of).map(|pool| pool.waiting_jobs).sum();
    let which = match what {
        Switched::Launches => "Launches".to_owned(),
        Switched::Deletes => "Deletes".to_owned(),
        Switched::Pool(name) => format!("Launches of pool {name}"),
    };
    let now = match off {
        Some(off) => {
            format!("{which} are off now, by {}{}: {}.", off.by, off.end(overview.now), off.reason)
        }
        None => format!("{which} are on now."),
    };
    let then = match (what, to) {
        (Switched::Deletes, To::Off) => {
            "Instances are no longer deregistered or terminated, unless forced. Runners keep \
            accepting jobs."
                .to_owned()
        }
        (Switched::Deletes, To::On) => "Pending deletes continue.".to_owned(),
        (Switched::Launches | Switched::Pool(_), To::Off) => format!(
            "No more machines are launched, and jobs wait ({} now). Existing machines keep \
            running.",
            count(waiting, "job")
        ),
        (Switched::Launches | Switched::Pool(_), To::On) => {
            format!("Machines are launched for the jobs that wait ({} now).", count(waiting, "job"))
        }
    };
    [Some(now), Some(then), still_paused(what, to, overview)].into_iter().flatten().collect()
}

/// Returns what keeps launches paused after a resume.
fn still_paused(what: &Switched, to: To, overview: &Overview) -> Option<String> {
    match (what, to) {
        (Switched::Pool(_), To::On) if overview.switches.launches.is_some() => {
            Some("Launches of the whole stack stay off: muster resume launches.".to_owned())
        }
        (Switched::Launches, To::On) if !overview.switches.pools.is_empty() => {
            let pools: Vec<&str> = overview.switches.pools.keys().map(PoolName::as_str).collect();
            let pools = pools.join(" ");
            Some(format!("These pools stay paused: muster resume {pools}."))
        }
        _ => None,
    }
}

fn of_delete(page: &mut TextPage, shown: &ShownInstance, would: &DeleteDryRun, flags: DeleteFlags) {
    let one = &shown.instance;
    let machine = match one.machine() {
        Some(id) => format!(" ({id})"),
        None => " (no machine yet)".to_owned(),
    };
    let (job, look) = match (one.runner.is_busy(), one.claim()) {
        (true, Some(key)) => (format!("a job runs on it: {key}"), TextStyle::Bad),
        (true, None) => ("a job runs on it".to_owned(), TextStyle::Bad),
        (false, Some(key)) => {
            (format!("no job runs on it; it is meant for {key}"), TextStyle::Plain)
        }
        (false, None) => ("no job runs on it".to_owned(), TextStyle::Plain),
    };
    page.line([
        Text::new(one.name.as_str(), TextStyle::Strong),
        Text::from(format!("{machine} is {}, ", would.state)),
        Text::new(job, look),
        Text::from(format!(". It would be {}.", would.would_be)),
    ]);
    let flags = [
        (
            flags.force,
            "--force: EC2 errors do not delay it. After three of them its record closes, and the \
             machine stays in the orphan ledger until EC2 ends it.",
        ),
        (flags.kill, "--kill-running-job: a job that runs on it is killed."),
        (flags.bypass, "--bypass-github-unauthorized: its registration may stay at GitHub."),
    ];
    let given = flags.iter().filter(|(given, _)| *given);
    page.marked(given.map(|(_, what)| (Text::new("!", TextStyle::Warning), Text::from(what))));
}
