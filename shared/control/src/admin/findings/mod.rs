//! Findings: everything that needs attention, worked out once. `status`, `watch`, the web interface,
//! `explain`, `doctor` and the notifications display them. Pure, and without a call to GitHub: what
//! is known of the App goes in.

mod costs;
mod github;
mod images;
mod jobs;
mod machines;
mod spot;

use std::collections::BTreeMap;

use muster_api::answers::{
    AppStatus, Finding, LimitStatus, Location, OrphanStatus, Overview, Severity,
};
use muster_domain::causes::with_causes;
use muster_domain::image::Images;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::launch::record::foreign_runners::ForeignRunners;
use muster_domain::launch::record::reclaimed::ReclaimedPlace;
use muster_domain::launch::record::registrations::FailingRegistrations;
use muster_domain::launch::record::trouble::Trouble;
use muster_domain::pool::limits::Scope;
use muster_domain::rerun::Rerun;
use muster_domain::usage::{PriceSource, RefusedPrices};

pub use self::costs::not_rolled_up;
use super::error::repair;
use crate::notices::Notices;
use crate::ports::ReadError;

/// Consecutive failed calls after which undelivered notifications are reported.
const MANY_CALLS: u32 = 3;

/// The facts about a stack.
#[derive(Clone, Copy, Debug)]
pub struct StackFacts<'a> {
    /// Pools, jobs, limits, switches and agents, and when all this was read. Its own findings are
    /// not read.
    pub overview: &'a Overview,
    /// Problems of the App; absent if it was never checked.
    pub app: Option<&'a AppStatus>,
    /// Entities whose registrations fail without a refusal.
    pub failing: &'a [FailingRegistrations],
    /// Pools whose jobs run on runners of a different fleet.
    pub foreign: &'a [ForeignRunners],
    /// What GitHub refuses or limits, and pools whose machines never ran a job.
    pub troubles: &'a [Trouble],
    /// What EC2 refuses.
    pub cooldowns: &'a [Cooldown],
    /// Places where EC2 has reclaimed Spot capacity lately.
    pub reclaimed: &'a [ReclaimedPlace],
    /// Workflow runs with interrupted jobs: those that wait, then what became of the latest.
    pub reruns: &'a [Rerun],
    /// The orphan ledger.
    pub orphans: &'a [OrphanStatus],
    /// What notifications were sent.
    pub notices: Option<&'a Notices>,
    /// The sources of prices that deny queries.
    pub refused_prices: Option<&'a BTreeMap<PriceSource, RefusedPrices>>,
    /// The machine images.
    pub images: Option<&'a Images>,
}

/// Returns everything that needs attention, errors first; of one severity, what concerns most jobs
/// first. Each key is there once.
#[must_use]
pub fn findings(facts: &StackFacts<'_>) -> Vec<Finding> {
    let mut all = facts.overview.switches.findings(facts.overview.now);
    all.extend(github::of_app(facts));
    all.extend(github::of_troubles(facts));
    all.extend(github::of_registrations(facts));
    all.extend(jobs::without_pool(facts));
    all.extend(jobs::in_pools(facts));
    all.extend(jobs::on_foreign_runners(facts));
    all.extend(machines::of_images(facts));
    all.extend(limits(&facts.overview.limits));
    all.extend(machines::refusals(facts.cooldowns, facts.overview.now));
    all.extend(spot::of_reclaimed(facts));
    all.extend(spot::of_reruns(facts));
    all.extend(machines::of_ends(facts));
    all.extend(machines::of_orphans(facts));
    all.extend(facts.notices.and_then(undelivered));
    all.extend(costs::of_refused_prices(facts));
    all.extend(images::of_builds(facts));
    all.sort_by_key(|finding| finding.severity);
    all
}

/// Returns records that cannot be read, with the command that repairs each.
pub(super) fn damaged(damages: &[ReadError]) -> Vec<Finding> {
    let of = |damage: &ReadError| {
        let ReadError::Unreadable { key, .. } = damage else { return None };
        let message = with_causes(damage).to_string();
        let key_of_finding = format!("unreadable-record:{key}");
        let finding = Finding::new(key_of_finding, Severity::Error, Location::Stack, &message);
        Some(finding.fix(repair(key)))
    };
    damages.iter().filter_map(of).collect()
}

/// Returns the worst of them, and how many others there are. They come errors first.
#[must_use]
pub fn at_most(most: usize, mut all: Vec<Finding>) -> Vec<Finding> {
    if all.len() > most {
        let message = format!("{} more are not shown here", all.len() - most);
        all.truncate(most);
        let more = Finding::new("more", Severity::Note, Location::Stack, &message);
        all.push(more.fix("muster status"));
    }
    all
}

fn limits(limits: &[LimitStatus]) -> impl Iterator<Item = Finding> {
    limits.iter().filter_map(|limit| {
        let LimitStatus { of, live, .. } = limit;
        let max = limit.max.filter(|max| live >= max)?;
        let message = format!("{of} is at its limit, {live} of {max} machines");
        let name = match of {
            Scope::Stack => "stack".to_owned(),
            Scope::Entity(entity) => entity.to_string(),
        };
        let key = format!("limit-reached:{name}");
        let finding = Finding::new(key, Severity::Warning, Location::Stack, &message);
        Some(finding.fix("wait, or raise it: the pool file's limits, or MaxMachines of the stack"))
    })
}

/// Notifications that cannot be delivered: without this, silence would be taken for health.
fn undelivered(notices: &Notices) -> Option<Finding> {
    let error = notices.error.as_ref().filter(|_| notices.failures >= MANY_CALLS)?;
    let message =
        format!("notifications are not delivered, {} attempts: {error}", notices.failures);
    let finding = Finding::new("notices", Severity::Warning, Location::Stack, &message);
    Some(finding.fix("muster notices set, with an address that works"))
}

#[cfg(test)]
mod tests;
