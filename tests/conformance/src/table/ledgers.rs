//! The orphan ledger, the audit trail and cursors.

use super::*;
use muster_control::ports::Operations;
use muster_domain::audit::Audit;

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

pub(super) async fn the_audit_trail_of_all_is_by_time<W: TableWorld>(world: &W) {
    let others =
        |second: u32, why: &str| Audit { subject: "switches".to_owned(), ..audit(second, why) };
    for line in [audit(1, "too old"), others(4, "last"), audit(3, "second"), others(2, "first")] {
        // Written twice it is one.
        commit(world, &[Write::Audit(line.clone())]).await;
        commit(world, &[Write::Audit(line)]).await;
    }
    let told = async |from, to, limit| -> Vec<String> {
        let lines = world.table().audit_between(at(from), at(to), limit).await.expect("read");
        lines.into_iter().map(|line| line.why).collect()
    };
    assert_eq!(told(2, 4, 10).await, ["last", "second", "first"]);
    assert_eq!(told(2, 3, 10).await, ["second", "first"]);
    assert_eq!(told(1, 4, 2).await, ["last", "second"]);
    assert_eq!(told(5, 9, 2).await, [""; 0]);
}

pub(super) async fn the_audit_trail_of_all_crosses_months<W: TableWorld>(world: &W) {
    let months =
        ["2026-12-31T23:59:59.999Z", "2027-01-01T00:00:00.000Z", "2027-03-05T00:00:00.000Z"];
    let times = months.map(|text| text.parse().expect("a time"));
    for (at, why) in times.into_iter().zip(["first", "second", "third"]) {
        commit(world, &[Write::Audit(Audit { at, ..audit(1, why) })]).await;
    }
    let [from, _, to] = times;
    let lines = world.table().audit_between(from, to, 10).await.expect("read");
    let told: Vec<String> = lines.into_iter().map(|line| line.why).collect();
    assert_eq!(told, ["third", "second", "first"]);
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
