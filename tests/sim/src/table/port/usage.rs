//! What machines cost and how long jobs waited.

use muster_control::ports::{Page, ReadError, Usage};
use muster_domain::stored::Stored;
use muster_domain::usage::{Date, Line, PartOfDay, Prices};

use crate::door::Door;

impl Usage for Door {
    async fn lines(&self, day: Date, page: Option<String>) -> Result<Page<Line>, ReadError> {
        self.list(|tables| {
            let skip = page.as_deref().and_then(|page| page.parse().ok()).unwrap_or(0);
            let of_day = tables.usage.values().filter(|line| Date::of(line.at) == day);
            let mut items: Vec<Line> = of_day.skip(skip).take(tables.page + 1).cloned().collect();
            let more = items.len() > tables.page;
            items.truncate(tables.page);
            let next = more.then(|| (skip + tables.page).to_string());
            Page { items, unreadable: Vec::new(), next }
        })
        .await
    }

    async fn rolled_up(&self, day: Date) -> Result<Vec<PartOfDay>, ReadError> {
        self.list(|tables| {
            let items = tables.days.range((day, 0)..=(day, usize::MAX));
            items.map(|(_, part)| part.clone()).collect()
        })
        .await
    }

    async fn prices(&self) -> Result<Option<Stored<Prices>>, ReadError> {
        self.read_of("prices", |tables| tables.prices.clone()).await
    }

    async fn prices_of(&self, day: Date) -> Result<Vec<Prices>, ReadError> {
        self.list(|tables| {
            let hours = tables.prices_by_hour.values();
            hours.filter(|prices| Date::of(prices.at) == day).cloned().collect()
        })
        .await
    }
}
