//! What somebody should look at: one list, for everybody who shows or tells it. It is pure, and
//! needs nothing of GitHub: what is known of the App goes in where somebody has asked.

mod costs;
mod github;
mod jobs;
mod machines;

use muster_domain::ids::PoolName;
use muster_domain::launch::cooldown::Cooldown;
use muster_domain::launch::foreign_runners::ForeignRunners;
use muster_domain::launch::registrations::FailingRegistrations;
use muster_domain::launch::trouble::Trouble;
use muster_domain::pool::limits::Scope;
use muster_domain::switches::SwitchedOff;
use muster_domain::text::first;
use muster_domain::time::Time;

pub use self::costs::not_rolled_up;
pub use self::github::trouble;
pub use self::jobs::unserved;
pub(crate) use self::machines::next_try;
pub use self::machines::{refusal, refusals};
use super::error::repair;
use crate::causes::with_causes;
use crate::notices::Notices;
use crate::ports::ReadError;

use super::answers::{
    AppStatus, LimitStatus, OrphanStatus, Overview, Place, Severity, ShownSwitches, Want,
};

/// Longest sentence, characters: some quote EC2 or GitHub.
const MAX_SENTENCE: usize = 600;
/// After so many calls in a row that failed, somebody should know that notices are not told.
const MANY_CALLS: u32 = 3;

/// What is known of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Pools, jobs, limits, switches and agents, and when all this was so. Its own `wants` are not
    /// read.
    pub overview: &'a Overview,
    /// Problems of the App; none where it was never checked.
    pub app: Option<&'a AppStatus>,
    /// Entities whose registrations fail without a refusal.
    pub failing: &'a [FailingRegistrations],
    /// Pools whose jobs run on runners of another fleet.
    pub foreign: &'a [ForeignRunners],
    /// What GitHub refuses or limits.
    pub troubles: &'a [Trouble],
    /// What EC2 refuses and is not asked for now.
    pub cooldowns: &'a [Cooldown],
    /// The orphan ledger.
    pub orphans: &'a [OrphanStatus],
    /// What was told as notices.
    pub notices: Option<&'a Notices>,
}

/// Everything that somebody should look at, what concerns most jobs first. Each key is there once.
#[must_use]
pub fn wants(facts: &Facts<'_>) -> Vec<Want> {
    let mut all = switches(&facts.overview.switches, facts.overview.now);
    all.extend(github::of_app(facts.app));
    all.extend(github::of_troubles(facts));
    all.extend(github::of_registrations(facts));
    all.extend(machines::of_troubles(facts));
    all.extend(jobs::of_nobody(facts));
    all.extend(jobs::of_pools(facts));
    all.extend(jobs::of_foreign_runners(facts));
    all.extend(machines::of_images(facts));
    all.extend(limits(&facts.overview.limits));
    all.extend(machines::refusals(facts.cooldowns, facts.overview.now));
    all.extend(machines::of_ends(facts));
    all.extend(machines::of_orphans(facts));
    all.extend(facts.notices.and_then(untold));
    all
}

/// Records that cannot be read, and the command that repairs each.
pub(super) fn damaged(damages: &[ReadError]) -> Vec<Want> {
    let of = |damage: &ReadError| {
        let ReadError::Unreadable { key, .. } = damage else { return None };
        let said = format!("{}: {}", with_causes(damage), repair(key));
        let run = match key.as_str() {
            "pools" => Some("muster pools history".to_owned()),
            "switches" | "cooldowns" => Some("muster resume launches".to_owned()),
            _ => None,
        };
        let want = Want::new(format!("record:{key}"), Severity::Error, &said, Place::Stack);
        Some(want.run(run))
    };
    damages.iter().filter_map(of).collect()
}

/// The worst of them, and how many others there are.
#[must_use]
pub fn at_most(most: usize, mut all: Vec<Want>) -> Vec<Want> {
    if all.len() > most {
        all.sort_by_key(|want| want.severity);
        let others = all.len() - most;
        all.truncate(most);
        let said = format!("{others} more are not shown here");
        let more = Want::new("more".to_owned(), Severity::Note, &said, Place::Stack);
        all.push(more.run("muster status".to_owned()));
    }
    all
}

/// What is off, and what ends that.
#[must_use]
pub fn switches(switches: &ShownSwitches, now: Time) -> Vec<Want> {
    let want = |name: &str, off: &SwitchedOff, pool: Option<&PoolName>| {
        let SwitchedOff { since, by, reason, until: _ } = off;
        let (key, noun, place) = match pool {
            Some(pool) => (
                format!("pool:{pool}:switch"),
                format!("launches of pool {pool}"),
                Place::Pool(pool.clone()),
            ),
            None => (format!("switch:{name}"), name.to_owned(), Place::Stack),
        };
        let (since_when, end) = (since.clock(now), off.end(now));
        let said = format!("{noun} are off since {since_when} by {by}{end}: {reason}");
        let want = Want::new(key, Severity::Warning, &said, place);
        want.since(*since).run(format!("muster resume {name}"))
    };
    let stack = [("launches", &switches.launches), ("deletes", &switches.deletes)];
    let stack = stack.into_iter().filter_map(|(name, off)| Some(want(name, off.as_ref()?, None)));
    let pools = switches.pools.iter().map(|(pool, off)| want(pool.as_str(), off, Some(pool)));
    stack.chain(pools).collect()
}

fn limits(limits: &[LimitStatus]) -> impl Iterator<Item = Want> {
    limits.iter().filter_map(|limit| {
        let LimitStatus { of, live, .. } = limit;
        let max = limit.max.filter(|max| live >= max)?;
        let said = format!("{of} is at its limit, {live} of {max} machines");
        let name = match of {
            Scope::Stack => "stack".to_owned(),
            Scope::Entity(entity) => entity.to_string(),
        };
        let want = Want::new(format!("limit:{name}"), Severity::Warning, &said, Place::Stack);
        Some(want.run("muster pools edit".to_owned()))
    })
}

/// Notices that cannot be told: whoever waits for them would take silence for health.
fn untold(notices: &Notices) -> Option<Want> {
    let error = notices.error.as_ref().filter(|_| notices.failures >= MANY_CALLS)?;
    let said = format!("notices are not delivered, {} tries: {error}", notices.failures);
    let key = "notices".to_owned();
    Some(Want::new(key, Severity::Warning, &said, Place::Stack))
}

impl Want {
    fn new(key: String, severity: Severity, sentence: &str, place: Place) -> Self {
        let sentence = first(sentence, MAX_SENTENCE).to_owned();
        Self { key, severity, sentence, since: None, place, run: None }
    }

    fn since(self, since: impl Into<Option<Time>>) -> Self {
        Self { since: since.into(), ..self }
    }

    fn run(self, run: impl Into<Option<String>>) -> Self {
        Self { run: run.into(), ..self }
    }
}

#[cfg(test)]
mod tests;
