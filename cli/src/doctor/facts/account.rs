//! The account, whatever stacks are in it.

use serde_json::Value;

use super::{Fact, text};

/// All of it.
#[derive(Clone, Debug)]
pub struct Account {
    /// Whose credentials these are.
    pub caller: Fact<Caller>,
    pub concurrency: Fact<Concurrency>,
    /// The quota of standard machines on demand, vCPUs.
    pub on_demand: Fact<f64>,
    /// The same of Spot.
    pub spot: Fact<f64>,
    /// Whether there is the role that EC2's Spot works with.
    pub spot_role: Fact<bool>,
    /// Whether it is on the free plan.
    pub free_plan: Fact<bool>,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    pub account: String,
    pub arn: String,
}

impl Caller {
    /// From `GetCallerIdentity`.
    #[must_use]
    pub fn read(answer: &Value) -> Self {
        let result = &answer["GetCallerIdentityResult"];
        Self { account: text(result, "Account"), arn: text(result, "Arn") }
    }
}

/// How many functions run at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Concurrency {
    /// At most, of the whole account in this region.
    pub most: u64,
    /// Of these, what no function has reserved.
    pub free: u64,
}

impl Concurrency {
    /// From `GetAccountSettings`.
    #[must_use]
    pub fn read(answer: &Value) -> Self {
        let number = |name: &str| answer["AccountLimit"][name].as_u64().unwrap_or_default();
        Self {
            most: number("ConcurrentExecutions"),
            free: number("UnreservedConcurrentExecutions"),
        }
    }

    /// What a new stack reserves for its webhook: a tenth of what is free, 100 at most. None where the
    /// account is too small: Lambda keeps 100 for functions without a reserve.
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
