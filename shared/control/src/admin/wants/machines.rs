//! Machines that serve nothing, that EC2 refuses, and that do not end.

use std::collections::BTreeMap;

use muster_domain::ec2::{CooldownScope, ErrorClass};
use muster_domain::launch::cooldown::{Cooldown, subject_of_places};
use muster_domain::time::{Seconds, Time};

use super::{Facts, trouble};
use crate::admin::answers::{
    AgentsStatus, EndingStatus, ImageAgent, OrphanStatus, Place, Severity, Want,
};

/// An image is renewed within two weeks: from then on its agent's age is told.
const SOON: Seconds = Seconds(14 * 24 * 3600);

/// Pools whose machines serve nothing.
pub(super) fn of_troubles(facts: &Facts<'_>) -> impl Iterator<Item = Want> {
    let now = facts.overview.now;
    facts.overview.pools.iter().filter_map(move |pool| {
        let one = pool.trouble.as_ref()?;
        let run = match &one.last {
            Some(last) => format!("muster show {last}"),
            None => "muster alarms pool-in-trouble".to_owned(),
        };
        let (key, place) = (format!("pool:{}:trouble", pool.name), Place::Pool(pool.name.clone()));
        let want = Want::new(key, Severity::Error, &trouble(one, now), place);
        Some(want.since(one.since).run(run))
    })
}

/// Images whose agents GitHub takes no more, or not for long.
pub(super) fn of_images(facts: &Facts<'_>) -> impl Iterator<Item = Want> {
    let (agents, now) = (&facts.overview.agents, facts.overview.now);
    let is_near = move |one: &&ImageAgent| one.until.is_none_or(|until| until.since(now) <= SOON);
    agents.images.iter().filter(is_near).map(move |one| {
        let key = format!("pool:{}:agent", one.pool);
        let place = Place::Pool(one.pool.clone());
        Want::new(key, Severity::Warning, &image_agent(one, agents, now), place)
    })
}

fn image_agent(one: &ImageAgent, agents: &AgentsStatus, now: Time) -> String {
    let ImageAgent { pool, version, until } = one;
    let newest = agents.newest.map_or_else(|| "the newest".to_owned(), |one| one.to_string());
    match until {
        Some(until) => format!(
            "the image of pool {pool} has agent {version}, which GitHub takes for at most {} \
             more; {newest} is out: renew the image",
            until.since(now)
        ),
        None => format!(
            "the image of pool {pool} has agent {version}, which GitHub takes no more: each \
             machine takes {newest} before it starts; renew the image"
        ),
    }
}

/// Lists what EC2 refuses, one finding for each cause: types and subnets may be hundreds, and those
/// with the same code are reported together.
#[must_use]
pub fn refusals(cooldowns: &[Cooldown], now: Time) -> Vec<Want> {
    let mut places: BTreeMap<&str, Vec<&Cooldown>> = BTreeMap::new();
    let mut all = Vec::new();
    for one in cooldowns {
        let (key, place) = match &one.closed {
            CooldownScope::Place { .. } => {
                places.entry(&one.code).or_default().push(one);
                continue;
            }
            CooldownScope::Calls => ("refusal:calls".to_owned(), Place::Stack),
            CooldownScope::Quota { market, bucket } => {
                (format!("refusal:quota:{market}:{bucket}"), Place::Stack)
            }
            CooldownScope::Pool(pool) => {
                (format!("pool:{pool}:refusal"), Place::Pool(pool.clone()))
            }
            CooldownScope::Unknown { market, pool } => {
                (format!("pool:{pool}:unknown:{market}"), Place::Pool(pool.clone()))
            }
        };
        all.push(of_refusal(key, refusal(one, now), &[one], place));
    }
    all.extend(places.into_iter().map(|(code, refused)| {
        let said = refusal_of_places(&refused, now);
        of_refusal(format!("refusal:places:{code}"), said, &refused, Place::Machines)
    }));
    all
}

fn of_refusal(key: String, said: String, refused: &[&Cooldown], place: Place) -> Want {
    let is = |class: fn(ErrorClass) -> bool| refused.iter().any(|one| class(one.class));
    let (severity, page) = if is(ErrorClass::is_refusal) {
        (Severity::Error, Some("pool-refused"))
    } else if is(|class| class == ErrorClass::Quota) {
        (Severity::Warning, Some("quota"))
    } else {
        (Severity::Warning, None)
    };
    let since = refused.iter().map(|one| one.since).min();
    let want = Want::new(key, severity, &said, place).since(since);
    want.run(page.map(|page| format!("muster alarms {page}")))
}

/// Returns what EC2 refused, and when the next launch is tried.
#[must_use]
pub fn refusal(one: &Cooldown, now: Time) -> String {
    let Cooldown { code, message, times, until, .. } = one;
    let (subject, next) = (one.subject(), next_try(*until, now));
    format!("{subject}: {code}: {message}; {times} times, {next}")
}

/// Returns when EC2 is asked again: at a time, or by the next launch.
pub(crate) fn next_try(until: Time, now: Time) -> String {
    match until > now {
        true => format!("next try {}", until.clock(now)),
        false => "next try with the next launch".to_owned(),
    }
}

fn refusal_of_places(refused: &[&Cooldown], now: Time) -> String {
    let [first, others @ ..] = refused else { return String::new() };
    if others.is_empty() {
        return refusal(first, now);
    }
    let place = |one: &&Cooldown| match &one.closed {
        CooldownScope::Place { market, place, .. } => Some((*market, place.clone())),
        _ => None,
    };
    let places: Vec<_> = refused.iter().filter_map(place).collect();
    let places: Vec<_> = places.iter().map(|(market, place)| (*market, place)).collect();
    let subject = subject_of_places(first.class, &places);
    let next = refused.iter().map(|one| one.until).min().unwrap_or(now);
    format!("{subject}: {}: {}; {}", first.code, first.message, next_try(next, now))
}

/// Ends that take long, and that no job holds up.
pub(super) fn of_ends(facts: &Facts<'_>) -> impl Iterator<Item = Want> {
    let now = facts.overview.now;
    facts.overview.pools.iter().filter_map(move |pool| {
        let EndingStatus { instance, since, waiting_for } = pool.late_end.as_ref()?;
        let what = waiting_for.as_ref().map(|what| format!(" and waits for {}", what.as_str()));
        let said = format!(
            "{instance} is on its way out for {}{}",
            now.since(*since),
            what.unwrap_or_default()
        );
        let (key, place) =
            (format!("pool:{}:late-end", pool.name), Place::Instance(instance.clone()));
        let want = Want::new(key, Severity::Warning, &said, place);
        Some(want.since(*since).run(format!("muster explain {instance}")))
    })
}

/// The orphan ledger: machines that are being ended, and those that are not ours to end.
pub(super) fn of_orphans(facts: &Facts<'_>) -> Vec<Want> {
    let now = facts.overview.now;
    let (ours, strays): (Vec<&OrphanStatus>, Vec<&OrphanStatus>) =
        facts.orphans.iter().partition(|one| one.launch.is_some());
    let since = |all: &[&OrphanStatus]| all.iter().map(|one| one.since).min();
    let strays_said = match *strays {
        [] => None,
        [one] => {
            Some(format!("{} has this stack's tag, but no launch made it: not ended", one.machine))
        }
        ref many => Some(format!(
            "{} machines have this stack's tag, but no launch made them: not ended ({}, …)",
            many.len(),
            many[0].machine
        )),
    };
    let ours_said = ours.iter().max_by_key(|one| one.attempts).map(|worst| {
        let error = worst.last_error.as_ref().map(|error| format!(": {error}"));
        let (machine, attempts) = (&worst.machine, worst.attempts);
        let error = error.unwrap_or_default();
        let first = since(&ours).unwrap_or(now).clock(now);
        match ours.len() {
            1 => {
                format!(
                    "{machine} is an orphan since {first}, {attempts} attempts to end it{error}"
                )
            }
            many => format!(
                "{many} machines are orphans, the first since {first}; {attempts} attempts to end \
                 {machine}{error}"
            ),
        }
    });
    let want = |key: &str, severity, said: Option<String>, all: &[&OrphanStatus]| {
        let want = Want::new(key.to_owned(), severity, &said?, Place::Orphans);
        Some(want.since(since(all)).run("muster alarms orphans".to_owned()))
    };
    let strays = want("strays", Severity::Warning, strays_said, &strays);
    let ours = want("orphans", Severity::Error, ours_said, &ours);
    strays.into_iter().chain(ours).collect()
}
