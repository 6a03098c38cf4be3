//! The instance types that an account quota counts together.

use crate::ec2::{Bucket, LaunchError, Market};
use crate::launch::Launch;
use crate::pool::{MarketPolicy, Pool};

impl Bucket {
    /// Returns the bucket that a refusal concerns. If EC2 names no type, the bucket is known only
    /// if the request used a single one.
    pub(super) fn refused(launch: &Launch, error: &LaunchError) -> Self {
        let counts_types =
            matches!(error.code.as_str(), "VcpuLimitExceeded" | "MaxSpotInstanceCountExceeded");
        let asked = launch.request.overrides.iter().filter(|_| error.place.is_none());
        let mut all = error
            .place
            .iter()
            .chain(asked)
            .map(|place| Self::from_instance_type(&place.instance_type));
        let first = all.next().flatten().filter(|_| counts_types);
        first
            .filter(|first| all.all(|other| other.as_ref() == Some(first)))
            .unwrap_or_else(|| Self::Pool(launch.pool.clone()))
    }
}

impl Pool {
    /// Returns whether this quota may count machines of the pool.
    #[must_use]
    pub fn may_be_counted_in(&self, market: Market, bucket: &Bucket) -> bool {
        let buys = match self.market {
            MarketPolicy::Spot => market == Market::Spot,
            MarketPolicy::OnDemand => market == Market::OnDemand,
            MarketPolicy::SpotThenOnDemand => true,
        };
        let mut types = self.instance_types.iter();
        buys && (*bucket == Bucket::Pool(self.name.clone())
            || types.any(|kind| Bucket::from_instance_type(kind).as_ref() == Some(bucket)))
    }
}

#[cfg(test)]
mod tests {
    use super::Bucket;

    #[test]
    fn a_family_is_counted_in_its_bucket() {
        for (bucket, types) in [
            (Some(Bucket::Standard), ["m7i.large", "t4g.micro", "im4gn.large", "z1d.large"]),
            (Some(Bucket::Standard), ["m7i-flex.large", "is4gen.large", "a1.large", "d3en.xlarge"]),
            (Some(Bucket::GAndVt), ["g5.xlarge", "g4dn.xlarge", "vt1.3xlarge", "gr6.4xlarge"]),
            (
                Some(Bucket::HighMemory),
                ["u-6tb1.metal", "u7i-12tb.224xlarge", "u7in-16tb.224xlarge", "u-3tb1.56xlarge"],
            ),
            (Some(Bucket::P), ["p3.2xlarge", "p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge"]),
            (
                Some(Bucket::Hpc),
                ["hpc6a.48xlarge", "hpc7g.4xlarge", "hpc6id.32xlarge", "hpc7a.96xlarge"],
            ),
            (Some(Bucket::X), ["x1.16xlarge", "x2gd.large", "x2iedn.xlarge", "x8g.large"]),
            (None, ["", "mac2.metal", "new9.large", "cr1.8xlarge"]),
        ] {
            for one in types {
                assert_eq!(Bucket::from_instance_type(one), bucket, "{one}");
            }
        }
    }
}
