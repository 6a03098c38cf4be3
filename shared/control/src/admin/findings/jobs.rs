//! Jobs that get no machine, and pools whose jobs wait for long.

use muster_api::answers::{Finding, Location, NoteKind, Severity, UnservedJobs};
use muster_domain::explain::NO_POOL;
use muster_domain::time::Seconds;

use super::StackFacts;

/// A pool that is at its maximum for a shorter time works as configured.
const LONG: Seconds = Seconds(300);
/// How many reasons are shown.
const REASONS: usize = 3;

/// Jobs that no pool serves, or that wait for an approval.
pub(super) fn without_pool(facts: &StackFacts<'_>) -> impl Iterator<Item = Finding> {
    let now = facts.overview.now;
    let all = [
        (
            "unserved",
            Severity::Warning,
            &facts.overview.unserved,
            ["No pool serves 1 job", "No pool serves {} jobs"],
            "muster jobs lists them: change the job's labels or the pool's settings",
        ),
        (
            "awaiting-approval",
            Severity::Note,
            &facts.overview.waiting_for_approval,
            ["1 job waits for an approval at GitHub", "{} jobs wait for an approval at GitHub"],
            "approve the run on its page at GitHub; muster jobs lists the jobs",
        ),
    ];
    all.into_iter().filter_map(move |(key, severity, jobs, what, fix)| {
        let message = unserved(jobs, what)?;
        let since = jobs.oldest_seconds.map(|age| now - age);
        Some(Finding::new(key, severity, Location::Jobs, &message).since(since).fix(fix))
    })
}

/// Returns how many jobs there are, if any, with their most frequent reasons.
fn unserved(all: &UnservedJobs, [one, many]: [&str; 2]) -> Option<String> {
    let UnservedJobs { count, oldest_seconds, looked_at, reasons } = all;
    let oldest = oldest_seconds.map(|age| format!(" (longest wait {age})"));
    let said = if *count == 1 { one.to_owned() } else { many.replace("{}", &count.to_string()) };
    let mut known: Vec<(&str, &usize)> = reasons
        .iter()
        .filter_map(|(why, count)| Some((why.strip_prefix(NO_POOL)?, count)))
        .collect();
    known.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let known: Vec<String> = known
        .iter()
        .take(REASONS)
        .map(|(why, count)| format!("{why} ({})", jobs_of(**count)))
        .collect();
    let first =
        if looked_at < count { format!("of the first {looked_at}, ") } else { String::new() };
    let why = match known.is_empty() {
        true => String::new(),
        false => format!(": {first}{}", known.join("; ")),
    };
    (*count > 0).then(|| format!("{said}{}{why}", oldest.unwrap_or_default()))
}

fn jobs_of(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

/// Lists pools whose jobs get no machine, by the pool's note. Pauses, refusals by EC2 or GitHub,
/// and limits are separate findings, for all pools that they affect.
pub(super) fn in_pools(facts: &StackFacts<'_>) -> impl Iterator<Item = Finding> {
    let now = facts.overview.now;
    facts.overview.pools.iter().filter(|pool| pool.waiting_jobs > 0).filter_map(move |pool| {
        let (name, note) = (&pool.name, pool.note.as_ref()?);
        let age = pool.oldest_waiting_job_seconds.unwrap_or_default();
        let fix = match (note.kind, &pool.refused_ends) {
            (NoteKind::Maximum, None) if age < LONG => return None,
            (NoteKind::Maximum, Some(ends)) => format!("muster explain {}", ends.instance),
            (NoteKind::Maximum, None) => {
                "wait, or raise the pool's limits.max: muster pools edit".to_owned()
            }
            (NoteKind::Removed, _) => {
                "add the pool again, or cancel the jobs: muster pools edit".to_owned()
            }
            (NoteKind::Disabled, _) => "set enabled: true: muster pools edit".to_owned(),
            (NoteKind::Unserved, _) => format!("muster jobs --pool {name}"),
            (NoteKind::Withheld, _) => {
                "check the runner group's access, and max-parallel of the workflow".to_owned()
            }
            (
                NoteKind::Paused
                | NoteKind::JobAge
                | NoteKind::Limit
                | NoteKind::Failing
                | NoteKind::Github
                | NoteKind::Ec2,
                _,
            ) => return None,
        };
        let (count, message) = (jobs_of(pool.waiting_jobs), &note.message);
        let wait = if pool.waiting_jobs == 1 { "waits" } else { "wait" };
        let message = format!("{count} {wait} in pool {name} (longest wait {age}): {message}");
        let (key, location) = (format!("pool-{}:{name}", note.kind), Location::Pool(name.clone()));
        let finding = Finding::new(key, Severity::Warning, location, &message);
        Some(finding.since(now - age).fix(fix))
    })
}

/// Pools whose jobs run on runners of another fleet, while machines of the pool wait for them.
pub(super) fn on_foreign_runners(facts: &StackFacts<'_>) -> impl Iterator<Item = Finding> {
    let now = facts.overview.now;
    facts.foreign.iter().filter(move |one| one.is_reported(now)).map(move |one| {
        let key = format!("pool-foreign-runners:{}", one.pool);
        let location = Location::Pool(one.pool.clone());
        let finding = Finding::new(key, Severity::Warning, location, &one.sentence(now));
        finding.since(one.since).fix(
            "remove those runners, or give the pool a label that they do not have: muster pools edit",
        )
    })
}
