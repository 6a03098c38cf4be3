//! Checks what CloudFormation created: functions, queues, alarms, the sweep.

use muster_api::answers::Finding;
use muster_domain::time::{Seconds, Time};

use super::facts::{AlarmFacts, Deployed, Drifted, Function, Mapping, Running, Subscription};
use super::{Check, CheckGroup, Fact, Facts, backlog, console, error, found, judge, unasked, warn};
use crate::alarms::AlarmState;
use crate::handbook;
use crate::words::{clock, count, span};

/// The suffixes of the functions' names.
pub const FUNCTIONS: [&str; 5] = ["webhook", "scale-up", "reaper", "runner-api", "admin"];
/// The rule that triggers the sweep.
const TICK: &str = "ReaperFunctionTick";
/// The rules' names in the template.
const RULES: [&str; 3] = [TICK, "MachineEndedRule", "SpotWarningRule"];
/// Number of queues that functions read.
const MAPPINGS: usize = 3;
/// Maximum age of the last sweep: it runs every minute, and its metric is a minute or two late.
const SILENT: Seconds = Seconds(300);
/// Age of a stack below which a missing sweep is no problem.
const YOUNG: Seconds = Seconds(600);

pub(super) fn check(facts: &Facts) -> Vec<Check> {
    let mut all = judge(CheckGroup::Stack, "state", &facts.deployed, |deployed| match deployed {
        Some(deployed) => state(deployed, facts),
        None => missing(facts),
    });
    let Some(running) = &facts.running else { return all };
    if let Some(drift) = &running.drift {
        all.extend(judge(CheckGroup::Stack, "drift", drift, |all| drifted(all, facts)));
    }
    all.extend(functions(running, facts));
    all.extend(stopped(running, &facts.stack));
    all.extend(judge(CheckGroup::Stack, "rules", &running.rules, |all| rules(all, facts)));
    all.extend(judge(CheckGroup::Stack, "mappings", &running.mappings, |all| mappings(all, facts)));
    all.extend(judge(CheckGroup::Stack, "sweep", &running.swept_at, |at| sweep(*at, facts)));
    all.extend(judge(CheckGroup::Stack, "queues", &running.dead_letters, |count| queues(*count)));
    all.extend(failing(running, &facts.stack));
    all.extend(judge(CheckGroup::Stack, "alarms", &running.alarms, |all| alarms(all, facts)));
    all.extend(heard(running, facts));
    all
}

fn missing(facts: &Facts) -> Vec<Finding> {
    let Facts { stack, region, running, .. } = facts;
    if running.is_some() {
        let said = format!(
            "CloudFormation has no stack \"{stack}\" in {region}, but its functions exist."
        );
        return vec![warn(said)];
    }
    let said =
        format!("There is no stack \"{stack}\" in {region} yet: only the account was checked.");
    vec![warn(said).fix("run muster setup, or pass --stack, --region or --profile")]
}

fn state(deployed: &Deployed, facts: &Facts) -> Vec<Finding> {
    let Facts { stack, .. } = facts;
    let status = deployed.status.as_str();
    let because = match deployed.reason.as_deref().filter(|reason| !reason.is_empty()) {
        Some(reason) => format!(": {}", reason.trim_end_matches('.')),
        None => String::new(),
    };
    let is = format!("The stack is in {status}{because}.");
    let wrong = match status {
        "CREATE_COMPLETE" | "UPDATE_COMPLETE" | "IMPORT_COMPLETE" => return Vec::new(),
        "UPDATE_ROLLBACK_COMPLETE" => warn("The stack's last change failed and was rolled back.")
            .fix("fix the failure in its Events, then muster upgrade"),
        "UPDATE_ROLLBACK_FAILED" => error(is).fix(format!(
            "fix the failure in its Events, then: \
             aws cloudformation continue-update-rollback --stack-name {stack}"
        )),
        "ROLLBACK_COMPLETE" | "ROLLBACK_FAILED" | "CREATE_FAILED" => error(is).fix(format!(
            "its Events show why; \
             sam delete --stack-name {stack}, and deploy again"
        )),
        "DELETE_IN_PROGRESS" | "DELETE_FAILED" => error(is),
        status if status.ends_with("_IN_PROGRESS") => warn(is).fix("wait until it has finished"),
        _ => warn(is),
    };
    vec![wrong.url(page(facts))]
}

fn drifted(all: &[Drifted], facts: &Facts) -> Vec<Finding> {
    let wrongs = all.iter().map(|Drifted { name, kind, id, is_deleted, differs }| {
        let wrong = if *is_deleted {
            error(format!("{name} ({kind}, {id}) was deleted outside CloudFormation."))
        } else {
            warn(format!(
                "{name} ({kind}, {id}) was changed outside CloudFormation: {}.",
                differs.join(", ")
            ))
        };
        wrong
            .fix("restore it by hand: muster upgrade applies only template changes")
            .url(page(facts))
    });
    wrongs.collect()
}

fn page(facts: &Facts) -> String {
    let Facts { stack, region, .. } = facts;
    console(region, &format!("cloudformation/home?region={region}#/stacks?filteringText={stack}"))
}

/// Checks for functions that cannot run, and counts the messages that wait for them.
fn stopped(running: &Running, stack: &str) -> Vec<Check> {
    let backlogs = running.backlogs.as_deref().unwrap_or_default();
    judge(CheckGroup::Stack, "reserve", &running.reserved, |all| {
        backlog::stopped(all, backlogs, stack)
    })
}

/// Checks for functions that fail while their queue contains messages.
fn failing(running: &Running, stack: &str) -> Vec<Check> {
    let reserved = running.reserved.as_deref().unwrap_or_default();
    judge(CheckGroup::Stack, "backlog", &running.backlogs, |all| {
        backlog::failing(reserved, all, stack)
    })
}

fn functions(running: &Running, facts: &Facts) -> Vec<Check> {
    const ID: &str = "functions";
    let mut wrongs = Vec::new();
    let mut unknown = None;
    for (name, fact) in &running.functions {
        let name = format!("{}-{name}", facts.stack);
        match fact {
            Ok(known) => wrongs.extend(function(&name, known.as_ref(), facts)),
            Err(why) => unknown = unknown.or(Some(why)),
        }
    }
    if let Err(super::Unknown::NoAnswer(why)) = &running.status {
        let said = format!("The admin function does not respond: {why}");
        wrongs.push(error(said).fix("muster logs admin"));
    }
    match unknown {
        Some(unknown) if wrongs.is_empty() => vec![unasked(CheckGroup::Stack, ID, unknown)],
        _ => found(CheckGroup::Stack, ID, wrongs),
    }
}

fn function(name: &str, known: Option<&Function>, facts: &Facts) -> Option<Finding> {
    let Facts { region, .. } = facts;
    let Some(function) = known else {
        let said = format!("Function {name} does not exist: it was deleted.");
        return Some(error(said).fix("deploy the stack under a new name, or restore it by hand"));
    };
    let (what, why) = match function {
        Function { state, reason, .. } if state == "Failed" => ("cannot run", reason),
        Function { update, update_reason, .. } if update == "Failed" => {
            ("still runs its previous version, because its update failed", update_reason)
        }
        _ => return None,
    };
    let page = console(region, &format!("lambda/home?region={region}#/functions/{name}"));
    Some(error(format!("{name} {what}: {why}")).fix("muster upgrade").url(page))
}

fn rules(all: &[(String, bool)], facts: &Facts) -> Vec<Finding> {
    let disabled = all.iter().filter(|(_, is_enabled)| !is_enabled).filter_map(|(rule, _)| {
        let own = rule.strip_prefix(&facts.stack)?.strip_prefix('-')?;
        let wrong = match RULES.iter().find(|name| own.starts_with(**name))? {
            &TICK => error(format!("Rule {rule} is disabled: the reaper does not sweep.")),
            _ => warn(format!(
                "Rule {rule} is disabled: machines that end are noticed minutes later."
            )),
        };
        Some(wrong.fix(format!("aws events enable-rule --name {rule}")))
    });
    disabled.collect()
}

fn mappings(all: &[Mapping], facts: &Facts) -> Vec<Finding> {
    let mut wrongs: Vec<Finding> = Vec::new();
    for Mapping { id, function, queue, state, last } in all {
        if matches!(state.as_str(), "Disabled" | "Disabling") {
            let said = format!(
                "{function} does not read queue {queue}: its event source mapping is disabled."
            );
            let remedy = format!("aws lambda update-event-source-mapping --enabled --uuid {id}");
            wrongs.push(error(said).fix(remedy));
        } else if last.starts_with("PROBLEM") {
            let said = format!("{function} cannot read queue {queue}: {last}");
            wrongs.push(error(said).fix("restore the permissions of its role: muster upgrade"));
        }
    }
    if all.len() < MAPPINGS {
        let said = format!(
            "{} of {MAPPINGS} event source mappings are left: a queue of {} is not read.",
            all.len(),
            facts.stack
        );
        wrongs.push(error(said).fix("restore it by hand (template.yaml, Events)"));
    }
    wrongs
}

fn sweep(at: Option<Time>, facts: &Facts) -> Vec<Finding> {
    let Facts { region, now, .. } = facts;
    if at.is_some_and(|at| !now.is_past(at, SILENT)) {
        return Vec::new();
    }
    let created = facts.deployed.iter().flatten().find_map(|deployed| deployed.created);
    if let (None, Some(created)) = (at, created.filter(|created| !now.is_past(*created, YOUNG))) {
        let said = format!("No sweep yet: the stack is {} old.", span(now.since(created)));
        return vec![warn(said).fix("check again in a few minutes")];
    }
    let said = match at {
        Some(at) => {
            format!(
                "The last sweep was {} ago: due records are not processed.",
                span(now.since(at))
            )
        }
        None => "No sweep for an hour: due records are not processed.".to_owned(),
    };
    let page = console(region, &format!("events/home?region={region}#/rules"));
    let remedy = "muster logs reaper";
    vec![error(said).fix(remedy).url(page)]
}

fn queues(dead: u64) -> Vec<Finding> {
    if dead == 0 {
        return Vec::new();
    }
    let said = format!(
        "{} failed too often and moved to the dead-letter queues.",
        count(usize::try_from(dead).unwrap_or(usize::MAX), "message")
    );
    vec![warn(said).fix("muster dead-letters")]
}

fn alarms(all: &[AlarmFacts], facts: &Facts) -> Vec<Finding> {
    let red = all.iter().filter(|one| one.alarm.state == AlarmState::Red);
    let wrongs = red.map(|AlarmFacts { alarm, .. }| {
        let name = &alarm.name;
        let since =
            alarm.since.map(|at| format!(" since {}", clock(at, facts.now))).unwrap_or_default();
        let what = handbook::first_sentence(&alarm.what);
        let wrong = warn(format!("Alarm {name} is red{since}: {what}"));
        wrong.fix(format!("muster alarms {name}")).url(alarm.page.clone())
    });
    wrongs.collect()
}

/// Checks that someone receives the alarms.
fn heard(running: &Running, facts: &Facts) -> Vec<Check> {
    const ID: &str = "heard";
    let alarms = match &running.alarms {
        Ok(alarms) => alarms,
        Err(unknown) => return vec![unasked(CheckGroup::Stack, ID, unknown)],
    };
    let tells = |one: &&AlarmFacts| one.is_enabled && !one.topics.is_empty();
    let silent: Vec<&str> =
        alarms.iter().filter(|one| !tells(one)).map(|one| one.alarm.name.as_str()).collect();
    if !silent.is_empty() {
        let (all, few) = (count(alarms.len(), "alarm"), silent.len());
        let wrong = if few == alarms.len() {
            warn(format!("{all}, and no one receives them."))
                .fix("muster upgrade --mail you@example.com")
        } else {
            let names = silent.join(", ");
            let muted: Vec<String> =
                silent.iter().map(|name| format!("{}-{name}", facts.stack)).collect();
            warn(format!("{few} of {all} notify no one: {names}.")).fix(format!(
                "aws cloudwatch enable-alarm-actions --alarm-names {}",
                muted.join(" ")
            ))
        };
        return found(CheckGroup::Stack, ID, vec![wrong]);
    }
    judge(CheckGroup::Stack, ID, &running.subscriptions, |all| subscriptions(all, facts))
}

fn subscriptions(all: &[Subscription], facts: &Facts) -> Vec<Finding> {
    if all.iter().any(|one| one.is_confirmed) {
        return Vec::new();
    }
    let Facts { region, .. } = facts;
    let page = console(region, &format!("sns/v3/home?region={region}#/subscriptions"));
    let wrong = match all {
        [] => warn("The topic of the alarms has no subscriber: no one receives them.")
            .fix("aws sns subscribe, or muster upgrade --mail ADDRESS"),
        all => {
            let who: Vec<&str> = all.iter().map(|one| one.endpoint.as_str()).collect();
            let who = who.join(", ");
            warn(format!("No one receives the alarms: {who} has not confirmed the subscription."))
                .fix("open the link in AWS's mail \"AWS Notification - Subscription Confirmation\"")
        }
    };
    vec![wrong.url(page)]
}

/// Returns the topics that the alarms notify, whose subscriptions have to be queried.
#[must_use]
pub fn topics(alarms: &Fact<Vec<AlarmFacts>>) -> Vec<String> {
    let mut all: Vec<String> =
        alarms.iter().flatten().flat_map(|one| one.topics.iter().cloned()).collect();
    all.sort();
    all.dedup();
    all
}
