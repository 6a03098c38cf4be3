//! What an operator can ask, as JSON.

use std::collections::BTreeMap;

use muster_domain::ids::{Entity, JobKey, PoolName};
use muster_domain::instance::State;
use muster_domain::text::first;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{By, Date, OwnPrices};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{AdminError, AdminErrorCode};
use crate::hidden::Hidden;

/// The version of requests and answers.
pub const VERSION: u64 = 1;
/// Shortest reason of an order, characters.
const MIN_REASON: usize = 5;
/// How many characters of who and why are kept: both go into records.
const KEPT: [(&str, usize); 2] = [("by", 100), ("reason", 1000)];

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Live instances.
    List(ListRequest),
    /// One instance, whole, with its audit trail.
    Show {
        /// Its name, or its machine's id.
        name: String,
        /// GitHub is asked about its runner.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        github: bool,
    },
    /// How long machines take from phase to phase.
    Phases {
        /// Of this pool only.
        #[serde(default)]
        pool: Option<PoolName>,
    },
    /// Orders a delete.
    Delete(DeleteRequest),
    /// Has a machine launched that no job needs.
    Canary(CanaryRequest),
    /// Waiting jobs.
    Jobs(JobsRequest),
    /// Why a job or an instance is where it is.
    Explain {
        /// A job key.
        #[serde(default)]
        job: Option<JobKey>,
        /// An instance's name, or its machine's id.
        #[serde(default)]
        name: Option<String>,
    },
    /// The audit trail, newest first.
    Audit(AuditRequest),
    /// What machines cost.
    Costs(CostsRequest),
    /// How long jobs waited.
    Waits(WaitsRequest),
    /// The record of usage, line by line.
    Lines(LinesRequest),
    /// Switches something off or on.
    Switch(SwitchRequest),
    /// Shows, applies or restores the set of pools.
    Pools(PoolsRequest),
    /// The App at GitHub: shows it, makes it, connects one, or sees to its webhook.
    Github(GithubRequest),
    /// The stack in short: for whoever asks often. No call to GitHub, and no record is read to be
    /// counted.
    Overview,
    /// The stack, its pools, entities, orphans and switches.
    Status {
        /// GitHub is asked what is wrong with the App there: some calls, side by side.
        #[serde(default)]
        github: bool,
    },
}

impl Request {
    /// Whether its answer is wrong without the pools in force: it launches, matches jobs, or says why
    /// a job waits.
    pub(super) const fn decides_by_pools(&self) -> bool {
        match self {
            Self::Canary(_) | Self::Explain { job: Some(_), .. } => true,
            Self::Jobs(JobsRequest { adopt, .. }) => *adopt,
            _ => false,
        }
    }
}

/// Which live instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// Of this pool only.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// In this state only.
    #[serde(default)]
    pub state: Option<State>,
    /// Only what has this text, in whatever case: a name, a machine, a job, a type or a zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// At most so many.
    #[serde(default = "usual_limit")]
    pub limit: u32,
    /// `next` of the answer before, with the same request otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

impl Default for ListRequest {
    fn default() -> Self {
        Self { pool: None, state: None, q: None, limit: USUAL_LIMIT, page: None }
    }
}

/// Which jobs that wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobsRequest {
    /// Of this pool only.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// Only what has this text, in whatever case: a repository, a name, a label, an
    /// instance or what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// At most so many.
    #[serde(default = "usual_limit")]
    pub limit: u32,
    /// `next` of the answer before, with the same request otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Takes in what is queued in a repository, for jobs whose event never came.
    #[serde(default)]
    pub adopt: bool,
    /// The repository (`owner/repo`) that `adopt` is about.
    #[serde(default)]
    pub repository: Option<Entity>,
}

impl Default for JobsRequest {
    fn default() -> Self {
        let limit = USUAL_LIMIT;
        Self { pool: None, q: None, limit, page: None, adopt: false, repository: None }
    }
}

/// Which lines of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRequest {
    /// Of this subject only: an instance, a machine without one, `switches` or `pools`.
    #[serde(default)]
    pub subject: Option<String>,
    /// None that is older; without it, seven days.
    #[serde(default)]
    pub since: Option<Time>,
    /// None that is newer: `next` of the answer before.
    #[serde(default)]
    pub until: Option<Time>,
    /// At most so many.
    #[serde(default = "usual_limit")]
    pub limit: u32,
}

/// Which costs. Days are those of UTC, both included; without any, a month to today.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostsRequest {
    /// The first day.
    #[serde(default)]
    pub since: Option<Date>,
    /// The last day.
    #[serde(default)]
    pub until: Option<Date>,
    /// What the rows are to be of.
    #[serde(default)]
    pub by: By,
    /// Divides what was idle or in vain over the jobs of the same pool and day, by their time.
    #[serde(default)]
    pub spread: bool,
    /// Of this pool only.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// Of this repository only, `owner/repo`.
    #[serde(default)]
    pub repository: Option<String>,
    /// Prices in the place of AWS's.
    #[serde(default)]
    pub prices: Option<OwnPrices>,
}

/// Which waits. Days as of [`CostsRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitsRequest {
    /// The first day.
    #[serde(default)]
    pub since: Option<Date>,
    /// The last day.
    #[serde(default)]
    pub until: Option<Date>,
    /// Of this pool only.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// The series is by the hour: of three days at most.
    #[serde(default)]
    pub hourly: bool,
}

/// Which lines. Days as of [`CostsRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinesRequest {
    /// The first day.
    #[serde(default)]
    pub since: Option<Date>,
    /// The last day.
    #[serde(default)]
    pub until: Option<Date>,
    /// `next` of the answer before.
    #[serde(default)]
    pub page: Option<String>,
}

/// The `limit` of a listing whose request names none.
const USUAL_LIMIT: u32 = 200;
/// The largest `limit`. What does not fit into Lambda's answer is on the next page.
pub(super) const MAX_LIMIT: u32 = 5_000;

const fn usual_limit() -> u32 {
    USUAL_LIMIT
}

/// What a switch is to be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum To {
    /// As it is without a switch.
    On,
    /// Held back.
    Off,
}

/// The settings of switches; what is not named stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchRequest {
    /// New machines, of every pool.
    #[serde(default)]
    pub launches: Option<To>,
    /// Every delete that is not forced.
    #[serde(default)]
    pub deletes: Option<To>,
    /// New machines of these pools.
    #[serde(default)]
    pub pools: BTreeMap<PoolName, To>,
    /// After how many seconds what is switched off comes on again by itself; without it, when
    /// somebody switches it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<Seconds>,
    /// Why; goes into the audit trail and into every explanation.
    pub reason: String,
    /// Who, as the caller says; goes into the audit trail.
    #[serde(default)]
    pub by: Option<String>,
}

/// What is to be done with the set of pools. Nothing of `file`, `restore` and `history`: show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolsRequest {
    /// The pool file, as text: it becomes the set.
    #[serde(default)]
    pub file: Option<String>,
    /// A version that is to be applied again.
    #[serde(default)]
    pub restore: Option<u64>,
    /// Shows the versions that are kept.
    #[serde(default)]
    pub history: bool,
    /// Says what would change, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Why; goes into the audit trail.
    #[serde(default)]
    pub reason: Option<String>,
    /// Who, as the caller says; goes into the audit trail.
    #[serde(default)]
    pub by: Option<String>,
}

/// What is to be done about the App. Nothing of all these: show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GithubRequest {
    /// GitHub makes the App of a manifest.
    #[serde(default)]
    pub create: Option<CreateApp>,
    /// An App that is there becomes the stack's.
    #[serde(default)]
    pub connect: Option<ConnectApp>,
    /// The App's webhook.
    #[serde(default)]
    pub hook: Option<HookOrder>,
    /// A secret is replaced.
    #[serde(default)]
    pub rotate: Option<Rotated>,
    /// The repositories that the App may see, and what is queued there.
    #[serde(default)]
    pub repositories: bool,
    /// Who, as the caller says; goes into the audit trail.
    #[serde(default)]
    pub by: Option<String>,
}

impl GithubRequest {
    /// Asks for the repositories that the App may see.
    #[must_use]
    pub fn of_repositories() -> Self {
        Self { repositories: true, ..Self::default() }
    }
}

/// The end of GitHub's manifest flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateApp {
    /// What GitHub's page sent back: good once, for an hour.
    pub code: Hidden,
    /// Where GitHub's API is.
    #[serde(default = "usual_api")]
    pub api_url: String,
    /// An App that is kept and still answers is replaced.
    #[serde(default)]
    pub replace: bool,
    /// The account that the App has to belong to; unchecked where it is not given.
    #[serde(default)]
    pub owner: Option<ExpectedOwner>,
}

/// The kind of account that an App has to belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedOwner {
    /// This organization.
    Organization(String),
    /// A personal account: whoever is signed in at GitHub.
    Person,
}

/// An App that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectApp {
    /// Its number or client id.
    pub app_id: AppId,
    /// PEM.
    pub private_key: Hidden,
    /// Where GitHub's API is.
    #[serde(default = "usual_api")]
    pub api_url: String,
}

/// How an App is named: GitHub takes either.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AppId {
    /// Its number.
    Number(u64),
    /// Its client id, or its number as text.
    Text(String),
}

/// What is to be done about the App's webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookOrder {
    /// Show where it sends.
    Show,
    /// Point it at this stack, with the stack's secret.
    Set,
    /// Point it nowhere.
    Remove,
    /// Have the newest delivery repeated, and say how it is answered.
    Test,
}

/// What is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rotated {
    /// The secret that GitHub signs with.
    WebhookSecret,
}

fn usual_api() -> String {
    "https://api.github.com".to_owned()
}

/// A delete order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// The instance's name, or its machine's id.
    pub name: String,
    /// Why; goes into the audit trail.
    pub reason: String,
    /// Who, as the caller says; goes into the audit trail.
    #[serde(default)]
    pub by: Option<String>,
    /// Provider errors do not hold the delete up.
    #[serde(default)]
    pub force: bool,
    /// 401 and 403 from GitHub do not hold the delete up.
    #[serde(default)]
    pub bypass_github_unauthorized: bool,
    /// A running job is killed.
    #[serde(default)]
    pub kill_running_job: bool,
    /// Says what would happen, and does nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// An order of a machine that no job needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryRequest {
    /// The pool; without it, the only one.
    #[serde(default)]
    pub pool: Option<PoolName>,
    /// Where its runner is registered, of a pool that leaves that to its jobs.
    #[serde(default)]
    pub entity: Option<Entity>,
    /// Who, as the caller says; goes into the audit trail.
    #[serde(default)]
    pub by: Option<String>,
    /// Says whether it would be launched, and launches nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Reads a request.
///
/// # Errors
/// What is wrong with it.
pub fn read(request: Value) -> Result<Request, AdminError> {
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
                format!("version {other} is not known; this function speaks version {VERSION}"),
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
        // Whatever else is wrong is told with the value that is.
        let names_a_field =
            ["unknown field", "missing field"].iter().any(|it| told.starts_with(it));
        let told = if may_hold_secrets && !names_a_field { WRONG_VALUE.to_owned() } else { told };
        AdminError::new(AdminErrorCode::BadRequest, told)
    })
}

const WRONG_VALUE: &str = "a value of \"github\" is not of its kind; it takes one of \"create\" {\"code\", \"api_url\", \"replace\"}, \
    \"connect\" {\"app_id\", \"private_key\", \"api_url\"}, \"hook\" (\"show\", \"set\", \"test\" or \"remove\") and \"rotate\" (\"webhook-secret\"), and \"by\"";

/// A reason that says something.
pub(super) fn check_reason(reason: &str) -> Result<&str, AdminError> {
    let reason = reason.trim();
    if reason.chars().count() < MIN_REASON {
        let message = format!("\"reason\" must say why, in {MIN_REASON} characters or more");
        return Err(AdminError::new(AdminErrorCode::BadRequest, message));
    }
    Ok(reason)
}
