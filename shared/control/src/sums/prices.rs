//! Learns prices after a sweep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::{join_all, join3};
use muster_domain::causes::with_causes;
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;
use muster_domain::usage::{Learned, PriceQuery, Prices};

use crate::context::{Context, Wired};
use crate::ports::{PriceList, Table, Usage as _};
use crate::writes::{self, PassError};

/// Maximum types per call for Spot prices: with six zones each they fit on one page.
const TYPES_OF_CALL: usize = 100;
/// Cursor of the last overdue queries.
const OVERDUE: &str = "prices";
/// Number of concurrent calls per source. Their results are stored before the next calls.
const AT_ONCE: usize = 8;

/// Learns prices after a sweep.
pub struct PriceWatch<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
}

/// A response about a price.
struct PriceResponse {
    query: PriceQuery,
    learned: Result<Learned, ProviderError>,
}

impl<W: Wired<Table: Table, Compute: PriceList>> PriceWatch<'_, W> {
    /// Learns hourly Spot prices and daily list prices for the types in pools and in use. Each
    /// source and type is queried independently, and results are stored at once. After a refusal,
    /// waits an hour before the next query. Returns the problems.
    ///
    /// # Errors
    /// When the tables do not answer.
    pub async fn look(
        &self,
        seen: &BTreeSet<Arc<str>>,
        now: Time,
    ) -> Result<Vec<String>, PassError> {
        let Context { table, settings, .. } = self.context;
        let named = settings.pools.iter().flat_map(|pool| &pool.instance_types);
        let used: BTreeSet<Arc<str>> = named.chain(seen).cloned().collect();
        let stored = writes::renewed(table, table.prices().await, Prices::default, now).await?;
        let mut known = stored.as_deref().cloned().unwrap_or_default();
        known.note_used(&used, now);
        if known.is_overdue(now) && !writes::take_turn(table, OVERDUE, now).await? {
            return Ok(Vec::new());
        }
        let (spot, list) = (known.spot_due(now), known.list_due(now));
        let is_disk_due = !known.types.is_empty() && known.disk_due <= now;
        let (spot, list, disk) = join3(
            self.spot(&used, &spot, now),
            self.list(&used, &list, now),
            self.disk(&used, is_disk_due, now),
        )
        .await;
        Ok([spot?, list?, disk?].concat())
    }

    async fn spot(
        &self,
        used: &BTreeSet<Arc<str>>,
        due: &[Arc<str>],
        now: Time,
    ) -> Result<Vec<String>, PassError> {
        let mut problems = Vec::new();
        for some in due.chunks(TYPES_OF_CALL) {
            let answers = self.spot_of(some).await;
            if some.len() == 1 || !answers.iter().any(PriceResponse::is_refused) {
                problems.extend(self.keep(used, "Spot prices", answers, now).await?);
                continue;
            }
            // EC2 refuses the whole call if it does not know one of the types.
            for some in some.chunks(AT_ONCE) {
                let each = some.iter().map(|one| self.spot_of(std::slice::from_ref(one)));
                let answers = join_all(each).await.into_iter().flatten().collect();
                problems.extend(self.keep(used, "Spot prices", answers, now).await?);
            }
        }
        Ok(problems)
    }

    /// Queries these types in one call. Returns an answer for each.
    async fn spot_of(&self, kinds: &[Arc<str>]) -> Vec<PriceResponse> {
        let answer = self.context.compute.spot_prices(&kinds.iter().cloned().collect()).await;
        let zones = |kind: &Arc<str>| answer.as_ref().map(|all| all.get(kind).cloned());
        let of = |kind: &Arc<str>| PriceResponse {
            query: PriceQuery::Spot(kind.clone()),
            learned: zones(kind)
                .map(|zones| Learned::Spot(kind.clone(), zones.unwrap_or_default()))
                .map_err(Clone::clone),
        };
        kinds.iter().map(of).collect()
    }

    async fn list(
        &self,
        used: &BTreeSet<Arc<str>>,
        due: &[Arc<str>],
        now: Time,
    ) -> Result<Vec<String>, PassError> {
        let mut problems = Vec::new();
        for some in due.chunks(AT_ONCE) {
            let each = some.iter().map(async |kind| PriceResponse {
                query: PriceQuery::List(kind.clone()),
                learned: self.listed(kind).await,
            });
            let answers = join_all(each).await;
            problems.extend(self.keep(used, "list prices", answers, now).await?);
        }
        Ok(problems)
    }

    async fn listed(&self, kind: &Arc<str>) -> Result<Learned, ProviderError> {
        let price = self.context.compute.list_price(kind).await?;
        Ok(Learned::List(kind.clone(), price))
    }

    async fn disk(
        &self,
        used: &BTreeSet<Arc<str>>,
        is_due: bool,
        now: Time,
    ) -> Result<Vec<String>, PassError> {
        if !is_due {
            return Ok(Vec::new());
        }
        let learned = self.context.compute.disk_price().await.map(Learned::Disk);
        let answer = PriceResponse { query: PriceQuery::Disk, learned };
        self.keep(used, "list prices", vec![answer], now).await
    }

    /// Stores the prices that were read. Returns a problem for each distinct error, with the
    /// affected types.
    async fn keep(
        &self,
        used: &BTreeSet<Arc<str>>,
        source: &str,
        answers: Vec<PriceResponse>,
        now: Time,
    ) -> Result<Vec<String>, PassError> {
        let mut problems = BTreeMap::<String, Vec<Arc<str>>>::new();
        let mut learned = Vec::new();
        for PriceResponse { query, learned: answer } in answers {
            match answer {
                Ok(price) => learned.push(price),
                Err(error) => {
                    let of = problems.entry(with_causes(&error).to_string()).or_default();
                    of.push(query.of());
                    if let ProviderError::Unauthorized(detail) = error {
                        learned.push(Learned::Refused(query, detail.code));
                    }
                }
            }
        }
        if !learned.is_empty() {
            self.update(used, learned, now).await?;
        }
        let problem = |(error, of): (String, Vec<Arc<str>>)| {
            let problem = format!("{source} of {}: {error}", of.join(", "));
            tracing::warn!(problem, "failed to read prices");
            problem
        };
        Ok(problems.into_iter().map(problem).collect())
    }

    async fn update(
        &self,
        used: &BTreeSet<Arc<str>>,
        learned: Vec<Learned>,
        now: Time,
    ) -> Result<(), PassError> {
        let table = self.context.table;
        let next = |prices: Option<&Prices>| {
            let mut next = prices.cloned().unwrap_or_default();
            next.note_used(used, now);
            learned.iter().cloned().for_each(|learned| next.learn(learned, now));
            (prices != Some(&next)).then_some(next)
        };
        writes::update(table, async || table.prices().await, next).await?;
        Ok(())
    }
}

impl PriceResponse {
    const fn is_refused(&self) -> bool {
        matches!(self.learned, Err(ProviderError::Unauthorized(_)))
    }
}
