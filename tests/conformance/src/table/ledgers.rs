//! The orphan ledger, the audit trail and cursors.

use super::*;
use muster_control::ports::Operations;

pub(super) async fn the_ledger_holds_a_machine_until_it_is_struck<W: TableWorld>(world: &W) {
    commit(world, &[new(&orphan(1)), new(&orphan(2))]).await;
    commit(world, &[Write::OrphanGone(machine(1))]).await;
    assert_eq!(world.table().orphans().await, Ok(vec![made(orphan(2))]));
    assert_eq!(world.table().orphan(&machine(1)).await, Ok(None));
}

pub(super) async fn a_machine_struck_twice_is_struck<W: TableWorld>(world: &W) {
    commit(world, &[new(&orphan(1))]).await;
    for _ in 0..2 {
        commit(world, &[Write::OrphanGone(machine(1))]).await;
    }
    assert_eq!(world.table().orphans().await, Ok(vec![]));
}

async fn trail<W: TableWorld>(world: &W, limit: u32) -> Vec<String> {
    let subject = planned(1, None).name;
    let lines = world.table().audit(subject.as_str(), limit).await.expect("read");
    lines.into_iter().map(|line| line.why).collect()
}

pub(super) async fn the_audit_trail_is_newest_first<W: TableWorld>(world: &W) {
    for (second, why) in [(1, "first"), (2, "second"), (3, "third")] {
        commit(world, &[Write::Audit(audit(second, why))]).await;
    }
    assert_eq!(trail(world, 10).await, ["third", "second", "first"]);
}

pub(super) async fn the_audit_trail_is_newest_first_whatever_was_written_last<W: TableWorld>(
    world: &W,
) {
    for (second, why) in [(3, "third"), (1, "first"), (2, "second")] {
        commit(world, &[Write::Audit(audit(second, why))]).await;
    }
    assert_eq!(trail(world, 10).await, ["third", "second", "first"]);
}

pub(super) async fn the_audit_trail_is_limited_and_by_subject<W: TableWorld>(world: &W) {
    for second in 1..=5 {
        commit(world, &[Write::Audit(audit(second, "a line"))]).await;
    }
    assert_eq!(trail(world, 2).await.len(), 2);
    let other = planned(11, None).name;
    assert_eq!(world.table().audit(other.as_str(), 10).await, Ok(vec![]));
}

pub(super) async fn an_audit_line_written_twice_is_one<W: TableWorld>(world: &W) {
    for _ in 0..2 {
        commit(world, &[Write::Audit(audit(1, "a line"))]).await;
    }
    commit(world, &[Write::Audit(audit(1, "another at the same moment"))]).await;
    assert_eq!(trail(world, 10).await.len(), 2);
}

pub(super) async fn a_cursor_is_set_once<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(table.move_cursor("reconciled", None, at(1)).await, Ok(()));
    let again = table.move_cursor("reconciled", None, at(2)).await;
    assert_eq!(again, Err(CommitError::Conflict));
    assert_eq!(table.cursor("reconciled").await, Ok(Some(at(1))));
}

pub(super) async fn a_cursor_is_moved_by_one_of_two<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(table.move_cursor("reconciled", None, at(1)).await, Ok(()));
    assert_eq!(table.move_cursor("reconciled", Some(at(1)), at(3)).await, Ok(()));
    let late = table.move_cursor("reconciled", Some(at(1)), at(4)).await;
    assert_eq!(late, Err(CommitError::Conflict));
    assert_eq!(table.cursor("reconciled").await, Ok(Some(at(3))));
}

pub(super) async fn cursors_are_apart<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(table.move_cursor("reconciled", None, at(1)).await, Ok(()));
    assert_eq!(table.cursor("other").await, Ok(None));
    let from_nothing = table.move_cursor("other", Some(at(1)), at(2)).await;
    assert_eq!(from_nothing, Err(CommitError::Conflict));
}
