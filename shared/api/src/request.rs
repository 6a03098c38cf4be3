//! The admin API's requests, as JSON.

use std::collections::BTreeMap;

use muster_domain::hidden::Hidden;
use muster_domain::ids::{AppName, Entity, FamilyKey, JobKey, PoolName};
use muster_domain::instance::State;
use muster_domain::text::first;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{By, Date, OwnPrices};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{AdminError, AdminErrorCode};

/// The version of requests and responses.
pub const VERSION: u64 = 1;
/// Minimum length of a reason, in characters.
pub const MIN_REASON: usize = 5;
/// Number of characters of `by` and `reason` that are kept, because both are stored in records.
const KEPT: [(&str, usize); 2] = [("by", 100), ("reason", 1000)];

/// A request to the admin function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Lists live instances.
    List(ListRequest),
    /// Shows one instance in full, with its audit trail.
    Show {
        /// The instance's name or its machine's ID.
        name: String,
        /// Also query GitHub for its runner.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        github: bool,
    },
    /// Reports how long machines take from phase to phase.
    Phases {
        /// Only this pool.
        #[serde(default)]
        pool: Option<PoolName>,
    },
    /// Orders a delete.
    Delete(DeleteRequest),
    /// Launches a machine that no job needs.
    Canary(CanaryRequest),
    /// Lists waiting jobs.
    Jobs(JobsRequest),
    /// Explains why a job waits or why an instance is in its state.
    Explain {
        /// A job key.
        #[serde(default)]
        job: Option<JobKey>,
        /// An instance's name or its machine's ID.
        #[serde(default)]
        name: Option<String>,
    },
    /// Returns the audit trail, newest first.
    Audit(AuditRequest),
    /// Returns what machines cost.
    Costs(CostsRequest),
    /// Returns how long jobs waited.
    Waits(WaitsRequest),
    /// Returns the usage records one by one.
    Lines(LinesRequest),
    /// Turns switches off or on.
    Switch(SwitchRequest),
    /// Shows, applies or restores the set of pools.
    Pools(PoolsRequest),
    /// Shows the machine images, or changes them.
    Images(ImagesRequest),
    /// Shows, creates or connects the GitHub App, or manages its webhook.
    Github(GithubRequest),
    /// A summary of the stack for clients that poll. Makes no call to GitHub and reads no record
    /// only to count it.
    Overview,
    /// The stack, its pools, entities, orphans and switches.
    Status {
        /// Also check the App on GitHub for problems, with a few concurrent calls.
        #[serde(default)]
        github: bool,
    },
}

impl Request {
    /// Parses a request.
    ///
    /// # Errors
    /// Returns `bad_version` or `bad_request` with the problem. Values of a `github` request never
    /// appear in the message: they may be secrets.
    pub fn parse(request: Value) -> Result<Self, AdminError> {
        let Value::Object(mut fields) = request else {
            return Err(AdminError::new(
                AdminErrorCode::BadRequest,
                "the request must be a JSON object",
            ));
        };
        match fields.remove("version") {
            Some(version) if version == VERSION => {}
            Some(other) => {
                return Err(AdminError::new(
                    AdminErrorCode::BadVersion,
                    format!(
                        "version {other} is not known; this function supports version {VERSION}"
                    ),
                ));
            }
            None => {
                return Err(AdminError::new(
                    AdminErrorCode::BadVersion,
                    format!("\"version\": {VERSION} is missing"),
                ));
            }
        }
        for (name, most) in KEPT {
            if let Some(Value::String(text)) = fields.get_mut(name) {
                text.truncate(first(text, most).len());
            }
        }
        let may_hold_secrets = fields.get("action").is_some_and(|action| action == "github");
        serde_json::from_value(Value::Object(fields)).map_err(|error| {
            let told = error.to_string();
            // serde quotes the offending value in every other message.
            let names_a_field =
                ["unknown field", "missing field"].iter().any(|it| told.starts_with(it));
            let told =
                if may_hold_secrets && !names_a_field { WRONG_VALUE.to_owned() } else { told };
            AdminError::new(AdminErrorCode::BadRequest, told)
        })
    }

    /// Whether the response would be wrong without the current pools: the request launches, matches
    /// jobs, or explains why a job waits.
    #[must_use]
    pub const fn decides_by_pools(&self) -> bool {
        match self {
            Self::Canary(_) | Self::Explain { job: Some(_), .. } => true,
            Self::Jobs(JobsRequest { adopt, .. }) => *adopt,
            Self::Images(ImagesRequest { order, .. }) => matches!(order, Some(ImageOrder::Build)),
            _ => false,
        }
    }
}

/// Selects live instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// Only this pool.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// Only this state.
    #[serde(default)]
    pub state: Option<State>,
    /// Only instances whose name, machine, job, type or zone contains this text, case-insensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Maximum number of rows.
    #[serde(default = "usual_limit")]
    pub limit: u32,
    /// `next` of the previous page; the rest of the request must be unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

impl Default for ListRequest {
    fn default() -> Self {
        Self { pool: None, state: None, q: None, limit: USUAL_LIMIT, page: None }
    }
}

/// Selects waiting jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobsRequest {
    /// Only this pool.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// Only jobs whose repository, name, label, instance or wait reason contains this text,
    /// case-insensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Maximum number of rows.
    #[serde(default = "usual_limit")]
    pub limit: u32,
    /// `next` of the previous page; the rest of the request must be unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Imports the queued jobs of a repository, for jobs whose webhook event was lost.
    #[serde(default)]
    pub adopt: bool,
    /// The repository (`owner/repo`) for `adopt`.
    #[serde(default)]
    pub repository: Option<Entity>,
}

impl Default for JobsRequest {
    fn default() -> Self {
        let limit = USUAL_LIMIT;
        Self { pool: None, q: None, limit, page: None, adopt: false, repository: None }
    }
}

/// Selects lines of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRequest {
    /// Only this subject: an instance, a machine without one, `switches`, `pools` or `images`.
    #[serde(default)]
    pub subject: Option<String>,
    /// Only lines at or after this time [default: seven days ago].
    #[serde(default)]
    pub since: Option<Time>,
    /// Only lines at or before this time: `next` of the previous response.
    #[serde(default)]
    pub until: Option<Time>,
    /// Maximum number of lines.
    #[serde(default = "usual_limit")]
    pub limit: u32,
}

/// Selects costs. Days are UTC and inclusive [default: the month up to today].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostsRequest {
    /// The first day.
    #[serde(default)]
    pub since: Option<Date>,
    /// The last day.
    #[serde(default)]
    pub until: Option<Date>,
    /// What to group the rows by.
    #[serde(default)]
    pub by: By,
    /// Distributes idle and wasted costs over the jobs of the same pool and day, in proportion to
    /// their duration.
    #[serde(default)]
    pub spread: bool,
    /// Only this pool.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// Only this repository, `owner/repo`.
    #[serde(default)]
    pub repository: Option<String>,
    /// Prices to use instead of AWS's.
    #[serde(default)]
    pub prices: Option<OwnPrices>,
}

/// Selects waits. Days as in [`CostsRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitsRequest {
    /// The first day.
    #[serde(default)]
    pub since: Option<Date>,
    /// The last day.
    #[serde(default)]
    pub until: Option<Date>,
    /// Only this pool.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// Makes the series hourly, for at most three days.
    #[serde(default)]
    pub hourly: bool,
}

/// Selects usage records. Days as in [`CostsRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinesRequest {
    /// The first day.
    #[serde(default)]
    pub since: Option<Date>,
    /// The last day.
    #[serde(default)]
    pub until: Option<Date>,
    /// `next` of the previous response.
    #[serde(default)]
    pub page: Option<String>,
}

/// The default `limit` of a listing.
const USUAL_LIMIT: u32 = 200;
/// The maximum `limit`. Rows beyond Lambda's response size go to the next page.
pub const MAX_LIMIT: u32 = 5_000;

const fn usual_limit() -> u32 {
    USUAL_LIMIT
}

/// The new position of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum To {
    /// Normal operation.
    On,
    /// Paused.
    Off,
}

/// The switches to change; others keep their position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchRequest {
    /// Launches in all pools.
    #[serde(default)]
    pub launches: Option<To>,
    /// Deletes without force.
    #[serde(default)]
    pub deletes: Option<To>,
    /// Launches in these pools.
    #[serde(default)]
    pub pools: BTreeMap<PoolName, To>,
    /// Seconds until the switches that this request turns off turn on again; if absent, they stay
    /// off until an operator turns them on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<Seconds>,
    /// The reason, shown in the audit trail and in every explanation. To turn switches on, none is
    /// needed.
    #[serde(default)]
    pub reason: String,
    /// The operator's name as reported by the caller, for the audit trail.
    #[serde(default)]
    pub by: Option<String>,
}

/// An action on the set of pools. Without `file`, `restore` and `history`, shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolsRequest {
    /// The pool file to apply, as text.
    #[serde(default)]
    pub file: Option<String>,
    /// A version to apply again.
    #[serde(default)]
    pub restore: Option<u64>,
    /// Shows the stored versions.
    #[serde(default)]
    pub history: bool,
    /// Reports what would change without changing anything.
    #[serde(default)]
    pub dry_run: bool,
    /// The reason, for the audit trail.
    #[serde(default)]
    pub reason: Option<String>,
    /// The operator's name as reported by the caller, for the audit trail.
    #[serde(default)]
    pub by: Option<String>,
}

/// An action on the machine images. Without `order`, shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagesRequest {
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<ImageOrder>,
    /// Only this family. A rollback needs it if several families have an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<FamilyKey>,
    /// Reports what would change without changing anything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The reason, for the audit trail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The operator's name as reported by the caller, for the audit trail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// An action on the machine images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageOrder {
    /// Build images, and boot machines from them.
    On,
    /// Build none, and boot machines from the launch template's image. Existing images are kept.
    Off,
    /// Build an image as soon as a machine is available.
    Build,
    /// Go back to the previous image, or without one to the launch template's.
    Rollback,
    /// Delete the images. Without a family, also turns them off.
    Delete,
}

/// An action on an App. Without any of these fields, shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GithubRequest {
    /// The App. A new name makes `create` and `connect` add an App.
    #[serde(default, skip_serializing_if = "is_main")]
    pub app: AppName,
    /// Removes the App, which no pool may use. Never the main App.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove: bool,
    /// Completes GitHub's manifest flow, which creates the App.
    #[serde(default)]
    pub create: Option<CreateApp>,
    /// Makes an existing App the stack's App.
    #[serde(default)]
    pub connect: Option<ConnectApp>,
    /// Shows, sets, removes or tests the App's webhook.
    #[serde(default)]
    pub hook: Option<HookOrder>,
    /// Replaces a secret.
    #[serde(default)]
    pub rotate: Option<Rotated>,
    /// Lists the repositories the App can access and the jobs queued there.
    #[serde(default)]
    pub repositories: bool,
    /// The operator's name as reported by the caller, for the audit trail.
    #[serde(default)]
    pub by: Option<String>,
}

impl GithubRequest {
    /// Returns a request for the repositories the App can access.
    #[must_use]
    pub fn of_repositories() -> Self {
        Self { repositories: true, ..Self::default() }
    }
}

fn is_main(app: &AppName) -> bool {
    *app == AppName::MAIN
}

/// The last step of GitHub's manifest flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateApp {
    /// The code that GitHub's page returned; valid once, for an hour.
    pub code: Hidden,
    /// The base URL of GitHub's API.
    #[serde(default = "usual_api")]
    pub api_url: String,
    /// Replaces the stored App even if it still works.
    #[serde(default)]
    pub replace: bool,
    /// The account that must own the App; not checked if absent.
    #[serde(default)]
    pub owner: Option<ExpectedOwner>,
}

/// The account that must own an App.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedOwner {
    /// This organization.
    Organization(String),
    /// A personal account: the one signed in at GitHub.
    Person,
}

/// An existing App.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectApp {
    /// Its number or client ID.
    pub app_id: AppId,
    /// The private key, as PEM.
    pub private_key: Hidden,
    /// The base URL of GitHub's API.
    #[serde(default = "usual_api")]
    pub api_url: String,
}

/// An App's identifier; GitHub accepts either form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AppId {
    /// The App's number.
    Number(u64),
    /// The client ID, or the number as text.
    Text(String),
}

/// An action on the App's webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookOrder {
    /// Show its address.
    Show,
    /// Point it at this stack, with the stack's secret.
    Set,
    /// Point it at an address that does not exist.
    Remove,
    /// Request redelivery of the newest event and report the response.
    Test,
}

/// A secret that can be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rotated {
    /// The secret that GitHub signs webhook events with.
    WebhookSecret,
}

fn usual_api() -> String {
    "https://api.github.com".to_owned()
}

/// A delete order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// The instance's name or its machine's ID.
    pub name: String,
    /// The reason, for the audit trail.
    pub reason: String,
    /// The operator's name as reported by the caller, for the audit trail.
    #[serde(default)]
    pub by: Option<String>,
    /// Do not wait for provider errors to clear.
    #[serde(default)]
    pub force: bool,
    /// Do not wait for 401 and 403 from GitHub to clear.
    #[serde(default)]
    pub bypass_github_unauthorized: bool,
    /// Delete even if a job is running, which kills it.
    #[serde(default)]
    pub kill_running_job: bool,
    /// Reports what would happen without doing it.
    #[serde(default)]
    pub dry_run: bool,
}

/// An order for a machine that no job needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryRequest {
    /// The pool; optional if there is only one.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// The entity to register the runner with, for a pool that registers each runner where its job
    /// comes from.
    #[serde(default)]
    pub entity: Option<Entity>,
    /// Boots the launch template's image, or the pool's own, instead of one that Muster built: to compare the two.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub template_image: bool,
    /// The operator's name as reported by the caller, for the audit trail.
    #[serde(default)]
    pub by: Option<String>,
    /// Reports whether the machine would be launched without launching it.
    #[serde(default)]
    pub dry_run: bool,
}

const WRONG_VALUE: &str = "a field of \"github\" has the wrong type; the action accepts one of \"create\" {\"code\", \"api_url\", \"replace\"}, \
    \"connect\" {\"app_id\", \"private_key\", \"api_url\"}, \"hook\" (\"show\", \"set\", \"test\" or \"remove\") and \"rotate\" (\"webhook-secret\"), and \"by\"";

/// Returns whether a reason is long enough.
#[must_use]
pub fn is_reason(reason: &str) -> bool {
    reason.trim().chars().count() >= MIN_REASON
}

/// Returns the trimmed reason.
///
/// # Errors
/// `bad_request` if it is too short.
pub fn check_reason(reason: &str) -> Result<&str, AdminError> {
    let reason = reason.trim();
    if !is_reason(reason) {
        let message = format!("\"reason\" must have at least {MIN_REASON} characters");
        return Err(AdminError::new(AdminErrorCode::BadRequest, message));
    }
    Ok(reason)
}
