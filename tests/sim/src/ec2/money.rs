//! What machines cost, what of it was for nothing, and what the record of usage says of it.

use std::collections::BTreeMap;

use muster_cloud::ec2::{Instance, Market, prices};
use muster_control::ports::Write;
use muster_domain::ec2::Market as Bought;
use muster_domain::ids::MachineId;
use muster_domain::instance::Instance as Row;
use muster_domain::orphan::Orphan;
use muster_domain::stored::Stored;
use muster_domain::usage::{Line, UsageKind};

use crate::agenda::{HOUR, MINUTE, Millis};
use crate::world::World;

/// EC2 bills by the second, a minute at least, from `running` to the end
/// (docs.aws.amazon.com/AWSEC2/latest/UserGuide, "On-Demand Instances").
const LEAST: Millis = MINUTE;

/// Millionths of a dollar an hour.
fn micros_an_hour(kind: &str, is_spot: bool) -> i64 {
    let price = if is_spot { prices::spot(kind) } else { prices::on_demand(kind) };
    price.cast_signed()
}

/// What a line says that its machine cost. One of which nobody knows what it was has no price.
fn told(line: &Line) -> Option<i64> {
    let make = &line.machine.as_ref()?.make;
    let price = micros_an_hour(make.kind.as_deref()?, make.market? == Bought::Spot);
    Some(i64::try_from(line.parts.sum()).ok()? * price / HOUR)
}

impl World {
    /// A machine leaves the ledger with a line of usage.
    pub(crate) fn check_struck_line(&mut self, machine: &MachineId, writes: &[Write]) {
        let is_ours = |orphan: &Stored<Orphan>| orphan.launch.is_some();
        let is_ours = self.tables.orphans.get(machine).is_some_and(is_ours);
        let is_told = writes.iter().any(|write| {
            matches!(write, Write::Usage(line) if line.kind == UsageKind::Orphan
                && line.machine.as_ref().is_some_and(|one| one.id == *machine))
        });
        if is_ours && !is_told {
            self.broken("usage", || format!("{machine} is struck from the ledger without a line"));
        }
    }

    /// The record of usage beside EC2's book: each machine that was bound to a record and has ended
    /// has one line. What the lines say that machines cost is counted.
    pub(crate) fn close_the_usage(&mut self) {
        let mut wrong = None;
        let mut lines: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
        for line in self.tables.usage.values() {
            if let Some(machine) = &line.machine {
                lines.entry(machine.id.as_str()).or_default().push(line);
            }
            if line.kind != UsageKind::Job && told(line).is_none() {
                wrong = Some(format!("{} has no price", line.subject()));
            }
        }
        let ours = self.ec2.machines.iter().filter(|machine| machine.launch.is_some());
        for machine in ours {
            let id = machine.id.as_str();
            let own = lines.get(id).map_or(&[][..], Vec::as_slice);
            let whole = own.iter().filter(|line| line.kind == UsageKind::Machine).count();
            let has_ended = self.ec2.number(&machine.id).is_some_and(|it| self.ec2.is_gone(it));
            // One that comes and goes before anybody looks is known to nobody, and an owner is
            // forgotten in time.
            let is_known = self.tables.owners.contains_key(&machine.id);
            if whole > 1 || has_ended && is_known && whole == 0 {
                wrong = Some(format!("machine {id} has {whole} lines of its own"));
            }
        }
        let told: i64 = self.tables.usage.values().filter_map(told).sum();
        self.tally.told += told.unsigned_abs();
        if let Some(wrong) = wrong {
            self.broken("usage", || wrong);
        }
    }

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
        let Instance { instance_type, market, .. } = self.ec2.instance(number);
        let paid = time * micros_an_hour(instance_type, *market == Market::Spot) / HOUR;
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
