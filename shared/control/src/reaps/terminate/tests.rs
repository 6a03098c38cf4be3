use std::cell::{Cell, RefCell};

use futures_util::FutureExt as _;

use super::*;
use crate::testkit::{Ends, at, fault, machine, machines};

/// An EC2 that rejects some IDs.
#[derive(Default)]
struct Ec2 {
    unknown: BTreeSet<MachineId>,
    protected: BTreeSet<MachineId>,
    foreign: BTreeSet<MachineId>,
    /// Whether EC2's errors do not name the IDs.
    taciturn: bool,
    /// From this call on, every call is throttled.
    throttled_from: Option<usize>,
    calls: RefCell<Vec<usize>>,
    ended: RefCell<BTreeSet<MachineId>>,
}

impl Ec2 {
    fn refusal(&self, answer: Termination, named: BTreeSet<MachineId>) -> TerminationError {
        TerminationError { answer, named: if self.taciturn { BTreeSet::new() } else { named } }
    }

    fn all(&self, ids: &[u32]) -> BTreeMap<MachineId, Termination> {
        all(self, machines(ids), at(0)).now_or_never().expect("it never waits")
    }

    fn calls(&self) -> Vec<usize> {
        self.calls.borrow().clone()
    }
}

fn failed(class: ErrorClass) -> Termination {
    Termination::Failed(class, fault())
}

impl Ends for Ec2 {
    async fn end(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Machine>, TerminationError> {
        assert!((1..=MAX_TERMINATED).contains(&machines.len()), "{}", machines.len());
        self.calls.borrow_mut().push(machines.len());
        let among = |ids: &BTreeSet<MachineId>| -> BTreeSet<MachineId> {
            machines.intersection(ids).cloned().collect()
        };
        if self.throttled_from.is_some_and(|from| self.calls.borrow().len() > from) {
            return Err(self.refusal(failed(ErrorClass::Throttle), BTreeSet::new()));
        }
        if !among(&self.foreign).is_empty() {
            return Err(self.refusal(failed(ErrorClass::Authorization), BTreeSet::new()));
        }
        let unknown = among(&self.unknown);
        if !unknown.is_empty() {
            return Err(self.refusal(Termination::NotFound(fault()), unknown));
        }
        let protected = among(&self.protected);
        if let Some(first) = protected.first() {
            return Err(self.refusal(failed(ErrorClass::Blocked), BTreeSet::from([first.clone()])));
        }
        self.ended.borrow_mut().extend(machines.iter().cloned());
        Ok(machines.iter().map(|id| (id.clone(), Machine::Gone)).collect())
    }
}

#[test]
fn no_call_begins_once_it_may_not_go_on() {
    let ec2 = Ec2 { foreign: machines(&[0]), ..Ec2::default() };
    let ids: Vec<u32> = (0..8).collect();
    let left = Cell::new(3_u32);
    let may_go_on = || left.replace(left.get().saturating_sub(1)) > 0;
    let answers = while_it_may(&ec2, machines(&ids), at(0), may_go_on).now_or_never();
    assert_eq!(ec2.calls(), [8, 4, 4]);
    assert_eq!(answers.expect("it never waits").len(), 4, "the others have no answer");
}

const GONE: Termination = Termination::Accepted(Machine::Gone);

#[test]
fn a_hundred_machines_go_in_one_call_and_more_in_few() {
    for (count, calls) in
        [(1, vec![1]), (100, vec![100]), (101, vec![100, 1]), (250, vec![100, 100, 50])]
    {
        let ec2 = Ec2::default();
        let ids: Vec<u32> = (0..count).collect();
        let answers = ec2.all(&ids);
        assert_eq!(ec2.calls(), calls);
        assert_eq!(answers.len(), ids.len());
        assert!(answers.values().all(|answer| *answer == GONE));
    }
}

#[test]
fn none_is_no_call() {
    let ec2 = Ec2::default();
    assert!(ec2.all(&[]).is_empty());
    assert!(ec2.calls().is_empty());
}

#[test]
fn what_is_wrong_with_one_is_its_own_answer_alone() {
    let bad = machines(&[3, 17]);
    let worlds = [
        (Ec2 { unknown: bad.clone(), ..Ec2::default() }, Termination::NotFound(fault()), 2),
        (Ec2 { protected: bad.clone(), ..Ec2::default() }, failed(ErrorClass::Blocked), 3),
        // No ID is named: halves the call, with at most two calls per level for each rejected ID.
        (
            Ec2 { unknown: bad.clone(), taciturn: true, ..Ec2::default() },
            Termination::NotFound(fault()),
            22,
        ),
        (Ec2 { foreign: bad.clone(), ..Ec2::default() }, failed(ErrorClass::Authorization), 22),
    ];
    for (ec2, expected, most_calls) in worlds {
        let ids: Vec<u32> = (0..50).collect();
        let answers = ec2.all(&ids);
        for id in ids.iter().map(|id| machine(*id)) {
            let wanted = if bad.contains(&id) { &expected } else { &GONE };
            assert_eq!(&answers[&id], wanted, "{id}");
        }
        assert_eq!(ec2.ended.borrow().len(), 48);
        assert!(ec2.calls().len() <= most_calls, "{:?}", ec2.calls());
    }
}

#[test]
fn a_machine_alone_is_asked_once_whatever_is_wrong_with_it() {
    for ec2 in [
        Ec2 { unknown: machines(&[1]), ..Ec2::default() },
        Ec2 { protected: machines(&[1]), taciturn: true, ..Ec2::default() },
        Ec2 { foreign: machines(&[1]), ..Ec2::default() },
    ] {
        assert_ne!(ec2.all(&[1])[&machine(1)], GONE);
        assert_eq!(ec2.calls(), [1]);
    }
}

#[test]
fn throttling_is_the_answer_for_all_that_are_left_and_ends_the_asking() {
    let ec2 = Ec2 { throttled_from: Some(1), ..Ec2::default() };
    let answers = ec2.all(&(0..300).collect::<Vec<u32>>());
    assert_eq!(ec2.calls(), [100, 100]);
    let throttled = answers.values().filter(|one| **one == failed(ErrorClass::Throttle)).count();
    assert_eq!((answers.len(), throttled), (300, 200));
}

#[test]
fn throttling_amid_the_search_ends_it() {
    let ec2 =
        Ec2 { unknown: machines(&[7]), taciturn: true, throttled_from: Some(3), ..Ec2::default() };
    let answers = ec2.all(&(0..50).collect::<Vec<u32>>());
    assert_eq!(ec2.calls().len(), 4);
    assert_eq!(answers.len(), 50);
    assert!(answers.values().all(|one| *one == GONE || *one == failed(ErrorClass::Throttle)));
}

#[test]
fn errors_about_no_machine_are_not_searched() {
    for class in
        [ErrorClass::Ambiguous, ErrorClass::Throttle, ErrorClass::Quota, ErrorClass::Capacity]
    {
        let refusal = TerminationError { answer: failed(class), named: BTreeSet::new() };
        assert_eq!(next(machines(&[1, 2]), &refusal), Next::Stop(machines(&[1, 2])), "{class:?}");
    }
}

#[test]
fn a_machine_that_the_answer_leaves_out_is_not_taken_for_ended() {
    let answer = accepted(None, at(0));
    assert!(matches!(answer, Termination::Failed(ErrorClass::Ambiguous, _)), "{answer:?}");
}
