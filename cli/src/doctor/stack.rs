//! What CloudFormation made: functions, queues, alarms, the sweep.

use muster_domain::time::{Seconds, Time};

use super::facts::{Deployed, Drifted, Function, Heard, Mapping, Running, Subscription};
use super::{Fact, Facts, Finding, Group, Wrong, console, found, judge, stopped, told, unasked};
use crate::handbook;
use crate::views::alarms::AlarmState;
use crate::words::{clock, count, span};

/// The functions, as their names end.
pub const FUNCTIONS: [&str; 5] = ["webhook", "scale-up", "reaper", "runner-api", "admin"];
/// The rule that wakes the sweep.
const TICK: &str = "ReaperFunctionTick";
/// The rules, as the template names them.
const RULES: [&str; 3] = [TICK, "MachineEndedRule", "SpotWarningRule"];
/// As many queues are read by a function.
const MAPPINGS: usize = 3;
/// The sweep comes each minute, and its metric a minute or two late.
const SILENT: Seconds = Seconds(300);
/// Until then nothing need have been heard of it.
const YOUNG: Seconds = Seconds(600);

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut all = judge(Group::Stack, "state", &facts.deployed, |deployed| match deployed {
        Some(deployed) => state(deployed, facts),
        None => missing(facts),
    });
    let Some(running) = &facts.running else { return all };
    if let Some(drift) = &running.drift {
        all.extend(judge(Group::Stack, "drift", drift, |all| drifted(all, facts)));
    }
    all.extend(functions(running, facts));
    all.extend(judge(Group::Stack, "reserve", &running.reserved, |all| reserve(all, &facts.stack)));
    all.extend(judge(Group::Stack, "rules", &running.rules, |all| rules(all, facts)));
    all.extend(judge(Group::Stack, "mappings", &running.mappings, |all| mappings(all, facts)));
    all.extend(judge(Group::Stack, "sweep", &running.swept_at, |at| sweep(*at, facts)));
    all.extend(judge(Group::Stack, "queues", &running.dead_letters, |count| queues(*count)));
    all.extend(super::backlog::check(&running.backlogs, facts));
    all.extend(judge(Group::Stack, "alarms", &running.alarms, |all| alarms(all, facts)));
    all.extend(heard(running, facts));
    all
}

fn missing(facts: &Facts) -> Vec<Wrong> {
    let Facts { stack, region, running, .. } = facts;
    if running.is_some() {
        let said = format!(
            "CloudFormation knows no stack \"{stack}\" in {region}, but its functions are there."
        );
        return vec![Wrong::unknown(said)];
    }
    let said =
        format!("There is no stack \"{stack}\" in {region} yet: the account alone was looked at.");
    vec![
        Wrong::warn(said)
            .remedy("deploy it with muster setup, or name another: --stack, --region, --profile"),
    ]
}

fn state(deployed: &Deployed, facts: &Facts) -> Vec<Wrong> {
    let Facts { stack, .. } = facts;
    let status = deployed.status.as_str();
    let because = match deployed.reason.as_deref().filter(|reason| !reason.is_empty()) {
        Some(reason) => format!(": {}", reason.trim_end_matches('.')),
        None => String::new(),
    };
    let is = format!("The stack is in {status}{because}.");
    let wrong = match status {
        "CREATE_COMPLETE" | "UPDATE_COMPLETE" | "IMPORT_COMPLETE" => return Vec::new(),
        "UPDATE_ROLLBACK_COMPLETE" => {
            Wrong::warn("The stack's last change failed and was taken back.")
                .remedy("see its Events, mend what they name, then muster upgrade")
        }
        "UPDATE_ROLLBACK_FAILED" => Wrong::error(is).remedy(format!(
            "mend what its Events name, then: \
             aws cloudformation continue-update-rollback --stack-name {stack}"
        )),
        "ROLLBACK_COMPLETE" | "ROLLBACK_FAILED" | "CREATE_FAILED" => {
            Wrong::error(is).remedy(format!(
                "its Events say why; \
             sam delete --stack-name {stack}, and deploy again"
            ))
        }
        "DELETE_IN_PROGRESS" | "DELETE_FAILED" => Wrong::error(is),
        status if status.ends_with("_IN_PROGRESS") => {
            Wrong::warn(is).remedy("wait until that is over")
        }
        _ => Wrong::warn(is),
    };
    vec![wrong.at(page(facts))]
}

fn drifted(all: &[Drifted], facts: &Facts) -> Vec<Wrong> {
    let wrongs = all.iter().map(|Drifted { name, kind, id, is_deleted, differs }| {
        let wrong = if *is_deleted {
            Wrong::error(format!("Somebody has deleted {name} ({kind}, {id})."))
        } else {
            Wrong::warn(format!(
                "Somebody has changed {name} ({kind}, {id}): {}.",
                differs.join(", ")
            ))
        };
        wrong
            .remedy("put it back by hand: muster upgrade changes what the template changed")
            .at(page(facts))
    });
    wrongs.collect()
}

fn page(facts: &Facts) -> String {
    let Facts { stack, region, .. } = facts;
    console(region, &format!("cloudformation/home?region={region}#/stacks?filteringText={stack}"))
}

fn functions(running: &Running, facts: &Facts) -> Vec<Finding> {
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
        let said = format!("The admin function gives no answer: {why}");
        wrongs.push(Wrong::error(said).remedy("muster logs admin"));
    }
    match unknown {
        Some(unknown) if wrongs.is_empty() => vec![unasked(Group::Stack, ID, unknown)],
        _ => found(Group::Stack, ID, wrongs),
    }
}

fn function(name: &str, known: Option<&Function>, facts: &Facts) -> Option<Wrong> {
    let Facts { region, .. } = facts;
    let Some(function) = known else {
        let said = format!("There is no function {name}: somebody has deleted it.");
        return Some(
            Wrong::error(said)
                .remedy("deploy the stack under another name, or put it back by hand"),
        );
    };
    let (what, why) = match function {
        Function { state, reason, .. } if state == "Failed" => ("cannot run", reason),
        Function { update, update_reason, .. } if update == "Failed" => {
            ("runs as it was before its last change, which failed", update_reason)
        }
        _ => return None,
    };
    let page = console(region, &format!("lambda/home?region={region}#/functions/{name}"));
    Some(Wrong::error(stopped(format!("{name} {what}: {why}"))).remedy("muster upgrade").at(page))
}

/// The way to stop a function for good that AWS itself recommends.
pub(super) fn reserve(all: &[(&'static str, Option<u64>)], stack: &str) -> Vec<Wrong> {
    let stopped = all.iter().filter(|(_, most)| *most == Some(0)).map(|(name, _)| {
        let name = format!("{stack}-{name}");
        Wrong::error(format!(
            "{name} may not run at all: somebody has reserved no concurrency for it."
        ))
        .remedy(format!("aws lambda delete-function-concurrency --function-name {name}"))
    });
    stopped.collect()
}

fn rules(all: &[(String, bool)], facts: &Facts) -> Vec<Wrong> {
    let disabled = all.iter().filter(|(_, is_enabled)| !is_enabled).filter_map(|(rule, _)| {
        let own = rule.strip_prefix(&facts.stack)?.strip_prefix('-')?;
        let wrong = match RULES.iter().find(|name| own.starts_with(**name))? {
            &TICK => Wrong::error(format!("Rule {rule} is disabled: the reaper sweeps no more.")),
            _ => Wrong::warn(format!(
                "Rule {rule} is disabled: machines that end are noticed minutes later."
            )),
        };
        Some(wrong.remedy(format!("aws events enable-rule --name {rule}")))
    });
    disabled.collect()
}

fn mappings(all: &[Mapping], facts: &Facts) -> Vec<Wrong> {
    let mut wrongs: Vec<Wrong> = Vec::new();
    for Mapping { id, function, queue, state, last } in all {
        if matches!(state.as_str(), "Disabled" | "Disabling") {
            let said = format!(
                "{function} does not read queue {queue} any more: somebody has disabled that."
            );
            let remedy = format!("aws lambda update-event-source-mapping --enabled --uuid {id}");
            wrongs.push(Wrong::error(said).remedy(remedy));
        } else if last.starts_with("PROBLEM") {
            let said = stopped(format!("{function} cannot read queue {queue}: {last}"));
            wrongs.push(
                Wrong::error(said).remedy("the rights of its role; muster upgrade puts them back"),
            );
        }
    }
    if all.len() < MAPPINGS {
        let said = format!(
            "{} of {MAPPINGS} event source mappings are left: a queue of {} is read no more.",
            all.len(),
            facts.stack
        );
        wrongs.push(Wrong::error(said).remedy("put it back by hand (template.yaml, Events)"));
    }
    wrongs
}

fn sweep(at: Option<Time>, facts: &Facts) -> Vec<Wrong> {
    let Facts { region, now, .. } = facts;
    if at.is_some_and(|at| !now.is_past(at, SILENT)) {
        return Vec::new();
    }
    let created = facts.deployed.iter().flatten().find_map(|deployed| deployed.created);
    if let (None, Some(created)) = (at, created.filter(|created| !now.is_past(*created, YOUNG))) {
        let said =
            format!("No sweep is known of yet: the stack is {} old.", span(now.since(created)));
        return vec![Wrong::warn(said).remedy("ask again in a few minutes")];
    }
    let said = match at {
        Some(at) => {
            format!("The last sweep was {} ago: nothing that waits is moving.", span(now.since(at)))
        }
        None => "No sweep for an hour: nothing that waits is moving.".to_owned(),
    };
    let page = console(region, &format!("events/home?region={region}#/rules"));
    let remedy = "muster logs reaper";
    vec![Wrong::error(said).remedy(remedy).at(page)]
}

fn queues(dead: u64) -> Vec<Wrong> {
    if dead == 0 {
        return Vec::new();
    }
    let said = format!(
        "{} failed too often and were given up.",
        count(usize::try_from(dead).unwrap_or(usize::MAX), "message")
    );
    vec![Wrong::warn(said).remedy("muster dead-letters")]
}

fn alarms(all: &[Heard], facts: &Facts) -> Vec<Wrong> {
    let red = all.iter().filter(|one| one.alarm.state == AlarmState::Red);
    let wrongs = red.map(|Heard { alarm, .. }| {
        let name = &alarm.name;
        let since =
            alarm.since.map(|at| format!(" since {}", clock(at, facts.now))).unwrap_or_default();
        let what = handbook::first_sentence(&alarm.what);
        let wrong = Wrong::warn(told(&format!("Alarm {name} is red{since}: {what}")));
        wrong.remedy(format!("muster alarms {name}")).at(alarm.page.clone())
    });
    wrongs.collect()
}

/// An alarm that nobody hears is none.
fn heard(running: &Running, facts: &Facts) -> Vec<Finding> {
    const ID: &str = "heard";
    let alarms = match &running.alarms {
        Ok(alarms) => alarms,
        Err(unknown) => return vec![unasked(Group::Stack, ID, unknown)],
    };
    let tells = |one: &&Heard| one.is_enabled && !one.topics.is_empty();
    let silent: Vec<&str> =
        alarms.iter().filter(|one| !tells(one)).map(|one| one.alarm.name.as_str()).collect();
    if !silent.is_empty() {
        let (all, few) = (count(alarms.len(), "alarm"), silent.len());
        let wrong = if few == alarms.len() {
            Wrong::warn(format!("{all}, and nobody hears them."))
                .remedy("muster upgrade --mail you@example.com")
        } else {
            let names = silent.join(", ");
            let muted: Vec<String> =
                silent.iter().map(|name| format!("{}-{name}", facts.stack)).collect();
            Wrong::warn(format!("{few} of {all} tell nobody: {names}.")).remedy(format!(
                "aws cloudwatch enable-alarm-actions --alarm-names {}",
                muted.join(" ")
            ))
        };
        return found(Group::Stack, ID, vec![wrong]);
    }
    judge(Group::Stack, ID, &running.subscriptions, |all| subscriptions(all, facts))
}

fn subscriptions(all: &[Subscription], facts: &Facts) -> Vec<Wrong> {
    if all.iter().any(|one| one.is_confirmed) {
        return Vec::new();
    }
    let Facts { region, .. } = facts;
    let page = console(region, &format!("sns/v3/home?region={region}#/subscriptions"));
    let wrong = match all {
        [] => Wrong::warn("The topic of the alarms has no subscriber: nobody hears them.")
            .remedy("aws sns subscribe, or muster upgrade --mail ADDRESS"),
        all => {
            let who: Vec<&str> = all.iter().map(|one| one.endpoint.as_str()).collect();
            let who = who.join(", ");
            Wrong::warn(format!("Nobody hears the alarms: {who} has not confirmed."))
                .remedy("the link in AWS's mail \"AWS Notification - Subscription Confirmation\"")
        }
    };
    vec![wrong.at(page)]
}

/// Whether anybody may be asked who hears the alarms: the topics that they tell.
#[must_use]
pub fn topics(alarms: &Fact<Vec<Heard>>) -> Vec<String> {
    let mut all: Vec<String> =
        alarms.iter().flatten().flat_map(|one| one.topics.iter().cloned()).collect();
    all.sort();
    all.dedup();
    all
}
