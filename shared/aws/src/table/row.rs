//! Conversion of records to items: key, schema, version, index attributes, and the record itself in
//! `body`. The version is the attribute `generation`.

use aws_sdk_dynamodb::types::AttributeValue;
use muster_control::notices::Notices;
use muster_control::ports::ReadError;
use muster_domain::SCHEMA;
use muster_domain::audit::Audit;
use muster_domain::causes::Cause;
use muster_domain::hash::fnv1a;
use muster_domain::image::Images;
use muster_domain::inquiry::Inquiries;
use muster_domain::instance::{Group, Instance};
use muster_domain::job::{APPROVAL_EXPIRY, Job, JobStatus};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::{Launch, LaunchState};
use muster_domain::orphan::Orphan;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool_set::PoolSet;
use muster_domain::redelivery::Redeliveries;
use muster_domain::rerun::Rerun;
use muster_domain::stored::{Stored, Version};
use muster_domain::switches::Switches;
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;
use muster_domain::usage::{DAY_KEPT, Date, Line, PartOfDay, Prices};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_dynamo::aws_sdk_dynamodb_1::{from_attribute_value, to_attribute_value};

use super::keys::{self, TableKind, n, s};
use crate::error::text;
use crate::item::Item;

/// The error for a record that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormError {
    #[error("the record is not a map")]
    NoMap,
    #[error(transparent)]
    Value(#[from] serde_dynamo::Error),
    #[error("its schema is {0}, and this version reads {SCHEMA}")]
    Schema(u64),
}

/// Additional attributes for an index or the TTL.
pub(crate) type Marks = Vec<(&'static str, AttributeValue)>;

/// A record that is stored as an item.
pub(crate) trait TableRecord: Serialize + DeserializeOwned {
    /// The table that stores it.
    const PLACE: TableKind;
    /// Whether its fields are attributes of the item itself, so that updates can count in them.
    const IS_FLAT: bool = false;

    /// Returns its key.
    fn key(&self) -> String;
    /// Returns its index attributes.
    fn marks(&self, timings: &Timings) -> Marks;
}

/// Converts a record to an item without a version, for records that are never replaced by version.
pub(crate) fn write<R: TableRecord>(record: &R, timings: &Timings) -> Result<Item, FormError> {
    let mut body = match to_attribute_value(record) {
        Ok(AttributeValue::M(body)) => body,
        Ok(_) => return Err(FormError::NoMap),
        Err(error) => return Err(error.into()),
    };
    strip_nulls(&mut body);
    let mut item = if R::IS_FLAT {
        body
    } else {
        Item::from([(keys::BODY.to_owned(), AttributeValue::M(body))])
    };
    item.insert(R::PLACE.key().to_owned(), s(record.key()));
    item.insert(keys::SCHEMA.to_owned(), n(SCHEMA));
    item.extend(record.marks(timings).into_iter().map(|(name, value)| (name.to_owned(), value)));
    Ok(item)
}

/// Converts an item to a record with its version. An item without a version is never replaced by
/// version.
pub(crate) fn read<R: TableRecord>(mut item: Item) -> Result<Stored<R>, ReadError> {
    let key = text(item.get(R::PLACE.key())).unwrap_or_default().to_owned();
    let unreadable = |why: Cause| ReadError::Unreadable { key: key.clone(), why };
    let schema = number(&item, keys::SCHEMA).ok_or_else(|| unreadable(Cause::new("no schema")))?;
    if schema != u64::from(SCHEMA) {
        return Err(unreadable(Cause::new(FormError::Schema(schema))));
    }
    let version = Version(number(&item, keys::VERSION).unwrap_or_default());
    let body = if R::IS_FLAT {
        item
    } else {
        match item.remove(keys::BODY) {
            Some(AttributeValue::M(body)) => body,
            _ => return Err(unreadable(Cause::new("no body"))),
        }
    };
    let record: R = from_attribute_value(AttributeValue::M(body))
        .map_err(|error| unreadable(Cause::new(error)))?;
    // The index attributes, which conditions compare, must match the record.
    if record.key() != key {
        return Err(unreadable(Cause::new("the key differs from the body's")));
    }
    Ok(Stored::read(record, version))
}

fn number(item: &Item, name: &str) -> Option<u64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// Removes nulls: a missing attribute also reads as `None`, and capacity units count bytes.
fn strip_nulls(map: &mut Item) {
    map.retain(|_, value| !value.is_null());
    map.values_mut().for_each(strip_nulls_below);
}

fn strip_nulls_below(value: &mut AttributeValue) {
    match value {
        AttributeValue::M(map) => strip_nulls(map),
        AttributeValue::L(list) => list.iter_mut().for_each(strip_nulls_below),
        _ => {}
    }
}

impl TableRecord for Instance {
    const PLACE: TableKind = TableKind::Instances;

    fn key(&self) -> String {
        self.name.as_str().to_owned()
    }

    fn marks(&self, timings: &Timings) -> Marks {
        if !self.state().is_live() {
            let order = keys::order("", self.since(), self.name.as_str());
            return vec![
                (keys::EXPIRES_AT, n(expiry_of_deleted(self, timings))),
                (keys::LIVE_POOL, s(keys::ended(&self.pool))),
                (keys::LIVE_ORDER, s(order)),
            ];
        }
        let mut marks =
            vec![(keys::LIVE_POOL, s(self.pool.as_str())), (keys::LIVE_ORDER, s(live_order(self)))];
        if let Some(due_at) = self.due_at() {
            marks.push((keys::DUE_SHARD, s(keys::shard_of(&self.name))));
            marks.push((keys::DUE_AT, s(due_at.to_string())));
        }
        marks
    }
}

/// Returns a live instance's sort key in its pool's index.
fn live_order(instance: &Instance) -> String {
    let (group, since) = instance.listed_in();
    keys::order(prefix(group), since, instance.name.as_str())
}

/// Returns a group's prefix in the index. The prefixes sort like the groups.
pub(crate) const fn prefix(group: Group) -> &'static str {
    match group {
        Group::Ending => "ending#",
        Group::Free => "free#",
        Group::FreeRetry => "free-retry#",
        Group::Retry => "retry#",
        Group::Starting => "starting#",
        Group::Taken => "taken#",
    }
}

/// Returns when a tombstone and its machine's owner item expire.
pub(crate) fn expiry_of_deleted(instance: &Instance, timings: &Timings) -> i64 {
    (instance.since() + timings.tombstone_ttl_seconds).as_secs()
}

impl TableRecord for Job {
    const PLACE: TableKind = TableKind::Jobs;

    fn key(&self) -> String {
        keys::job(self.key())
    }

    fn marks(&self, timings: &Timings) -> Marks {
        if let (true, Some(pool)) = (self.is_waiting(), &self.pool) {
            let group = if self.claim.is_none() { keys::FREE } else { keys::HELD };
            let order = keys::order(group, self.queued_at(), &keys::job(self.key()));
            return vec![(keys::WAITING_POOL, s(pool.as_str())), (keys::WAITING_ORDER, s(order))];
        }
        let ttl = timings.job_ttl_seconds;
        if self.is_unmatched() {
            let order = keys::order(keys::FREE, self.queued_at(), &keys::job(self.key()));
            // Its end event may never arrive, and no pass expires it.
            let expires = self.waits_since().max(self.seen_at) + timings.job_expiry_seconds + ttl;
            return vec![
                (keys::WAITING_POOL, s(keys::NO_POOL)),
                (keys::WAITING_ORDER, s(order)),
                (keys::EXPIRES_AT, n(expires.as_secs())),
            ];
        }
        if self.is_gated() {
            let order = keys::order(keys::FREE, self.heard_at(), &keys::job(self.key()));
            let expires = self.gated_since() + APPROVAL_EXPIRY + ttl;
            return vec![
                (keys::WAITING_POOL, s(keys::GATED)),
                (keys::WAITING_ORDER, s(order)),
                (keys::EXPIRES_AT, n(expires.as_secs())),
            ];
        }
        let given_up_at = match self.status() {
            JobStatus::Queued if self.approval.is_none() => {
                self.waits_since() + timings.job_expiry_seconds
            }
            _ => self.gated_since() + APPROVAL_EXPIRY,
        };
        let ended = match self.status() {
            JobStatus::Completed => self.last_event.completed_at.unwrap_or(self.seen_at),
            // Its end event may never arrive. GitHub ends a job after five days
            // (docs.github.com/en/actions/reference/limits), which is shorter than the record's
            // retention.
            JobStatus::InProgress => self.last_event.started_at.unwrap_or(self.seen_at),
            _ if self.expired => given_up_at,
            _ => return Vec::new(),
        };
        // A much later redelivery of an event still finds the record for its whole retention.
        let expires = ended.max(self.seen_at) + ttl;
        vec![(keys::EXPIRES_AT, n(expires.as_secs()))]
    }
}

impl TableRecord for Launch {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::launch(&self.id)
    }

    fn marks(&self, timings: &Timings) -> Marks {
        match self.state {
            LaunchState::Open => vec![
                (keys::KIND, s(keys::open_launches(&self.pool))),
                (keys::SORT, s(format!("{}#{}", self.created_at, self.id))),
            ],
            LaunchState::Settled => {
                let expires = self.created_at + timings.tombstone_ttl_seconds;
                vec![(keys::EXPIRES_AT, n(expires.as_secs()))]
            }
        }
    }
}

impl TableRecord for Capacity {
    const PLACE: TableKind = TableKind::Control;
    const IS_FLAT: bool = true;

    fn key(&self) -> String {
        keys::pool(&self.pool)
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

impl TableRecord for Orphan {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::orphan(&self.machine)
    }

    fn marks(&self, _: &Timings) -> Marks {
        vec![
            (keys::KIND, s(keys::ORPHANS)),
            (keys::SORT, s(format!("{}#{}", self.since, self.machine))),
        ]
    }
}

/// How long a record of interrupted jobs is kept: GitHub re-runs a run for 30 days.
const RERUN_TTL: Seconds = Seconds(31 * 24 * 3600);

impl TableRecord for Rerun {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::rerun(self.key())
    }

    fn marks(&self, _: &Timings) -> Marks {
        let listed = |partition, at| {
            vec![(keys::KIND, s(partition)), (keys::SORT, s(format!("{at}#{}", self.run)))]
        };
        let mut marks = match (self.due(), self.outcome()) {
            (Some(due), _) => return listed(keys::RERUNS, due),
            (None, Some((at, _))) => listed(keys::CLOSED_RERUNS, at),
            (None, None) => Vec::new(),
        };
        marks.push((keys::EXPIRES_AT, n((self.opened_at + RERUN_TTL).as_secs())));
        marks
    }
}

impl TableRecord for Audit {
    const PLACE: TableKind = TableKind::Control;

    /// Returns a key derived from the whole entry, so that writing an entry twice stores it once,
    /// and two entries of one moment remain separate.
    fn key(&self) -> String {
        let line = format!("{:?} {} {}", self.kind, self.by, self.why);
        format!("audit#{}#{}#{:016x}", self.subject, self.at, fnv1a(line.as_bytes()))
    }

    fn marks(&self, _: &Timings) -> Marks {
        vec![
            (keys::KIND, s(keys::audit_trail(&self.subject))),
            (keys::SORT, s(self.at.to_string())),
        ]
    }
}

/// The copy of an audit entry for queries by month.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ByTime(pub(crate) Audit);

impl TableRecord for ByTime {
    const PLACE: TableKind = TableKind::Control;

    /// Returns a key with the common prefix of audit entries: the roles may not change those.
    fn key(&self) -> String {
        keys::by_time(&self.0.key())
    }

    fn marks(&self, _: &Timings) -> Marks {
        vec![
            (keys::KIND, s(keys::audit_month(&keys::month(self.0.at)))),
            (keys::SORT, s(self.0.at.to_string())),
        ]
    }
}

impl TableRecord for Line {
    const PLACE: TableKind = TableKind::Usage;

    /// Returns the partition key; the sort key is among the marks.
    fn key(&self) -> String {
        keys::usage_day(Date::of(self.at), keys::usage_shard(&self.subject()))
    }

    fn marks(&self, timings: &Timings) -> Marks {
        let expires = self.at + timings.usage_ttl_seconds;
        vec![
            (keys::AT, s(format!("{}#{}", self.at, self.subject()))),
            (keys::EXPIRES_AT, n(expires.as_secs())),
        ]
    }
}

impl TableRecord for PartOfDay {
    const PLACE: TableKind = TableKind::Usage;

    /// Returns the partition key, as for a usage record.
    fn key(&self) -> String {
        keys::day_sum(self.date)
    }

    fn marks(&self, _: &Timings) -> Marks {
        let expires = self.date.begin() + DAY_KEPT;
        vec![(keys::AT, s(format!("{:04}", self.part))), (keys::EXPIRES_AT, n(expires.as_secs()))]
    }
}

impl TableRecord for Prices {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::PRICES.to_owned()
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

/// The copy of the prices under their day, kept as long as its usage records.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct PricesOfHour(pub(crate) Prices);

impl TableRecord for PricesOfHour {
    const PLACE: TableKind = TableKind::Usage;

    /// Returns the partition key, as for a usage record.
    fn key(&self) -> String {
        keys::day_prices(Date::of(self.0.at))
    }

    fn marks(&self, timings: &Timings) -> Marks {
        let expires = self.0.at + timings.usage_ttl_seconds;
        vec![(keys::AT, s(self.0.at.to_string())), (keys::EXPIRES_AT, n(expires.as_secs()))]
    }
}

impl TableRecord for Switches {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::SWITCHES.to_owned()
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

impl TableRecord for Cooldowns {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::COOLDOWNS.to_owned()
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

impl TableRecord for Images {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::IMAGES.to_owned()
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

impl TableRecord for Inquiries {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::INQUIRIES.to_owned()
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

impl TableRecord for Redeliveries {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::redeliveries(self.app)
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

impl TableRecord for Notices {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::NOTICES.to_owned()
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

impl TableRecord for PoolSet {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::POOLS.to_owned()
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

/// A kept version of the pool set, in addition to the current one.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct KeptPoolSet(pub(crate) PoolSet);

impl TableRecord for KeptPoolSet {
    const PLACE: TableKind = TableKind::Control;

    fn key(&self) -> String {
        keys::pools_version(self.0.version)
    }

    fn marks(&self, _: &Timings) -> Marks {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::causes::with_causes;

    use super::*;

    #[test]
    fn groups_sort_as_their_prefixes_do() {
        let orders = Group::ALL.map(|group| keys::order(prefix(group), Default::default(), "a"));
        assert!(orders.is_sorted(), "{orders:?}");
        let free = orders.iter().filter(|order| order.starts_with("free")).count();
        assert_eq!(free, 2);
    }

    #[test]
    fn what_is_wrong_with_a_record_is_its_errors_cause() {
        let item = |schema: u64, body: Item| {
            Item::from([
                (Switches::PLACE.key().to_owned(), s(keys::SWITCHES)),
                (keys::SCHEMA.to_owned(), n(schema)),
                (keys::BODY.to_owned(), AttributeValue::M(body)),
            ])
        };
        let cases = [
            (item(u64::from(SCHEMA) + 1, Item::new()), "its schema is 3"),
            (item(u64::from(SCHEMA) - 1, Item::new()), "its schema is 1"),
            (
                item(u64::from(SCHEMA), Item::from([("schema".to_owned(), s("two"))])),
                "Expected num",
            ),
        ];
        for (item, expected) in cases {
            let Err(error) = read::<Switches>(item) else { panic!("read: {expected}") };
            let cause = std::error::Error::source(&error).expect("a cause").to_string();
            assert!(cause.contains(expected), "{cause}");
            let line = with_causes(&error);
            let record = format!("record {} cannot be read by this version: ", keys::SWITCHES);
            assert_eq!(line, record + &cause);
        }
    }
}
