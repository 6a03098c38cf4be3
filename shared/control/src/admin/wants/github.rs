//! The App, and what GitHub refuses or limits.

use muster_domain::app::AppCheck;
use muster_domain::launch::trouble::{Trouble, TroubleScope, last_machines};
use muster_domain::time::Time;

use super::Facts;
use crate::admin::answers::{AppStatus, Place, Severity, Want};

/// What is wrong with the App, by the mistake: its sentence names what is missing, and may change.
pub(super) fn of_app(app: Option<&AppStatus>) -> Vec<Want> {
    let Some(AppStatus { lacks, checks, unknown }) = app else { return Vec::new() };
    let mut all: Vec<Want> = Vec::new();
    let mut add = |name: String, severity, said: &str| {
        // Several pools may lack the same.
        let before = all.iter().filter(|one| is_of(one, &name)).count();
        let key = if before == 0 { name } else { format!("{name}:{}", before + 1) };
        all.push(Want::new(key, severity, said, Place::Github));
    };
    for (place, lack) in lacks.iter().enumerate() {
        let check = checks.get(place).copied().unwrap_or(AppCheck::Other);
        add(format!("app:{}", word(check)), Severity::Error, lack);
    }
    for why in unknown {
        add("app:not-known".to_owned(), Severity::Warning, why);
    }
    all
}

fn is_of(one: &Want, name: &str) -> bool {
    one.key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

fn word(check: AppCheck) -> String {
    serde_json::json!(check).as_str().unwrap_or_default().to_owned()
}

pub(super) fn of_troubles(facts: &Facts<'_>) -> impl Iterator<Item = Want> {
    let now = facts.overview.now;
    facts.troubles.iter().filter_map(move |one| {
        let name = match &one.scope {
            TroubleScope::Entity(entity) => format!("entity:{entity}"),
            TroubleScope::PoolOfEntity(pool, entity) => format!("entity:{entity}:{pool}"),
            // It ends by itself, and stands on record until GitHub's next answer.
            TroubleScope::Limit(_) if one.until <= now => return None,
            TroubleScope::Limit(entity) => format!("github-limit:{entity}"),
            TroubleScope::Pool(_) => return None,
        };
        let is_refusal = one.is_refusal_of_github();
        let severity = if is_refusal { Severity::Error } else { Severity::Warning };
        let want = Want::new(name, severity, &trouble(one, now), Place::Github).since(one.since);
        Some(want.run(is_refusal.then(|| "muster alarms entity-unhealthy".to_owned())))
    })
}

/// Entities where no runner can be registered, because GitHub or the App's key does not answer.
pub(super) fn of_registrations(facts: &Facts<'_>) -> impl Iterator<Item = Want> {
    let now = facts.overview.now;
    facts.failing.iter().filter(move |one| one.is_reported(now)).map(move |one| {
        let key = format!("registrations:{}", one.entity);
        let want = Want::new(key, Severity::Error, &one.sentence(now), Place::Github);
        want.since(one.since).run("muster logs runner-api".to_owned())
    })
}

/// What GitHub refuses or limits, or whose machines serve nothing.
#[must_use]
pub fn trouble(one: &Trouble, now: Time) -> String {
    let (since, until) = (one.since.clock(now), one.until.clock(now));
    let reason = &one.reason;
    match &one.scope {
        TroubleScope::Entity(entity) if one.is_before_github() => {
            format!("GitHub cannot be asked about {entity} since {since}: {reason}")
        }
        TroubleScope::Entity(entity) if one.by_machine => format!(
            "GitHub refuses to register runners for {entity} since {since}: {reason}; next attempt \
             at {until}, or now with `muster resume launches`"
        ),
        TroubleScope::Entity(entity) => {
            format!("GitHub refuses our credentials for {entity} since {since}: {reason}")
        }
        TroubleScope::PoolOfEntity(pool, entity) => format!(
            "GitHub refuses the runners of pool {pool} at {entity} since {since}: {reason}; next \
             attempt at {until}, or now with `muster resume {pool}`"
        ),
        TroubleScope::Limit(entity) => {
            format!("GitHub's rate limit for {entity} lasts until {until}")
        }
        TroubleScope::Pool(pool) => format!(
            "the {} of pool {pool} never ran a job since {since}: {reason}; next attempt at \
             {until}, or now with `muster resume {pool}`",
            last_machines(one.failures)
        ),
    }
}
