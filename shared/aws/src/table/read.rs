//! Reads: by key, always consistent; from indexes, in pages.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, Select};
use futures_util::future::join_all;
use muster_control::ports::{Page, ReadError, Unavailable};
use muster_domain::causes::with_causes;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::timings::Timings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::TableNames;
use super::keys::{self, TableKind, s};
use super::row::{self, TableRecord};
use crate::error;
use crate::item::Item;

/// Maximum number of keys in a DynamoDB batch.
const BATCH: usize = 100;
/// Maximum number of requests for the unprocessed keys of a batch.
const ROUNDS: u32 = 6;

/// A read-only view of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableReader<'a> {
    pub(crate) client: &'a Client,
    pub(crate) names: &'a TableNames,
}

/// A sorted part of one index partition.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// The index. `None` means the table itself.
    index: Option<&'static str>,
    partition: (&'static str, String),
    order: Option<SortKeyCondition>,
    newest_first: bool,
}

#[derive(Clone, Debug)]
enum SortKeyCondition {
    StartsWith(&'static str, &'static str),
    Between(&'static str, String, String),
    AtMost(&'static str, String),
}

impl Range {
    pub(crate) fn new(index: &'static str, attribute: &'static str, value: String) -> Self {
        let index = Some(index);
        Self { index, partition: (attribute, value), order: None, newest_first: false }
    }

    /// Creates the range of a partition of a table with a sort key.
    pub(crate) fn of_table(place: TableKind, value: String) -> Self {
        let partition = (place.key(), value);
        Self { index: None, partition, order: None, newest_first: false }
    }

    pub(crate) fn starting_with(self, attribute: &'static str, prefix: &'static str) -> Self {
        Self { order: Some(SortKeyCondition::StartsWith(attribute, prefix)), ..self }
    }

    /// Limits the range to entries from the first with the prefix `first` to the last with the
    /// prefix `last`.
    pub(crate) fn between(self, attribute: &'static str, first: &str, last: &str) -> Self {
        // Sorts after every text that starts with `last`, because keys are ASCII.
        let order = SortKeyCondition::Between(attribute, first.to_owned(), format!("{last}\u{7f}"));
        Self { order: Some(order), ..self }
    }

    fn up_to(self, attribute: &'static str, last: String) -> Self {
        Self { order: Some(SortKeyCondition::AtMost(attribute, last)), ..self }
    }

    pub(crate) fn newest_first(self) -> Self {
        Self { newest_first: true, ..self }
    }
}

impl TableReader<'_> {
    pub(crate) async fn item(
        &self,
        place: TableKind,
        key: String,
    ) -> Result<Option<Item>, ReadError> {
        let answer = self
            .client
            .get_item()
            .table_name(self.names.table(place))
            .key(place.key(), s(key))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| error::read_error("GetItem", &error))?;
        Ok(answer.item)
    }

    pub(crate) async fn record<R: TableRecord>(
        &self,
        key: String,
    ) -> Result<Option<Stored<R>>, ReadError> {
        self.item(R::PLACE, key).await?.map(row::read).transpose()
    }

    pub(crate) async fn records<R: TableRecord>(
        &self,
        keys: Vec<String>,
    ) -> Result<Vec<Stored<R>>, ReadError> {
        self.items(R::PLACE, keys).await?.into_iter().map(row::read).collect()
    }

    /// Reads many items by key, in no order; omits missing ones.
    pub(crate) async fn items(
        &self,
        place: TableKind,
        keys: Vec<String>,
    ) -> Result<Vec<Item>, ReadError> {
        // DynamoDB rejects a batch with duplicate keys.
        let keys: Vec<String> = keys.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let mut items = Vec::with_capacity(keys.len());
        for batch in keys.chunks(BATCH) {
            let wanted = HashMap::from([self.wanted(place, batch)?]);
            items.extend(self.batch(wanted).await?.into_values().flatten());
        }
        Ok(items)
    }

    /// Reads an item of each of two tables, in one call.
    pub(crate) async fn pair(
        &self,
        keys: [(TableKind, &str); 2],
    ) -> Result<[Option<Item>; 2], ReadError> {
        let wanted = keys.iter().map(|(place, key)| self.wanted(*place, &[(*key).to_owned()]));
        let mut found = self.batch(wanted.collect::<Result<_, _>>()?).await?;
        Ok(keys.map(|(place, _)| found.get_mut(self.names.table(place))?.pop()))
    }

    /// Reads many items by key, each returned with its key.
    pub(crate) async fn keyed(
        &self,
        place: TableKind,
        keys: Vec<String>,
    ) -> Result<Vec<(String, Item)>, ReadError> {
        let items = self.items(place, keys).await?;
        let keyed = |item: Item| {
            let key = error::text(item.get(place.key())).unwrap_or_default().to_owned();
            (key, item)
        };
        Ok(items.into_iter().map(keyed).collect())
    }

    /// Returns the part of a batch that reads these items of a table.
    fn wanted(
        &self,
        place: TableKind,
        keys: &[String],
    ) -> Result<(String, KeysAndAttributes), ReadError> {
        let keys = keys.iter().map(|key| Item::from([(place.key().to_owned(), s(key.as_str()))]));
        let wanted = KeysAndAttributes::builder()
            .set_keys(Some(keys.collect()))
            .consistent_read(true)
            .build()
            .map_err(|error| ReadError::Unavailable(Unavailable::caused(BATCH_GET, error)))?;
        Ok((self.names.table(place).to_owned(), wanted))
    }

    /// Reads items of one or more tables, and returns them by table.
    async fn batch(
        &self,
        mut left: HashMap<String, KeysAndAttributes>,
    ) -> Result<HashMap<String, Vec<Item>>, ReadError> {
        let mut found: HashMap<String, Vec<Item>> = HashMap::new();
        // DynamoDB returns unprocessed keys when a response would exceed 16 MB, and when it is
        // overloaded. The SDK does not treat that as a failure. If it lasts longer, the queue
        // retries the pass.
        for _ in 0..ROUNDS {
            let answer = self
                .client
                .batch_get_item()
                .set_request_items(Some(left))
                .send()
                .await
                .map_err(|error| error::read_error(BATCH_GET, &error))?;
            for (table, items) in answer.responses.unwrap_or_default() {
                found.entry(table).or_default().extend(items);
            }
            left = answer.unprocessed_keys.unwrap_or_default();
            if left.is_empty() {
                return Ok(found);
            }
        }
        Err(ReadError::Unavailable(Unavailable::new(
            "BatchGetItem: unprocessed keys remained every time",
        )))
    }

    /// Reads one page, and the start of the next.
    async fn page(
        &self,
        place: TableKind,
        range: &Range,
        limit: Option<u32>,
        start: Option<Item>,
    ) -> Result<(Vec<Item>, Option<Item>), ReadError> {
        let limit = limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX));
        let query = self.query(place, range).set_limit(limit).set_exclusive_start_key(start);
        let answer = query.send().await.map_err(|error| error::read_error("Query", &error))?;
        Ok((answer.items.unwrap_or_default(), answer.last_evaluated_key))
    }

    /// Counts the records of a range, without transferring them.
    pub(crate) async fn count(&self, place: TableKind, range: &Range) -> Result<usize, ReadError> {
        let mut count = 0;
        let mut start = None;
        loop {
            let query = self.query(place, range).select(Select::Count);
            let answer = query.set_exclusive_start_key(start).send().await;
            let answer = answer.map_err(|error| error::read_error("Query", &error))?;
            count += usize::try_from(answer.count).unwrap_or_default();
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(count);
            }
        }
    }

    fn query(&self, place: TableKind, range: &Range) -> QueryFluentBuilder {
        let query = self
            .client
            .query()
            .table_name(self.names.table(place))
            .set_index_name(range.index.map(str::to_owned))
            .expression_attribute_names("#p", range.partition.0)
            .expression_attribute_values(":p", s(range.partition.1.as_str()))
            .scan_index_forward(!range.newest_first);
        match &range.order {
            None => query.key_condition_expression("#p = :p"),
            Some(SortKeyCondition::StartsWith(attribute, prefix)) => query
                .key_condition_expression("#p = :p AND begins_with(#o, :o)")
                .expression_attribute_names("#o", *attribute)
                .expression_attribute_values(":o", s(*prefix)),
            Some(SortKeyCondition::Between(attribute, first, last)) => query
                .key_condition_expression("#p = :p AND #o BETWEEN :first AND :last")
                .expression_attribute_names("#o", *attribute)
                .expression_attribute_values(":first", s(first.as_str()))
                .expression_attribute_values(":last", s(last.as_str())),
            Some(SortKeyCondition::AtMost(attribute, last)) => query
                .key_condition_expression("#p = :p AND #o <= :o")
                .expression_attribute_names("#o", *attribute)
                .expression_attribute_values(":o", s(last.as_str())),
        }
    }

    /// Reads the readable records of a range, at most `limit`, and the keys of the unreadable ones.
    pub(crate) async fn all<R: TableRecord>(
        &self,
        range: &Range,
        limit: Option<u32>,
    ) -> Result<Page<Stored<R>>, ReadError> {
        let mut all = empty();
        let mut seen = 0;
        let mut start = None;
        loop {
            let left = limit.map(|limit| limit.saturating_sub(seen));
            if left == Some(0) {
                return Ok(all);
            }
            let (items, last) = self.page(R::PLACE, range, left, start).await?;
            seen += add(&mut all, items);
            start = last;
            if start.is_none() {
                return Ok(all);
            }
        }
    }

    /// Reads one page of a range.
    pub(crate) async fn listing<R: TableRecord>(
        &self,
        range: &Range,
        page: Option<String>,
    ) -> Result<Page<Stored<R>>, ReadError> {
        let start: Option<Position> = page.map(|token| read_token(&token)).transpose()?;
        let start = start.and_then(|position| position.start_key());
        let (items, last) = self.page(R::PLACE, range, None, start).await?;
        let mut page = empty();
        add(&mut page, items);
        page.next = last.map(|key| write_token(&Position::at(0, Some(key)))).transpose()?;
        Ok(page)
    }

    /// Returns the token of the page that starts after a record. It imitates DynamoDB's last
    /// evaluated key, using the record's own attributes.
    pub(crate) fn after<R: TableRecord>(
        record: &R,
        index: [&str; 2],
        timings: &Timings,
    ) -> Result<String, ReadError> {
        let marks = record.marks(timings).into_iter();
        let marks = marks.filter(|(name, _)| index.contains(name));
        let mut key: Item = marks.map(|(name, value)| (name.to_owned(), value)).collect();
        key.insert(R::PLACE.key().to_owned(), s(record.key()));
        write_token(&Position::at(0, Some(key)))
    }

    /// Reads one page of due records.
    pub(crate) async fn due<R: TableRecord>(
        &self,
        now: Time,
        limit: u32,
        page: Option<String>,
    ) -> Result<Page<Stored<R>>, ReadError> {
        let range = |shard: u32| {
            Range::new(keys::DUE_INDEX, keys::DUE_SHARD, shard.to_string())
                .up_to(keys::DUE_AT, now.to_string())
        };
        self.of_shards(range, Some(limit), page).await
    }

    /// Reads one page of a sharded range. Queries all shards that have more records concurrently,
    /// each for its share of the page.
    pub(crate) async fn of_shards<R: TableRecord>(
        &self,
        range: impl Fn(u32) -> Range,
        limit: Option<u32>,
        page: Option<String>,
    ) -> Result<Page<Stored<R>>, ReadError> {
        let places: Vec<Position> = match page {
            Some(token) => read_token(&token)?,
            None => (0..keys::SHARDS).map(|shard| Position::at(shard, None)).collect(),
        };
        let shards = u32::try_from(places.len()).unwrap_or(u32::MAX).max(1);
        let part = limit.map(|limit| (limit / shards).max(1));
        let answers = join_all(
            places
                .iter()
                .map(async |at| self.page(R::PLACE, &range(at.shard), part, at.start_key()).await),
        );
        let (mut page, mut left) = (empty(), Vec::new());
        for (at, answer) in places.iter().zip(answers.await) {
            let (items, last) = answer?;
            add(&mut page, items);
            left.extend(last.map(|key| Position::at(at.shard, Some(key))));
        }
        page.next = (!left.is_empty()).then(|| write_token(&left)).transpose()?;
        Ok(page)
    }
}

const fn empty<T>() -> Page<T> {
    Page { items: Vec::new(), unreadable: Vec::new(), next: None }
}

/// Adds items to a page and returns their number.
fn add<R: TableRecord>(page: &mut Page<Stored<R>>, items: Vec<Item>) -> u32 {
    let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
    for item in items {
        match row::read::<R>(item) {
            Ok(record) => page.items.push(record),
            Err(ReadError::Unreadable { key, why }) => {
                tracing::error!(
                    record.key = key,
                    error = with_causes(&why),
                    "cannot read a record: not of this version"
                );
                page.unreadable.push(key);
            }
            Err(ReadError::Unavailable(why)) => {
                tracing::error!(error = with_causes(&why), "cannot read a record");
            }
        }
    }
    count
}

const BATCH_GET: &str = "BatchGetItem";
const NO_PAGE: &str = "not a page of a listing";

/// A position in a listing. Callers treat it as an opaque token.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// The shard of the `due` index; 0 for other indexes.
    shard: u32,
    /// The key after which to continue; all keys and index attributes are texts.
    after: Option<HashMap<String, String>>,
}

impl Position {
    fn at(shard: u32, after: Option<Item>) -> Self {
        let texts = |key: Item| {
            let text = |(name, value): (String, AttributeValue)| match value {
                AttributeValue::S(text) => Some((name, text)),
                _ => None,
            };
            key.into_iter().filter_map(text).collect()
        };
        Self { shard, after: after.map(texts) }
    }

    fn start_key(&self) -> Option<Item> {
        let after = self.after.as_ref()?;
        Some(after.iter().map(|(name, text)| (name.clone(), s(text.as_str()))).collect())
    }
}

fn write_token(place: &impl Serialize) -> Result<String, ReadError> {
    serde_json::to_string(place)
        .map_err(|error| ReadError::Unavailable(Unavailable::caused("a page's token", error)))
}

fn read_token<P: DeserializeOwned>(token: &str) -> Result<P, ReadError> {
    serde_json::from_str(token)
        .map_err(|error| ReadError::Unavailable(Unavailable::caused(NO_PAGE, error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_text() {
        let key = Item::from([("name".to_owned(), s("a")), ("due_at".to_owned(), s("2026"))]);
        let position = Position::at(3, Some(key.clone()));
        let text = write_token(&position).expect("text");
        let read: Position = read_token(&text).expect("a position");
        assert_eq!(read, position);
        assert_eq!(read.start_key(), Some(key));
        assert!(read_token::<Position>("nonsense").is_err());
    }
}
