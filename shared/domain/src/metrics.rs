//! The names of all metrics. The template's alarms use the same names, and a test holds the two together.

/// The CloudWatch namespace.
pub const NAMESPACE: &str = "Muster";
/// The one dimension of every metric: its value is the stack's name.
pub const DIMENSION: &str = "Stack";

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Age of the oldest row in `pending_delete`, `pending_force_delete` or `deleting`, seconds.
    OldestPendingDeleteAgeSeconds,
    /// Age of the oldest queued job of a pool that no runner has taken, seconds.
    OldestQueuedJobAgeSeconds,
    /// A sweep ran to its end.
    ReaperTick,
    /// A delete with force, or of a running job, was ordered.
    ForceUsed,
    /// Machines in the orphan ledger.
    Orphans,
    /// Launch slots that EC2 refused.
    LaunchFailed,
    /// Entities whose GitHub credentials are refused.
    EntitiesUnhealthy,
    /// Jobs given up because GitHub has long cancelled them.
    JobsExpired,
    /// Records or messages that this version cannot read.
    UnknownRecords,
    /// Machines ended because they were older than their pool allows.
    MaxLifetimeKills,
    /// How long something has been switched off, seconds.
    SwitchedOffSeconds,
    /// A comparison with EC2 found more machines without a record than it may end.
    BlastRadius,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 12] = [
        Self::OldestPendingDeleteAgeSeconds,
        Self::OldestQueuedJobAgeSeconds,
        Self::ReaperTick,
        Self::ForceUsed,
        Self::Orphans,
        Self::LaunchFailed,
        Self::EntitiesUnhealthy,
        Self::JobsExpired,
        Self::UnknownRecords,
        Self::MaxLifetimeKills,
        Self::SwitchedOffSeconds,
        Self::BlastRadius,
    ];

    /// The name in CloudWatch.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OldestPendingDeleteAgeSeconds => "OldestPendingDeleteAgeSeconds",
            Self::OldestQueuedJobAgeSeconds => "OldestQueuedJobAgeSeconds",
            Self::ReaperTick => "ReaperTick",
            Self::ForceUsed => "ForceUsed",
            Self::Orphans => "Orphans",
            Self::LaunchFailed => "LaunchFailed",
            Self::EntitiesUnhealthy => "EntitiesUnhealthy",
            Self::JobsExpired => "JobsExpired",
            Self::UnknownRecords => "UnknownRecords",
            Self::MaxLifetimeKills => "MaxLifetimeKills",
            Self::SwitchedOffSeconds => "SwitchedOffSeconds",
            Self::BlastRadius => "BlastRadius",
        }
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
