//! Responses to an operator's requests, as JSON.

mod audit;
mod finding;
mod github;
mod images;
mod listings;
mod orders;
mod phases;
mod pools;
mod status;
mod usage;

use serde::{Serialize, Serializer};

pub use self::audit::AuditList;
pub use self::finding::{Finding, Location, Severity};
pub use self::github::{
    RepositoryList, ShownApp, ShownDelivery, ShownGithub, ShownHook, ShownInstallation,
    ShownRepository, TestedDelivery, TestedHook,
};
pub use self::images::{FamilyStatus, ImageBuildStatus, ImageStatus, ImagesStatus};
pub use self::listings::{
    AdoptedJobs, ExplainedInstance, ExplainedJob, InstanceList, InstanceSummary, JobList, More,
    RanJob, ShownInstance, ShownRunner, UnservedJob, WaitingJob,
};
pub use self::orders::{DeleteDryRun, OrderedCanary, OrderedDelete, ShownSwitches, SwitchedNow};
pub use self::phases::{PhaseList, PoolPhases};
pub use self::pools::{AppliedPools, PoolsHistory, ShownPools};
pub use self::status::{
    AgentsStatus, AppStatus, EndingStatus, EntityStatus, ImageAgent, LimitStatus, Note, NoteKind,
    OrphanStatus, Overview, PoolStatus, RefusedEnds, StackStatus, UnservedJobs,
};
pub use self::usage::{CostsList, CostsOfDay, CostsRow, LineList, WaitsAt, WaitsList, WaitsRow};
use crate::error::AdminError;
use crate::request::VERSION;

/// A response. Its fields are at the same level as `version` and `ok` in the JSON. The requester
/// knows which type to parse; each type can be parsed from its own JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To `list`.
    List(InstanceList),
    /// To `show`.
    Show(Box<ShownInstance>),
    /// To `phases`.
    Phases(PhaseList),
    /// To `jobs`.
    Jobs(JobList),
    /// To `jobs` with `adopt`.
    Adopted(AdoptedJobs),
    /// To `explain` with a job.
    ExplainJob(Box<ExplainedJob>),
    /// To `explain` with an instance or a machine.
    ExplainInstance(ExplainedInstance),
    /// To `overview`.
    Overview(Box<Overview>),
    /// To `status`.
    Status(Box<StackStatus>),
    /// To `pools` without a file, a version or `history`.
    Pools(ShownPools),
    /// To `pools` with `history`.
    PoolsHistory(PoolsHistory),
    /// To `pools` with a file or a version, dry runs included.
    Applied(AppliedPools),
    /// To `audit`.
    Audit(AuditList),
    /// To `switch`.
    Switch(SwitchedNow),
    /// To `images`, orders and dry runs included.
    Images(Box<ImagesStatus>),
    /// To `github`.
    Github(Box<ShownGithub>),
    /// To `github` that tests the webhook.
    TestedHook(TestedHook),
    /// To `github` with `repositories`.
    Repositories(RepositoryList),
    /// To `delete`.
    Delete(OrderedDelete),
    /// To `delete` as a dry run.
    DeleteDryRun(DeleteDryRun),
    /// To `costs`.
    Costs(Box<CostsList>),
    /// To `waits`.
    Waits(WaitsList),
    /// To `lines`.
    Lines(LineList),
    /// To `canary`, dry runs included.
    Canary(Box<OrderedCanary>),
}

/// The complete response to a caller. In the JSON, an error is in the field `error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The response or the error.
    pub outcome: Result<Answer, AdminError>,
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum ReplyBody<'a> {
            Answer(&'a Answer),
            Error { error: &'a AdminError },
        }
        #[derive(Serialize)]
        struct AnswerFields<'a> {
            version: u64,
            ok: bool,
            #[serde(flatten)]
            body: ReplyBody<'a>,
        }
        let body = match &self.outcome {
            Ok(answer) => ReplyBody::Answer(answer),
            Err(error) => ReplyBody::Error { error },
        };
        AnswerFields { version: VERSION, ok: self.outcome.is_ok(), body }.serialize(serializer)
    }
}
