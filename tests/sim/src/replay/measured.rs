//! What days cost and how long their jobs waited: measured in the same way of a real stack's lines and of simulated
//! ones.

use muster_cloud::github::Job as Truth;
use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::usage::{Line, Parts, UsageKind};

use super::facts::PriceBook;
use super::jobs::{self, Reruns};
use crate::agenda::MINUTE;
use crate::ec2::Ec2;
use crate::github::{Job, Status};
use crate::world::World;

/// Whose machines and jobs are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Only {
    /// All of the stack's.
    #[default]
    All,
    /// One pool's.
    Pool(PoolName),
}

impl Only {
    fn has(&self, pool: Option<&PoolName>) -> bool {
        match self {
            Self::All => true,
            Self::Pool(only) => pool == Some(only),
        }
    }
}

/// The sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Machines.
    pub machines: u64,
    /// Those of them without a price: they are not in the money.
    pub unpriced: u64,
    /// What machines cost, in millionths of a dollar.
    pub money: u64,
    /// The part of it that was spent on jobs that EC2 interrupted.
    pub lost: u64,
    /// Jobs that ran again after that.
    pub reruns: u64,
    /// How long the jobs waited that ran, milliseconds, the shortest first.
    waits: Vec<u64>,
    /// Jobs that had no runner: they wait at the end, or have waited until GitHub ended them.
    pub unserved: u64,
}

impl Measured {
    /// Of a real stack's lines, which have their prices.
    #[must_use]
    pub fn of(lines: &[Line], only: &Only) -> Self {
        let mut measured = Self::default();
        let reruns = jobs::reruns(lines);
        for line in lines.iter().filter(|line| only.has(line.pool.as_ref())) {
            measured.add(line, line.price.map(|price| price.whole()), &reruns);
        }
        measured.waits.sort_unstable();
        measured
    }

    /// Jobs that ran.
    #[must_use]
    pub const fn jobs(&self) -> usize {
        self.waits.len()
    }

    /// Milliseconds that so many of a hundred jobs waited at most.
    #[must_use]
    pub fn wait(&self, of_hundred: usize) -> Option<u64> {
        let rank = (self.waits.len() * of_hundred).div_ceil(100).max(1);
        self.waits.get(rank - 1).copied()
    }

    fn add(&mut self, line: &Line, price: Option<u64>, reruns: &Reruns) {
        if line.kind != UsageKind::Job {
            let before = self.money;
            self.pay(line.parts.sum(), price);
            if line.is_interrupted() {
                self.lost += self.money - before;
            }
            self.reruns += u64::from(jobs::is_rerun(line, reruns));
        }
        self.waits.extend(line.wait().map(|(whole, _)| whole));
    }

    fn pay(&mut self, time: u64, price: Option<u64>) {
        self.machines += 1;
        match price {
            Some(price) => self.money += Parts { work: time, ..Parts::default() }.at(price).work,
            None => self.unpriced += 1,
        }
    }
}

impl World {
    /// What was spent and waited so far. A machine that still lives is paid for until now.
    pub(super) fn measure(&self, only: &Only) -> Measured {
        let mut measured = Measured::default();
        let reruns = jobs::reruns(self.tables.usage.values());
        for line in self.tables.usage.values().filter(|line| only.has(line.pool.as_ref())) {
            let number = line.machine.as_ref().and_then(|machine| self.ec2.number(&machine.id));
            measured.add(line, number.and_then(|number| self.price_of(number)), &reruns);
        }
        for row in self.tables.live_rows().filter(|row| only.has(Some(&row.pool))) {
            let Some(number) = number_of(row, &self.ec2) else { continue };
            let since = row.bound_at.unwrap_or(row.created_at).as_millis();
            let time = (self.now - since).max(MINUTE).unsigned_abs();
            measured.pay(time, self.price_of(number));
        }
        measured.unserved = self.unserved(only);
        measured.waits.sort_unstable();
        measured
    }

    /// Of those that a pool serves. One that left is meant to have no machine.
    fn unserved(&self, only: &Only) -> u64 {
        let is_unserved = |(job, truth): &(&Job, &Truth)| {
            let told = self.told_of(truth);
            let mut pools = self.checker.pools.iter().filter(|pool| only.has(Some(&pool.name)));
            truth.started_at.is_none()
                && (truth.status == Status::Queued || job.length.is_some())
                && pools.any(|pool| pool.serves(&told).is_ok())
        };
        self.github.known().filter(is_unserved).count() as u64
    }

    fn price_of(&self, number: u32) -> Option<u64> {
        let drawn = self.replayed.as_ref()?;
        let prices: &PriceBook = &drawn.facts.prices;
        let machine = drawn.machine(number)?;
        prices.of(&machine.kind, machine.market)
    }
}

fn number_of(row: &Instance, ec2: &Ec2) -> Option<u32> {
    ec2.number(row.machine()?)
}
