//! What a canary shows: rules over its record, and over what AWS says of its machine.

pub mod refusal;
pub mod report;
pub mod settled;

use muster_domain::ec2::ErrorClass;
use muster_domain::instance::{DeleteReason, Instance, Phase, RunnerState, State};
use muster_domain::time::{Seconds, Time};
use serde::Serialize;
use serde_json::Value;

use super::facts::text;
use super::{Finding, Group, Wrong, found};

/// A machine that has not called by then does not: the agent's own patience is shorter.
pub const MUTE_AFTER: Seconds = Seconds(480);
/// So long nobody may ask EC2: twice what a lost wake-up costs.
const UNASKED_AFTER: Seconds = Seconds(300);

/// A step of every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// GitHub shows the agent connected.
    Online,
    /// EC2 ends the machine.
    Deleted,
    /// It has come so far, as its record says.
    #[serde(untagged)]
    Reached(Phase),
}

/// A step, and when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepAt {
    pub step: Step,
    pub at: Time,
}

/// The steps that a record tells of. `online`: when GitHub first showed its agent connected.
#[must_use]
pub fn steps(one: &Instance, online: Option<Time>) -> Vec<StepAt> {
    let reached =
        one.phases().into_iter().map(|(phase, at)| StepAt { step: Step::Reached(phase), at });
    // It is connected before it gets a job, and what was told is not told again.
    let (mut all, job): (Vec<StepAt>, Vec<StepAt>) =
        reached.partition(|taken| taken.step != Step::Reached(Phase::Job));
    all.extend(online.map(|at| StepAt { step: Step::Online, at }));
    all.extend(job);
    let is_gone = one.state() == State::Deleted && one.machine().is_some();
    all.extend(is_gone.then(|| StepAt { step: Step::Deleted, at: one.since() }));
    all
}

/// How a canary stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Course {
    /// The next step is to come.
    Waits,
    /// Its agent runs.
    Listens,
    /// A job has taken it, or is meant for it.
    Taken,
    /// EC2 has refused it.
    Refused,
    /// EC2 was not asked, or its answer is not on record.
    Unasked,
    /// It has a machine that never called.
    Mute,
    /// It ended on its way, or is about to.
    Lost,
}

#[must_use]
pub fn course(one: &Instance, now: Time) -> Course {
    let runner = &one.runner;
    let is_free = one.mark().is_none() && runner.exit.is_none();
    match one.machine() {
        _ if runner.has_taken_job() => Course::Taken,
        None if one.refused.is_some() => Course::Refused,
        None if !is_free => Course::Lost,
        None if now.is_past(one.created_at, UNASKED_AFTER) => Course::Unasked,
        None => Course::Waits,
        Some(_) if runner.n == 0 && is_mute(one, now) => Course::Mute,
        Some(_) if !is_free => Course::Lost,
        Some(_) if runner.state == RunnerState::Idle && one.claim().is_some() => Course::Taken,
        Some(_) if runner.state == RunnerState::Idle => Course::Listens,
        Some(_) => Course::Waits,
    }
}

fn is_mute(one: &Instance, now: Time) -> bool {
    let is_given_up = one.mark().is_some_and(|mark| mark.reason == DeleteReason::BootTimeout);
    is_given_up || one.bound_at.is_some_and(|at| now.is_past(at, MUTE_AFTER))
}

/// A machine as EC2 shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub id: String,
    pub instance_type: String,
    pub zone: String,
    pub subnet: String,
    pub is_spot: bool,
}

impl Shown {
    /// From `DescribeInstances`.
    #[must_use]
    pub fn read(answer: &Value) -> Option<Self> {
        let one = answer.pointer("/reservationSet/0/instancesSet/0")?;
        Some(Self {
            id: text(one, "instanceId"),
            instance_type: text(one, "instanceType"),
            zone: text(&one["placement"], "availabilityZone"),
            subnet: text(one, "subnetId"),
            is_spot: one["instanceLifecycle"] == "spot",
        })
    }
}

/// What the way of a machine shows, step by step. `online`: as GitHub shows it in the end.
#[must_use]
pub fn findings(one: &Instance, course: Course, online: Option<bool>) -> Vec<Finding> {
    let check = |id, wrong: Option<Wrong>| found(Group::Canary, id, wrong.into_iter().collect());
    let mut all = Vec::new();
    match course {
        Course::Refused => return check("launch", refused(one)),
        Course::Unasked => return check("launch", Some(unasked())),
        Course::Lost if one.machine().is_none() => return check("launch", Some(lost(one))),
        _ => all.extend(check("launch", None)),
    }
    let is_registered = one.runner.id.is_some();
    match course {
        Course::Mute => return [all, check("call", Some(mute(one)))].concat(),
        Course::Lost if one.runner.n == 0 => {
            return [all, check("call", Some(lost(one)))].concat();
        }
        _ => all.extend(check("call", None)),
    }
    if course == Course::Lost {
        let id = if is_registered { "agent" } else { "registration" };
        return [all, check(id, Some(lost(one)))].concat();
    }
    all.extend(check("registration", None));
    let offline = match online {
        Some(true) => None,
        _ if course == Course::Taken => None,
        Some(false) => Some(
            Wrong::error("GitHub does not show its agent connected, a minute after it started.")
                .remedy("what its subnet lets out to GitHub: muster doctor"),
        ),
        None => Some(Wrong::unknown("GitHub gave no answer about its agent.")),
    };
    all.extend(check("agent", offline));
    all
}

fn refused(one: &Instance) -> Option<Wrong> {
    let class = one.refused?;
    let said = one.last_error.as_ref().map_or_else(String::new, |error| {
        format!("{}: {}", error.code, refusal::without_code(&error.message))
    });
    let wrong = Wrong::error(format!("EC2 refused the launch: {said}"));
    Some(match class {
        ErrorClass::Capacity => wrong.remedy(
            "another canary in a minute: a pool of spot-then-on-demand is then bought on demand",
        ),
        ErrorClass::Quota => wrong.remedy("a larger quota: muster doctor says which"),
        ErrorClass::Configuration => wrong.remedy(
            "what the pool names is not there, or does not fit: muster doctor, then muster pools",
        ),
        ErrorClass::Authorization => {
            wrong.remedy("what the message says; a policy of the account may forbid it")
        }
        ErrorClass::Throttle
        | ErrorClass::Consistency
        | ErrorClass::Idempotency
        | ErrorClass::Blocked
        | ErrorClass::Ambiguous => wrong.remedy("another canary in a minute"),
    })
}

fn unasked() -> Wrong {
    Wrong::error("EC2 was not asked within five minutes, or its answer is not on record.")
        .remedy("muster logs scale-up")
}

fn mute(one: &Instance) -> Wrong {
    let id = one.machine().map_or_else(String::new, ToString::to_string);
    Wrong::error(format!("Machine {id} started and never called."))
        .remedy("what stands on its console, and the way out of its subnet, below")
}

fn lost(one: &Instance) -> Wrong {
    let runner = &one.runner;
    if let Some(fault) = runner.exit.as_ref().and_then(|exit| exit.refused.as_ref()) {
        return Wrong::error(format!(
            "GitHub refuses its runner a configuration: {}: {}",
            fault.code, fault.message
        ))
        .remedy("muster github, and the pool's group and labels: muster pools");
    }
    let reason = one.mark().map(|mark| mark.reason.as_str());
    let why = match (runner.state, reason) {
        (RunnerState::Failed, _) => "its machine failed to boot",
        (RunnerState::Terminated, _) => "its agent ended without a job",
        (_, Some(reason)) => reason,
        (_, None) => "why is not on record",
    };
    let sentence = format!("It ended on its way: {why}.");
    Wrong::error(sentence).remedy(format!("muster show {}", one.name))
}
