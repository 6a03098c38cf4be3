//! The names, units and dimensions of all metrics. The template's alarms and dashboard use the same
//! names, and tests compare them.
//!
//! CloudWatch bills each combination of a name and dimension values as a metric. So dimensions have
//! few values: never a repository, a workflow or a job, which belong in usage records.

mod emf;
mod measure;

use muster_domain::ec2::ErrorClass;
use strum::{EnumMessage as _, VariantArray as _};

pub use self::emf::lines;
pub use self::measure::{
    MAX_POOLS, Measure, Measures, MetricSubject, OTHER_POOLS, keeps_failing, pool,
};

/// The CloudWatch namespace.
pub const NAMESPACE: &str = "Muster";
/// The dimension of every metric, with the stack's name as value.
pub const DIMENSION: &str = "Stack";
/// The second dimension of a pool's metrics, with the pool's name as value.
pub const POOL_DIMENSION: &str = "Pool";
/// The second dimension of counts by reason.
pub const REASON_DIMENSION: &str = "Reason";

/// The dimensions of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::VariantArray)]
pub enum Dimensions {
    /// Only the stack.
    Stack,
    /// The stack and a pool.
    Pool,
    /// The stack and a reason from a fixed list.
    Reason,
}

impl Dimensions {
    /// Returns the dimensions' names in CloudWatch.
    #[must_use]
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Stack => &[DIMENSION],
            Self::Pool => &[DIMENSION, POOL_DIMENSION],
            Self::Reason => &[DIMENSION, REASON_DIMENSION],
        }
    }
}

/// A metric. The documentation of each variant is its description in docs/metrics.md.
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
    /// Age of the oldest instance that is being deleted or whose reap pass is overdue.
    OldestPendingDeleteAgeSeconds,
    /// Age of the oldest queued job of a pool that has no runner yet.
    OldestQueuedJobAgeSeconds,
    /// Queued jobs that no pool serves and that have waited for half an hour.
    JobsUnserved,
    /// Jobs that GitHub assigned to a runner whose pool does not serve their repository. Not run.
    JobsRefused,
    /// Sweeps that completed.
    ReaperTick,
    /// Messages in any queue that failed three times or more, or that cannot be parsed.
    MessagesFailing,
    /// Machines in the orphan ledger.
    Orphans,
    /// Launch slots that EC2 refused.
    LaunchFailed,
    /// Entities for which GitHub refuses Muster's credentials.
    EntitiesUnhealthy,
    /// How long launches, deletes or a pool have been paused.
    SwitchedOffSeconds,
    /// Whether a comparison with EC2 found more orphans than it is allowed to terminate.
    BlastRadius,
    /// Launch calls that EC2 throttled.
    LaunchThrottled,
    /// Launch calls for which EC2 lacked some or all of the capacity.
    LaunchNoCapacity,
    /// Launch calls that exceeded a quota of the account; the affected types pause for a while.
    LaunchOverQuota,
    /// Launch calls that EC2 refused as invalid.
    LaunchMisconfigured,
    /// Launch calls that EC2 refused as unauthorized.
    LaunchDenied,
    /// Launch calls that named a resource which EC2 does not show yet.
    LaunchNotYetVisible,
    /// Launch calls whose outcome is unknown.
    LaunchUnanswered,
    /// Pools whose launches EC2 refuses as invalid or unauthorized.
    PoolsRefused,
    /// Pools whose last machines never ran a job, so that one machine at a time is launched.
    PoolsInTrouble,
    /// Consecutive machines of a pool that never ran a job.
    MachinesServedNothing,
    /// Failed webhook deliveries that Muster asked GitHub to redeliver.
    WebhooksRedelivered,
    /// Signed webhook deliveries of jobs that this version cannot parse.
    WebhooksUnreadable,
    /// Each job's wait, from when it could have had a runner to when it got one.
    JobWaitSeconds,
    /// Each machine's start, from EC2's launch to a listening agent.
    MachineStartSeconds,
    /// Queued jobs of a pool that have no runner yet.
    JobsWaiting,
    /// Jobs that wait for an approval on GitHub; at most a hundred are counted.
    JobsGated,
    /// Live instances, by the pool's counter.
    MachinesLive,
    /// Machines that report a running job; every five minutes.
    MachinesBusy,
    /// Cost per hour of the machines that EC2 lists, at known prices; every five minutes.
    DollarsAnHour,
    /// Machines that EC2 lists without a known price; every five minutes.
    MachinesUnpriced,
    /// Jobs that the end of their machine cut short.
    JobsInterrupted,
    /// Jobs that Muster re-ran because EC2 took their machine.
    JobsRerun,
    /// Machines that were launched for a job and never ran one.
    MachinesInVain,
    /// Builds of machine images that failed in a row, for the family with the most.
    ImageBuildsFailed,
    /// The lowest number of API calls left this hour that GitHub has reported.
    GitHubCallsLeft,
}

impl Metric {
    /// All metrics.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the metric that counts launch calls with an answer of this class. `None` for a class
    /// that a launch does not get, or gets only if its client token was used before.
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

    /// Returns the name in CloudWatch.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the description, one sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.get_documentation().unwrap_or_default()
    }

    /// Returns CloudWatch's unit.
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

    /// Returns the sets of dimensions under which each value is published.
    #[must_use]
    pub const fn dimensions(self) -> &'static [Dimensions] {
        match self {
            Self::JobWaitSeconds
            | Self::JobsInterrupted
            | Self::JobsRerun
            | Self::MachinesInVain => &[Dimensions::Stack, Dimensions::Pool],
            Self::MachineStartSeconds
            | Self::MachinesLive
            | Self::MachinesBusy
            | Self::MachinesServedNothing => &[Dimensions::Pool],
            Self::JobsWaiting => &[Dimensions::Pool, Dimensions::Reason],
            _ => &[Dimensions::Stack],
        }
    }

    /// Whether an alarm watches the metric with only the stack's dimension. Other metrics are for
    /// dashboards and can be turned off.
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
            | Self::ImageBuildsFailed
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
            | Self::JobsRerun
            | Self::GitHubCallsLeft => false,
        }
    }
}

#[cfg(test)]
mod tests;
