//! The pool of a stack to which no pool file was applied.

use std::sync::Arc;

use super::{MarketPolicy, Pool};
use crate::job::labels::{LabelRows, Labels};

/// In order of preference, all of the launch template's processor. An account on the free plan may
/// start the first, and none of the others.
const TYPES: [&str; 5] = ["m7i-flex.large", "m7i.large", "m7a.large", "m6i.large", "m6a.large"];

impl Pool {
    /// The device of the launch template's own disk: the root of its image, Ubuntu.
    pub const TEMPLATE_DEVICE: &str = "/dev/sda1";
    /// The size of that disk, in GiB, which a pool may have otherwise.
    pub const TEMPLATE_DISK_GIB: u32 = 40;

    /// The pool of a stack to which no pool file was applied. Its label is the stack's name, so
    /// that no two stacks of an organization serve the same job.
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
