//! Values of metrics, as a pass has them for CloudWatch.

use muster_domain::ids::PoolName;
use muster_domain::launch::verdict::WaitReason;

use super::{Dimensions, Metric};
use crate::Settings;

/// Most pools that have a name in CloudWatch, in the order of the pool file. Each costs what its
/// metrics cost.
pub const MAX_POOLS: usize = 20;
/// How all others are filed.
pub const OTHER_POOLS: &str = "other";

/// Which metrics are kept: the parameter `Measures`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Measures {
    /// What alarms watch, and nothing else.
    None,
    /// What the stack has besides, but nothing of each pool.
    Stack,
    /// All.
    #[default]
    Pools,
}

impl Measures {
    /// Whether a metric is filed in this way.
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

/// What a value is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// The stack.
    Stack,
    /// One of its pools, by the name of [`pool`].
    Pool(String),
    /// What waits for one reason.
    Reason(WaitReason),
}

impl Of {
    /// Whether a value of it can be filed in this way.
    #[must_use]
    pub const fn has(&self, by: Dimensions) -> bool {
        match by {
            Dimensions::Stack => true,
            Dimensions::Pool => matches!(self, Self::Pool(_)),
            Dimensions::Reason => matches!(self, Self::Reason(_)),
        }
    }
}

/// The name that a pool has in CloudWatch.
#[must_use]
pub fn pool(settings: &Settings, name: &PoolName) -> Of {
    let is_named = settings.pools.iter().take(MAX_POOLS).any(|pool| pool.name == *name);
    Of::Pool(if is_named { name.to_string() } else { OTHER_POOLS.to_owned() })
}

/// A message counts as failing from this receive on: retries follow after 5 and 10 seconds, so an
/// error that ends by itself within 15 seconds is not counted.
const FAILING_RECEIVES: u32 = 3;

/// Whether a message that was received this often and failed again counts as failing.
#[must_use]
pub const fn keeps_failing(receives: u32) -> bool {
    receives >= FAILING_RECEIVES
}

/// Values of a metric: one, or those of a distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Which metric.
    pub metric: Metric,
    /// What it is of.
    pub of: Of,
    /// In no order.
    pub values: Vec<f64>,
}

impl Measure {
    /// A value of the stack.
    #[must_use]
    pub fn new(metric: Metric, value: f64) -> Self {
        Self::of(Of::Stack, metric, value)
    }

    /// A value of something in it.
    #[must_use]
    pub fn of(of: Of, metric: Metric, value: f64) -> Self {
        Self { metric, of, values: vec![value] }
    }

    /// A number of things.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn count(metric: Metric, count: usize) -> Self {
        Self::new(metric, count as f64)
    }

    /// The number of messages that keep failing; none where there are none, so that an idle stack
    /// reports nothing.
    #[must_use]
    pub fn failing(messages: usize) -> Option<Self> {
        (messages > 0).then(|| Self::count(Metric::MessagesFailing, messages))
    }

    /// What GitHub has left of an hour's calls.
    #[must_use]
    pub fn calls_left(left: u32) -> Self {
        Self::new(Metric::GitHubCallsLeft, f64::from(left))
    }

    /// Whether something is so.
    #[must_use]
    pub fn flag(metric: Metric, is_so: bool) -> Self {
        Self::new(metric, if is_so { 1.0 } else { 0.0 })
    }
}
