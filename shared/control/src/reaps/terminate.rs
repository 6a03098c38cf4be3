//! Terminates many machines in few calls, with a separate answer for each.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ec2::ErrorClass;
use muster_domain::ids::MachineId;
use muster_domain::observation::{Machine, Termination};
use muster_domain::provider::ErrorDetail;
use muster_domain::time::Time;

use crate::ports::{Compute, MAX_TERMINATED, TerminationError};

/// Terminates machines, in as many calls as needed.
pub async fn all(
    compute: &impl Compute,
    machines: BTreeSet<MachineId>,
    now: Time,
) -> BTreeMap<MachineId, Termination> {
    while_it_may(compute, machines, now, || true).await
}

/// Terminates machines, 100 per call, while `may_continue` returns true; machines that are left
/// then have no answer.
///
/// One unknown ID fails its whole call, and a protected machine fails its zone. So after such an
/// error the machines that it names are set apart, or the call is halved, until each machine has
/// its own answer. A throttled or unanswered call is about no machine: it ends the calls and is the
/// answer for all remaining machines.
pub(crate) async fn while_it_may(
    compute: &impl Compute,
    machines: BTreeSet<MachineId>,
    now: Time,
    may_go_on: impl Fn() -> bool,
) -> BTreeMap<MachineId, Termination> {
    let mut answers = BTreeMap::new();
    let mut parts = chunks(machines);
    while let Some(part) = parts.pop().filter(|_| may_go_on()) {
        let refusal = match compute.terminate(&part).await {
            Ok(shown) => {
                answers.extend(part.into_iter().map(|id| {
                    let answer = accepted(shown.get(&id), now);
                    (id, answer)
                }));
                continue;
            }
            Err(refusal) => refusal,
        };
        match next(part, &refusal) {
            Next::Answered { these, left } => {
                answers.extend(these.into_iter().map(|id| (id, refusal.answer.clone())));
                parts.extend(left);
            }
            Next::Halves(halves) => parts.extend(halves),
            Next::Stop(these) => {
                let left = these.into_iter().chain(parts.drain(..).flatten());
                answers.extend(left.map(|id| (id, refusal.answer.clone())));
            }
        }
    }
    answers
}

/// Returns the answer for a machine. A response that omits it proves nothing about it.
fn accepted(shown: Option<&Machine>, now: Time) -> Termination {
    match shown {
        Some(machine) => Termination::Accepted(*machine),
        None => Termination::Failed(
            ErrorClass::Ambiguous,
            ErrorDetail {
                at: now,
                operation: "TerminateInstances".to_owned(),
                code: "NoAnswer".to_owned(),
                message: "EC2's response does not include the machine".to_owned(),
            },
        ),
    }
}

/// What to do after a refused call.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The error is the answer for `these`; the others are retried.
    Answered { these: BTreeSet<MachineId>, left: Option<BTreeSet<MachineId>> },
    /// Some of the machines caused it, and EC2 does not say which.
    Halves([BTreeSet<MachineId>; 2]),
    /// None of the machines caused it.
    Stop(BTreeSet<MachineId>),
}

fn next(part: BTreeSet<MachineId>, refusal: &TerminationError) -> Next {
    if !is_about_a_machine(&refusal.answer) {
        return Next::Stop(part);
    }
    let (these, left): (BTreeSet<_>, BTreeSet<_>) =
        part.into_iter().partition(|id| refusal.named.contains(id));
    match (these.is_empty(), left.len()) {
        (true, 2..) => {
            let middle = left.len() / 2;
            let mut left = left.into_iter();
            Next::Halves([left.by_ref().take(middle).collect(), left.collect()])
        }
        (true, _) => Next::Answered { these: left, left: None },
        (false, 0) => Next::Answered { these, left: None },
        (false, _) => Next::Answered { these, left: Some(left) },
    }
}

/// Whether the error is about a machine: unknown, malformed, protected, or not ours to terminate
/// (our permission depends on the machine's tag).
const fn is_about_a_machine(answer: &Termination) -> bool {
    match answer {
        Termination::NotFound(_) => true,
        Termination::Failed(class, _) => matches!(
            class,
            ErrorClass::Blocked | ErrorClass::Authorization | ErrorClass::Configuration
        ),
        Termination::Accepted(_) => false,
    }
}

fn chunks(machines: BTreeSet<MachineId>) -> Vec<BTreeSet<MachineId>> {
    let all: Vec<MachineId> = machines.into_iter().collect();
    // Parts are taken from the end, so this puts the first one last.
    all.chunks(MAX_TERMINATED).rev().map(|chunk| chunk.iter().cloned().collect()).collect()
}

#[cfg(test)]
mod tests;
