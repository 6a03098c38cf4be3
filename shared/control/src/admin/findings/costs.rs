//! Costs that are not rolled up or have no current price.

use muster_api::answers::{Finding, Location, Severity};
use muster_domain::time::Time;
use muster_domain::usage::{PriceSource, RefusedPrices};

use super::StackFacts;

/// Returns the finding for a roll-up that is outstanding since `due`.
#[must_use]
pub fn not_rolled_up(due: Time, now: Time) -> Finding {
    let message = format!(
        "costs have not been rolled up since {}: after 90 days they are lost with their lines",
        due.clock(now)
    );
    let finding = Finding::new("costs", Severity::Warning, Location::Stack, &message);
    finding.since(due).fix("muster logs reaper")
}

/// Returns a finding for each source of prices that denies queries.
pub(super) fn of_refused_prices(facts: &StackFacts<'_>) -> impl Iterator<Item = Finding> {
    let now = facts.overview.now;
    facts.refused_prices.iter().flat_map(|prices| prices.iter()).map(move |(source, refused)| {
        let RefusedPrices { since, code, of } = refused;
        let (name, prices, permission) = match source {
            PriceSource::Spot => ("spot", "Spot prices", "ec2:DescribeSpotPriceHistory"),
            PriceSource::List => ("list", "list prices", "pricing:GetProducts"),
        };
        let first = of.first().map_or("", |of| of);
        let of = match of.len() {
            0 | 1 => first.to_owned(),
            count => format!("{first} and {} more", count - 1),
        };
        let message = format!(
            "AWS refuses the {prices} of {of} since {} ({code}): costs and the alarm spend use the \
             last known prices, or none",
            since.clock(now)
        );
        let key = format!("prices-refused:{name}");
        let finding = Finding::new(key, Severity::Warning, Location::Stack, &message);
        finding.since(*since).fix(format!(
            "allow {permission} for the reaper's role; the template does, so look for a policy of \
             the organization that denies it"
        ))
    })
}
