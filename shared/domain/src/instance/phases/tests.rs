use super::{Ages, Pace, Phase, paces};
use crate::instance::Instance;
use crate::testkit::{With as _, active, asking, at, booting, creating, machine, timings};
use crate::time::Seconds;

const TOLD: Ages = Ages { running: Some(22_000), booted: Some(12_000), prepared: Some(1_000) };

#[test]
fn a_life_is_told_phase_by_phase() {
    use Phase::{Booted, Job, Launched, Planned, Prepared, Registered, Running, Started};
    let told = |life: Instance| life.phases();
    assert_eq!(told(creating()), [(Planned, at(0))]);
    assert_eq!(told(booting()), [(Planned, at(0)), (Launched, at(5))]);
    let up = booting().with(|i| i.came_up(TOLD, at(30)));
    let so_far = [
        (Planned, at(0)),
        (Launched, at(5)),
        (Running, at(8)),
        (Booted, at(18)),
        (Prepared, at(29)),
    ];
    assert_eq!(told(up.clone()), so_far);
    assert_eq!(up.clone().with(|i| i.came_up(TOLD, at(60))), up, "each the first time");
    let whole = told(active());
    let reported: Vec<Phase> = whole.iter().map(|(phase, _)| *phase).collect();
    assert_eq!(reported, [Planned, Launched, Registered, Started, Job], "it tells no ages");
    assert_eq!((whole[2].1, whole[3].1), (at(31), at(40)));
}

/// A container measures from its host's start.
#[test]
fn nothing_of_a_machine_was_before_its_launch() {
    let ages = Ages { running: Some(u32::MAX), booted: None, prepared: Some(0) };
    let told = asking().with(|i| i.came_up(ages, at(30))).phases();
    let (planned, rest) = (at(0), &told[2..]);
    assert_eq!(rest, [(Phase::Running, planned), (Phase::Prepared, at(30))]);
}

#[test]
fn paces_are_of_the_machines_that_got_so_far() {
    let bound = |second| creating().with(|i| i.bind(machine(1), at(second), &timings()));
    let ages = Ages { running: Some(1_000), ..Ages::default() };
    let mut lives: Vec<Instance> = (1..=20).map(bound).collect();
    lives[3] = bound(4).with(|i| i.came_up(ages, at(8)));
    lives.push(creating());
    let pace = |phase, machines, [p50, p95, since50, since95]: [u32; 4]| Pace {
        phase,
        machines,
        p50_seconds: Seconds(p50),
        p95_seconds: Seconds(p95),
        p50_since_planned_seconds: Seconds(since50),
        p95_since_planned_seconds: Seconds(since95),
    };
    let expected =
        [pace(Phase::Launched, 20, [10, 19, 10, 19]), pace(Phase::Running, 1, [3, 3, 7, 7])];
    assert_eq!(paces(&lives), expected);
    assert_eq!(paces(&[]), []);
}
