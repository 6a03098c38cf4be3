//! The AWS account, with all its stacks.

use serde_json::Value;

use super::{Fact, text};

/// Facts about the account.
#[derive(Clone, Debug)]
pub struct AccountFacts {
    /// The identity of the credentials.
    pub caller: Fact<CallerIdentity>,
    pub concurrency: Fact<Concurrency>,
    /// Quota of standard On-Demand machines, in vCPUs.
    pub on_demand: Fact<f64>,
    /// Quota of standard Spot machines, in vCPUs.
    pub spot: Fact<f64>,
    /// Whether EC2's service-linked role for Spot exists.
    pub spot_role: Fact<bool>,
    /// Whether the account is on the free plan.
    pub free_plan: Fact<bool>,
}

/// The identity of the credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerIdentity {
    pub account: String,
    pub arn: String,
}

impl CallerIdentity {
    /// Parses the answer to `GetCallerIdentity`.
    #[must_use]
    pub fn read(answer: &Value) -> Self {
        let result = &answer["GetCallerIdentityResult"];
        Self { account: text(result, "Account"), arn: text(result, "Arn") }
    }
}

/// Lambda's concurrent executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Concurrency {
    /// Limit of the account in this region.
    pub most: u64,
    /// The part of the limit that no function has reserved.
    pub free: u64,
}

impl Concurrency {
    /// Parses the answer to `GetAccountSettings`.
    #[must_use]
    pub fn read(answer: &Value) -> Self {
        let number = |name: &str| answer["AccountLimit"][name].as_u64().unwrap_or_default();
        Self {
            most: number("ConcurrentExecutions"),
            free: number("UnreservedConcurrentExecutions"),
        }
    }

    /// Returns the concurrency that a new stack reserves for its webhook: a tenth of the free part,
    /// 100 at most. `None` if the account is too small: Lambda keeps 100 for functions without a
    /// reservation.
    /// Source: docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html
    #[must_use]
    pub fn for_webhook(self) -> Option<u64> {
        let tenth = (self.free / 10).min(100);
        (tenth >= 10 && self.free - tenth >= 100).then_some(tenth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_with_room_reserves_some_for_the_webhook() {
        for (free, reserve) in [
            (0, None),
            (10, None),
            (100, None),
            (111, Some(11)),
            (110, None),
            (200, Some(20)),
            (900, Some(90)),
            (1_000, Some(100)),
            (50_000, Some(100)),
        ] {
            assert_eq!(Concurrency { most: 1_000, free }.for_webhook(), reserve, "{free}");
        }
    }
}
