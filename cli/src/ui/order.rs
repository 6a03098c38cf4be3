//! The orders that pages can give, as requests and as command lines.

use muster_api::{
    CanaryRequest, DeleteRequest, GithubRequest, HookOrder, JobsRequest, PoolsRequest, Request,
    Rotated, SwitchRequest, To,
};
use muster_domain::ids::{Entity, EntityKind, InstanceName, PoolName};
use serde_json::{Value, json};

use super::fields::{Fields, address};
use super::memory::Question;
use super::page::{Filter, Page};
use crate::args::Dead;
use crate::lists::MOST;

/// An order without its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Switch {
        what: Switched,
        to: To,
    },
    Delete {
        name: InstanceName,
        how: Delete,
    },
    /// Applies a pool file.
    Apply {
        file: String,
    },
    /// Restores an earlier version of the pools.
    Restore {
        version: u64,
    },
    /// Launches a machine without a job.
    Canary {
        pool: PoolName,
        /// Where its runner is registered, for a pool that registers each runner where its job is.
        entity: Option<Entity>,
    },
    /// Redrives a dead-letter queue.
    Redrive {
        queue: Dead,
    },
    /// Changes or tests the App's webhook.
    Hook(Hook),
    /// Imports the queued jobs of a repository.
    Adopt {
        repository: Entity,
    },
}

/// The object of a pause or a resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switched {
    Launches,
    Deletes,
    Pool(PoolName),
}

/// An action on the App's webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Redelivers the newest delivery.
    Test,
    /// Points the webhook at this stack.
    Set,
    /// Replaces its secret.
    Rotate,
    /// Removes the webhook's address.
    Remove,
}

impl Hook {
    /// All of them, in display order.
    pub const ALL: [Self; 4] = [Self::Test, Self::Set, Self::Rotate, Self::Remove];

    /// Returns its word in a form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Set => "set",
            Self::Rotate => "rotate",
            Self::Remove => "remove",
        }
    }

    fn request(self, by: Option<String>) -> GithubRequest {
        let (hook, rotate) = match self {
            Self::Test => (Some(HookOrder::Test), None),
            Self::Set => (Some(HookOrder::Set), None),
            Self::Remove => (Some(HookOrder::Remove), None),
            Self::Rotate => (None, Some(Rotated::WebhookSecret)),
        };
        GithubRequest { hook, rotate, by, ..GithubRequest::default() }
    }
}

/// The strength of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delete {
    Plain,
    Force,
    Kill,
    /// Skips GitHub, which refuses the App.
    Bypass,
}

impl Order {
    /// Parses an order from its action and the fields of a query or form.
    #[must_use]
    pub fn read(action: &str, fields: &Fields) -> Option<Self> {
        let switch = |to| {
            let what = match fields.get("what")? {
                "launches" => Switched::Launches,
                "deletes" => Switched::Deletes,
                pool => Switched::Pool(pool.parse().ok()?),
            };
            Some(Self::Switch { what, to })
        };
        let delete = |how| Some(Self::Delete { name: fields.parsed("name")?, how });
        match action {
            "pause" => switch(To::Off),
            "resume" => switch(To::On),
            "delete" => delete(Delete::Plain),
            "force" => delete(Delete::Force),
            "kill" => delete(Delete::Kill),
            "bypass" => delete(Delete::Bypass),
            // A browser sends CRLF line ends.
            "apply" => Some(Self::Apply { file: fields.get("file")?.replace("\r\n", "\n") }),
            "restore" => Some(Self::Restore { version: fields.parsed("version")? }),
            "canary" => {
                let entity = match fields.get("entity") {
                    Some(entity) => Some(entity.trim().parse().ok()?),
                    None => None,
                };
                Some(Self::Canary { pool: fields.parsed("pool")?, entity })
            }
            "redrive" => Some(Self::Redrive { queue: Dead::read(fields.get("queue")?)? }),
            "hook" => {
                let what = fields.get("what")?;
                Hook::ALL.into_iter().find(|hook| hook.as_str() == what).map(Self::Hook)
            }
            "adopt" => {
                let repository: Entity = fields.get("repository")?.trim().parse().ok()?;
                let is_one = repository.kind() == EntityKind::Repository;
                is_one.then_some(Self::Adopt { repository })
            }
            _ => None,
        }
    }

    /// Returns the message for invalid fields.
    #[must_use]
    pub fn unread(action: &str) -> &'static str {
        match action {
            "canary" => "Write the entity to register its runner at as OWNER or OWNER/REPO.",
            "adopt" => "Write the repository as OWNER/REPO.",
            _ => "There is no such order.",
        }
    }

    /// Returns its action word.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Switch { to: To::Off, .. } => "pause",
            Self::Switch { to: To::On, .. } => "resume",
            Self::Delete { how: Delete::Plain, .. } => "delete",
            Self::Delete { how: Delete::Force, .. } => "force",
            Self::Delete { how: Delete::Kill, .. } => "kill",
            Self::Delete { how: Delete::Bypass, .. } => "bypass",
            Self::Apply { .. } => "apply",
            Self::Restore { .. } => "restore",
            Self::Canary { .. } => "canary",
            Self::Redrive { .. } => "redrive",
            Self::Adopt { .. } => "adopt",
            Self::Hook(_) => "hook",
        }
    }

    /// Returns its form fields.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Switch { what, .. } => vec![("what", what.as_str().to_owned())],
            Self::Delete { name, .. } => vec![("name", name.to_string())],
            Self::Apply { file } => vec![("file", file.clone())],
            Self::Restore { version } => vec![("version", version.to_string())],
            Self::Redrive { queue } => vec![("queue", queue.name().to_owned())],
            Self::Adopt { repository } => vec![("repository", repository.to_string())],
            Self::Hook(hook) => vec![("what", hook.as_str().to_owned())],
            Self::Canary { pool, entity } => {
                let entity = entity.iter().map(|entity| ("entity", entity.to_string()));
                [("pool", pool.to_string())].into_iter().chain(entity).collect()
            }
        }
    }

    /// Returns a text that identifies the order; orders for different objects differ.
    #[must_use]
    pub fn identity(&self) -> String {
        self.address("")
    }

    /// Returns the address of its confirmation page.
    #[must_use]
    pub fn confirmed_at(&self) -> String {
        self.address("/confirm/")
    }

    fn address(&self, before: &str) -> String {
        let fields = self.fields();
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        address(&format!("{before}{}", self.action()), &fields)
    }

    /// Returns the query that its confirmation page needs, apart from the dry run.
    #[must_use]
    pub fn shown_first(&self) -> Option<Question> {
        match self {
            Self::Switch { .. } => Some(Question::Overview),
            Self::Delete { name, .. } => Some(Question::Show(name.to_string())),
            Self::Redrive { .. } => Some(Question::DeadLetters),
            Self::Hook(_) => Some(Question::GitHub),
            Self::Apply { .. }
            | Self::Restore { .. }
            | Self::Canary { .. }
            | Self::Adopt { .. } => None,
        }
    }

    /// Returns whether its reason is recorded.
    #[must_use]
    pub const fn has_reason(&self) -> bool {
        match self {
            Self::Switch { to: To::Off, .. }
            | Self::Delete { .. }
            | Self::Apply { .. }
            | Self::Restore { .. } => true,
            Self::Switch { to: To::On, .. }
            | Self::Canary { .. }
            | Self::Redrive { .. }
            | Self::Adopt { .. }
            | Self::Hook(_) => false,
        }
    }

    /// Returns the message about what the audit trail records of this order.
    #[must_use]
    pub const fn kept(&self) -> &'static str {
        match self {
            Self::Redrive { .. } => {
                "It goes to SQS, with your own permissions; the stack's audit trail does not \
                record it."
            }
            Self::Adopt { .. } => {
                "Jobs that are already known do not change. The audit trail does not record it."
            }
            Self::Hook(Hook::Test) => {
                "It does not change the App, and the audit trail does not record it."
            }
            _ => "The audit trail records who ordered it.",
        }
    }

    /// Returns the page where its effect is visible, which also offers it.
    #[must_use]
    pub fn shown_at(&self) -> Page {
        match self {
            Self::Switch { what: Switched::Pool(name), .. } => Page::Pool(name.clone()),
            Self::Switch { .. } => Page::Overview,
            Self::Delete { name, .. } => Page::Machine(name.to_string()),
            Self::Apply { .. } | Self::Restore { .. } => Page::Pools,
            Self::Canary { pool, .. } => Page::Pool(pool.clone()),
            Self::Redrive { .. } => Page::DeadLetters(None),
            Self::Adopt { .. } => Page::Jobs(Filter::default()),
            Self::Hook(_) => Page::GitHub,
        }
    }

    /// Returns whether work, a machine or job events may be lost.
    #[must_use]
    pub fn is_grave(&self) -> bool {
        self.typed().is_some() || *self == Self::Hook(Hook::Remove)
    }

    /// Returns the name to type before work or a machine may be lost.
    #[must_use]
    pub fn typed(&self) -> Option<&str> {
        match self {
            Self::Delete { name, how: Delete::Force | Delete::Kill | Delete::Bypass } => {
                Some(name.as_str())
            }
            Self::Delete { how: Delete::Plain, .. }
            | Self::Switch { .. }
            | Self::Apply { .. }
            | Self::Restore { .. }
            | Self::Canary { .. }
            | Self::Redrive { .. }
            | Self::Adopt { .. }
            | Self::Hook(_) => None,
        }
    }

    /// Returns the function's request; `None` for an order that goes to SQS, and for a dry run that the
    /// function does not have.
    #[must_use]
    pub fn request(&self, reason: &str, by: Option<&str>, dry_run: bool) -> Option<Value> {
        let (reason, by) = (reason.to_owned(), by.map(str::to_owned));
        let pools = PoolsRequest {
            dry_run,
            reason: Some(reason.clone()),
            by: by.clone(),
            ..PoolsRequest::default()
        };
        let request = match self {
            Self::Switch { .. } if dry_run => return None,
            Self::Redrive { .. } => return None,
            Self::Hook(_) if dry_run => return None,
            Self::Hook(hook) => Request::Github(hook.request(by)),
            Self::Adopt { .. } if dry_run => return None,
            Self::Adopt { repository } => Request::Jobs(JobsRequest {
                limit: MOST,
                adopt: true,
                repository: Some(repository.clone()),
                ..JobsRequest::default()
            }),
            Self::Switch { what, to } => {
                let mut request = SwitchRequest {
                    for_seconds: None,
                    launches: None,
                    deletes: None,
                    pools: [].into(),
                    reason,
                    by,
                };
                match what {
                    Switched::Launches => request.launches = Some(*to),
                    Switched::Deletes => request.deletes = Some(*to),
                    Switched::Pool(name) => _ = request.pools.insert(name.clone(), *to),
                }
                Request::Switch(request)
            }
            Self::Delete { name, how } => Request::Delete(DeleteRequest {
                name: name.to_string(),
                reason,
                by,
                force: *how == Delete::Force,
                bypass_github_unauthorized: *how == Delete::Bypass,
                kill_running_job: *how == Delete::Kill,
                dry_run,
            }),
            Self::Apply { file } => {
                Request::Pools(PoolsRequest { file: Some(file.clone()), ..pools })
            }
            Self::Restore { version } => {
                Request::Pools(PoolsRequest { restore: Some(*version), ..pools })
            }
            Self::Canary { pool, entity } => Request::Canary(CanaryRequest {
                pool: Some(pool.clone()),
                entity: entity.clone(),
                by,
                dry_run,
            }),
        };
        Some(json!(request))
    }

    /// Returns the equivalent command line.
    #[must_use]
    pub fn command(&self) -> String {
        let order = match self {
            Self::Switch { what, to: To::Off } => format!("pause {}", what.as_str()),
            Self::Switch { what, to: To::On } => format!("resume {}", what.as_str()),
            Self::Delete { name, how: Delete::Plain } => format!("delete {name}"),
            Self::Delete { name, how: Delete::Force } => format!("delete {name} --force"),
            Self::Delete { name, how: Delete::Kill } => format!("delete {name} --kill-running-job"),
            Self::Delete { name, how: Delete::Bypass } => {
                format!("delete {name} --bypass-github-unauthorized")
            }
            Self::Apply { .. } => "pools apply FILE".to_owned(),
            Self::Restore { version } => format!("pools restore {version}"),
            Self::Redrive { queue } => format!("dead-letters {} --redrive", queue.name()),
            Self::Hook(Hook::Rotate) => "github rotate".to_owned(),
            Self::Hook(hook) => format!("github hook {}", hook.as_str()),
            Self::Adopt { repository } => format!("jobs --adopt {repository}"),
            Self::Canary { pool, entity: None } => format!("doctor --canary --pool {pool}"),
            Self::Canary { pool, entity: Some(entity) } => {
                format!("doctor --canary --pool {pool} --entity {entity}")
            }
        };
        let why = if self.has_reason() { " --reason \"…\"" } else { "" };
        format!("muster {order}{why}")
    }
}

impl Switched {
    /// Returns its name on the command line.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Launches => "launches",
            Self::Deletes => "deletes",
            Self::Pool(name) => name.as_str(),
        }
    }
}
