//! What an order would do: the function's dry run, in the command line's own sentences.

use muster_control::admin::To;
use muster_control::admin::answers::{
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

/// What an order would do, as far as that was asked.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Of a switch, in sentences: the function has no dry run of it.
    Switch(Box<Overview>),
    Delete(Box<ShownInstance>, DeleteDryRun),
    Pools(AppliedPools),
    Canary(Box<OrderedCanary>),
    Redrive(Queue),
    Hook(Box<ShownGithub>),
    /// GitHub is asked when it is ordered.
    Adopt,
}

impl Plan {
    /// Reads what was asked first, and what the dry run said.
    ///
    /// # Errors
    /// When that is not what was asked.
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

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Pools(told) => told.diff.is_empty() && told.pools_version > 0,
            Self::Redrive(queue) => queue.messages == 0,
            Self::Hook(told) => told.app.is_none(),
            Self::Switch(_) | Self::Delete(..) | Self::Canary(_) | Self::Adopt => false,
        }
    }
}

/// What it would do, in sentences.
pub(super) fn told(order: &Order, plan: &Plan) -> Vec<String> {
    match plan {
        Plan::Switch(told) => match order {
            Order::Switch { what, to } => of_switch(what, *to, told),
            _ => Vec::new(),
        },
        Plan::Delete(shown, would) => of_delete(order, shown, would),
        Plan::Pools(told) if plan.is_empty() => {
            vec![format!("It changes nothing: version {} says the same.", told.pools_version)]
        }
        Plan::Pools(told) => {
            views::pools::changes(told, Screen::PIPE).lines().map(str::to_owned).collect()
        }
        Plan::Redrive(queue) if plan.is_empty() => {
            vec![dead_letters::none(queue, Screen::PIPE).trim_end().to_owned()]
        }
        Plan::Redrive(queue) => vec![
            format!("This sends {} of {} back to be handled again.", queue.count(), queue.name()),
            format!("They are {}. What fails again is there again later.", queue.what()),
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
            "GitHub is asked what is queued there: jobs from before the webhook worked, or whose event never came. Each counts as if its \
             event had come now."
                .to_owned(),
            "Machines are launched for those that a pool serves, and are paid for as for any other job.".to_owned(),
        ],
        Plan::Canary(told) => vec![views::canary::starts(told), views::canary::alone(told)],
    }
}

fn of_hook(hook: Hook, told: &ShownGithub) -> Vec<String> {
    let own = told.webhook_url.as_deref().unwrap_or("an address that the stack does not know");
    let now = match views::github::hooked(told) {
        (Some(true), url) => format!("GitHub sends events to {url} now, which is this stack."),
        (Some(false), said) => format!("The webhook's address now: {said}."),
        (None, _) => "Where GitHub sends events now is unknown.".to_owned(),
    };
    let then = match hook {
        Hook::Test => {
            "GitHub repeats the newest delivery that it has sent, and its answer is shown: that proves address, certificate, gateway and \
             secret without a job. It takes up to half a minute."
                .to_owned()
        }
        Hook::Set => format!("GitHub sends them to {own} then, signed with this stack's secret."),
        Hook::Rotate => {
            "Another secret is made, here and at GitHub. What is signed with the old one is taken for another day. Send again… \
             shows afterwards whether it holds.".to_owned()
        }
        Hook::Remove => {
            "GitHub then tells of no job any more, and new jobs wait.".to_owned()
        }
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
            "No instance is deregistered or terminated any more, unless it is forced. Runners go on taking jobs.".to_owned()
        }
        (Switched::Deletes, To::On) => "What is to end goes on ending.".to_owned(),
        (Switched::Launches | Switched::Pool(_), To::Off) => format!(
            "No machine is launched any more, and jobs wait ({} now). Machines that are there go on.",
            count(waiting, "job")
        ),
        (Switched::Launches | Switched::Pool(_), To::On) => {
            format!("Machines are launched for the jobs that wait ({} now).", count(waiting, "job"))
        }
    };
    vec![now, then]
}

/// The command line's own sentences.
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
