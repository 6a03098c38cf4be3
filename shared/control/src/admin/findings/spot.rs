//! Spot interruptions: places that launches avoid, and jobs that wait to run again or never will.

use std::collections::BTreeMap;

use muster_api::answers::{Finding, Location, Severity};
use muster_domain::app::AppCheck;
use muster_domain::ids::AppName;
use muster_domain::launch::record::reclaimed::ReclaimedPlace;
use muster_domain::rerun::{Rerun, RerunOutcome};
use muster_domain::time::Time;

use super::{StackFacts, github};

/// Maximum number of places that a sentence lists.
const PLACES: usize = 3;
/// Maximum number of workflow runs that a sentence lists.
const OUTCOMES: usize = 3;

/// Returns the places that launches avoid, as one finding.
pub(super) fn of_reclaimed(facts: &StackFacts<'_>) -> Option<Finding> {
    let now = facts.overview.now;
    let place = |one: &ReclaimedPlace| {
        let zone = one.zone.as_ref().unwrap_or(&one.place.subnet);
        let times = match one.times {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            times => format!("{times} times"),
        };
        let (kind, until) = (&one.place.instance_type, one.until.clock(now));
        format!("{kind} in {zone} until {until} (interrupted {times})")
    };
    let (listed, more) = facts.reclaimed.split_at(facts.reclaimed.len().min(PLACES));
    let mut listed = listed.iter().map(place).collect::<Vec<_>>().join(", ");
    if !more.is_empty() {
        listed = format!("{listed} and {} more", more.len());
    }
    let since = facts.reclaimed.iter().map(|one| one.at).min()?;
    let message = format!("launches avoid Spot machines of type {listed}");
    let finding = Finding::new("spot-avoided", Severity::Note, Location::Stack, &message);
    let fix = "no action needed: launches use the pool's other types and subnets, if it has any";
    Some(finding.since(since).fix(fix))
}

/// Returns what keeps interrupted jobs from running again.
pub(super) fn of_reruns(facts: &StackFacts<'_>) -> Vec<Finding> {
    let (mut denied, mut waiting) = (BTreeMap::<&str, Vec<&Rerun>>::new(), Vec::new());
    // The check of the App reports the same problem, with the pools that it concerns.
    let is_known = facts.app.is_some_and(|app| app.checks.contains(&AppCheck::Reruns));
    let mut all = Vec::new();
    for one in facts.reruns.iter().filter(|one| one.outcome().is_none()) {
        if let Some(since) = one.too_often_since() {
            let run = format!("{}/runs/{}", one.repository, one.run);
            let message = format!(
                "EC2 interrupted jobs of {run} three times; Muster does not re-run them again"
            );
            let key = format!("rerun-too-often:{run}");
            let finding = Finding::new(key, Severity::Warning, Location::Stack, &message);
            let fix = format!(
                "re-run them on the run's page at GitHub, or set market: on-demand in pool {}",
                one.pool
            );
            all.push(finding.since(since).fix(fix));
        } else if one.denied_since.is_some() {
            if is_known {
                continue;
            }
            let owner =
                one.repository.rsplit_once('/').map_or(&*one.repository, |(owner, _)| owner);
            denied.entry(owner).or_default().push(one);
        } else {
            waiting.push(one);
        }
    }
    all.extend(denied.into_iter().map(|(owner, runs)| {
        let message = format!(
            "GitHub does not allow Muster to re-run interrupted jobs of {owner} ({}): the App needs \
             the permission actions: write",
            counted(runs.len())
        );
        let (key, since) =
            (format!("rerun-denied:{owner}"), runs.iter().filter_map(|one| one.denied_since).min());
        let finding = Finding::new(key, Severity::Warning, Location::Stack, &message);
        let app = AppName::split(owner).map_or(AppName::MAIN, |(app, _)| app);
        finding
            .since(since)
            .fix(&format!("{}, which prints where to accept it", github::command(app)))
    }));
    if let Some(since) = waiting.iter().map(|one| one.opened_at).min() {
        let message = format!(
            "interrupted jobs of {} wait to be re-run; muster explain prints for what",
            counted(waiting.len())
        );
        let finding = Finding::new("rerun-waiting", Severity::Note, Location::Stack, &message);
        all.push(finding.since(since).fix("no action needed: Muster re-runs the jobs when it can"));
    }
    all.extend(of_outcomes(facts.reruns));
    all
}

/// Returns what became of interrupted jobs in the last day, as one finding. A run whose job had ended
/// before its machine was not interrupted.
fn of_outcomes(reruns: &[Rerun]) -> Option<Finding> {
    let closed = reruns.iter().filter_map(|one| Some((one, one.outcome()?)));
    let closed: Vec<_> =
        closed.filter(|(_, (_, outcome))| **outcome != RerunOutcome::InTime).collect();
    let since = closed.iter().map(|(_, (at, _))| *at).min()?;
    let is_again = |outcome: &RerunOutcome| matches!(outcome, RerunOutcome::Rerun { .. });
    let (again, left): (Vec<_>, Vec<_>) =
        closed.into_iter().partition(|(_, (_, outcome))| is_again(outcome));
    let mut parts = Vec::new();
    if !again.is_empty() {
        parts.push(format!("re-ran interrupted jobs of {}", counted(again.len())));
    }
    if !left.is_empty() {
        let why = |(one, (_, outcome)): &(&Rerun, (Time, &RerunOutcome))| {
            let why = outcome.why_not();
            let why = why.split(';').next().unwrap_or_default();
            format!("{}/runs/{}: {why}", one.repository, one.run)
        };
        let mut listed: Vec<String> = left.iter().take(OUTCOMES).map(why).collect();
        if left.len() > OUTCOMES {
            listed.push(format!("and {} more", left.len() - OUTCOMES));
        }
        let listed = listed.join("; ");
        let runs = counted(left.len());
        parts.push(format!("left interrupted jobs of {runs} as they were ({listed})"));
    }
    let message = format!("in the last day, Muster {}", parts.join(" and "));
    let finding = Finding::new("rerun-outcomes", Severity::Note, Location::Stack, &message);
    Some(finding.since(since).fix("for details: muster explain with the job's URL"))
}

fn counted(runs: usize) -> String {
    if runs == 1 { "1 workflow run".to_owned() } else { format!("{runs} workflow runs") }
}
