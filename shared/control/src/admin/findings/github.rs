//! Findings about the App, and about GitHub's denials and limits.

use muster_api::answers::{AppStatus, Finding, Location, Severity};
use muster_domain::app::AppCheck;
use muster_domain::ids::AppName;
use muster_domain::launch::record::trouble::TroubleScope;
use muster_domain::text::{address, with_clocks};

use super::StackFacts;

/// Problems of the App, by the check that found each: the message names details, and may change.
pub(super) fn of_app(facts: &StackFacts<'_>) -> Vec<Finding> {
    let Some(AppStatus { lacks, checks, apps, unknown }) = facts.app else { return Vec::new() };
    let mut all: Vec<Finding> = Vec::new();
    let mut add = |kind: String, severity, text: &str, fix: &str| {
        // Several pools may lack the same.
        let before = all.iter().filter(|one| one.kind() == kind).count();
        let key = if before == 0 { kind } else { format!("{kind}:{}", before + 1) };
        let message = with_clocks(text, facts.overview.now);
        let finding = Finding::new(key, severity, Location::Github, &message).fix(fix);
        all.push(finding.url(address(text).map(str::to_owned)));
    };
    for (place, lack) in lacks.iter().enumerate() {
        let check = checks.get(place).copied().unwrap_or(AppCheck::Other);
        let app = apps.get(place).copied().unwrap_or_default();
        let name = serde_json::json!(check);
        let kind = format!("app-{}", name.as_str().unwrap_or_default());
        add(kind, severity(check), lack, &fix(check, app));
    }
    for why in unknown {
        add("app-unknown".to_owned(), Severity::Warning, why, "muster github");
    }
    all
}

/// Without an event that warms a pool, jobs start later, and without the permission to re-run them,
/// interrupted jobs stay failed. Nothing else fails.
const fn severity(check: AppCheck) -> Severity {
    match check {
        AppCheck::WarmEvent | AppCheck::Reruns => Severity::Warning,
        _ => Severity::Error,
    }
}

/// Returns the command that shows and repairs an App.
pub(super) fn command(app: AppName) -> String {
    match app {
        AppName::MAIN => "muster github".to_owned(),
        _ => format!("muster github --app {app}"),
    }
}

/// Returns the fix. If only GitHub's pages can change it, the message says how, and this command
/// shows more.
fn fix(check: AppCheck, app: AppName) -> String {
    let command = command(app);
    match check {
        AppCheck::Hook
        | AppCheck::HookAddress
        | AppCheck::HookContent
        | AppCheck::HookTls
        | AppCheck::Deliveries => format!("{command} hook set"),
        AppCheck::Key | AppCheck::KeyForm | AppCheck::KeyOwner | AppCheck::Exists => {
            format!("{command} connect, or {command} create")
        }
        _ => command,
    }
}

/// Lists what GitHub refuses or limits, and pools whose machines never ran a job.
pub(super) fn of_troubles<'a>(facts: &'a StackFacts<'_>) -> impl Iterator<Item = Finding> + 'a {
    let now = facts.overview.now;
    let lasts = facts.troubles.iter().filter(move |one| match &one.scope {
        TroubleScope::Pool(name) => {
            one.makes_wait() && facts.overview.pools.iter().any(|pool| pool.name == *name)
        }
        // It ends on its own, and remains recorded until GitHub's next answer.
        TroubleScope::Limit(_) => one.until > now,
        TroubleScope::Entity(_) | TroubleScope::PoolOfEntity(..) => true,
    });
    lasts.map(move |one| {
        let (key, severity, location, fix) = match &one.scope {
            TroubleScope::Pool(pool) => (
                format!("pool-failing:{pool}"),
                Severity::Error,
                Location::Pool(pool.clone()),
                match &one.last {
                    Some(last) => {
                        format!("muster show {last}, which has the machine's console output")
                    }
                    None => "muster alarms pool-in-trouble".to_owned(),
                },
            ),
            TroubleScope::Entity(entity) => (
                format!("entity-refused:{entity}"),
                Severity::Error,
                Location::Github,
                "muster alarms entity-unhealthy".to_owned(),
            ),
            TroubleScope::PoolOfEntity(pool, entity) => (
                format!("entity-refused:{entity}:{pool}"),
                Severity::Error,
                Location::Github,
                "muster alarms entity-unhealthy".to_owned(),
            ),
            TroubleScope::Limit(entity) => (
                format!("github-limit:{entity}"),
                Severity::Warning,
                Location::Github,
                "nothing to do: launches continue after that".to_owned(),
            ),
        };
        let message = with_clocks(&one.sentence(), now);
        Finding::new(key, severity, location, &message).since(one.since).fix(fix)
    })
}

/// Entities where no runner can be registered, because GitHub or the App's key does not answer.
pub(super) fn of_registrations(facts: &StackFacts<'_>) -> impl Iterator<Item = Finding> {
    let now = facts.overview.now;
    facts.failing.iter().filter(move |one| one.is_reported(now)).map(move |one| {
        let key = format!("registrations-fail:{}", one.entity);
        let finding = Finding::new(key, Severity::Error, Location::Github, &one.sentence(now));
        finding.since(one.since).fix("muster logs runner-api")
    })
}
