//! Ending many machines in few calls, each with an answer of its own.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ec2::ErrorClass;
use muster_domain::ids::MachineId;
use muster_domain::instance::ErrorDetail;
use muster_domain::observation::{Machine, Termination};
use muster_domain::time::Time;

use crate::ports::{Compute, MAX_TERMINATED, Refusal};

/// Ends machines, however many calls that takes.
pub async fn all(
    compute: &impl Compute,
    machines: BTreeSet<MachineId>,
    now: Time,
) -> BTreeMap<MachineId, Termination> {
    while_it_may(compute, machines, now, || true).await
}

/// Ends machines, a hundred in a call. One id that EC2 does not know fails its whole call and a
/// protected one its zone, so after such an error those that it names are set apart, or the call is
/// halved, until every machine has the answer that is its own. Being throttled and silence are
/// about no machine: they end the asking, and are the answer for all that are left. No call begins
/// once it may not go on: what is left then has no answer.
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

/// An answer that leaves a machine out proves nothing about it.
fn accepted(shown: Option<&Machine>, now: Time) -> Termination {
    match shown {
        Some(machine) => Termination::Accepted(*machine),
        None => Termination::Failed(
            ErrorClass::Ambiguous,
            ErrorDetail {
                at: now,
                operation: "TerminateInstances".to_owned(),
                code: "NoAnswer".to_owned(),
                message: "the answer does not name the machine".to_owned(),
            },
        ),
    }
}

/// What follows from the refusal of a call.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// It is the answer for these; the others are asked again.
    Answered { these: BTreeSet<MachineId>, left: Option<BTreeSet<MachineId>> },
    /// It is the fault of some of them, and EC2 does not say of which.
    Halves([BTreeSet<MachineId>; 2]),
    /// It is the fault of none of them.
    Stop(BTreeSet<MachineId>),
}

fn next(part: BTreeSet<MachineId>, refusal: &Refusal) -> Next {
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

/// Unknown, malformed, protected, or not to be ended by us (our permission is bound to the
/// machine's tag).
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
    // The first is asked first: parts are taken from the end.
    all.chunks(MAX_TERMINATED).rev().map(|chunk| chunk.iter().cloned().collect()).collect()
}

#[cfg(test)]
mod tests;
