//! Names of keys and index attributes, and how records are spread over them.

use aws_sdk_dynamodb::types::AttributeValue;
use muster_domain::hash::fnv1a;
use muster_domain::ids::{InstanceName, JobKey, LaunchId, MachineId, PoolName};
use muster_domain::pool::limits::Scope;
use muster_domain::time::Time;
use muster_domain::usage::Date;

/// How many partitions the `due` index has. A sweep queries each of them; one partition takes 1,000
/// writes a second. More would cost every tick, fewer only the largest fleets.
pub(crate) const SHARDS: u32 = 4;

/// Where a cursor stands; the second half of a line of usage's key.
pub(crate) const AT: &str = "at";
pub(crate) const BODY: &str = "body";
pub(crate) const DUE_AT: &str = "due_at";
pub(crate) const DUE_SHARD: &str = "due_shard";
pub(crate) const EXPIRES_AT: &str = "expires_at";
pub(crate) const VERSION: &str = "generation";
pub(crate) const INSTANCE: &str = "instance";
pub(crate) const KIND: &str = "kind";
pub(crate) const LIVE: &str = "live";
pub(crate) const LIVE_ORDER: &str = "live_order";
pub(crate) const LIVE_POOL: &str = "live_pool";
pub(crate) const SCHEMA: &str = "schema";
pub(crate) const SORT: &str = "sort";
pub(crate) const WAITING_ORDER: &str = "waiting_order";
pub(crate) const WAITING_POOL: &str = "waiting_pool";
/// Names the call that wrote a record, so that a lost answer is not taken for another writer's
/// work.
pub(crate) const WRITER: &str = "writer";

pub(crate) const DUE_INDEX: &str = "due";
pub(crate) const KIND_INDEX: &str = "kind";
pub(crate) const POOL_INDEX: &str = "pool";

/// Groups of waiting jobs in the index of their pool: without a claim, and with one.
pub(crate) const FREE: &str = "free#";
pub(crate) const HELD: &str = "held#";

/// Stands for a pool in that index for jobs that no pool serves. No pool has such a name.
pub(crate) const NO_POOL: &str = "#none";

/// The same for jobs that wait for an approval at GitHub.
pub(crate) const GATED: &str = "#gated";

/// The key of the one record of switches.
pub(crate) const SWITCHES: &str = "switches";

/// The key of the one record of what EC2 refused.
pub(crate) const COOLDOWNS: &str = "cooldowns";

/// The key of the one record of the repositories that GitHub is to be asked about.
pub(crate) const INQUIRIES: &str = "inquiries";

/// The key of the one record of how far GitHub's list of webhook deliveries was read.
pub(crate) const REDELIVERIES: &str = "redeliveries";

/// The key of the one record of what was told as notices.
pub(crate) const NOTICES: &str = "notices";

/// The key of the last prices.
pub(crate) const PRICES: &str = "prices";

/// The key of the set of pools.
pub(crate) const POOLS: &str = "pools";

pub(crate) const ORPHANS: &str = "orphan";

/// One of the tables, each with its own name for the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Instances,
    Jobs,
    Control,
    Usage,
}

impl Place {
    /// The name of the key's attribute.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Instances => "name",
            Self::Jobs => "job",
            Self::Control => "id",
            Self::Usage => "day",
        }
    }
}

/// The key of the item that says who owns a machine. Beside the instances: no instance's name holds
/// a `#`.
pub(crate) fn machine(id: &MachineId) -> String {
    format!("machine#{id}")
}

pub(crate) fn launch(id: &LaunchId) -> String {
    format!("launch#{id}")
}

pub(crate) fn pool(name: &PoolName) -> String {
    format!("pool#{name}")
}

/// The key of the counter of a limit.
pub(crate) fn limit(scope: &Scope) -> String {
    match scope {
        Scope::Stack => "limit#stack".to_owned(),
        Scope::Entity(entity) => format!("limit#entity#{entity}"),
    }
}

/// The key of a version of the set of pools.
pub(crate) fn pools_version(version: u64) -> String {
    format!("{POOLS}#{version}")
}

pub(crate) fn orphan(machine: &MachineId) -> String {
    format!("orphan#{machine}")
}

pub(crate) fn cursor(name: &str) -> String {
    format!("cursor#{name}")
}

/// The partition of the open launches of a pool in the `kind` index.
pub(crate) fn open_launches(pool: &PoolName) -> String {
    format!("open-launch#{pool}")
}

/// The partition of the audit trail of a subject in the `kind` index.
pub(crate) fn audit_trail(subject: &str) -> String {
    format!("audit#{subject}")
}

/// The key of a line of the audit trail where it stands by its time.
pub(crate) fn by_time(line: &str) -> String {
    format!("audit#by-time#{line}")
}

/// The partition of a month's audit trail in the `kind` index.
pub(crate) fn audit_month(month: &str) -> String {
    format!("audit-month#{month}")
}

/// The month of a time: `2026-11`.
pub(crate) fn month(at: Time) -> String {
    at.to_string().chars().take(7).collect()
}

/// The months from one time to another, the last first.
pub(crate) fn months(from: Time, to: Time) -> Vec<String> {
    let first = month(from);
    let mut month = month(to);
    let mut months = Vec::new();
    while month >= first {
        let (year, of_year) = month.split_once('-').unwrap_or_default();
        let (Ok(year), Ok(of_year)) = (year.parse::<u32>(), of_year.parse::<u32>()) else { break };
        let before = match of_year {
            0 | 1 => format!("{:04}-12", year.saturating_sub(1)),
            later => format!("{year:04}-{:02}", later - 1),
        };
        months.push(std::mem::replace(&mut month, before));
    }
    months
}

/// Where a record stands among those of its pool: group, then age, then name.
pub(crate) fn order(group: &str, since: Time, key: &str) -> String {
    format!("{group}{since}#{key}")
}

/// Stands for a pool in the index of live instances, for those that have ended: how long machines
/// take is read of them. No pool has such a name.
pub(crate) fn ended(pool: &PoolName) -> String {
    format!("ended#{pool}")
}

/// The partition of the `due` index that a record lies in, for as long as it lives.
pub(crate) fn shard_of(name: &InstanceName) -> String {
    (fnv1a(name.as_str().as_bytes()) % u64::from(SHARDS)).to_string()
}

/// The partition of a line of usage: its day, in as many parts as `due` has.
pub(crate) fn usage_day(date: Date, shard: u32) -> String {
    format!("{date}#{shard}")
}

/// The partition of a day of usage that was rolled up.
pub(crate) fn day_sum(date: Date) -> String {
    format!("sum#{date}")
}

/// The partition of the prices that were learned on a day.
pub(crate) fn day_prices(date: Date) -> String {
    format!("prices#{date}")
}

/// The part of a day in which a line of usage lies.
pub(crate) fn usage_shard(subject: &str) -> u32 {
    u32::try_from(fnv1a(subject.as_bytes()) % u64::from(SHARDS)).unwrap_or_default()
}

pub(crate) fn job(key: JobKey) -> String {
    key.to_string()
}

/// A text attribute.
pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// A number attribute.
pub(crate) fn n(number: impl std::fmt::Display) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_go_back_over_the_turn_of_a_year() {
        let told = |from: &str, to: &str| {
            let at = |day: &str| format!("{day}T00:00:00.000Z").parse().expect("a time");
            months(at(from), at(to)).join(" ")
        };
        assert_eq!(told("2026-11-30", "2027-02-01"), "2027-02 2027-01 2026-12 2026-11");
        assert_eq!(told("2026-11-01", "2026-11-30"), "2026-11");
        assert_eq!(told("2027-01-01", "2026-12-31"), "");
    }

    #[test]
    fn names_spread_over_all_shards() {
        let mut counts = [0_u32; SHARDS as usize];
        for launch in 0..500 {
            for slot in 0..2 {
                let name = format!("default-{launch:08x}-{slot}").parse().expect("valid");
                counts[shard_of(&name).parse::<usize>().expect("a number")] += 1;
            }
        }
        assert!(counts.iter().all(|count| (150..350).contains(count)), "{counts:?}");
    }
}
