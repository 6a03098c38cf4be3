//! What machines cost and how long jobs waited.

use muster_domain::stored::Stored;
use muster_domain::usage::{Date, Line, PartOfDay, Prices};

use super::{Page, ReadError};

/// What machines cost and how long jobs waited.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Usage {
    /// A page of the lines of a day, in no order and without their prices.
    async fn lines(&self, day: Date, page: Option<String>) -> Result<Page<Line>, ReadError>;
    /// The items of a day that was rolled up; none of any other.
    async fn rolled_up(&self, day: Date) -> Result<Vec<PartOfDay>, ReadError>;
    /// The last prices; none while none were asked for.
    async fn prices(&self) -> Result<Option<Stored<Prices>>, ReadError>;
    /// The prices that were learned on a day, in no order.
    async fn prices_of(&self, day: Date) -> Result<Vec<Prices>, ReadError>;
}
