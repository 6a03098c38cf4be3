//! Names of keys and index attributes, and the partitioning of records.

use aws_sdk_dynamodb::types::AttributeValue;
use muster_domain::hash::fnv1a;
use muster_domain::ids::{AppName, InstanceName, JobKey, LaunchId, MachineId, PoolName, RunKey};
use muster_domain::pool::limits::Scope;
use muster_domain::time::Time;
use muster_domain::usage::Date;

/// Number of partitions of the `due` index. A sweep queries each of them; one partition supports
/// 1,000 writes per second. More partitions would make every tick more expensive; fewer would only
/// limit the largest fleets.
pub(crate) const SHARDS: u32 = 4;

/// The time of a cursor; also the sort key of a usage record.
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
/// Identifies the call that wrote a record, so that a lost response is not mistaken for a different
/// writer's change.
pub(crate) const WRITER: &str = "writer";

pub(crate) const DUE_INDEX: &str = "due";
pub(crate) const KIND_INDEX: &str = "kind";
pub(crate) const POOL_INDEX: &str = "pool";

/// Groups of waiting jobs in their pool's index: without and with a claim.
pub(crate) const FREE: &str = "free#";
pub(crate) const HELD: &str = "held#";

/// The index value, instead of a pool, for jobs that no pool serves. No pool can have this name.
pub(crate) const NO_POOL: &str = "#none";

/// The index value for jobs that wait for an approval at GitHub.
pub(crate) const GATED: &str = "#gated";

/// The key of the record of switches.
pub(crate) const SWITCHES: &str = "switches";

/// The key of the record of EC2's refusals.
pub(crate) const COOLDOWNS: &str = "cooldowns";

/// The key of the record of machine images.
pub(crate) const IMAGES: &str = "images";

/// The key of the record of repositories to query.
pub(crate) const INQUIRIES: &str = "inquiries";

/// Returns the key of the record of an App's webhook redeliveries.
pub(crate) fn redeliveries(app: AppName) -> String {
    match app {
        AppName::MAIN => "redeliveries".to_owned(),
        _ => format!("redeliveries#{app}"),
    }
}

/// The key of the record of sent notifications.
pub(crate) const NOTICES: &str = "notices";

/// The key of the latest prices.
pub(crate) const PRICES: &str = "prices";

/// The key of the set of pools.
pub(crate) const POOLS: &str = "pools";

/// The key of the item that contains only the set's version, for condition checks.
pub(crate) const POOLS_GENERATION: &str = "pools-generation";

pub(crate) const ORPHANS: &str = "orphan";

/// The partition of open records of interrupted jobs in the `kind` index.
pub(crate) const RERUNS: &str = "rerun";

/// The partition of closed ones, until they expire.
pub(crate) const CLOSED_RERUNS: &str = "rerun-closed";

/// A table. Each has a different name for its key attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TableKind {
    Instances,
    Jobs,
    Control,
    Usage,
}

impl TableKind {
    /// Returns the name of the key attribute.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Instances => "name",
            Self::Jobs => "job",
            Self::Control => "id",
            Self::Usage => "day",
        }
    }
}

/// Returns the key of a machine's owner item. It is in the table of instances, whose names never
/// contain `#`.
pub(crate) fn machine(id: &MachineId) -> String {
    format!("machine#{id}")
}

pub(crate) fn launch(id: &LaunchId) -> String {
    format!("launch#{id}")
}

pub(crate) fn pool(name: &PoolName) -> String {
    format!("pool#{name}")
}

/// Returns the key of a limit's counter.
pub(crate) fn limit(scope: &Scope) -> String {
    match scope {
        Scope::Stack => "limit#stack".to_owned(),
        Scope::Entity(entity) => format!("limit#entity#{entity}"),
    }
}

/// Returns the key of a version of the pool set.
pub(crate) fn pools_version(version: u64) -> String {
    format!("{POOLS}#{version}")
}

pub(crate) fn orphan(machine: &MachineId) -> String {
    format!("orphan#{machine}")
}

/// Returns the key of a workflow run with interrupted jobs.
pub(crate) fn rerun(run: RunKey) -> String {
    format!("rerun#{run}")
}

pub(crate) fn cursor(name: &str) -> String {
    format!("cursor#{name}")
}

/// Returns the partition of a pool's open launches in the `kind` index.
pub(crate) fn open_launches(pool: &PoolName) -> String {
    format!("open-launch#{pool}")
}

/// Returns the partition of a subject's audit entries in the `kind` index.
pub(crate) fn audit_trail(subject: &str) -> String {
    format!("audit#{subject}")
}

/// Returns the key of an audit entry's copy for queries by time.
pub(crate) fn by_time(line: &str) -> String {
    format!("audit#by-time#{line}")
}

/// Returns the partition of a month's audit entries in the `kind` index.
pub(crate) fn audit_month(month: &str) -> String {
    format!("audit-month#{month}")
}

/// Returns the month of a time: `2026-11`.
pub(crate) fn month(at: Time) -> String {
    at.to_string().chars().take(7).collect()
}

/// Returns the months between two times, latest first.
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

/// Returns a record's sort key in its pool's index: group, then age, then name.
pub(crate) fn order(group: &str, since: Time, key: &str) -> String {
    format!("{group}{since}#{key}")
}

/// Returns the index value, instead of a pool, for ended instances, from which statistics are
/// computed. No pool can have this name.
pub(crate) fn ended(pool: &PoolName) -> String {
    format!("ended#{pool}")
}

/// Returns the partition of the `due` index for a live record. It never changes.
pub(crate) fn shard_of(name: &InstanceName) -> String {
    (fnv1a(name.as_str().as_bytes()) % u64::from(SHARDS)).to_string()
}

/// Returns the partition of a usage record: its day, in as many shards as `due`.
pub(crate) fn usage_day(date: Date, shard: u32) -> String {
    format!("{date}#{shard}")
}

/// Returns the partition of a rolled-up day of usage.
pub(crate) fn day_sum(date: Date) -> String {
    format!("sum#{date}")
}

/// Returns the partition of the prices learned on a day.
pub(crate) fn day_prices(date: Date) -> String {
    format!("prices#{date}")
}

/// Returns the shard of a usage record within its day.
pub(crate) fn usage_shard(subject: &str) -> u32 {
    u32::try_from(fnv1a(subject.as_bytes()) % u64::from(SHARDS)).unwrap_or_default()
}

pub(crate) fn job(key: JobKey) -> String {
    key.to_string()
}

/// Creates a text attribute.
pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// Creates a number attribute.
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
