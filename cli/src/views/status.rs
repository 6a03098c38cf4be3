//! The stack as a whole: the pools, and what is not as it should be.

use muster_control::admin::answers::{
    AgentsStatus, AppStatus, ImageAgent, PoolStatus, StackStatus, UnservedJobs,
};
use muster_domain::ec2::CooldownScope;
use muster_domain::launch::cooldown::Cooldown;
use muster_domain::launch::trouble::{Trouble, TroubleScope, last_machines};
use muster_domain::switches::SwitchedOff;
use muster_domain::time::{Seconds, Time};

use super::jobs::labels;
use super::orders::off;
use crate::page::{Column, Look, Page, Screen, Text};
use crate::words::{clock, minute, span};

/// An image is renewed within two weeks: from then on its agent's age is shown.
const SOON: Seconds = Seconds(14 * 24 * 3600);

const COLUMNS: [Column; 7] = [
    Column::whole("POOL"),
    Column::text("LABELS"),
    Column::whole("LIVE/MAX"),
    Column::whole("ENDING").from(100),
    Column::whole("WAITING"),
    Column::whole("OLDEST"),
    Column::text("NOTE"),
];

/// The answer to `status`. `region` is where the stack was asked.
#[must_use]
pub fn page(answer: &StackStatus, region: &str, screen: Screen) -> String {
    let mut page = Page::new(screen);
    if !page.is_piped() {
        page.line([
            Text::new(&answer.stack, Look::Strong),
            Text::from(format!("  {region}  {}  ", answer.release)),
            Text::new(minute(answer.now), Look::Dim),
        ]);
        if let Some(known) = &answer.app {
            page.line([app(known)]);
        }
        page.gap();
    }
    let rows = answer.pools.iter().map(|pool| row(pool, answer));
    page.table(&COLUMNS, rows.collect());
    let wrongs = if page.is_piped() { Vec::new() } else { wrongs(answer) };
    if !wrongs.is_empty() {
        page.gap();
        page.marked(wrongs);
    }
    page.into_text()
}

/// What somebody should look at, for stderr where the page goes through a pipe.
#[must_use]
pub fn talk(answer: &StackStatus) -> String {
    let mut page = Page::new(Screen::PIPE);
    page.marked(wrongs(answer));
    page.into_text()
}

fn app(app: &AppStatus) -> Text {
    match (app.lacks.is_empty(), app.unknown.is_empty()) {
        (true, true) => Text::new("GitHub App ✓", Look::Good),
        (false, _) => Text::new("GitHub App ✗", Look::Bad),
        (true, false) => Text::new("GitHub App ?", Look::Warning),
    }
}

fn row(pool: &PoolStatus, stack: &StackStatus) -> Vec<Text> {
    let served: Vec<String> = pool.labels.iter().map(labels).collect();
    let full = pool.live >= pool.max;
    let number = |count: usize| {
        if count == 0 { Text::new("0", Look::Dim) } else { count.to_string().into() }
    };
    vec![
        Text::new(pool.name.as_str(), Look::Strong),
        Text::from(served.join(", ")),
        Text::new(
            format!("{}/{}", pool.live, pool.max),
            if full && pool.waiting_jobs > 0 { Look::Warning } else { Look::Plain },
        ),
        number(pool.ending),
        number(pool.waiting_jobs),
        pool.oldest_waiting_job_seconds.map_or_else(Text::none, |age| span(age).into()),
        note(pool, stack),
    ]
}

/// What keeps the pool from launching; the first of these.
fn note(pool: &PoolStatus, stack: &StackStatus) -> Text {
    let now = stack.now;
    if let Some(at) = pool.removed_at {
        return Text::from(format!("removed {}, drains", clock(at, now)));
    }
    if let Some(SwitchedOff { by, .. }) = &pool.launches_off {
        return Text::new(format!("launches switched off by {by}"), Look::Warning);
    }
    if let Some(trouble) = &pool.trouble {
        let said = format!(
            "its {} served nothing ({}); one finds out at {}",
            last_machines(trouble.failures),
            trouble.reason,
            clock(trouble.until, now)
        );
        return Text::new(said, Look::Bad);
    }
    let refused = stack.cooldowns.iter().flatten().find(|one| is_of(one, pool));
    if let Some(Cooldown { code, until, .. }) = refused {
        return Text::new(format!("EC2: {code}, next try {}", clock(*until, now)), Look::Bad);
    }
    let entity = stack.entities.iter().find(|one| Some(&one.entity) == pool.entity.as_ref());
    if let Some(held) = entity.and_then(|one| one.launches_held.as_ref()) {
        return Text::new(held, Look::Bad);
    }
    if !pool.enabled {
        return Text::from("not enabled: takes no new job");
    }
    if pool.live >= pool.max && pool.waiting_jobs > 0 {
        return Text::new("at its maximum (limits.max)", Look::Warning);
    }
    Text::from("")
}

/// The refusal closes the whole pool.
fn is_of(cooldown: &Cooldown, pool: &PoolStatus) -> bool {
    match &cooldown.closed {
        CooldownScope::Pool(name) => *name == pool.name,
        CooldownScope::Calls
        | CooldownScope::Quota { .. }
        | CooldownScope::Place { .. }
        | CooldownScope::Unknown { .. } => false,
    }
}

/// Everything that somebody should look at, what concerns most jobs first.
fn wrongs(answer: &StackStatus) -> Vec<(Text, Text)> {
    let now = answer.now;
    let row = |look: Look, said: String| (Text::new("!", look), Text::from(said));
    let mut rows = off(&answer.switches, now);
    if let Some(AppStatus { lacks, unknown, checks: _ }) = &answer.app {
        rows.extend(lacks.iter().map(|lack| row(Look::Bad, lack.clone())));
        rows.extend(unknown.iter().map(|why| row(Look::Warning, why.clone())));
    }
    let troubles = answer.entities.iter().flat_map(|entity| &entity.troubles);
    rows.extend(troubles.filter_map(|one| {
        let is_over = matches!(one.scope, TroubleScope::Limit(_)) && one.until <= now;
        let look = if one.is_refusal_of_github() { Look::Bad } else { Look::Warning };
        (!is_over).then(|| row(look, trouble(one, now)))
    }));
    rows.extend(jobs(&answer.unserved, "served by no pool").map(|said| row(Look::Warning, said)));
    rows.extend(
        jobs(&answer.waiting_for_approval, "waiting for an approval at GitHub")
            .map(|said| row(Look::Plain, said)),
    );
    rows.extend(answer.agents.images.iter().filter_map(|one| {
        let is_near = one.until.is_none_or(|until| until.since(now) <= SOON);
        is_near.then(|| row(Look::Warning, image_agent(one, &answer.agents, now)))
    }));
    for limit in &answer.limits {
        if let Some(max) = limit.max.filter(|max| limit.live >= *max) {
            rows.push(row(
                Look::Warning,
                format!("{} is at its limit, {} of {max} machines", limit.of, limit.live),
            ));
        }
    }
    rows.extend(
        answer.cooldowns.iter().flatten().map(|one| row(Look::Warning, refusal(one, answer))),
    );
    rows.extend(answer.orphans.iter().map(|orphan| {
        if orphan.launch.is_none() {
            let said = format!(
                "{} has this stack's tag, but no launch made it: not ended",
                orphan.machine
            );
            return row(Look::Warning, said);
        }
        let error = orphan.last_error.as_ref().map(|error| format!(": {error}"));
        let (since, error) = (clock(orphan.since, now), error.unwrap_or_default());
        let machine = &orphan.machine;
        row(
            Look::Bad,
            format!(
                "{machine} is an orphan since {since}, {} attempts to end it{error}",
                orphan.attempts
            ),
        )
    }));
    rows
}

/// The agent of a pool's image that GitHub takes no more, or not for long.
fn image_agent(one: &ImageAgent, agents: &AgentsStatus, now: Time) -> String {
    let ImageAgent { pool, version, until } = one;
    let newest = agents.newest.map_or_else(|| "the newest".to_owned(), |one| one.to_string());
    match until {
        Some(until) => format!(
            "the image of pool {pool} has agent {version}, which GitHub takes for at most {} \
             more; {newest} is out: renew the image",
            span(until.since(now))
        ),
        None => format!(
            "the image of pool {pool} has agent {version}, which GitHub takes no more: each \
             machine takes {newest} before it starts; renew the image"
        ),
    }
}

/// What GitHub refuses or limits.
pub(crate) fn trouble(one: &Trouble, now: Time) -> String {
    let (since, until) = (clock(one.since, now), clock(one.until, now));
    let reason = &one.reason;
    match &one.scope {
        TroubleScope::Entity(entity) if one.is_before_github() => {
            format!("GitHub cannot be asked about {entity} since {since}: {reason}")
        }
        TroubleScope::Entity(entity) if one.by_machine => format!(
            "GitHub refuses to register runners for {entity} since {since}: {reason}; one machine \
             finds out at {until}"
        ),
        TroubleScope::Entity(entity) => {
            format!("GitHub refuses our credentials for {entity} since {since}: {reason}")
        }
        TroubleScope::PoolOfEntity(pool, entity) => format!(
            "GitHub refuses the runners of pool {pool} at {entity} since {since}: {reason}; one \
             machine finds out at {until}"
        ),
        TroubleScope::Limit(entity) => {
            format!("GitHub's rate limit for {entity} lasts until {until}")
        }
        TroubleScope::Pool(_) => one.sentence(),
    }
}

/// Jobs that nobody launches for, if there are any, with their most frequent reasons.
pub(crate) fn jobs(all: &UnservedJobs, what: &str) -> Option<String> {
    const PREFIX: &str = "no pool serves it: ";
    let UnservedJobs { count, oldest_seconds, reasons } = all;
    let oldest = oldest_seconds.map(|age| format!(", the first for {}", span(age)));
    let (noun, be) = if *count == 1 { ("job", "is") } else { ("jobs", "are") };
    let mut told: Vec<(&str, &usize)> = reasons
        .iter()
        .filter_map(|(why, count)| Some((why.strip_prefix(PREFIX)?, count)))
        .collect();
    told.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let told: Vec<String> =
        told.iter().take(3).map(|(why, count)| format!("{why} ({count})")).collect();
    let told = if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) };
    (*count > 0).then(|| format!("{count} {noun} {be} {what}{}{told}", oldest.unwrap_or_default()))
}

pub(crate) fn refusal(one: &Cooldown, answer: &StackStatus) -> String {
    let Cooldown { closed, code, message, times, until, .. } = one;
    let next = clock(*until, answer.now);
    format!("{closed}: {code}: {message}; {times} times, next try {next}")
}
