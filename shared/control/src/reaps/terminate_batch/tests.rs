use std::collections::BTreeMap;

use muster_domain::ec2::ErrorClass;
use muster_domain::observation::Machine;

use super::*;
use crate::ports::Refusal;
use crate::testkit::{Ends, at, block_on, fault, machine};

/// EC2, which takes some polls to answer.
#[derive(Default)]
struct Ec2 {
    unknown: BTreeSet<MachineId>,
    calls: RefCell<Vec<BTreeSet<MachineId>>>,
}

/// Ready after this many polls.
async fn polls(mut count: u32) {
    poll_fn(|_| {
        if count == 0 {
            return Poll::Ready(());
        }
        count -= 1;
        Poll::Pending
    })
    .await;
}

impl Ends for Ec2 {
    async fn end(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Machine>, Refusal> {
        self.calls.borrow_mut().push(machines.clone());
        polls(3).await;
        let unknown: BTreeSet<_> = machines.intersection(&self.unknown).cloned().collect();
        if unknown.is_empty() {
            return Ok(machines.iter().map(|id| (id.clone(), Machine::Gone)).collect());
        }
        Err(Refusal { answer: Termination::NotFound(fault()), named: unknown })
    }
}

/// Runs `count` passes; the pass of a number ends the machine of that number after some polls.
fn run(ec2: &Ec2, count: u32, slowness: impl Fn(u32) -> u32) -> BTreeMap<u32, Termination> {
    let clock = || at(0);
    let together = &TerminateBatcher::new(ec2, &clock);
    let answers = &RefCell::new(BTreeMap::new());
    let mut left = 0..count;
    block_on(together.run(|| {
        let number = left.next()?;
        let slowness = slowness(number);
        Some(async move {
            polls(slowness).await;
            let answer = together.terminate(&machine(number)).await;
            answers.borrow_mut().insert(number, answer);
        })
    }));
    answers.take()
}

#[test]
fn fifty_passes_of_any_speed_make_one_call() {
    for slowness in [|_| 0, |number| number % 7, |number| 50 - number] {
        let ec2 = Ec2::default();
        let answers = run(&ec2, 50, slowness);
        assert_eq!(ec2.calls.borrow().iter().map(BTreeSet::len).collect::<Vec<_>>(), [50]);
        assert_eq!(answers.len(), 50);
        assert!(answers.values().all(|one| *one == Termination::Accepted(Machine::Gone)));
    }
}

#[test]
fn more_than_a_call_takes_are_ended_as_well() {
    let ec2 = Ec2::default();
    assert_eq!(run(&ec2, 130, |number| number % 5).len(), 130);
    let calls = ec2.calls.borrow();
    assert!(calls.len() <= 3, "{}", calls.len());
    assert_eq!(calls.iter().map(BTreeSet::len).sum::<usize>(), 130);
}

#[test]
fn each_pass_has_the_answer_of_its_own_machine() {
    let unknown = BTreeSet::from([machine(4)]);
    let ec2 = Ec2 { unknown, ..Ec2::default() };
    for (number, answer) in run(&ec2, 9, |_| 1) {
        let is_unknown = matches!(answer, Termination::NotFound(_));
        assert_eq!(is_unknown, number == 4, "{number}: {answer:?}");
    }
}

#[test]
fn two_passes_for_one_machine_have_one_answer_each() {
    let ec2 = Ec2::default();
    let clock = || at(0);
    let together = &TerminateBatcher::new(&ec2, &clock);
    let answered = &Cell::new(0);
    let mut left = 0..2;
    block_on(together.run(|| {
        left.next()?;
        Some(async move {
            together.terminate(&machine(1)).await;
            answered.set(answered.get() + 1);
        })
    }));
    assert_eq!((answered.get(), ec2.calls.borrow().len()), (2, 1));
}

#[test]
fn few_are_under_way_at_once() {
    let ec2 = Ec2::default();
    let clock = || at(0);
    let together = &TerminateBatcher::new(&ec2, &clock);
    let (now, most) = (&Cell::new(0_usize), &Cell::new(0_usize));
    let mut left = 0..60;
    block_on(together.run(|| {
        left.next()?;
        Some(async move {
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            polls(4).await;
            now.set(now.get() - 1);
        })
    }));
    assert_eq!(most.get(), MAX_UNDER_WAY);
}

#[test]
fn a_machine_does_not_wait_for_the_slowest_pass_of_all() {
    let ec2 = Ec2::default();
    let time = &Cell::new(0);
    let clock = || at(time.get());
    let together = &TerminateBatcher::new(&ec2, &clock);
    let ended_at = &Cell::new(None);
    let mut left = 0..2;
    block_on(together.run(|| {
        let number = left.next()?;
        Some(async move {
            if number == 0 {
                together.terminate(&machine(0)).await;
                ended_at.set(Some(time.get()));
            } else {
                // A slow GitHub: a second at each poll.
                for _ in 0..40 {
                    polls(1).await;
                    time.set(time.get() + 1);
                }
            }
        })
    }));
    let ended_at = ended_at.get().expect("ended");
    assert!((10..20).contains(&ended_at), "{ended_at}");
}

#[test]
fn a_pass_may_end_one_machine_after_another() {
    let ec2 = Ec2::default();
    let clock = || at(0);
    let together = &TerminateBatcher::new(&ec2, &clock);
    let mut left = 0..3;
    block_on(together.run(|| {
        let number = left.next()?;
        Some(async move {
            for round in 0..=number {
                let answer = together.terminate(&machine(10 * number + round)).await;
                assert!(!matches!(answer, Termination::Failed(ErrorClass::Ambiguous, _)));
            }
        })
    }));
    let calls = ec2.calls.borrow();
    assert_eq!(calls.iter().map(BTreeSet::len).collect::<Vec<_>>(), [3, 2, 1]);
}

#[test]
fn what_one_pass_reads_the_others_know() {
    use crate::reaps::read_cache::ReadCache;
    let ec2 = Ec2::default();
    let clock = || at(0);
    let together = &TerminateBatcher::new(&ec2, &clock);
    let (once, reads, told) = (&ReadCache::<u8, u32>::default(), &Cell::new(0), &Cell::new(0));
    let mut left = 0..20;
    block_on(together.run(|| {
        left.next()?;
        Some(async move {
            let read = async || {
                reads.set(reads.get() + 1);
                polls(2).await;
                // The first answer is an error.
                if reads.get() == 1 { Err("no answer") } else { Ok(7) }
            };
            let answer = once.get(&1, together.moved(), read).await;
            told.set(told.get() + u32::from(answer == Ok(7)));
        })
    }));
    assert_eq!((reads.get(), told.get()), (2, 19));
}
