//! What a commit replaces, and that it is all or nothing.

use super::*;
use muster_control::ports::{Instances, Jobs, Launches, Operations};

/// Made once; the same content by another call is another writer, not a lost answer.
async fn made_once<W: TableWorld>(world: &W, write: Write) {
    commit(world, std::slice::from_ref(&write)).await;
    conflicts(world, &[write]).await;
}

pub(super) async fn an_instance_is_made_once<W: TableWorld>(world: &W) {
    made_once(world, new(&planned(1, None))).await;
}

pub(super) async fn a_job_is_made_once<W: TableWorld>(world: &W) {
    made_once(world, new(&queued(1))).await;
}

pub(super) async fn a_launch_is_made_once<W: TableWorld>(world: &W) {
    made_once(world, new(&launch(1))).await;
}

pub(super) async fn a_counter_is_made_once<W: TableWorld>(world: &W) {
    made_once(world, new(&capacity(1, None))).await;
}

pub(super) async fn an_orphan_is_entered_once<W: TableWorld>(world: &W) {
    made_once(world, new(&orphan(1))).await;
}

fn told(before: &Instance, what: &str) -> Instance {
    let mut next = before.clone();
    next.tell(at(2), what.into());
    next
}

pub(super) async fn a_write_names_the_version_it_replaces<W: TableWorld>(world: &W) {
    let first = planned(1, None);
    let second = told(&first, "once");
    put(world, &[&first]).await;
    commit(world, &[over(0, &second)]).await;
    assert_eq!(world.table().instance(&first.name).await, Ok(Some(stored(1, second))));
}

pub(super) async fn a_late_write_is_a_conflict<W: TableWorld>(world: &W) {
    let first = planned(1, None);
    let (mine, yours) = (told(&first, "mine"), told(&first, "yours"));
    put(world, &[&first]).await;
    commit(world, &[over(0, &mine)]).await;
    conflicts(world, &[over(0, &yours)]).await;
    assert_eq!(world.table().instance(&first.name).await, Ok(Some(stored(1, mine))));
}

pub(super) async fn replacing_what_is_not_there_is_a_conflict<W: TableWorld>(world: &W) {
    let first = planned(1, None);
    conflicts(world, &[over(0, &told(&first, "late"))]).await;
    assert_eq!(world.table().instance(&first.name).await, Ok(None));
}

pub(super) async fn a_job_is_replaced_by_version<W: TableWorld>(world: &W) {
    let next = fold(Some(queued(1)), event(1, JobStatus::Completed), at(70));
    commit(world, &[new(&queued(1))]).await;
    conflicts(world, &[over(7, &next)]).await;
    commit(world, &[over(0, &next)]).await;
    conflicts(world, &[over(0, &next)]).await;
    assert_eq!(world.table().job(key(1)).await, Ok(Some(stored(1, next))));
}

pub(super) async fn a_launch_is_replaced_by_version<W: TableWorld>(world: &W) {
    let settled = launch(1).settled();
    let write = over(0, &settled);
    commit(world, &[new(&launch(1))]).await;
    commit(world, std::slice::from_ref(&write)).await;
    conflicts(world, &[write]).await;
    assert_eq!(world.table().launch(&settled.id).await, Ok(Some(stored(1, settled))));
}

pub(super) async fn an_orphan_is_replaced_by_version<W: TableWorld>(world: &W) {
    let next = Orphan { attempts: 1, ..orphan(1) };
    let write = over(0, &next);
    commit(world, &[new(&orphan(1))]).await;
    commit(world, std::slice::from_ref(&write)).await;
    conflicts(world, &[write]).await;
    assert_eq!(world.table().orphan(&machine(1)).await, Ok(Some(stored(1, next))));
}

pub(super) async fn a_commit_is_all_or_nothing<W: TableWorld>(world: &W) {
    let (instance, job) = (planned(1, Some(key(1))), queued(1));
    let writes = [
        new(&instance),
        new(&job),
        new(&launch(1)),
        new(&capacity(1, None)),
        Write::Audit(audit(1, "all")),
    ];
    commit(world, &writes).await;
    assert_eq!(world.table().instance(&instance.name).await, Ok(Some(made(instance.clone()))));
    assert_eq!(world.table().job(key(1)).await, Ok(Some(made(job))));
    assert_eq!(world.table().launch(&launch(1).id).await, Ok(Some(made(launch(1)))));
    assert_eq!(live(world).await, 1);
    assert_eq!(world.table().audit(instance.name.as_str(), 9).await.expect("read").len(), 1);
}

pub(super) async fn a_conflict_at_the_end_undoes_the_beginning<W: TableWorld>(world: &W) {
    let taken = planned(1, None);
    put(world, &[&taken]).await;
    let writes = [
        new(&queued(1)),
        new(&launch(2)),
        new(&planned(2, None)),
        new(&capacity(1, None)),
        bind(2, &planned(2, None)),
        Write::Audit(audit(1, "never")),
        new(&taken),
    ];
    conflicts(world, &writes).await;
    assert_eq!(world.table().job(key(1)).await, Ok(None));
    assert_eq!(world.table().launch(&launch(2).id).await, Ok(None));
    assert_eq!(world.table().instance(&planned(2, None).name).await, Ok(None));
    assert_eq!(world.table().capacity(&pool()).await, Ok(None));
    assert_eq!(world.table().owner_of(&machine(2)).await, Ok(None));
    assert_eq!(world.table().audit(taken.name.as_str(), 9).await, Ok(vec![]));
    assert_eq!(world.table().demand(&pool(), 9).await, Ok(vec![]));
}

pub(super) async fn a_hundred_actions_are_one_commit<W: TableWorld>(world: &W) {
    let jobs: Vec<Write> = (1..=100).map(|n| new(&queued(n))).collect();
    commit(world, &jobs).await;
    assert_eq!(world.table().demand(&pool(), 200).await.expect("read").len(), 100);
}

pub(super) async fn more_than_a_hundred_actions_are_refused<W: TableWorld>(world: &W) {
    let jobs: Vec<Write> = (1..=101).map(|n| new(&queued(n))).collect();
    let answer = world.table().commit(&jobs).await;
    assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
}
