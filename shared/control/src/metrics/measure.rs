//! Metric values that a pass publishes to CloudWatch.

use muster_domain::ids::PoolName;
use muster_domain::launch::verdict::WaitReason;

use super::{Dimensions, Metric};
use crate::Settings;

/// Maximum number of pools with their own name in CloudWatch, in the order of the pool file. Each
/// adds the cost of its metrics.
pub const MAX_POOLS: usize = 20;
/// The name under which all other pools are published.
pub const OTHER_POOLS: &str = "other";

/// Which metrics are published: the parameter `Measures`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Measures {
    /// Only metrics with an alarm.
    None,
    /// All of the stack's metrics, but no metrics by pool.
    Stack,
    /// All metrics.
    #[default]
    Pools,
}

impl Measures {
    /// Whether a metric is published with these dimensions.
    #[must_use]
    pub fn keeps(self, metric: Metric, by: Dimensions) -> bool {
        match (self, by) {
            (Self::None, Dimensions::Stack) => metric.is_watched(),
            (Self::None, Dimensions::Pool | Dimensions::Reason)
            | (Self::Stack, Dimensions::Pool) => false,
            (Self::Stack, Dimensions::Stack | Dimensions::Reason) | (Self::Pools, _) => true,
        }
    }
}

/// The subject of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricSubject {
    /// The stack.
    Stack,
    /// A pool, by the name that [`pool`] returns.
    Pool(String),
    /// A reason for waiting.
    Reason(WaitReason),
}

impl MetricSubject {
    /// Whether a value of this subject has these dimensions.
    #[must_use]
    pub const fn has(&self, by: Dimensions) -> bool {
        match by {
            Dimensions::Stack => true,
            Dimensions::Pool => matches!(self, Self::Pool(_)),
            Dimensions::Reason => matches!(self, Self::Reason(_)),
        }
    }
}

/// Returns a pool's name in CloudWatch.
#[must_use]
pub fn pool(settings: &Settings, name: &PoolName) -> MetricSubject {
    let is_named = settings.pools.iter().take(MAX_POOLS).any(|pool| pool.name == *name);
    MetricSubject::Pool(if is_named { name.to_string() } else { OTHER_POOLS.to_owned() })
}

/// Number of receives from which a message counts as failing. Retries follow after 5 and 10
/// seconds, so an error that disappears within 15 seconds is not counted.
const FAILING_RECEIVES: u32 = 3;

/// Whether a message that failed again on its `receives`th receive counts as failing.
#[must_use]
pub const fn keeps_failing(receives: u32) -> bool {
    receives >= FAILING_RECEIVES
}

/// Values of a metric: one, or a distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The metric.
    pub metric: Metric,
    /// The subject.
    pub of: MetricSubject,
    /// The values, in no order.
    pub values: Vec<f64>,
}

impl Measure {
    /// Creates a value for the stack.
    #[must_use]
    pub fn new(metric: Metric, value: f64) -> Self {
        Self::of(MetricSubject::Stack, metric, value)
    }

    /// Creates a value for a subject.
    #[must_use]
    pub fn of(of: MetricSubject, metric: Metric, value: f64) -> Self {
        Self { metric, of, values: vec![value] }
    }

    /// Creates a value from a count.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn count(metric: Metric, count: usize) -> Self {
        Self::new(metric, count as f64)
    }

    /// Creates the number of failing messages. `None` for zero, so that an idle stack publishes no
    /// metric.
    #[must_use]
    pub fn failing(messages: usize) -> Option<Self> {
        (messages > 0).then(|| Self::count(Metric::MessagesFailing, messages))
    }

    /// Creates the number of API calls that GitHub still allows this hour.
    #[must_use]
    pub fn calls_left(left: u32) -> Self {
        Self::new(Metric::GitHubCallsLeft, f64::from(left))
    }

    /// Creates a value of 1 or 0.
    #[must_use]
    pub fn flag(metric: Metric, is_so: bool) -> Self {
        Self::new(metric, if is_so { 1.0 } else { 0.0 })
    }
}
