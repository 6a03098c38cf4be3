//! What machines cost is learned by the hour, behind a sweep.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_domain::observation::ProviderError;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;
use muster_domain::usage::Prices;

use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::ports::{PriceList, Table, Usage as _};
use crate::writes::{self, PassError};

/// Asks for prices, behind a sweep.
pub struct PriceWatch<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Compute: PriceList>> PriceWatch<'_, W> {
    /// Asks EC2 for spot's prices each hour and the price list each day, of the types of the pools
    /// and of those that were seen; at once where one is new. What is wrong, if anything is.
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
        let seen: BTreeSet<Arc<str>> = named.chain(seen).cloned().collect();
        let stored = table.prices().await?;
        let known = stored.as_deref().cloned().unwrap_or_default();
        if seen.is_empty() || !known.is_spot_old(now) && !known.lacks(&seen) {
            return Ok(Vec::new());
        }
        let kinds = known.to_ask(&seen);
        let spot = match self.context.compute.spot_prices(&kinds).await {
            Ok(spot) => spot,
            // Nothing is known of this hour, and the next sweep asks again.
            Err(error) => return Ok(vec![failed("spot's prices", &error)]),
        };
        let (next, problems) = self.list(Prices { at: now, spot, ..known }, kinds, now).await;
        self.keep(stored.as_ref(), next).await?;
        Ok(problems)
    }

    /// What the price list says. Without an answer the known price holds, and a type of which none
    /// is known has none until the next hour.
    async fn list(
        &self,
        mut prices: Prices,
        kinds: BTreeSet<Arc<str>>,
        now: Time,
    ) -> (Prices, Vec<String>) {
        let mut problems = Vec::new();
        let is_old = prices.is_list_old(now);
        for kind in kinds {
            if !is_old && prices.knows(&kind) {
                continue;
            }
            match self.context.compute.list_price(&kind).await {
                Ok(price) => prices.note(kind, price),
                Err(error) => {
                    problems.push(failed(&format!("the list price of {kind}"), &error));
                    if !prices.knows(&kind) {
                        prices.note(kind, None);
                    }
                }
            }
        }
        if is_old {
            match self.context.compute.disk_price().await {
                Ok(price) => prices.disk = price,
                Err(error) => problems.push(failed("the list price of disks", &error)),
            }
            if problems.is_empty() {
                prices.listed_at = now;
            }
        }
        (prices, problems)
    }

    async fn keep(&self, stored: Option<&Stored<Prices>>, next: Prices) -> Result<(), PassError> {
        let change = Change::from_read(stored, next);
        // Another sweep has learned them as well.
        writes::commit_unless_changed(self.context.table, &[change.into()]).await?;
        Ok(())
    }
}

fn failed(what: &str, error: &ProviderError) -> String {
    tracing::warn!(what, error = with_causes(error), "did not learn a price");
    format!("{what}: {}", with_causes(error))
}
