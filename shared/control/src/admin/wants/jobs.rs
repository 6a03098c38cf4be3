//! Jobs that nobody launches for, and pools whose jobs wait for long.

use muster_domain::time::Seconds;

use super::Facts;
use crate::admin::answers::{Place, PoolStatus, Severity, UnservedJobs, Want};

/// A pool that is full for a shorter time than this does what it is for.
const LONG: Seconds = Seconds(300);
/// How many reasons are told.
const REASONS: usize = 3;

pub(super) fn of_nobody(facts: &Facts<'_>) -> impl Iterator<Item = Want> {
    let now = facts.overview.now;
    let all = [
        ("unserved", Severity::Warning, &facts.overview.unserved, "served by no pool"),
        (
            "gated",
            Severity::Note,
            &facts.overview.waiting_for_approval,
            "waiting for an approval at GitHub",
        ),
    ];
    all.into_iter().filter_map(move |(key, severity, jobs, what)| {
        let want = Want::new(key.to_owned(), severity, &unserved(jobs, what)?, Place::Jobs);
        let since = jobs.oldest_seconds.map(|age| now - age);
        Some(want.since(since).run("muster jobs".to_owned()))
    })
}

/// Jobs that nobody launches for, if there are any, with their most frequent reasons.
#[must_use]
pub fn unserved(all: &UnservedJobs, what: &str) -> Option<String> {
    const PREFIX: &str = "no pool serves it: ";
    let UnservedJobs { count, oldest_seconds, looked_at, reasons } = all;
    let oldest = oldest_seconds.map(|age| format!(", the first for {age}"));
    let (noun, be) = if *count == 1 { ("job", "is") } else { ("jobs", "are") };
    let mut told: Vec<(&str, &usize)> = reasons
        .iter()
        .filter_map(|(why, count)| Some((why.strip_prefix(PREFIX)?, count)))
        .collect();
    told.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let told: Vec<String> =
        told.iter().take(REASONS).map(|(why, count)| format!("{why} ({count})")).collect();
    let first =
        if looked_at < count { format!("of the first {looked_at}, ") } else { String::new() };
    let told = match told.is_empty() {
        true => String::new(),
        false => format!(": {first}{}", told.join("; ")),
    };
    (*count > 0).then(|| format!("{count} {noun} {be} {what}{}{told}", oldest.unwrap_or_default()))
}

/// Pools with jobs that get no machine of theirs, or not for long. What an operator has switched off
/// is told of the switch, and what EC2 or GitHub refuses of the refusal.
pub(super) fn of_pools(facts: &Facts<'_>) -> impl Iterator<Item = Want> {
    let now = facts.overview.now;
    facts.overview.pools.iter().filter(|pool| pool.waiting_jobs > 0).filter_map(move |pool| {
        let PoolStatus { name, live, max, .. } = pool;
        let age = pool.oldest_waiting_job_seconds.unwrap_or_default();
        let (word, said) = if let Some(at) = pool.removed_at {
            ("removed", format!("pool {name}, which was removed at {}", at.clock(now)))
        } else if !pool.enabled {
            ("not-enabled", format!("pool {name}, which is not enabled"))
        } else if let Some(ends) = pool.refused_ends.as_ref().filter(|_| live >= max) {
            ("ends-refused", format!("pool {name}, which is full: {}", ends.sentence()))
        } else if live >= max && age >= LONG {
            ("maximum", format!("pool {name}, which is at its maximum, {live} of {max} machines"))
        } else {
            return None;
        };
        let (count, wait) = match pool.waiting_jobs {
            1 => ("1 job".to_owned(), "waits"),
            many => (format!("{many} jobs"), "wait"),
        };
        let said = format!("{count} {wait} in {said}; the first for {age}");
        let place = Place::Pool(name.clone());
        let want = Want::new(format!("pool:{name}:{word}"), Severity::Warning, &said, place);
        let run = match &pool.refused_ends {
            Some(ends) if word == "ends-refused" => format!("muster explain {}", ends.instance),
            _ => format!("muster jobs --pool {name}"),
        };
        Some(want.since(now - age).run(run))
    })
}

/// Pools whose jobs run on runners of another fleet, while machines of the pool wait for them.
pub(super) fn of_foreign_runners(facts: &Facts<'_>) -> impl Iterator<Item = Want> {
    let now = facts.overview.now;
    facts.foreign.iter().filter(move |one| one.is_reported(now)).map(move |one| {
        let key = format!("pool:{}:foreign-runners", one.pool);
        let place = Place::Pool(one.pool.clone());
        Want::new(key, Severity::Warning, &one.sentence(now), place).since(one.since)
    })
}
