//! The names of all metrics, and how CloudWatch files them. The template's alarms and its dashboard
//! use the same names, and tests hold them together.
//!
//! Each name with each set of dimensions and their values is a metric that is paid for. So what is a
//! dimension is bounded: never a repository, a workflow or a job, which are the record of usage's.

mod measure;

use muster_domain::ec2::ErrorClass;
use strum::{EnumMessage as _, VariantArray as _};

pub use self::measure::{MAX_POOLS, Measure, Measures, OTHER_POOLS, Of, keeps_failing, pool};

/// The CloudWatch namespace.
pub const NAMESPACE: &str = "Muster";
/// The dimension of every metric: its value is the stack's name.
pub const DIMENSION: &str = "Stack";
/// The second dimension of a pool's metrics: its value is the pool's name.
pub const POOL_DIMENSION: &str = "Pool";
/// The second dimension of a count by reasons.
pub const REASON_DIMENSION: &str = "Reason";

/// What a value is filed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::VariantArray)]
pub enum Dimensions {
    /// The stack alone.
    Stack,
    /// The pool.
    Pool,
    /// The reason, of a closed list.
    Reason,
}

impl Dimensions {
    /// The names in CloudWatch.
    #[must_use]
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Stack => &[DIMENSION],
            Self::Pool => &[DIMENSION, POOL_DIMENSION],
            Self::Reason => &[DIMENSION, REASON_DIMENSION],
        }
    }
}

/// A metric. What is written here of each stands in docs/metrics.md.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::EnumMessage,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
pub enum Metric {
    /// Age of the oldest row in `pending_delete`, `pending_force_delete` or `deleting`, seconds.
    OldestPendingDeleteAgeSeconds,
    /// Age of the oldest queued job of a pool that no runner has taken, seconds.
    OldestQueuedJobAgeSeconds,
    /// Queued jobs that no pool serves, and that have waited for half an hour.
    JobsUnserved,
    /// Jobs that GitHub gave to a runner whose pool does not serve their repository. Not run.
    JobsRefused,
    /// A sweep ran to its end.
    ReaperTick,
    /// Messages of any queue that failed three times or more, or that cannot be read.
    MessagesFailing,
    /// Machines in the orphan ledger.
    Orphans,
    /// Launch slots that EC2 refused.
    LaunchFailed,
    /// Entities whose GitHub credentials are refused.
    EntitiesUnhealthy,
    /// How long something has been switched off, seconds.
    SwitchedOffSeconds,
    /// A comparison with EC2 found more machines without a record than it may end.
    BlastRadius,
    /// Launch calls that EC2 throttled.
    LaunchThrottled,
    /// Launch calls for which EC2 lacked capacity, in part or whole.
    LaunchNoCapacity,
    /// Launch calls that met a quota of the account; the market is left alone for a while.
    LaunchOverQuota,
    /// Launch calls that EC2 refused as wrong.
    LaunchMisconfigured,
    /// Launch calls that we may not make.
    LaunchDenied,
    /// Launch calls that named something which EC2 does not show yet.
    LaunchNotYetVisible,
    /// Launch calls of which nobody knows what they did.
    LaunchUnanswered,
    /// Pools whose launches EC2 refuses as wrong or not allowed.
    PoolsRefused,
    /// Pools whose last machines served nothing, so that one at a time is launched.
    PoolsInTrouble,
    /// Machines of a pool in a row that served nothing.
    MachinesServedNothing,
    /// Webhook deliveries that had failed, and that GitHub was asked to repeat.
    WebhooksRedelivered,
    /// Signed webhook deliveries of a job that this version cannot read.
    WebhooksUnreadable,
    /// From when a job could have had a runner to when one took it, of each job.
    JobWaitSeconds,
    /// From EC2's machine to its agent that listens, of each machine.
    MachineStartSeconds,
    /// Queued jobs of a pool that no runner has taken.
    JobsWaiting,
    /// Jobs that wait for an approval at GitHub; a hundred are counted at most.
    JobsGated,
    /// Live instances, by the pool's counter.
    MachinesLive,
    /// Machines at work, by their own word; each five minutes.
    MachinesBusy,
    /// What EC2's list of our machines costs an hour, as far as it has prices; each five minutes.
    DollarsAnHour,
    /// Machines that EC2 lists, and of which no price is known; each five minutes.
    MachinesUnpriced,
    /// Jobs whose machine ended before them.
    JobsInterrupted,
    /// Machines that were bought for a job, and ran none.
    MachinesInVain,
    /// The least that GitHub has left of an hour's calls, as an answer of its said.
    GitHubCallsLeft,
}

impl Metric {
    /// All metrics.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The one that counts launch calls with an answer of this class; none for those that no launch
    /// gets, or only one whose token was used before.
    #[must_use]
    pub const fn for_refusal(class: ErrorClass) -> Option<Self> {
        Some(match class {
            ErrorClass::Throttle => Self::LaunchThrottled,
            ErrorClass::Capacity => Self::LaunchNoCapacity,
            ErrorClass::Quota => Self::LaunchOverQuota,
            ErrorClass::Configuration => Self::LaunchMisconfigured,
            ErrorClass::Authorization => Self::LaunchDenied,
            ErrorClass::Consistency => Self::LaunchNotYetVisible,
            ErrorClass::Ambiguous => Self::LaunchUnanswered,
            ErrorClass::Idempotency | ErrorClass::Blocked => return None,
        })
    }

    /// The name in CloudWatch.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What it is, in a sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.get_documentation().unwrap_or_default()
    }

    /// CloudWatch's unit.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::OldestPendingDeleteAgeSeconds
            | Self::OldestQueuedJobAgeSeconds
            | Self::SwitchedOffSeconds
            | Self::JobWaitSeconds
            | Self::MachineStartSeconds => "Seconds",
            Self::DollarsAnHour => "None",
            _ => "Count",
        }
    }

    /// How it is filed: once for each of these.
    #[must_use]
    pub const fn dimensions(self) -> &'static [Dimensions] {
        match self {
            Self::JobWaitSeconds | Self::JobsInterrupted | Self::MachinesInVain => {
                &[Dimensions::Stack, Dimensions::Pool]
            }
            Self::MachineStartSeconds
            | Self::MachinesLive
            | Self::MachinesBusy
            | Self::MachinesServedNothing => &[Dimensions::Pool],
            Self::JobsWaiting => &[Dimensions::Pool, Dimensions::Reason],
            _ => &[Dimensions::Stack],
        }
    }

    /// Whether an alarm watches it, filed by the stack alone. The others are shown, and may be
    /// turned off.
    #[must_use]
    pub const fn is_watched(self) -> bool {
        match self {
            Self::OldestPendingDeleteAgeSeconds
            | Self::OldestQueuedJobAgeSeconds
            | Self::JobsUnserved
            | Self::JobsRefused
            | Self::ReaperTick
            | Self::MessagesFailing
            | Self::Orphans
            | Self::LaunchFailed
            | Self::EntitiesUnhealthy
            | Self::SwitchedOffSeconds
            | Self::BlastRadius
            | Self::LaunchOverQuota
            | Self::PoolsRefused
            | Self::PoolsInTrouble
            | Self::WebhooksRedelivered
            | Self::WebhooksUnreadable
            | Self::JobWaitSeconds
            | Self::DollarsAnHour
            | Self::MachinesInVain => true,
            Self::LaunchThrottled
            | Self::LaunchNoCapacity
            | Self::LaunchMisconfigured
            | Self::LaunchDenied
            | Self::LaunchNotYetVisible
            | Self::LaunchUnanswered
            | Self::MachinesServedNothing
            | Self::MachineStartSeconds
            | Self::JobsWaiting
            | Self::JobsGated
            | Self::MachinesLive
            | Self::MachinesBusy
            | Self::MachinesUnpriced
            | Self::JobsInterrupted
            | Self::GitHubCallsLeft => false,
        }
    }
}

#[cfg(test)]
mod tests;
