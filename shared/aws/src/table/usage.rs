//! Usage records and prices.

use muster_control::ports::{Page, ReadError, Usage};
use muster_domain::stored::Stored;
use muster_domain::usage::{Date, Line, PartOfDay, Prices};

use super::keys::{self, TableKind};
use super::read::Range;
use super::{DynamoTable, records, row};

/// Maximum number of usage records per page, which must fit into Lambda's response limit of 6 MB.
const LINES_OF_PAGE: u32 = 4_000;

impl Usage for DynamoTable {
    async fn lines(&self, day: Date, page: Option<String>) -> Result<Page<Line>, ReadError> {
        let range = |shard: u32| Range::of_table(TableKind::Usage, keys::usage_day(day, shard));
        let page = self.reader().of_shards(range, Some(LINES_OF_PAGE), page).await?;
        let Page { items, unreadable, next } = page;
        Ok(Page { items: records(items), unreadable, next })
    }

    async fn rolled_up(&self, day: Date) -> Result<Vec<PartOfDay>, ReadError> {
        let range = Range::of_table(TableKind::Usage, keys::day_sum(day));
        Ok(records(self.listed(range, None).await?))
    }

    async fn prices(&self) -> Result<Option<Stored<Prices>>, ReadError> {
        self.reader().record(keys::PRICES.to_owned()).await
    }

    async fn prices_of(&self, day: Date) -> Result<Vec<Prices>, ReadError> {
        let range = Range::of_table(TableKind::Usage, keys::day_prices(day));
        let hours: Vec<Stored<row::PricesOfHour>> = self.listed(range, None).await?;
        Ok(hours.into_iter().map(|hour| hour.into_record().0).collect())
    }
}
