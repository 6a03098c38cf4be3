//! Reads of usage records and prices.

use muster_domain::stored::Stored;
use muster_domain::usage::{Date, Line, PartOfDay, Prices};

use super::{Page, ReadError};

/// Reads of usage records and prices.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Usage {
    /// Returns a page of a day's usage records, in no order and without prices.
    async fn lines(&self, day: Date, page: Option<String>) -> Result<Page<Line>, ReadError>;
    /// Returns the items of a rolled-up day; empty for other days.
    async fn rolled_up(&self, day: Date) -> Result<Vec<PartOfDay>, ReadError>;
    /// Returns the latest prices, if they were ever queried.
    async fn prices(&self) -> Result<Option<Stored<Prices>>, ReadError>;
    /// Returns the prices that were learned on a day, in no order.
    async fn prices_of(&self, day: Date) -> Result<Vec<Prices>, ReadError>;
}
