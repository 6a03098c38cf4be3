//! The effect of an order: the function's dry run, in the sentences of the command line.

use muster_api::To;
use muster_api::answers::{
    AppliedPools, DeleteDryRun, OrderedCanary, Overview, PoolStatus, ShownGithub, ShownInstance,
};
use serde_json::Value;

use super::memory::read;
use super::order::{Delete, Hook, Order, Switched};
use crate::args;
use crate::failure::Failure;
use crate::page::Screen;
use crate::queues;
use crate::views;
use crate::views::dead_letters::{self, Queue};
use crate::words::count;

/// The effect of an order, according to a dry run.
#[derive(Clone, Debug)]
pub enum Plan {
    /// A switch, which has no dry run.
    Switch(Box<Overview>),
    Delete(Box<ShownInstance>, DeleteDryRun),
    Pools(AppliedPools),
    Canary(Box<OrderedCanary>),
    Redrive(Queue),
    Hook(Box<ShownGithub>),
    /// An import: GitHub is queried only when it is ordered.
    Adopt,
}

impl Plan {
    /// Reads the first query's answer and the dry run's.
    ///
    /// # Errors
    /// Fails when an answer has a different form.
    pub fn read(
        order: &Order,
        first: Option<Value>,
        would: Option<Value>,
    ) -> Result<Self, Failure> {
        let (first, would) = (first.unwrap_or_default(), would.unwrap_or_default());
        match order {
            Order::Switch { .. } => Ok(Self::Switch(Box::new(read("overview", first)?))),
            Order::Delete { .. } => {
                Ok(Self::Delete(Box::new(read("show", first)?), read("delete", would)?))
            }
            Order::Apply { .. } | Order::Restore { .. } => Ok(Self::Pools(read("pools", would)?)),
            Order::Canary { .. } => Ok(Self::Canary(Box::new(read("canary", would)?))),
            Order::Adopt { .. } => Ok(Self::Adopt),
            Order::Hook(_) => Ok(Self::Hook(Box::new(read("github", first)?))),
            Order::Redrive { queue } => {
                Ok(Self::Redrive(queues::of(read("dead letters", first)?, *queue)?))
            }
        }
    }

    /// Returns whether the order would have no effect.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Pools(told) => told.diff.is_empty() && told.pools_version > 0,
            Self::Redrive(queue) => queue.messages == 0,
            Self::Hook(told) => told.app.is_none(),
            Self::Switch(_) | Self::Delete(..) | Self::Canary(_) | Self::Adopt => false,
        }
    }
}

/// Returns what the order would do, in sentences.
pub(super) fn told(order: &Order, plan: &Plan) -> Vec<String> {
    match plan {
        Plan::Switch(told) => match order {
            Order::Switch { what, to } => of_switch(what, *to, told),
            _ => Vec::new(),
        },
        Plan::Delete(shown, would) => of_delete(order, shown, would),
        Plan::Pools(told) if plan.is_empty() => {
            vec![format!("No changes: version {} is identical.", told.pools_version)]
        }
        Plan::Pools(told) => {
            views::pools::changes(told, Screen::PIPE).lines().map(str::to_owned).collect()
        }
        Plan::Redrive(queue) if plan.is_empty() => {
            vec![dead_letters::none(queue, Screen::PIPE).trim_end().to_owned()]
        }
        Plan::Redrive(queue) => vec![
            format!("This redrives {} from {}.", queue.count(), queue.name()),
            format!("They are {}. Messages that fail again return here later.", queue.what()),
        ],
        Plan::Hook(told) if plan.is_empty() => match told.unknown.as_slice() {
            [] => vec![format!("There is no GitHub App yet: {}.", views::github::WAYS)],
            unknown => unknown.to_vec(),
        },
        Plan::Hook(told) => match order {
            Order::Hook(hook) => of_hook(*hook, told),
            _ => Vec::new(),
        },
        Plan::Adopt => vec![
            "Imports jobs that are queued at GitHub: from before the webhook worked, or because \
            GitHub never sent their event. Each is handled as if its event had just arrived."
                .to_owned(),
            "Machines are launched for jobs that a pool serves, at the same cost as for any other \
            job."
                .to_owned(),
        ],
        Plan::Canary(told) => vec![views::canary::starts(told), views::canary::alone(told)],
    }
}

fn of_hook(hook: Hook, told: &ShownGithub) -> Vec<String> {
    let own = told.webhook_url.as_deref().unwrap_or("an address that the stack does not know");
    let now = match views::github::hooked(told) {
        (Some(true), url) => format!("GitHub sends events to {url}, which is this stack."),
        (Some(false), said) => format!("The webhook's address now: {said}."),
        (None, _) => "It is unknown where GitHub sends events.".to_owned(),
    };
    let then = match hook {
        Hook::Test => {
            "GitHub redelivers its newest delivery, and the response is shown: this tests the \
            address, certificate, gateway and secret without a job. It takes up to half a minute."
                .to_owned()
        }
        Hook::Set => format!("GitHub will send events to {own}, signed with this stack's secret."),
        Hook::Rotate => {
            "A new secret is created here and on GitHub; the old one stays valid for a day. \
            Redeliver… shows afterwards whether the new one works."
                .to_owned()
        }
        Hook::Remove => "GitHub will stop sending events, and new jobs will wait.".to_owned(),
    };
    vec![now, then]
}

fn of_switch(what: &Switched, to: To, told: &Overview) -> Vec<String> {
    let off = match what {
        Switched::Launches => told.switches.launches.as_ref(),
        Switched::Deletes => told.switches.deletes.as_ref(),
        Switched::Pool(name) => told.switches.pools.get(name),
    };
    let is_of = |pool: &&PoolStatus| match what {
        Switched::Launches => true,
        Switched::Deletes => false,
        Switched::Pool(name) => pool.name == *name,
    };
    let waiting: usize = told.pools.iter().filter(is_of).map(|pool| pool.waiting_jobs).sum();
    let which = match what {
        Switched::Launches => "Launches".to_owned(),
        Switched::Deletes => "Deletes".to_owned(),
        Switched::Pool(name) => format!("Launches of pool {name}"),
    };
    let now = match off {
        Some(off) => {
            format!("{which} are off now, by {}{}: {}.", off.by, off.end(told.now), off.reason)
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
    vec![now, then]
}

/// Returns the command line's sentences.
fn of_delete(order: &Order, shown: &ShownInstance, would: &DeleteDryRun) -> Vec<String> {
    let Order::Delete { how, .. } = order else { return Vec::new() };
    let order = args::Delete {
        name: would.name.to_string(),
        order: args::Order { reason: None, by: None },
        force: *how == Delete::Force,
        kill_running_job: *how == Delete::Kill,
        bypass_github_unauthorized: *how == Delete::Bypass,
        dry_run: true,
        yes: false,
    };
    let told = views::orders::plan(shown, would, &order, Screen::PIPE);
    told.lines().map(|line| line.trim_start_matches("! ").to_owned()).collect()
}
