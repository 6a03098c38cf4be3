//! What EC2 refuses, machines that do not end, and images with an old agent.

use std::collections::BTreeMap;

use muster_api::answers::{
    AgentsStatus, EndingStatus, Finding, ImageAgent, Location, OrphanStatus, Severity,
};
use muster_domain::ec2::{CooldownScope, ErrorClass};
use muster_domain::launch::record::cooldown::{Cooldown, next_try, subject_of_places};
use muster_domain::time::{Seconds, Time};

use super::StackFacts;

/// An agent's age is reported this long before GitHub rejects it.
const SOON: Seconds = Seconds(14 * 24 * 3600);

/// Images whose agents GitHub rejects, or soon will.
pub(super) fn of_images(facts: &StackFacts<'_>) -> impl Iterator<Item = Finding> {
    let (agents, now) = (&facts.overview.agents, facts.overview.now);
    let is_near = move |one: &&ImageAgent| one.until.is_none_or(|until| until.since(now) <= SOON);
    agents.images.iter().filter(is_near).map(move |one| {
        let (key, location) =
            (format!("pool-agent:{}", one.pool), Location::Pool(one.pool.clone()));
        let message = image_agent(one, agents, now);
        let finding = Finding::new(key, Severity::Warning, location, &message);
        finding
            .fix("build an image with the newest agent and set it in the pool: muster pools edit")
    })
}

fn image_agent(one: &ImageAgent, agents: &AgentsStatus, now: Time) -> String {
    let ImageAgent { pool, version, until } = one;
    let newest = agents.newest.map_or_else(|| "the newest".to_owned(), |one| one.to_string());
    match until {
        Some(until) => format!(
            "the image of pool {pool} has agent {version}, which GitHub stops accepting within \
             {}; {newest} is available",
            until.since(now)
        ),
        None => format!(
            "the image of pool {pool} has agent {version}, which GitHub no longer accepts: each \
             machine downloads {newest} first, so jobs start later"
        ),
    }
}

/// Lists EC2's refusals, one finding for each cause: there may be hundreds of types and subnets,
/// and the ones with an equal code are reported together.
pub(super) fn refusals(cooldowns: &[Cooldown], now: Time) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<&Cooldown>> = BTreeMap::new();
    let mut all = Vec::new();
    for one in cooldowns {
        let (key, location) = match &one.closed {
            CooldownScope::Place { .. } => {
                places.entry(&one.code).or_default().push(one);
                continue;
            }
            CooldownScope::Calls => ("ec2-calls".to_owned(), Location::Stack),
            CooldownScope::Quota { market, bucket } => {
                (format!("ec2-quota:{market}:{bucket}"), Location::Stack)
            }
            CooldownScope::Pool(pool) => {
                (format!("ec2-refuses-pool:{pool}"), Location::Pool(pool.clone()))
            }
            CooldownScope::Unknown { market, pool } => {
                (format!("ec2-unknown:{pool}:{market}"), Location::Pool(pool.clone()))
            }
        };
        all.push(of_refusal(key, location, &one.sentence(now), &[one]));
    }
    all.extend(places.into_iter().map(|(code, refused)| {
        let (key, message) = (format!("ec2-places:{code}"), refusal_of_places(&refused, now));
        of_refusal(key, Location::Machines, &message, &refused)
    }));
    all
}

fn of_refusal(key: String, location: Location, message: &str, refused: &[&Cooldown]) -> Finding {
    let is = |class: fn(ErrorClass) -> bool| refused.iter().any(|one| class(one.class));
    let (severity, fix) = if is(ErrorClass::is_refusal) {
        (Severity::Error, "muster alarms pool-refused")
    } else if is(|class| class == ErrorClass::Quota) {
        (Severity::Warning, "muster alarms quota")
    } else {
        (Severity::Warning, "wait, or give the pool more types or subnets: muster pools edit")
    };
    let since = refused.iter().map(|one| one.since).min();
    Finding::new(key, severity, location, message).since(since).fix(fix)
}

fn refusal_of_places(refused: &[&Cooldown], now: Time) -> String {
    let [first, others @ ..] = refused else { return String::new() };
    if others.is_empty() {
        return first.sentence(now);
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

/// Ends that take long, and that no job delays.
pub(super) fn of_ends(facts: &StackFacts<'_>) -> impl Iterator<Item = Finding> {
    let now = facts.overview.now;
    facts.overview.pools.iter().filter_map(move |pool| {
        let EndingStatus { instance, since, waiting_for } = pool.late_end.as_ref()?;
        let what = waiting_for.as_ref().map(|what| format!(" and waits for {}", what.as_str()));
        let what = what.unwrap_or_default();
        let message = format!("{instance} has been ending for {}{what}", now.since(*since));
        let (key, location) =
            (format!("pool-late-end:{}", pool.name), Location::Instance(instance.clone()));
        let finding = Finding::new(key, Severity::Warning, location, &message);
        Some(finding.since(*since).fix(format!("muster explain {instance}")))
    })
}

/// Reports the orphan ledger: machines that are being terminated, and machines that are not ours to
/// terminate.
pub(super) fn of_orphans(facts: &StackFacts<'_>) -> Vec<Finding> {
    let now = facts.overview.now;
    let (ours, strays): (Vec<&OrphanStatus>, Vec<&OrphanStatus>) =
        facts.orphans.iter().partition(|one| one.launch.is_some());
    let since = |all: &[&OrphanStatus]| all.iter().map(|one| one.since).min();
    let finding = |key: &str, severity, message: &str, all: &[&OrphanStatus]| {
        Finding::new(key, severity, Location::Orphans, message).since(since(all))
    };
    let stray = match *strays {
        [] => None,
        [one] => Some(format!(
            "machine {} has this stack's tag, but Muster did not launch it and will not terminate it",
            one.machine
        )),
        ref many => Some(format!(
            "{} machines have this stack's tag, but Muster did not launch them and will not \
             terminate them ({}, …)",
            many.len(),
            many[0].machine
        )),
    };
    let stray = stray.map(|message| {
        let ids: Vec<&str> = strays.iter().take(3).map(|one| one.machine.as_str()).collect();
        finding("strays", Severity::Warning, &message, &strays).fix(format!(
            "remove the tag muster:stack, or terminate: aws ec2 terminate-instances \
             --instance-ids {}",
            ids.join(" ")
        ))
    });
    let orphan = ours.iter().max_by_key(|one| one.attempts).map(|worst| {
        let error = worst.last_error.as_ref().map(|error| format!(": {error}"));
        let (machine, attempts) = (&worst.machine, worst.attempts);
        let error = error.unwrap_or_default();
        let first = since(&ours).unwrap_or(now).clock(now);
        let message = match ours.len() {
            1 => format!(
                "machine {machine} is running but belongs to no instance (since {first}); {attempts} \
                 attempts to terminate it{error}"
            ),
            many => format!(
                "{many} machines are running but belong to no instance (the first since {first}); \
                 {attempts} attempts to terminate {machine}{error}"
            ),
        };
        finding("orphans", Severity::Error, &message, &ours).fix("muster alarms orphans")
    });
    stray.into_iter().chain(orphan).collect()
}
