//! Writes, and reads by key.

use aws_sdk_dynamodb::types::AttributeValue;
use muster_control::ports::{
    CommitError, Instances, Jobs, Launches, Operations, ReadError, Table as _, Write,
};
use muster_domain::job::{JobStatus, PassedOver, fold};
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Committed, Stored, Version};
use muster_domain::timings::Timings;

use crate::records::*;
use crate::support::Stack;

/// A record as the table returns it after this many writes.
pub(crate) fn stored<T>(version: u64, record: T) -> Stored<T> {
    Stored::read(record, Version(version))
}

/// A record as the table returns it after its first write.
pub(crate) fn made<T>(record: T) -> Stored<T> {
    stored(0, record)
}

/// The first write of a record.
pub(crate) fn new<T: Clone>(record: &T) -> Write
where
    Write: From<Change<T>>,
{
    Change::create(record.clone()).into()
}

/// A write that replaces a version.
pub(crate) fn over<T: Clone>(replaces: u64, next: &T) -> Write
where
    Write: From<Change<T>>,
{
    stored(replaces, next.clone()).change(next.clone()).into()
}

pub(crate) fn capacity(live: u32, holder: Option<&str>) -> Capacity {
    Capacity { live, holder: holder.map(str::to_owned), ..Capacity::empty(pool()) }
}

fn up(count: u32, max: u32, holder: &str) -> Write {
    Write::CapacityUp { pool: pool(), count, max, holder: holder.into(), wakes: None }
}

#[tokio::test]
async fn every_record_reads_as_it_was_written() {
    let table = Stack::new().await.table;
    let mut instance = running(1, Some(key(1)));
    instance.order_delete(&order(9), at(9));
    // A nonce may be any number, including one that neither a signed integer nor a float can
    // represent.
    instance.set_wake(Some(u64::MAX - 1));
    let mut job = fold(Some(queued(1)), event(1, JobStatus::InProgress), at(70));
    job.passed_over = Some(PassedOver { times: 2, at: at(60) });
    let (launch, orphan, capacity) = (launch(1), orphan(1), capacity(3, Some("me")));
    table
        .commit(&[new(&instance), new(&job), new(&launch), new(&capacity), new(&orphan)])
        .await
        .expect("committed");
    assert_eq!(table.instance(&instance.name).await, Ok(Some(made(instance))));
    assert_eq!(table.job(key(1)).await, Ok(Some(made(job))));
    assert_eq!(table.launch(&launch.id).await, Ok(Some(made(launch))));
    assert_eq!(table.capacity(&pool()).await, Ok(Some(made(capacity))));
    assert_eq!(table.orphan(&machine(1)).await, Ok(Some(made(orphan))));
}

#[tokio::test]
async fn what_is_not_there_reads_as_none() {
    let table = Stack::new().await.table;
    assert_eq!(table.instance(&planned(1, None).name).await, Ok(None));
    assert_eq!(table.job(key(1)).await, Ok(None));
    assert_eq!(table.owner_of(&machine(1)).await, Ok(None));
    assert_eq!(table.capacity(&pool()).await, Ok(None));
    assert_eq!(table.cursor("reconcile").await, Ok(None));
    assert_eq!(table.instances(&[]).await, Ok(vec![]));
    assert_eq!(table.commit(&[]).await, Ok(Committed::by_table()));
}

#[tokio::test]
async fn a_record_is_made_once() {
    let table = Stack::new().await.table;
    let instance = planned(1, None);
    assert_eq!(table.commit(&[new(&instance)]).await, Ok(Committed::by_table()));
    // Equal content from a different call is a different writer, not a lost response.
    assert_eq!(table.commit(&[new(&instance)]).await, Err(CommitError::Conflict));
}

#[tokio::test]
async fn a_write_must_name_the_version_it_replaces() {
    let table = Stack::new().await.table;
    let first = planned(1, None);
    table.commit(&[new(&first)]).await.expect("committed");
    let mut second = first.clone();
    second.tell(at(2), "one".into());
    second.tell(at(2), "several changes in one commit".into());
    assert_eq!(table.commit(&[over(0, &second)]).await, Ok(Committed::by_table()));
    let mut stale = first.clone();
    stale.tell(at(3), "too late".into());
    let stale = over(0, &stale);
    assert_eq!(table.commit(&[stale]).await, Err(CommitError::Conflict));
    assert_eq!(table.instance(&first.name).await, Ok(Some(stored(1, second))));
}

#[tokio::test]
async fn replacing_what_is_not_there_is_a_conflict() {
    let table = Stack::new().await.table;
    let mut next = planned(1, None);
    next.tell(at(2), "changed".into());
    let write = over(0, &next);
    assert_eq!(table.commit(&[write]).await, Err(CommitError::Conflict));
}

#[tokio::test]
async fn a_commit_is_all_or_nothing() {
    let table = Stack::new().await.table;
    let taken = planned(1, None);
    table.commit(&[new(&taken)]).await.expect("committed");
    let writes = [
        new(&queued(1)),
        new(&launch(2)),
        new(&planned(2, None)),
        new(&taken),
        Write::Audit(audit(1, "never")),
    ];
    assert_eq!(table.commit(&writes).await, Err(CommitError::Conflict));
    assert_eq!(table.job(key(1)).await, Ok(None));
    assert_eq!(table.launch(&launch(2).id).await, Ok(None));
    assert_eq!(table.instance(&planned(2, None).name).await, Ok(None));
    assert_eq!(table.audit(taken.name.as_str(), 9).await, Ok(vec![]));
}

#[tokio::test]
async fn a_transaction_of_a_hundred_actions_is_the_largest() {
    let table = Stack::new().await.table;
    let jobs: Vec<Write> = (1..=100).map(|n| new(&queued(n))).collect();
    assert_eq!(table.commit(&jobs).await, Ok(Committed::by_table()));
    let more: Vec<Write> = (1001..=1101).map(|n| new(&queued(n))).collect();
    let Err(CommitError::Unavailable(why)) = table.commit(&more).await else { panic!("accepted") };
    assert!(why.to_string().contains("101 actions"), "{why}");
}

#[tokio::test]
async fn many_are_read_at_once_each_once_and_without_the_missing_ones() {
    let table = Stack::new().await.table;
    for from in [1, 101] {
        let jobs: Vec<Write> = (from..from + 75).map(|n| new(&queued(n))).collect();
        table.commit(&jobs).await.expect("committed");
    }
    // More than one batch of keys, with duplicates and unknown ones.
    let keys: Vec<_> = (1..=180).chain(1..=10).map(key).collect();
    let mut found: Vec<u64> =
        table.jobs(&keys).await.expect("read").iter().map(|job| job.key().job).collect();
    found.sort_unstable();
    assert_eq!(found, (1..=75).chain(101..=175).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_machine_has_one_owner() {
    let table = Stack::new().await.table;
    let bind = |n| Write::BindMachine { machine: machine(1), instance: planned(n, None).name };
    let (first, second) = (running(1, None), running(2, None));
    assert_eq!(table.commit(&[new(&first), bind(1)]).await, Ok(Committed::by_table()));
    let refused = table.commit(&[new(&second), bind(2)]).await;
    assert_eq!(refused, Err(CommitError::Conflict));
    assert_eq!(table.owner_of(&machine(1)).await, Ok(Some(first.name)));
    assert_eq!(table.instance(&second.name).await, Ok(None));
}

#[tokio::test]
async fn the_owner_item_expires_with_its_row_and_not_before() {
    let stack = Stack::new().await;
    let owner = format!("machine#{}", machine(1));
    let owner = ("name", owner.as_str());
    let instance = running(1, None);
    let bind = Write::BindMachine { machine: machine(1), instance: instance.name.clone() };
    stack.table.commit(&[new(&instance), bind]).await.expect("committed");
    let item = stack.raw(&stack.names.instances, owner).await.expect("the owner");
    assert!(!item.contains_key("expires_at"));

    let gone = deleted(&instance, 100);
    stack.table.commit(&[over(0, &gone)]).await.expect("committed");
    let expires = (at(100) + Timings::default().tombstone_ttl_seconds).as_secs().to_string();
    for key in [owner, ("name", instance.name.as_str())] {
        let item = stack.raw(&stack.names.instances, key).await.expect("still there");
        assert_eq!(item["expires_at"], AttributeValue::N(expires.clone()), "{key:?}");
    }
    assert_eq!(stack.table.owner_of(&machine(1)).await, Ok(Some(instance.name)));
}

#[tokio::test]
async fn a_pools_counter_goes_down_without_being_read_and_never_below_zero() {
    let table = Stack::new().await.table;
    let down = || Write::CapacityDown(pool());
    assert_eq!(table.commit(&[down()]).await, Err(CommitError::Conflict), "no counter");
    table.commit(&[new(&capacity(3, None))]).await.expect("committed");
    assert_eq!(table.commit(&[down()]).await, Ok(Committed::by_table()));
    // Two of one pool in a commit become one action of the transaction.
    assert_eq!(table.commit(&[down(), down(), new(&queued(1))]).await, Ok(Committed::by_table()));
    let left = table.capacity(&pool()).await.expect("read").expect("there");
    assert_eq!((left.live, left.version()), (0, Version(2)));
    assert_eq!(table.commit(&[down()]).await, Err(CommitError::Conflict), "below zero");
    let all = table.commit(&[down(), new(&queued(2))]).await;
    assert_eq!(all, Err(CommitError::Conflict));
    assert_eq!(table.job(key(2)).await, Ok(None));
}

#[tokio::test]
async fn counting_down_takes_more_than_there_is_for_a_conflict() {
    let table = Stack::new().await.table;
    table.commit(&[new(&capacity(1, None))]).await.expect("committed");
    let two = [Write::CapacityDown(pool()), Write::CapacityDown(pool())];
    assert_eq!(table.commit(&two).await, Err(CommitError::Conflict));
    assert_eq!(table.capacity(&pool()).await, Ok(Some(made(capacity(1, None)))));
}

#[tokio::test]
async fn a_counter_that_moved_conflicts_with_a_write_of_the_whole_record() {
    let table = Stack::new().await.table;
    let before = capacity(1, None);
    table.commit(&[new(&before)]).await.expect("committed");
    table.commit(&[Write::CapacityDown(pool())]).await.expect("committed");
    let next = before.woken("me", at(1), &Timings::default());
    let write = |replaces| over(replaces, &next);
    assert_eq!(table.commit(&[write(0)]).await, Err(CommitError::Conflict));
    assert_eq!(table.commit(&[write(1)]).await, Ok(Committed::by_table()));
}

#[tokio::test]
async fn a_pools_counter_goes_up_to_its_maximum_for_the_holder_of_the_lease() {
    let table = Stack::new().await.table;
    table.commit(&[new(&capacity(1, Some("me")))]).await.expect("committed");
    assert_eq!(table.commit(&[up(1, 5, "you")]).await, Err(CommitError::Conflict));
    assert_eq!(table.commit(&[up(5, 5, "me")]).await, Err(CommitError::Conflict));
    assert_eq!(table.commit(&[up(6, 5, "me")]).await, Err(CommitError::Conflict));
    assert_eq!(table.commit(&[up(4, 5, "me"), new(&queued(1))]).await, Ok(Committed::by_table()));
    let now = table.capacity(&pool()).await.expect("read").expect("there");
    assert_eq!((now.live, now.version()), (5, Version(1)));
    assert_eq!(table.commit(&[up(1, 5, "me")]).await, Err(CommitError::Conflict));
}

#[tokio::test]
async fn a_cursor_is_moved_by_one_of_two() {
    let table = Stack::new().await.table;
    assert_eq!(table.move_cursor("reconcile", None, at(1)).await, Ok(()));
    let again = table.move_cursor("reconcile", None, at(2)).await;
    assert_eq!(again, Err(CommitError::Conflict));
    assert_eq!(table.move_cursor("reconcile", Some(at(1)), at(3)).await, Ok(()));
    let late = table.move_cursor("reconcile", Some(at(1)), at(4)).await;
    assert_eq!(late, Err(CommitError::Conflict));
    assert_eq!(table.cursor("reconcile").await, Ok(Some(at(3))));
    assert_eq!(table.cursor("other").await, Ok(None));
}

#[tokio::test]
async fn a_record_of_a_later_schema_is_not_read() {
    let stack = Stack::new().await;
    let instance = planned(1, None);
    stack.table.commit(&[new(&instance)]).await.expect("committed");
    let key = ("name", instance.name.as_str());
    let mut item = stack.raw(&stack.names.instances, key).await.expect("there");
    item.insert("schema".into(), AttributeValue::N("3".into()));
    stack.put_raw(&stack.names.instances, item).await;
    let Err(ReadError::Unreadable { key, why }) = stack.table.instance(&instance.name).await else {
        panic!("read")
    };
    assert_eq!(key, instance.name.as_str());
    assert!(why.to_string().contains("its schema is 3"), "{why}");
    // No decision is made about a group with an unreadable record.
    assert!(stack.table.instances(&[instance.name]).await.is_err());
}

#[tokio::test]
async fn an_unknown_state_is_not_read() {
    let stack = Stack::new().await;
    let instance = planned(1, None);
    stack.table.commit(&[new(&instance)]).await.expect("committed");
    let key = ("name", instance.name.as_str());
    let mut item = stack.raw(&stack.names.instances, key).await.expect("there");
    let Some(AttributeValue::M(body)) = item.get_mut("body") else { panic!("no body") };
    body.insert("state".into(), AttributeValue::S("hibernating".into()));
    stack.put_raw(&stack.names.instances, item).await;
    let outcome = stack.table.instance(&instance.name).await;
    let Err(ReadError::Unreadable { why, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(why.to_string().contains("hibernating"), "{why}");
}
