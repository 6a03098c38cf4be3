//! What operators order, and about which row.

use domain::ids::InstanceName;
use serde_json::{Value, json};

use crate::world::World;

/// Which row an operator picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Any live one.
    Any,
    /// One whose machine has a job.
    AtWork,
    /// One whose machine has a job that its row does not know of.
    Unseen,
    /// The one of the order before.
    Same,
}

/// What an operator orders.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Which row.
    pub aim: Aim,
    /// Which of those, by chance.
    pub pick: u64,
    /// Provider errors do not hold it up.
    pub force: bool,
    /// Neither do refused credentials.
    pub bypass: bool,
    /// Neither does a job.
    pub kill: bool,
}

impl World {
    /// The request of an operator's order, about a row that lives right now.
    pub fn order(&mut self, number: u32) -> Option<Value> {
        if let Some(request) = self.requests.get_mut(number as usize) {
            return request.take();
        }
        if let Some(number) = (number as usize).checked_sub(self.orders.len()) {
            return self.flips.get(number).cloned();
        }
        let order = *self.orders.get(number as usize)?;
        let name = self.aim(&order)?;
        self.ordered = Some(name.clone());
        self.tally.orders += 1;
        if order.force {
            self.checker.forced.insert(name.clone());
        }
        Some(json!({
            "version": 1,
            "action": "delete",
            "name": name.as_str(),
            "reason": "by the schedule",
            "by": format!("operator-{number}"),
            "force": order.force,
            "bypass_github_unauthorized": order.bypass,
            "kill_running_job": order.kill,
        }))
    }

    fn aim(&self, order: &Order) -> Option<InstanceName> {
        let wanted = |name: &&InstanceName| match order.aim {
            Aim::Any => true,
            Aim::AtWork => self.job_on(name),
            Aim::Unseen => {
                let row = self.tables.instances.get(*name);
                self.job_on(name) && row.is_some_and(|row| !row.runner.is_busy())
            }
            Aim::Same => self.ordered.as_ref() == Some(name),
        };
        let of = |wanted: &dyn Fn(&&InstanceName) -> bool| {
            let count = self.tables.live.iter().filter(wanted).count() as u64;
            let index = order.pick.checked_rem(count)?;
            self.tables.live.iter().filter(wanted).nth(index as usize).cloned()
        };
        of(&wanted).or_else(|| of(&|_| true))
    }

    fn job_on(&self, name: &InstanceName) -> bool {
        let row = self.tables.instances.get(name);
        let machine = row.and_then(|row| row.machine()).and_then(|id| self.ec2.number(id));
        machine.is_some_and(|number| self.ec2.at(number).job.is_some())
    }
}
