//! What operators order, and about which row.

use muster_domain::ids::InstanceName;
use muster_domain::pool_file;
use serde_json::{Value, json};

use crate::rng::Rng;
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
    /// No row: the pool file, changed by chance.
    Pools,
}

/// What an operator orders.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Which row.
    pub aim: Aim,
    /// Which of those, by chance; of a pool file what it changes, and 0 changes nothing.
    pub pick: u64,
    /// Provider errors do not hold it up.
    pub force: bool,
    /// Neither do refused credentials.
    pub bypass: bool,
    /// Neither does a job.
    pub kill: bool,
}

impl Order {
    /// A pool file.
    pub(super) const fn of_pools(pick: u64) -> Self {
        Self { aim: Aim::Pools, pick, force: false, bypass: false, kill: false }
    }
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
        if order.aim == Aim::Pools {
            self.tally.orders += 1;
            return Some(self.pool_file(order.pick));
        }
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

    /// The pools of the stack's parameters as a file, with some changed and some left out.
    fn pool_file(&self, pick: u64) -> Value {
        let mut rng = Rng::new(pick);
        let mut changed = |parts: u32| pick != 0 && rng.chance(parts);
        let mut pools = Vec::new();
        for pool in &self.checker.own {
            if changed(200_000) && pools.len() + 1 < self.checker.own.len() {
                continue;
            }
            let mut file = pool_file::written(pool);
            file["subnets"] = json!(["subnet-0000000a", "subnet-0000000b"]);
            if changed(300_000) {
                file["limits"]["max"] = json!(pool.max + 1);
            }
            if changed(300_000) {
                file["image"] = json!({ "id": "ami-0a1b2c3d" });
            }
            if changed(100_000) {
                file["enabled"] = json!(false);
            }
            pools.push(file);
        }
        let mut file = pool_file::written_stack(&self.checker.limits, self.checker.balance);
        file["pools"] = pools.into();
        let file = file.to_string();
        json!({ "version": 1, "action": "pools", "file": file, "by": "the schedule" })
    }

    fn aim(&self, order: &Order) -> Option<InstanceName> {
        let wanted = |name: &&InstanceName| match order.aim {
            Aim::Any | Aim::Pools => true,
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
