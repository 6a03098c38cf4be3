//! The pool that a stack has before any pool file is applied.

use std::sync::Arc;

use super::{MarketPolicy, Pool};
use crate::job::labels::{LabelRows, Labels};

/// Instance types in order of preference, all for the launch template's processor. Accounts on the
/// AWS free plan can launch only the first.
const TYPES: [&str; 5] = ["m7i-flex.large", "m7i.large", "m7a.large", "m6i.large", "m6a.large"];

impl Pool {
    /// The device of the launch template's disk: the root device of its image, Ubuntu.
    pub const TEMPLATE_DEVICE: &str = "/dev/sda1";
    /// The default size of that disk, in GiB. A pool can override it.
    pub const TEMPLATE_DISK_GIB: u32 = 40;

    /// Creates the pool that a stack has before any pool file is applied. Its label is the stack's
    /// name, so that no two stacks of an organization serve the same job.
    #[must_use]
    pub fn built_in(stack: &str, subnets: Vec<Arc<str>>, max: u32) -> Self {
        Self {
            labels: LabelRows::one(Labels::new([stack])),
            template_device: Some(Self::TEMPLATE_DEVICE.into()),
            instance_types: TYPES.map(Arc::from).into(),
            subnets,
            market: MarketPolicy::SpotThenOnDemand,
            max,
            ..Self::named("default".parse().expect("a pool's name"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Labels, Pool};
    use crate::testkit::{With as _, job};

    #[test]
    fn its_label_is_the_stacks_name() {
        let app_owner = "acme".parse().ok();
        let pool =
            Pool { app_owner, ..Pool::built_in("Muster-staging", vec!["subnet-a".into()], 20) };
        let asks = |label: &str| {
            let labels = Labels::new(["self-hosted", label]);
            pool.serves(&job(1).with(|job| job.last_event.labels = labels)).is_ok()
        };
        assert!(asks("muster-staging") && !asks("muster") && !asks("linux"));
    }
}
