//! Reads from indexes.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use muster_control::ports::{Instances, Jobs, Launches, Operations, Table as _, Write};
use muster_domain::ec2::{ErrorClass, LaunchError};
use muster_domain::ids::MachineId;
use muster_domain::instance::Instance;
use muster_domain::job::{JobStatus, fold};
use muster_domain::stored::{Committed, Stored};
use muster_domain::timings::Timings;

use crate::records::*;
use crate::support::Stack;
use crate::table::{made, new, over, stored};

fn names(instances: &[Stored<Instance>]) -> Vec<&str> {
    instances.iter().map(|instance| instance.name.as_str()).collect()
}

/// Returns the instance to `pending_create` after a failed launch.
fn failed(mut instance: Instance) -> Instance {
    let error = LaunchError::new(ErrorClass::Capacity, "None", "left");
    instance.launch_failed(&error, at(50), &Timings::default());
    instance
}

#[tokio::test]
async fn live_instances_are_listed_by_what_is_looked_for() {
    let table = Stack::new().await.table;
    let (free, older, taken) = (running(5, None), running(4, None), running(6, Some(key(1))));
    let (retry, free_retry) = (failed(planned(2, Some(key(2)))), failed(planned(1, None)));
    let (ending_late, ending_early) = (ending(7, 900), ending(8, 800));
    let gone = deleted(&running(9, None), 100);
    let all = [&free, &older, &taken, &retry, &free_retry, &ending_late, &ending_early, &gone];
    for instance in all {
        table.commit(&[new(instance)]).await.expect("committed");
    }
    let found = table.free_instances(&pool()).await.expect("read");
    assert_eq!(names(&found), ["default-l4-0", "default-l5-0", "default-l1-0"]);
    let found = table.slots_to_retry(&pool()).await.expect("read");
    assert_eq!(names(&found), ["default-l1-0", "default-l2-0"]);
    let found = table.ending_instances(&pool(), 5).await.expect("read");
    assert_eq!(names(&found), ["default-l8-0", "default-l7-0"]);
    let found = table.ending_instances(&pool(), 1).await.expect("read");
    assert_eq!(names(&found), ["default-l8-0"]);
    let found = table.live_instances(&pool(), None).await.expect("read");
    assert_eq!(found.items.len(), 7);
    assert_eq!(found.next, None);
    let other = "other".parse().expect("valid");
    assert_eq!(table.live_instances(&other, None).await.expect("read").items, []);
}

#[tokio::test]
async fn an_instance_leaves_the_indexes_when_it_is_deleted() {
    let stack = Stack::new().await;
    let instance = running(1, None);
    let gone = deleted(&instance, 100);
    stack.table.commit(&[new(&instance)]).await.expect("committed");
    assert_eq!(stack.table.free_instances(&pool()).await.expect("read").len(), 1);
    stack.table.commit(&[over(0, &gone)]).await.expect("committed");
    let page = stack.table.due_instances(at(1_000_000), 10, None).await.expect("read");
    assert_eq!(page.items, []);
    assert_eq!(stack.table.live_instances(&pool(), None).await.expect("read").items, []);
    assert_eq!(
        stack.table.instance(&gone.name).await,
        Ok(Some(stored(1, gone))),
        "the tombstone stays"
    );
}

#[tokio::test]
async fn due_instances_come_page_by_page_from_every_shard_and_each_once() {
    let stack = Stack::new().await;
    let lease = Timings::default().creating_lease_seconds;
    for n in 0..23 {
        stack.table.commit(&[new(&planned(n, None))]).await.expect("committed");
    }
    // Instances of the seconds 0 to 14 are due 14 seconds after the first lease ends.
    let now = at(14) + lease;
    let (mut seen, mut pages, mut next) = (BTreeSet::new(), 0, None);
    loop {
        let page = stack.table.due_instances(now, 4, next).await.expect("read");
        assert!(page.items.len() <= 4);
        for instance in &page.items {
            assert!(instance.due_at().is_some_and(|due_at| due_at <= now));
            assert!(seen.insert(instance.name.clone()), "{} twice", instance.name);
        }
        pages += 1;
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 15);
    assert!((4..=8).contains(&pages), "{pages} pages");
    let shards: BTreeSet<String> = {
        let mut shards = BTreeSet::new();
        for n in 0..23 {
            let name = planned(n, None).name;
            let key = ("name", name.as_str());
            let item = stack.raw(&stack.names.instances, key).await.expect("there");
            shards.insert(item["due_shard"].as_s().expect("a text").clone());
        }
        shards
    };
    assert_eq!(shards, ["0", "1", "2", "3"].map(String::from).into());
    let before = at(0) + lease - muster_domain::time::Seconds(1);
    let none = stack.table.due_instances(before, 4, None).await.expect("read");
    assert_eq!((none.items, none.next), (vec![], None));
}

#[tokio::test]
async fn a_page_that_is_none_of_ours_is_refused() {
    let table = Stack::new().await.table;
    assert!(table.due_instances(at(0), 4, Some("nonsense".into())).await.is_err());
}

#[tokio::test]
async fn unreadable_records_are_named_and_do_not_stop_a_listing() {
    let stack = Stack::new().await;
    for n in 0..3 {
        stack.table.commit(&[new(&planned(n, None))]).await.expect("committed");
    }
    let odd = planned(1, None).name;
    let key = ("name", odd.as_str());
    let mut item = stack.raw(&stack.names.instances, key).await.expect("there");
    item.insert("schema".into(), AttributeValue::N("9".into()));
    stack.put_raw(&stack.names.instances, item).await;

    let page = stack.table.due_instances(at(9999), 10, None).await.expect("read");
    assert_eq!((page.items.len(), page.unreadable), (2, vec![odd.as_str().to_owned()]));
    let page = stack.table.live_instances(&pool(), None).await.expect("read");
    assert_eq!((page.items.len(), page.unreadable.len()), (2, 1));
    assert_eq!(stack.table.free_instances(&pool()).await.expect("read").len(), 2);
}

#[tokio::test]
async fn demand_is_what_waits_without_a_claim_oldest_first() {
    let table = Stack::new().await.table;
    let mut claimed = queued(2);
    claimed.claim = Some(planned(1, None).name);
    let mut unmatched = queued(6);
    unmatched.pool = None;
    let mut expired = queued(7);
    expired.expired = true;
    let running = fold(Some(queued(8)), event(8, JobStatus::InProgress), at(70));
    for job in [&queued(5), &queued(3), &claimed, &queued(4), &unmatched, &expired, &running] {
        table.commit(&[new(job)]).await.expect("committed");
    }
    let numbers = |jobs: Vec<Stored<muster_domain::job::Job>>| -> Vec<u64> {
        jobs.iter().map(|job| job.key().job).collect()
    };
    assert_eq!(numbers(table.demand(&pool(), 10).await.expect("read")), [3, 4, 5]);
    assert_eq!(numbers(table.demand(&pool(), 2).await.expect("read")), [3, 4]);
    assert_eq!(numbers(table.demand(&pool(), 0).await.expect("read")), [] as [u64; 0]);
    assert_eq!(numbers(table.waiting_jobs(&pool(), 10).await.expect("read")), [3, 4, 5, 2]);
}

#[tokio::test]
async fn ended_jobs_expire_and_others_do_not() {
    let stack = Stack::new().await;
    let ended = fold(Some(queued(1)), event(1, JobStatus::Completed), at(70));
    let mut expired = queued(2);
    expired.expired = true;
    let jobs = [&ended, &expired, &queued(3)];
    for job in jobs {
        stack.table.commit(&[new(job)]).await.expect("committed");
    }
    let timings = Timings::default();
    let expected = [
        Some(at(5000) + timings.job_ttl_seconds),
        Some(at(2) + timings.job_expiry_seconds + timings.job_ttl_seconds),
        None,
    ];
    for (job, expires) in jobs.into_iter().zip(expected) {
        let key = job.key().to_string();
        let item = stack.raw(&stack.names.jobs, ("job", &key)).await.expect("there");
        let expires = expires.map(|at| AttributeValue::N(at.as_secs().to_string()));
        assert_eq!(item.get("expires_at"), expires.as_ref(), "job {key}");
    }
}

#[tokio::test]
async fn open_launches_are_listed_until_they_are_settled() {
    let table = Stack::new().await.table;
    let (first, second) = (launch(1), launch(2));
    table.commit(&[new(&second), new(&first)]).await.expect("committed");
    let open = table.open_launches(&pool()).await.expect("read");
    assert_eq!(open, [made(first.clone()), made(second.clone())], "oldest first");
    let settled = first.settled();
    let write = over(0, &settled);
    table.commit(&[write]).await.expect("committed");
    assert_eq!(table.open_launches(&pool()).await.expect("read"), [made(second)]);
    assert_eq!(table.launch(&first.id).await, Ok(Some(stored(1, settled))));
}

#[tokio::test]
async fn the_orphan_ledger_holds_a_machine_until_it_is_struck() {
    let table = Stack::new().await.table;
    let first = orphan(1);
    let enter = new(&first);
    table.commit(std::slice::from_ref(&enter)).await.expect("committed");
    assert!(table.commit(&[enter]).await.is_err(), "entered twice");
    let mut tried = first.clone();
    tried.attempts = 1;
    let change = over(0, &tried);
    table.commit(&[change]).await.expect("committed");
    assert_eq!(table.orphans().await, Ok(vec![stored(1, tried)]));
    let gone = |machine: MachineId| [Write::OrphanGone(machine)];
    for _ in 0..2 {
        assert_eq!(
            table.commit(&gone(machine(1))).await,
            Ok(Committed::by_table()),
            "struck twice is struck"
        );
    }
    assert_eq!(table.orphans().await, Ok(vec![]));
}

#[tokio::test]
async fn the_audit_trail_is_newest_first_and_a_line_written_twice_is_one() {
    let table = Stack::new().await.table;
    let lines = [audit(1, "first"), audit(2, "second"), audit(2, "at the same moment")];
    for line in &lines {
        table.commit(&[Write::Audit(line.clone())]).await.expect("committed");
    }
    table.commit(&[Write::Audit(lines[0].clone())]).await.expect("committed");
    let trail = table.audit(&lines[0].subject, 10).await.expect("read");
    assert_eq!(trail.len(), 3);
    assert_eq!(trail[2], lines[0]);
    assert_eq!(table.audit(&lines[0].subject, 2).await.expect("read").len(), 2);
    assert_eq!(table.audit("somebody else", 10).await, Ok(vec![]));
}
