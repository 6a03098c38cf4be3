//! The orphan ledger: how soon it ends what is in it, and what hides a machine from it.

use std::cell::Cell;

use muster_conformance::records;
use muster_domain::ids::MachineId;
use muster_domain::instance::DeleteReason;
use muster_domain::launch::plan::STACK_TAG;
use muster_domain::message::ReapMessage;
use muster_domain::orphan::Orphan;
use muster_domain::stored::Change;
use muster_domain::time::Time;
use muster_domain::timings::Timings;
use muster_sim::agenda::{Millis, Which};
use muster_sim::executor::Pause;
use muster_sim::queue::{Body, Received};
use muster_sim::schedule::STACK;

use crate::bench::{AGE_MILLIS, Bench};

/// A machine that was launched an hour ago, and that no record knows.
fn lost(bench: &Bench, n: u32) -> (u32, MachineId) {
    let launch = format!("lost-l{n}").parse().expect("a launch");
    bench.change(|world| {
        let number = world.make_machine(Some(launch));
        world.ec2.cloud.at_mut(number as usize).launched_at -= AGE_MILLIS;
        (number, world.ec2.at(number).id.clone())
    })
}

/// The same, in the ledger already.
fn orphaned(bench: &Bench, n: u32) -> (u32, MachineId) {
    let (number, machine) = lost(bench, n);
    let since = bench.door.now();
    let orphan = Orphan { machine: machine.clone(), since, instance: None, ..records::orphan(n) };
    bench.put(&[Change::create(orphan).into()]);
    (number, machine)
}

fn ledger(bench: &Bench) -> Vec<MachineId> {
    bench.change(|world| world.tables.orphans.keys().cloned().collect())
}

/// They came by a restored table, or by `force` while EC2 refused.
#[test]
fn a_thousand_orphans_are_ended_from_the_first_seconds_on() {
    let bench = Bench::new().compared();
    bench.change(|world| world.cloud_config.slowest_call = 1);
    for n in 0..1_000 {
        orphaned(&bench, n);
    }
    // Until the listing of the ledger shows all of them.
    bench.drive(Pause::new(&bench.door.sim, 600_000));
    bench.change(|world| {
        world.cloud_config.slowest_call = 150;
        world.cloud_config.by_hand = false;
    });
    let (begun, before) = bench.change(|world| (world.now, world.calls));
    let first: Cell<Option<Millis>> = Cell::new(None);
    bench.drive_with(bench.sweep(), |_| {
        let (now, calls) = bench.change(|world| (world.now, world.calls));
        if calls.terminates > before.terminates && first.get().is_none() {
            first.set(Some(now - begun));
        }
    });
    let took = bench.change(|world| world.now) - begun;
    assert!(first.get().is_some_and(|first| first < 5_000), "{first:?} of {took} ms");
    assert!(took < 55_000, "{took} ms: Lambda stops it before it has counted anything");
    let ticks = (1..=5).find(|_| {
        bench.drive(bench.sweep());
        ledger(&bench).is_empty()
    });
    assert!(ticks.is_some(), "{} are left", ledger(&bench).len());
}

/// Its record has the usage until the record's end: only what comes later is the orphan's.
#[test]
fn a_machine_that_outlives_its_record_costs_nothing_twice() {
    let bench = Bench::new();
    let mut row = bench.idle(1).remove(0);
    let ended = Time::from_millis(bench.door.now().as_millis() - 600_000);
    row.to_pending_delete(DeleteReason::Idle, ended);
    row.to_deleting(ended, "a test", &Timings::default());
    row.to_deleted(ended, "a test");
    bench.store(std::slice::from_ref(&row));
    bench.change(|world| {
        let number = world.ec2.number(row.machine().expect("a machine")).expect("known");
        world.ec2.cloud.at_mut(number as usize).launched_at -= AGE_MILLIS;
    });
    let report = bench.drive(bench.sweep());
    let since: Vec<_> = report.ledger.iter().map(|orphan| orphan.costs_since).collect();
    assert_eq!(since, [Some(ended)]);
}

/// Somebody protects them while they look into something.
#[test]
fn orphans_that_cannot_be_ended_hide_no_others() {
    let bench = Bench::new();
    for n in 0..5 {
        let (number, _) = orphaned(&bench, n);
        bench.change(|world| {
            world.ec2.machines[number as usize].behaviour.blocked_until = i64::MAX;
        });
    }
    // EC2 lists them behind those.
    let others = [5, 6].map(|n| lost(&bench, n));
    bench.drive(Pause::new(&bench.door.sim, 600_000));
    let begun = bench.door.now();
    let report = bench.drive(bench.sweep());
    assert!(!report.stopped_at_blast_radius);
    for (number, machine) in &others {
        assert!(bench.change(|world| world.ec2.is_gone(*number)), "{machine} lives");
        let entered = report.ledger.iter().find(|one| one.machine == *machine).expect("entered");
        let age = begun.since(entered.costs_since.expect("a time")).0;
        assert!((4_200..4_300).contains(&age), "it costs since its launch, {age} s ago");
    }
    let now = bench.door.now();
    let is_recent = |at: Time| begun <= at && at <= now;
    let left = bench.change(|world| world.tables.orphans.clone());
    assert_eq!(left.len(), 5);
    assert!(left.values().all(|one| one.looked_at.is_some_and(is_recent)), "their turn is over");
    assert!(left.values().all(|one| one.attempts == 1 && one.last_error.is_some()), "{left:?}");
    let paid = bench.change(|world| world.tables.usage.len());
    assert_eq!(paid, others.len(), "each that has ended has its line of usage");
    let lines = bench.change(|world| world.tables.audits.clone());
    assert!(lines.len() == 2 && lines.iter().all(|line| is_recent(line.at)), "{lines:?}");
}

/// Whether EC2 shows a protected machine, every four minutes, and whether its entry leaves the ledger.
#[test]
fn an_orphan_that_ec2_shows_again_stays() {
    for (what, shown, leaves) in [
        ("never", [false; 7], true),
        ("in between", [false, true, false, true, false, true, false], false),
        ("once", [false, false, false, false, false, true, false], false),
    ] {
        let bench = Bench::new();
        let (number, machine) = orphaned(&bench, 0);
        bench.change(|world| {
            world.ec2.machines[number as usize].behaviour.blocked_until = i64::MAX;
        });
        for is_shown in shown {
            bench.change(|world| {
                let now = world.now;
                let from = if is_shown { 0 } else { now + 600_000 };
                world.ec2.cloud.at_mut(number as usize).visible_from = from;
            });
            bench.drive(bench.sweep());
            bench.drive(Pause::new(&bench.door.sim, 240_000));
        }
        assert_eq!(ledger(&bench) != [machine], leaves, "{what}");
    }
}

/// Somebody gave a machine of theirs our stack's tag, for the bill.
#[test]
fn a_machine_with_the_stacks_tag_alone_is_told_of_and_never_ended() {
    let bench = Bench::new();
    let (number, theirs) = bench.change(|world| {
        let number = world.make_machine(None);
        let instance = world.ec2.cloud.at_mut(number as usize);
        instance.launched_at -= AGE_MILLIS;
        instance.tags.insert(STACK_TAG.to_owned(), STACK.to_owned());
        (number, world.ec2.at(number).id.clone())
    });
    for minutes in 0..30 {
        let report = bench.drive(bench.sweep());
        bench.drive(Pause::new(&bench.door.sim, 60_000));
        assert_eq!((report.orphans, report.problems), (0, vec![]), "no alarm rings: {minutes}");
    }
    assert!(!bench.change(|world| world.ec2.is_gone(number)), "{theirs} was ended");
    assert_eq!(ledger(&bench), [theirs], "`status` tells of it");
    assert_eq!(bench.change(|world| world.calls.commits), 1, "it is written down once");
    bench.change(|world| {
        world.ec2.cloud.at_mut(number as usize).tags.remove(STACK_TAG);
    });
    bench.drive(bench.sweep());
    assert_eq!(ledger(&bench), []);
    assert!(bench.change(|world| world.violation.is_none() && world.tables.audits.is_empty()));
}

/// The event of their end was lost, and EC2 no longer lists them.
#[test]
fn machines_that_are_not_listed_are_found_on_every_page_of_records() {
    for page in [1, 2, 100] {
        let bench = Bench::new();
        let rows = bench.idle(5);
        bench.store(&rows);
        bench.change(|world| {
            world.tables.page = page;
            for number in 0..rows.len() {
                world.ec2.cloud.at_mut(number).tags.remove(STACK_TAG);
            }
        });
        bench.drive(bench.sweep());
        bench.drive(Pause::new(&bench.door.sim, 1_000));
        let sent = bench.change(|world| {
            let now = world.now;
            world.queues.of(Which::Reap).receive(9, now)
        });
        let is_lost = |one: &&Received| match &*one.body {
            Body::Reap(ReapMessage::MachineChanged { what, .. }) => what == "not listed",
            _ => false,
        };
        assert_eq!(sent.iter().filter(is_lost).count(), rows.len(), "pages of {page}");
    }
}

/// Another release wrote it, and goes on with it.
#[test]
fn a_record_that_cannot_be_read_hides_no_machine() {
    let bench = Bench::new();
    let rows = bench.idle(1);
    bench.store(&rows);
    bench.change(|world| {
        world.ec2.cloud.at_mut(0).launched_at -= AGE_MILLIS;
        world.tables.unreadable.insert(rows[0].name.clone());
    });
    let (number, _) = lost(&bench, 1);
    let report = bench.drive(bench.sweep());
    assert_eq!(report.problems, [] as [&str; 0]);
    assert!(bench.change(|world| world.ec2.is_gone(number)), "the stray lives");
    assert!(!bench.change(|world| world.ec2.is_gone(0)), "somebody else's machine was ended");
}
