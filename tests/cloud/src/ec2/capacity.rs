//! What EC2 has to sell.

use serde::{Deserialize, Serialize};

use super::{FleetFault, Market, fleet::Choice};

/// Limits what EC2 can launch. The first rule that matches an override decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityRule {
    #[serde(default)]
    pub stack: Option<String>,
    #[serde(default)]
    pub instance_type: Option<String>,
    #[serde(default)]
    pub subnet_id: Option<String>,
    #[serde(default)]
    pub market: Option<Market>,
    /// How many machines are left; none without it.
    #[serde(default)]
    pub left: u32,
    #[serde(default = "CapacityRule::default_code")]
    pub code: String,
    #[serde(default)]
    pub message: Option<String>,
}

impl Default for CapacityRule {
    /// There is nothing, anywhere.
    fn default() -> Self {
        Self {
            stack: None,
            instance_type: None,
            subnet_id: None,
            market: None,
            left: 0,
            code: Self::default_code(),
            message: None,
        }
    }
}

impl CapacityRule {
    fn default_code() -> String {
        "InsufficientInstanceCapacity".to_owned()
    }

    fn matches(&self, ask: &Ask) -> bool {
        let same = |rule: &Option<String>, value: Option<&str>| {
            rule.as_deref().is_none_or(|wanted| Some(wanted) == value)
        };
        same(&self.stack, ask.stack)
            && same(&self.instance_type, Some(ask.choice.instance_type()))
            && same(&self.subnet_id, ask.choice.choice.subnet_id.as_deref())
            && self.market.is_none_or(|wanted| wanted == ask.market)
    }
}

/// All rules. Without one that matches there is as much as anybody wants.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity(pub(super) Vec<CapacityRule>);

/// Machines of one kind, at one place, for one stack.
pub(super) struct Ask<'a> {
    pub(super) stack: Option<&'a str>,
    pub(super) choice: &'a Choice<'a>,
    pub(super) market: Market,
}

impl Capacity {
    fn rule(&self, ask: &Ask) -> Option<usize> {
        self.0.iter().position(|rule| rule.matches(ask))
    }

    /// How many of so many there are.
    pub(super) fn room(&self, ask: &Ask, wanted: u32) -> u32 {
        let left = self.rule(ask).map(|index| self.0[index].left);
        left.unwrap_or(wanted).min(wanted)
    }

    /// They are launched.
    pub(super) fn take(&mut self, ask: &Ask, count: u32) {
        if let Some(index) = self.rule(ask) {
            self.0[index].left -= count;
        }
    }

    /// Why there are no more.
    pub(super) fn fault(&self, ask: &Ask) -> FleetFault {
        let rule = self.rule(ask).map(|index| &self.0[index]);
        let code = rule.map_or_else(CapacityRule::default_code, |rule| rule.code.clone());
        let message = rule.and_then(|rule| rule.message.clone()).unwrap_or_else(|| {
            let kind = ask.choice.instance_type();
            format!("We currently do not have sufficient {kind} capacity.")
        });
        FleetFault {
            template: ask.choice.resolved(),
            choice: ask.choice.choice.clone(),
            market: ask.market,
            code,
            message,
        }
    }
}
