//! The checks of a canary: rules over its record and over EC2's description of its machine.

pub mod refusal;
pub mod report;
pub mod settled;

use muster_api::answers::Finding;
use muster_domain::ec2::ErrorClass;
use muster_domain::instance::{DeleteReason, Instance, Phase, RunnerState, State};
use muster_domain::time::{Seconds, Time};
use serde::Serialize;
use serde_json::Value;

use super::facts::text;
use super::{Check, CheckGroup, error, found, warn};

/// Time after which a machine that has not called counts as unable to call. The agent itself gives
/// up earlier.
pub const MUTE_AFTER: Seconds = Seconds(480);
/// Time after which a missing EC2 call is a problem: twice the delay of a lost wake-up.
const UNASKED_AFTER: Seconds = Seconds(300);

/// A step of every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MachineStep {
    /// GitHub shows the agent connected.
    Online,
    /// EC2 ends the machine.
    Deleted,
    /// The phase that its record shows.
    #[serde(untagged)]
    Reached(Phase),
}

/// A step and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepAt {
    pub step: MachineStep,
    pub at: Time,
}

/// Returns the steps that a record shows. `online`: when GitHub first showed its agent connected.
#[must_use]
pub fn steps(one: &Instance, online: Option<Time>) -> Vec<StepAt> {
    let reached = one
        .phases()
        .into_iter()
        .map(|(phase, at)| StepAt { step: MachineStep::Reached(phase), at });
    // The agent connects before it gets a job, so its step comes first, and no step is printed
    // twice.
    let (mut all, job): (Vec<StepAt>, Vec<StepAt>) =
        reached.partition(|taken| taken.step != MachineStep::Reached(Phase::Job));
    all.extend(online.map(|at| StepAt { step: MachineStep::Online, at }));
    all.extend(job);
    let is_gone = one.state() == State::Deleted && one.machine().is_some();
    all.extend(is_gone.then(|| StepAt { step: MachineStep::Deleted, at: one.since() }));
    all
}

/// The current result of a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Course {
    /// The next step has not happened yet.
    Waits,
    /// Its agent runs.
    Listens,
    /// A job runs on it, or is assigned to it.
    Taken,
    /// EC2 refused the launch.
    Refused,
    /// EC2 was not called, or its response was not recorded.
    Unasked,
    /// Its machine never called.
    Mute,
    /// It ended before its agent ran, or will end.
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

/// A machine, as reported by EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub id: String,
    pub instance_type: String,
    pub zone: String,
    pub subnet: String,
    pub is_spot: bool,
}

impl Shown {
    /// Parses the answer to `DescribeInstances`.
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

/// Checks the machine's steps in order. `online`: whether GitHub last showed its agent connected.
#[must_use]
pub fn findings(one: &Instance, course: Course, online: Option<bool>) -> Vec<Check> {
    let check =
        |id, wrong: Option<Finding>| found(CheckGroup::Canary, id, wrong.into_iter().collect());
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
            error("GitHub does not show its agent connected, a minute after it started.")
                .fix("check its subnet's access to GitHub: muster doctor"),
        ),
        None => Some(warn("GitHub gave no answer about its agent.")),
    };
    all.extend(check("agent", offline));
    all
}

fn refused(one: &Instance) -> Option<Finding> {
    let class = one.refused?;
    let said = one.last_error.as_ref().map_or_else(String::new, |error| {
        format!("{}: {}", error.code, refusal::without_code(&error.message))
    });
    let wrong = error(format!("EC2 refused the launch: {said}"));
    Some(match class {
        ErrorClass::Capacity => wrong.fix(
            "run the canary again in a minute: a spot-then-on-demand pool then uses on-demand",
        ),
        ErrorClass::Quota => wrong.fix("request a larger quota: muster doctor shows which"),
        ErrorClass::Configuration => {
            wrong.fix("the pool names something that is missing or does not fit: muster doctor")
        }
        ErrorClass::Authorization => {
            wrong.fix("follow the message; an account policy may forbid the launch")
        }
        ErrorClass::Throttle
        | ErrorClass::Consistency
        | ErrorClass::Idempotency
        | ErrorClass::Blocked
        | ErrorClass::Ambiguous => wrong.fix("run the canary again in a minute"),
    })
}

fn unasked() -> Finding {
    error("EC2 was not called within five minutes, or its response was not recorded.")
        .fix("muster logs scale-up")
}

fn mute(one: &Instance) -> Finding {
    let id = one.machine().map_or_else(String::new, ToString::to_string);
    error(format!("Machine {id} started but never called Muster."))
        .fix("check its console output and its subnet's internet access, below")
}

fn lost(one: &Instance) -> Finding {
    let runner = &one.runner;
    if let Some(fault) = runner.exit.as_ref().and_then(|exit| exit.refused.as_ref()) {
        return error(format!(
            "GitHub refuses its runner a configuration: {}: {}",
            fault.code, fault.message
        ))
        .fix("muster github, and the pool's group and labels: muster pools");
    }
    let reason = one.mark().map(|mark| mark.reason.as_str());
    let why = match (runner.state, reason) {
        (RunnerState::Failed, _) => "its machine failed to boot",
        (RunnerState::Terminated, _) => "its agent ended without a job",
        (_, Some(reason)) => reason,
        (_, None) => "the reason was not recorded",
    };
    let sentence = format!("It ended early: {why}.");
    error(sentence).fix(format!("muster show {}", one.name))
}
