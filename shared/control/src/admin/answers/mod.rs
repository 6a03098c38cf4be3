//! What an operator is answered, as JSON.

mod audit;
mod github;
mod listings;
mod orders;
mod phases;
mod pools;
mod status;
mod usage;
mod wants;

use serde::{Serialize, Serializer};

pub use self::audit::AuditList;
pub use self::github::{
    RepositoryList, ShownApp, ShownDelivery, ShownGithub, ShownHook, ShownInstallation,
    ShownRepository, TestedDelivery, TestedHook,
};
pub use self::listings::{
    AdoptedJobs, ExplainedInstance, ExplainedJob, InstanceList, InstanceSummary, JobList, More,
    RanJob, ShownInstance, ShownRunner, UnservedJob, WaitingJob,
};
pub use self::orders::{DeleteDryRun, OrderedCanary, OrderedDelete, ShownSwitches, SwitchedNow};
pub use self::phases::{PhaseList, PoolPhases};
pub use self::pools::{AppliedPools, PoolsHistory, ShownPools};
pub use self::status::{
    AgentsStatus, AppStatus, EndingStatus, EntityStatus, ImageAgent, LimitStatus, Note,
    OrphanStatus, Overview, PoolStatus, RefusedEnds, StackStatus, UnservedJobs,
};
pub use self::usage::{CostsList, CostsOfDay, CostsRow, LineList, WaitsAt, WaitsList, WaitsRow};
pub use self::wants::{Place, Severity, Want};
use super::error::AdminError;
use super::request::VERSION;

/// An answer. Its fields stand beside `version` and `ok` in the JSON. Who asked knows which of the types to read it as:
/// each of them is read back from its own JSON.
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
    /// To `pools` that names nothing.
    Pools(ShownPools),
    /// To `pools` with `history`.
    PoolsHistory(PoolsHistory),
    /// To `pools` with a file or a version, dry runs included.
    Applied(AppliedPools),
    /// To `audit`.
    Audit(AuditList),
    /// To `switch`.
    Switch(SwitchedNow),
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

/// All that a caller gets. An error stands as `error` in the JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The answer, or why there is none.
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
        struct Fields<'a> {
            version: u64,
            ok: bool,
            #[serde(flatten)]
            body: ReplyBody<'a>,
        }
        let body = match &self.outcome {
            Ok(answer) => ReplyBody::Answer(answer),
            Err(error) => ReplyBody::Error { error },
        };
        Fields { version: VERSION, ok: self.outcome.is_ok(), body }.serialize(serializer)
    }
}
