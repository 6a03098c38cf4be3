//! Orders: the changes that a person can ask for. The terminal and the browser send the same request, show the same
//! plan, require the same confirmation, and report the same outcome.

pub mod outcome;
pub mod plan;

use muster_api::{
    CanaryRequest, DeleteRequest, GithubRequest, HookOrder, ImageOrder, ImagesRequest, JobsRequest,
    PoolsRequest, Request, Rotated, SwitchRequest, To,
};
use muster_domain::ids::{AppName, Entity, FamilyKey, InstanceName, PoolName};
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use crate::args::Dead;
use crate::lists::MOST;

/// An order without its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Pauses or resumes launches or deletes.
    Switch {
        what: Vec<Switched>,
        to: To,
    },
    Delete {
        name: InstanceName,
        flags: DeleteFlags,
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
        /// `None`: the stack's only pool.
        pool: Option<PoolName>,
        /// Where its runner is registered, for a pool that registers each runner where its job is.
        entity: Option<Entity>,
        /// Whether it boots the launch template's image instead of the one that Muster built.
        template_image: bool,
    },
    /// Redrives a dead-letter queue.
    Redrive {
        queue: Dead,
    },
    /// Changes or tests the App's webhook.
    Hook(HookAction, AppName),
    /// Changes the machine images.
    Image {
        what: ImageOrder,
        /// `None`: all families, or the only one.
        family: Option<FamilyKey>,
    },
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
pub enum HookAction {
    /// Redelivers the newest delivery.
    Test,
    /// Points the webhook at this stack.
    Set,
    /// Replaces its secret.
    Rotate,
    /// Removes the webhook's address.
    Remove,
}

/// The strength of a delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteFlags {
    pub force: bool,
    /// Deletes even if a job runs.
    pub kill: bool,
    /// Skips GitHub, which refuses the App.
    pub bypass: bool,
}

/// What a person adds to an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub reason: Option<String>,
    /// The name that the audit trail records.
    pub by: Option<String>,
    /// Length of a pause; `None`: until someone resumes.
    pub length: Option<Seconds>,
}

/// Whether an order needs a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Required,
    Optional,
    /// Not recorded.
    None,
}

/// The confirmation that an order requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Risk<'a> {
    /// It can be undone at once: the terminal does not ask.
    None,
    /// A yes.
    Confirm,
    /// The name, typed: a job, a machine or a registration may be lost.
    Type(&'a str),
}

/// A query that a plan needs besides the dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    Overview,
    Instance(InstanceName),
    DeadLetters,
    Github(AppName),
}

impl HookAction {
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

    fn request(self, app: AppName, by: Option<String>) -> GithubRequest {
        let (hook, rotate) = match self {
            Self::Test => (Some(HookOrder::Test), None),
            Self::Set => (Some(HookOrder::Set), None),
            Self::Remove => (Some(HookOrder::Remove), None),
            Self::Rotate => (None, Some(Rotated::WebhookSecret)),
        };
        GithubRequest { app, hook, rotate, by, ..GithubRequest::default() }
    }
}

impl DeleteFlags {
    pub const PLAIN: Self = Self { force: false, kill: false, bypass: false };
    pub const FORCE: Self = Self { force: true, ..Self::PLAIN };
    pub const KILL: Self = Self { kill: true, ..Self::PLAIN };
    pub const BYPASS: Self = Self { bypass: true, ..Self::PLAIN };
}

impl Switched {
    /// Parses a name from the command line; `None` if it is not the name of a pool either.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "launches" => Some(Self::Launches),
            "deletes" => Some(Self::Deletes),
            pool => pool.parse().ok().map(Self::Pool),
        }
    }

    /// Returns its name on the command line.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Launches => "launches",
            Self::Deletes => "deletes",
            Self::Pool(name) => name.as_str(),
        }
    }

    fn title(&self) -> String {
        match self {
            Self::Launches | Self::Deletes => self.as_str().to_owned(),
            Self::Pool(name) => format!("pool {name}"),
        }
    }
}

impl Order {
    /// Returns its name as a heading and as a question.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::Switch { what, to } => {
                let verb = if *to == To::Off { "Pause" } else { "Resume" };
                let what: Vec<String> = what.iter().map(Switched::title).collect();
                format!("{verb} {}", what.join(", "))
            }
            Self::Delete { name, flags: DeleteFlags { kill: true, .. } } => {
                format!("Kill the job of {name}")
            }
            Self::Delete { name, flags: DeleteFlags { force: true, .. } } => {
                format!("Delete {name} by force")
            }
            Self::Delete { name, flags: DeleteFlags { bypass: true, .. } } => {
                format!("Delete {name} without GitHub")
            }
            Self::Delete { name, .. } => format!("Delete {name}"),
            Self::Apply { .. } => "Apply the pool file".to_owned(),
            Self::Restore { version } => format!("Restore version {version} of the pools"),
            Self::Canary { pool: Some(pool), .. } => {
                format!("Launch a test machine in pool {pool}")
            }
            Self::Canary { pool: None, .. } => "Launch a test machine".to_owned(),
            Self::Redrive { queue } => format!("Redrive the dead letters of {}", queue.name()),
            Self::Hook(HookAction::Test, _) => "Redeliver GitHub's newest delivery".to_owned(),
            Self::Hook(HookAction::Set, _) => "Point the webhook at this stack".to_owned(),
            Self::Hook(HookAction::Rotate, _) => "Rotate the webhook secret".to_owned(),
            Self::Hook(HookAction::Remove, _) => "Remove the webhook".to_owned(),
            Self::Adopt { repository } => format!("Import jobs of {repository}"),
            Self::Image { what, family } => image_title(*what, family.as_ref()),
        }
    }

    /// Returns whether its reason is recorded.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Switch { to: To::Off, .. } | Self::Delete { .. } => Reason::Required,
            Self::Apply { .. } | Self::Restore { .. } | Self::Image { .. } => Reason::Optional,
            Self::Switch { to: To::On, .. }
            | Self::Canary { .. }
            | Self::Redrive { .. }
            | Self::Adopt { .. }
            | Self::Hook(..) => Reason::None,
        }
    }

    /// Returns the confirmation that it requires.
    #[must_use]
    pub fn risk(&self) -> Risk<'_> {
        match self {
            Self::Delete { name, flags } if *flags != DeleteFlags::PLAIN => {
                Risk::Type(name.as_str())
            }
            Self::Delete { .. }
            | Self::Apply { .. }
            | Self::Restore { .. }
            | Self::Canary { .. }
            | Self::Redrive { .. }
            | Self::Hook(HookAction::Rotate | HookAction::Remove, _)
            | Self::Image {
                what: ImageOrder::Off | ImageOrder::Rollback | ImageOrder::Delete,
                ..
            } => Risk::Confirm,
            Self::Switch { .. }
            | Self::Adopt { .. }
            | Self::Image { what: ImageOrder::On | ImageOrder::Build, .. }
            | Self::Hook(HookAction::Test | HookAction::Set, _) => Risk::None,
        }
    }

    /// Returns the query that its plan needs, apart from the dry run.
    #[must_use]
    pub fn lookup(&self) -> Option<Lookup> {
        match self {
            Self::Switch { .. } => Some(Lookup::Overview),
            Self::Delete { name, .. } => Some(Lookup::Instance(name.clone())),
            Self::Redrive { .. } => Some(Lookup::DeadLetters),
            Self::Hook(_, app) => Some(Lookup::Github(*app)),
            Self::Apply { .. }
            | Self::Restore { .. }
            | Self::Canary { .. }
            | Self::Adopt { .. }
            | Self::Image { .. } => None,
        }
    }

    /// Returns the message about what the audit trail records of an order without a reason.
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
            Self::Hook(HookAction::Test, _) => {
                "It does not change the App, and the audit trail does not record it."
            }
            Self::Switch { .. }
            | Self::Delete { .. }
            | Self::Apply { .. }
            | Self::Restore { .. }
            | Self::Canary { .. }
            | Self::Hook(..)
            | Self::Image { .. } => "The audit trail records who ordered it.",
        }
    }

    /// Returns the function's request; `None` for an order that goes to SQS.
    #[must_use]
    pub fn request(&self, details: &Details) -> Option<Value> {
        Some(json!(self.typed_request(details, false)?))
    }

    /// Returns the request for its dry run; `None` if the function has none for it.
    #[must_use]
    pub fn dry_run(&self, by: Option<&str>) -> Option<Value> {
        let has_one = match self {
            Self::Delete { .. }
            | Self::Apply { .. }
            | Self::Restore { .. }
            | Self::Canary { .. }
            | Self::Image { .. } => true,
            Self::Switch { .. } | Self::Redrive { .. } | Self::Adopt { .. } | Self::Hook(..) => {
                false
            }
        };
        let reason = Some("a dry run".to_owned());
        let details = Details { reason, by: by.map(str::to_owned), length: None };
        has_one.then(|| json!(self.typed_request(&details, true)))
    }

    fn typed_request(&self, details: &Details, dry_run: bool) -> Option<Request> {
        let Details { reason, by, length } = details.clone();
        let images = ImagesRequest {
            dry_run,
            reason: reason.clone(),
            by: by.clone(),
            ..ImagesRequest::default()
        };
        let pools = PoolsRequest { dry_run, reason, by: by.clone(), ..PoolsRequest::default() };
        let reason = details.reason.clone().unwrap_or_default();
        Some(match self {
            Self::Redrive { .. } => return None,
            Self::Hook(hook, app) => Request::Github(hook.request(*app, by)),
            Self::Adopt { repository } => Request::Jobs(JobsRequest {
                limit: MOST,
                adopt: true,
                repository: Some(repository.clone()),
                ..JobsRequest::default()
            }),
            Self::Switch { what, to } => {
                let mut request = SwitchRequest {
                    for_seconds: length,
                    launches: None,
                    deletes: None,
                    pools: [].into(),
                    reason,
                    by,
                };
                for what in what {
                    match what {
                        Switched::Launches => request.launches = Some(*to),
                        Switched::Deletes => request.deletes = Some(*to),
                        Switched::Pool(name) => _ = request.pools.insert(name.clone(), *to),
                    }
                }
                Request::Switch(request)
            }
            Self::Delete { name, flags } => Request::Delete(DeleteRequest {
                name: name.to_string(),
                reason,
                by,
                force: flags.force,
                bypass_github_unauthorized: flags.bypass,
                kill_running_job: flags.kill,
                dry_run,
            }),
            Self::Apply { file } => {
                Request::Pools(PoolsRequest { file: Some(file.clone()), ..pools })
            }
            Self::Restore { version } => {
                Request::Pools(PoolsRequest { restore: Some(*version), ..pools })
            }
            Self::Image { what, family } => Request::Images(ImagesRequest {
                order: Some(*what),
                family: family.clone(),
                ..images
            }),
            Self::Canary { pool, entity, template_image } => Request::Canary(CanaryRequest {
                pool: pool.clone(),
                entity: entity.clone(),
                template_image: *template_image,
                by,
                dry_run,
            }),
        })
    }

    /// Returns the equivalent command line.
    #[must_use]
    pub fn command(&self) -> String {
        let order = match self {
            Self::Switch { what, to } => {
                let verb = if *to == To::Off { "pause" } else { "resume" };
                let what: Vec<&str> = what.iter().map(Switched::as_str).collect();
                format!("{verb} {}", what.join(" "))
            }
            Self::Delete { name, flags: DeleteFlags { force, kill, bypass } } => {
                let flags = [
                    (force, " --force"),
                    (kill, " --kill-running-job"),
                    (bypass, " --bypass-github-unauthorized"),
                ];
                let flags = flags.iter().filter(|(given, _)| **given).map(|(_, flag)| *flag);
                format!("delete {name}{}", flags.collect::<String>())
            }
            Self::Apply { .. } => "pools apply FILE".to_owned(),
            Self::Restore { version } => format!("pools restore {version}"),
            Self::Redrive { queue } => format!("dead-letters {} --redrive", queue.name()),
            Self::Hook(HookAction::Rotate, _) => "github rotate".to_owned(),
            Self::Hook(hook, AppName::MAIN) => format!("github hook {}", hook.as_str()),
            Self::Hook(hook, app) => format!("github --app {app} hook {}", hook.as_str()),
            Self::Adopt { repository } => format!("jobs --adopt {repository}"),
            Self::Image { what, family } => {
                let family = family.iter().map(|family| format!(" --family {family}"));
                format!("image {}{}", image_word(*what), family.collect::<String>())
            }
            Self::Canary { pool, entity, template_image } => {
                let pool = pool.iter().map(|pool| format!(" --pool {pool}"));
                let entity = entity.iter().map(|entity| format!(" --entity {entity}"));
                let image = template_image.then(|| " --template-image".to_owned());
                format!("doctor --canary{}", pool.chain(entity).chain(image).collect::<String>())
            }
        };
        let why = if self.reason() == Reason::None { "" } else { " --reason \"…\"" };
        format!("muster {order}{why}")
    }
}

/// All orders about images, in display order.
pub(crate) const IMAGE_ORDERS: [ImageOrder; 5] =
    [ImageOrder::On, ImageOrder::Off, ImageOrder::Build, ImageOrder::Rollback, ImageOrder::Delete];

/// Returns its word in a form and on the command line.
pub(crate) const fn image_word(what: ImageOrder) -> &'static str {
    match what {
        ImageOrder::On => "on",
        ImageOrder::Off => "off",
        ImageOrder::Build => "build",
        ImageOrder::Rollback => "rollback",
        ImageOrder::Delete => "delete",
    }
}

fn image_title(what: ImageOrder, family: Option<&FamilyKey>) -> String {
    let of = family.map(|family| format!(" of {family}")).unwrap_or_default();
    match (what, family) {
        (ImageOrder::On, _) => "Turn images on".to_owned(),
        (ImageOrder::Off, _) => "Turn images off".to_owned(),
        (ImageOrder::Build, Some(family)) => format!("Build an image for {family}"),
        (ImageOrder::Build, None) => "Build an image for each family".to_owned(),
        (ImageOrder::Rollback, _) => format!("Go back to the previous image{of}"),
        (ImageOrder::Delete, Some(_)) => format!("Delete the images{of}"),
        (ImageOrder::Delete, None) => "Delete all images".to_owned(),
    }
}
