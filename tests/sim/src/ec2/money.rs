//! What machines cost, and what of it was for nothing.

use muster_cloud::ec2::{Instance, Market};
use muster_domain::instance::Instance as Row;

use crate::agenda::{HOUR, MINUTE, Millis};
use crate::world::World;

/// EC2 bills by the second, a minute at least, from `running` to the end
/// (docs.aws.amazon.com/AWSEC2/latest/UserGuide, "On-Demand Instances").
const LEAST: Millis = MINUTE;

/// Millionths of a dollar an hour: the list prices of Linux in us-east-1
/// (aws.amazon.com/ec2/pricing/on-demand), and for spot, whose price moves, 40 % of them.
fn micros_an_hour(instance: &Instance) -> i64 {
    let on_demand = match instance.instance_type.as_str() {
        "m7i.large" => 100_800,
        "m7a.large" => 115_920,
        _ => 96_000,
    };
    match instance.market {
        Market::Spot => on_demand * 2 / 5,
        Market::OnDemand => on_demand,
    }
}

impl World {
    /// A record comes by its machine: was it bought for a job?
    pub(crate) fn note_bought(&mut self, before: &Row, next: &Row) {
        if before.machine().is_none() && next.machine().is_some() && next.claim().is_some() {
            self.checker.bought.insert(next.name.clone());
        }
    }

    /// A machine stops being paid for.
    pub(super) fn pay(&mut self, number: u32) {
        let machine = self.ec2.at_mut(number);
        let Some(since) = machine.runs_since.take() else { return };
        let has_worked = machine.has_worked;
        let time = (self.now - since).max(LEAST);
        let paid = time * micros_an_hour(self.ec2.instance(number)) / HOUR;
        self.tally.spent += paid.unsigned_abs();
        if has_worked {
            return;
        }
        // One that nobody asked for is what a min idle costs, or a stray.
        let id = &self.ec2.at(number).id;
        let row = self.tables.owners.get(id);
        if row.is_some_and(|row| self.checker.bought.contains(row)) {
            self.tally.in_vain += 1;
            self.tally.wasted += paid.unsigned_abs();
        } else {
            self.tally.kept_idle += paid.unsigned_abs();
        }
    }
}
