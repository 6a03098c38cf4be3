//! The names of all metrics. The template's alarms use the same names, and a test holds the two
//! together.

use muster_domain::ec2::ErrorClass;
use strum::VariantArray as _;

/// The CloudWatch namespace.
pub const NAMESPACE: &str = "Muster";
/// The dimension of every metric: its value is the stack's name.
pub const DIMENSION: &str = "Stack";
/// The second dimension of a pool's metrics: its value is the pool's name.
pub const POOL_DIMENSION: &str = "Pool";

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
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
    /// Machines of a pool in a row that served nothing. Filed by pool.
    MachinesServedNothing,
    /// Webhook deliveries that had failed, and that GitHub was asked to repeat.
    WebhooksRedelivered,
    /// Signed webhook deliveries of a job that this version cannot read.
    WebhooksUnreadable,
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

    /// CloudWatch's unit.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::OldestPendingDeleteAgeSeconds
            | Self::OldestQueuedJobAgeSeconds
            | Self::SwitchedOffSeconds => "Seconds",
            _ => "Count",
        }
    }
}
