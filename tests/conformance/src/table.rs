//! The tables, as `control::ports::Table` reads and writes them.

use std::collections::BTreeSet;

use control::ports::{CommitError, Page, ReadError, Table, Write};
use domain::capacity::Capacity;
use domain::entity::EntityHealth;
use domain::ids::{InstanceName, JobKey, PoolName};
use domain::instance::Instance;
use domain::job::{Hold, Job, JobStatus, fold};
use domain::launch::Launch;
use domain::orphan::Orphan;
use domain::time::Time;
use domain::timings::Timings;

use crate::checks;
use crate::records::{
    at, audit, capacity, deleted, ending, event, failed, key, launch, machine, orphan, other_pool,
    planned, pool, queued, running,
};

/// The tables behind a door.
#[expect(async_fn_in_trait, reason = "checks run on one thread")]
pub trait TableWorld {
    /// The port.
    type Table: Table;

    /// The port.
    fn table(&self) -> &Self::Table;
    /// Makes an instance's record one of a later version, which this one cannot read.
    async fn spoil(&self, instance: &InstanceName);
}

checks! { TableWorld:
    what_is_not_there_reads_as_none,
    what_is_not_there_is_in_no_listing,
    an_instance_reads_as_it_was_written,
    a_job_reads_as_it_was_written,
    a_launch_reads_as_it_was_written,
    a_counter_reads_as_it_was_written,
    an_orphan_reads_as_it_was_written,
    many_instances_are_read_without_the_missing_ones,
    an_instance_asked_for_twice_is_read_once,
    many_jobs_are_read_in_one_call_each_once,
    an_instance_is_made_once,
    a_job_is_made_once,
    a_launch_is_made_once,
    a_counter_is_made_once,
    an_orphan_is_entered_once,
    a_write_names_the_generation_it_replaces,
    a_write_may_skip_generations,
    a_late_write_is_a_conflict,
    replacing_what_is_not_there_is_a_conflict,
    a_job_is_replaced_by_generation,
    a_launch_is_replaced_by_generation,
    an_orphan_is_replaced_by_generation,
    a_commit_is_all_or_nothing,
    a_conflict_at_the_end_undoes_the_beginning,
    a_hundred_actions_are_one_commit,
    more_than_a_hundred_actions_are_refused,
    a_counter_goes_down,
    a_counter_that_is_not_there_does_not_go_down,
    a_counter_does_not_go_below_zero,
    a_counter_goes_down_by_several_in_one_commit,
    a_counter_does_not_go_down_by_more_than_there_is,
    a_counter_goes_up_for_the_holder_of_the_lease,
    a_counter_does_not_go_up_for_somebody_else,
    a_counter_does_not_go_up_without_a_lease,
    a_counter_that_is_not_there_does_not_go_up,
    a_counter_goes_up_to_its_maximum_and_not_beyond,
    a_counter_that_moved_is_a_conflict_for_a_whole_write,
    a_conflict_leaves_the_counter_alone,
    a_machine_has_one_owner,
    an_instance_is_not_bound_when_its_machine_is_taken,
    an_owner_is_found_after_its_end,
    due_instances_are_those_whose_time_has_come,
    due_instances_come_in_pages_and_each_once,
    a_deleted_instance_is_never_due,
    live_instances_are_those_of_the_pool,
    live_instances_come_in_pages_and_each_once,
    a_deleted_instance_is_not_live,
    free_instances_have_no_claim,
    free_instances_come_machines_first_and_oldest_first,
    an_instance_moves_between_listings,
    slots_to_retry_wait_for_a_launch,
    ending_instances_come_in_the_order_of_their_marks,
    ending_instances_are_limited,
    demand_comes_oldest_first,
    demand_on_hold_stands_where_its_time_comes,
    demand_is_limited,
    demand_has_no_claim_and_a_pool_and_waits,
    demand_ends_when_a_runner_takes_the_job,
    waiting_jobs_come_with_and_without_a_claim,
    waiting_jobs_are_those_of_the_pool,
    open_launches_are_listed_until_they_are_settled,
    the_ledger_holds_a_machine_until_it_is_struck,
    a_machine_struck_twice_is_struck,
    the_audit_trail_is_newest_first,
    the_audit_trail_is_newest_first_whatever_was_written_last,
    the_audit_trail_is_limited_and_by_subject,
    an_audit_line_written_twice_is_one,
    a_cursor_is_set_once,
    a_cursor_is_moved_by_one_of_two,
    cursors_are_apart,
    an_entitys_health_is_kept_and_the_last_writer_wins,
    a_healed_entity_is_not_listed,
    healing_twice_is_healing,
    a_record_of_a_later_version_is_not_read,
    a_group_with_an_unreadable_record_is_not_read,
    a_listing_names_unreadable_records_and_goes_on,
    a_page_that_is_none_of_ours_is_refused,
}

fn new_instance(next: &Instance) -> Write {
    Write::Instance { next: Box::new(next.clone()), replaces: None }
}

fn instance_over(before: &Instance, next: &Instance) -> Write {
    Write::Instance { next: Box::new(next.clone()), replaces: Some(before.generation()) }
}

fn new_job(next: &Job) -> Write {
    Write::Job { next: Box::new(next.clone()), replaces: None }
}

fn job_over(replaces: u64, next: &Job) -> Write {
    Write::Job { next: Box::new(next.clone()), replaces: Some(replaces) }
}

fn new_launch(next: &Launch) -> Write {
    Write::Launch { next: Box::new(next.clone()), replaces: None }
}

fn new_counter(next: &Capacity) -> Write {
    Write::Capacity { next: next.clone(), replaces: None }
}

fn new_orphan(next: &Orphan) -> Write {
    Write::Orphan { next: next.clone(), replaces: None }
}

fn up(count: u32, max: u32, holder: &str) -> Write {
    Write::CapacityUp { pool: pool(), count, max, holder: holder.into() }
}

fn down() -> Write {
    Write::CapacityDown(pool())
}

fn bind(n: u32, to: &Instance) -> Write {
    Write::BindMachine { machine: machine(n), instance: to.name.clone() }
}

async fn commit<W: TableWorld>(world: &W, writes: &[Write]) {
    assert_eq!(world.table().commit(writes).await, Ok(()));
}

async fn conflicts<W: TableWorld>(world: &W, writes: &[Write]) {
    assert_eq!(world.table().commit(writes).await, Err(CommitError::Conflict));
}

async fn put<W: TableWorld>(world: &W, instances: &[&Instance]) {
    for instance in instances {
        commit(world, &[new_instance(instance)]).await;
    }
}

async fn live<W: TableWorld>(world: &W) -> u32 {
    world.table().capacity(&pool()).await.expect("read").expect("there").live
}

fn names(instances: &[Instance]) -> Vec<&InstanceName> {
    instances.iter().map(|instance| &instance.name).collect()
}

fn numbers(jobs: &[Job]) -> Vec<u64> {
    jobs.iter().map(|job| job.key().job).collect()
}

/// All pages: what they hold, and how many there were.
async fn pages<F: Future<Output = Result<Page<Instance>, ReadError>>>(
    next: impl Fn(Option<String>) -> F,
) -> (Vec<InstanceName>, usize) {
    let (mut all, mut count, mut page) = (Vec::new(), 0, None);
    loop {
        let answer = next(page).await.expect("a page");
        all.extend(answer.items.into_iter().map(|instance| instance.name));
        count += 1;
        page = answer.next;
        if page.is_none() {
            return (all, count);
        }
    }
}

async fn due<W: TableWorld>(world: &W, now: Time, limit: u32) -> (Vec<InstanceName>, usize) {
    pages(|page| world.table().due_instances(now, limit, page)).await
}

async fn live_of<W: TableWorld>(world: &W, pool: &PoolName) -> (Vec<InstanceName>, usize) {
    pages(|page| world.table().live_instances(pool, page)).await
}

fn each_once(all: Vec<InstanceName>) -> BTreeSet<InstanceName> {
    let count = all.len();
    let set: BTreeSet<InstanceName> = all.into_iter().collect();
    assert_eq!(set.len(), count, "one of them twice");
    set
}

async fn what_is_not_there_reads_as_none<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(table.instance(&planned(1, None).name).await, Ok(None));
    assert_eq!(table.instances(&[planned(1, None).name]).await, Ok(vec![]));
    assert_eq!(table.instances(&[]).await, Ok(vec![]));
    assert_eq!(table.job(key(1)).await, Ok(None));
    assert_eq!(table.jobs(&[key(1)]).await, Ok(vec![]));
    assert_eq!(table.owner_of(&machine(1)).await, Ok(None));
    assert_eq!(table.launch(&launch(1).id).await, Ok(None));
    assert_eq!(table.capacity(&pool()).await, Ok(None));
    assert_eq!(table.orphan(&machine(1)).await, Ok(None));
    assert_eq!(table.entity_health(&"acme".parse().expect("an entity")).await, Ok(None));
    assert_eq!(table.cursor("reconciled").await, Ok(None));
}

async fn what_is_not_there_is_in_no_listing<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(due(world, at(9999), 10).await, (vec![], 1));
    assert_eq!(live_of(world, &pool()).await, (vec![], 1));
    assert_eq!(table.free_instances(&pool()).await, Ok(vec![]));
    assert_eq!(table.slots_to_retry(&pool()).await, Ok(vec![]));
    assert_eq!(table.ending_instances(&pool(), 10).await, Ok(vec![]));
    assert_eq!(table.demand(&pool(), 10).await, Ok(vec![]));
    assert_eq!(table.waiting_jobs(&pool(), 10).await, Ok(vec![]));
    assert_eq!(table.open_launches(&pool()).await, Ok(vec![]));
    assert_eq!(table.orphans().await, Ok(vec![]));
    assert_eq!(table.unhealthy_entities().await, Ok(vec![]));
    assert_eq!(table.audit("nobody", 10).await, Ok(vec![]));
}

async fn an_instance_reads_as_it_was_written<W: TableWorld>(world: &W) {
    let mut instance = running(1, Some(key(1)));
    // A nonce may be any number, also one that no signed integer and no float can hold.
    instance.set_wake(Some(u64::MAX - 1));
    put(world, &[&instance]).await;
    assert_eq!(world.table().instance(&instance.name).await, Ok(Some(instance)));
}

async fn a_job_reads_as_it_was_written<W: TableWorld>(world: &W) {
    let mut job = fold(Some(queued(1)), event(1, JobStatus::InProgress), at(70));
    job.hold = Some(Hold { until: at(99), reason: "none".into(), failures: 2 });
    commit(world, &[new_job(&job)]).await;
    assert_eq!(world.table().job(key(1)).await, Ok(Some(job)));
}

async fn a_launch_reads_as_it_was_written<W: TableWorld>(world: &W) {
    commit(world, &[new_launch(&launch(1))]).await;
    assert_eq!(world.table().launch(&launch(1).id).await, Ok(Some(launch(1))));
}

async fn a_counter_reads_as_it_was_written<W: TableWorld>(world: &W) {
    let counter = capacity(3, Some("me")).woken("you", at(1), &Timings::default());
    commit(world, &[new_counter(&counter)]).await;
    assert_eq!(world.table().capacity(&pool()).await, Ok(Some(counter)));
}

async fn an_orphan_reads_as_it_was_written<W: TableWorld>(world: &W) {
    commit(world, &[new_orphan(&orphan(1))]).await;
    assert_eq!(world.table().orphan(&machine(1)).await, Ok(Some(orphan(1))));
    assert_eq!(world.table().orphans().await, Ok(vec![orphan(1)]));
}

async fn many_instances_are_read_without_the_missing_ones<W: TableWorld>(world: &W) {
    put(world, &[&planned(1, None), &planned(3, None)]).await;
    let asked: Vec<_> = (1..=4).map(|n| planned(n, None).name).collect();
    let mut found = world.table().instances(&asked).await.expect("read");
    found.sort_by_key(|instance| instance.created_at);
    assert_eq!(found, [planned(1, None), planned(3, None)]);
}

async fn an_instance_asked_for_twice_is_read_once<W: TableWorld>(world: &W) {
    put(world, &[&planned(1, None)]).await;
    let name = planned(1, None).name;
    let found = world.table().instances(&[name.clone(), name]).await.expect("read");
    assert_eq!(found, [planned(1, None)]);
}

async fn many_jobs_are_read_in_one_call_each_once<W: TableWorld>(world: &W) {
    for from in [1, 101] {
        let jobs: Vec<Write> = (from..from + 75).map(|n| new_job(&queued(n))).collect();
        commit(world, &jobs).await;
    }
    let keys: Vec<JobKey> = (1..=180).chain(1..=10).map(key).collect();
    let mut found = numbers(&world.table().jobs(&keys).await.expect("read"));
    found.sort_unstable();
    assert_eq!(found, (1..=75).chain(101..=175).collect::<Vec<u64>>());
}

/// Made once; the same content by another call is another writer, not a lost answer.
async fn made_once<W: TableWorld>(world: &W, write: Write) {
    commit(world, std::slice::from_ref(&write)).await;
    conflicts(world, &[write]).await;
}

async fn an_instance_is_made_once<W: TableWorld>(world: &W) {
    made_once(world, new_instance(&planned(1, None))).await;
}

async fn a_job_is_made_once<W: TableWorld>(world: &W) {
    made_once(world, new_job(&queued(1))).await;
}

async fn a_launch_is_made_once<W: TableWorld>(world: &W) {
    made_once(world, new_launch(&launch(1))).await;
}

async fn a_counter_is_made_once<W: TableWorld>(world: &W) {
    made_once(world, new_counter(&capacity(1, None))).await;
}

async fn an_orphan_is_entered_once<W: TableWorld>(world: &W) {
    made_once(world, new_orphan(&orphan(1))).await;
}

fn told(before: &Instance, what: &str) -> Instance {
    let mut next = before.clone();
    next.tell(at(2), what.into());
    next
}

async fn a_write_names_the_generation_it_replaces<W: TableWorld>(world: &W) {
    let first = planned(1, None);
    let second = told(&first, "once");
    put(world, &[&first]).await;
    commit(world, &[instance_over(&first, &second)]).await;
    assert_eq!(world.table().instance(&first.name).await, Ok(Some(second)));
}

async fn a_write_may_skip_generations<W: TableWorld>(world: &W) {
    let first = planned(1, None);
    let third = told(&told(&first, "once"), "twice");
    assert!(third.generation() > first.generation() + 1);
    put(world, &[&first]).await;
    commit(world, &[instance_over(&first, &third)]).await;
    assert_eq!(world.table().instance(&first.name).await, Ok(Some(third)));
}

async fn a_late_write_is_a_conflict<W: TableWorld>(world: &W) {
    let first = planned(1, None);
    let (mine, yours) = (told(&first, "mine"), told(&first, "yours"));
    put(world, &[&first]).await;
    commit(world, &[instance_over(&first, &mine)]).await;
    conflicts(world, &[instance_over(&first, &yours)]).await;
    assert_eq!(world.table().instance(&first.name).await, Ok(Some(mine)));
}

async fn replacing_what_is_not_there_is_a_conflict<W: TableWorld>(world: &W) {
    let first = planned(1, None);
    conflicts(world, &[instance_over(&first, &told(&first, "late"))]).await;
    assert_eq!(world.table().instance(&first.name).await, Ok(None));
}

async fn a_job_is_replaced_by_generation<W: TableWorld>(world: &W) {
    let next = fold(Some(queued(1)), event(1, JobStatus::Completed), at(70));
    commit(world, &[new_job(&queued(1))]).await;
    conflicts(world, &[job_over(7, &next)]).await;
    commit(world, &[job_over(queued(1).generation, &next)]).await;
    conflicts(world, &[job_over(queued(1).generation, &next)]).await;
    assert_eq!(world.table().job(key(1)).await, Ok(Some(next)));
}

async fn a_launch_is_replaced_by_generation<W: TableWorld>(world: &W) {
    let settled = launch(1).settled();
    let write = Write::Launch { next: Box::new(settled.clone()), replaces: Some(0) };
    commit(world, &[new_launch(&launch(1))]).await;
    commit(world, std::slice::from_ref(&write)).await;
    conflicts(world, &[write]).await;
    assert_eq!(world.table().launch(&settled.id).await, Ok(Some(settled)));
}

async fn an_orphan_is_replaced_by_generation<W: TableWorld>(world: &W) {
    let next = Orphan { generation: 1, attempts: 1, ..orphan(1) };
    let write = Write::Orphan { next: next.clone(), replaces: Some(0) };
    commit(world, &[new_orphan(&orphan(1))]).await;
    commit(world, std::slice::from_ref(&write)).await;
    conflicts(world, &[write]).await;
    assert_eq!(world.table().orphan(&machine(1)).await, Ok(Some(next)));
}

async fn a_commit_is_all_or_nothing<W: TableWorld>(world: &W) {
    let (instance, job) = (planned(1, Some(key(1))), queued(1));
    let writes = [
        new_instance(&instance),
        new_job(&job),
        new_launch(&launch(1)),
        new_counter(&capacity(1, None)),
        Write::Audit(audit(1, "all")),
    ];
    commit(world, &writes).await;
    assert_eq!(world.table().instance(&instance.name).await, Ok(Some(instance.clone())));
    assert_eq!(world.table().job(key(1)).await, Ok(Some(job)));
    assert_eq!(world.table().launch(&launch(1).id).await, Ok(Some(launch(1))));
    assert_eq!(live(world).await, 1);
    assert_eq!(world.table().audit(instance.name.as_str(), 9).await.expect("read").len(), 1);
}

async fn a_conflict_at_the_end_undoes_the_beginning<W: TableWorld>(world: &W) {
    let taken = planned(1, None);
    put(world, &[&taken]).await;
    let writes = [
        new_job(&queued(1)),
        new_launch(&launch(2)),
        new_instance(&planned(2, None)),
        new_counter(&capacity(1, None)),
        bind(2, &planned(2, None)),
        Write::Audit(audit(1, "never")),
        new_instance(&taken),
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

async fn a_hundred_actions_are_one_commit<W: TableWorld>(world: &W) {
    let jobs: Vec<Write> = (1..=100).map(|n| new_job(&queued(n))).collect();
    commit(world, &jobs).await;
    assert_eq!(world.table().demand(&pool(), 200).await.expect("read").len(), 100);
}

async fn more_than_a_hundred_actions_are_refused<W: TableWorld>(world: &W) {
    let jobs: Vec<Write> = (1..=101).map(|n| new_job(&queued(n))).collect();
    let answer = world.table().commit(&jobs).await;
    assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
}

async fn a_counter_goes_down<W: TableWorld>(world: &W) {
    commit(world, &[new_counter(&capacity(3, Some("me")))]).await;
    commit(world, &[down()]).await;
    let left = world.table().capacity(&pool()).await.expect("read").expect("there");
    assert_eq!((left.live, left.generation), (2, 1));
    assert!(left.is_held_by("me"), "the lease is left alone");
}

async fn a_counter_that_is_not_there_does_not_go_down<W: TableWorld>(world: &W) {
    conflicts(world, &[down()]).await;
    assert_eq!(world.table().capacity(&pool()).await, Ok(None));
}

async fn a_counter_does_not_go_below_zero<W: TableWorld>(world: &W) {
    commit(world, &[new_counter(&capacity(1, None))]).await;
    commit(world, &[down()]).await;
    conflicts(world, &[down(), new_job(&queued(1))]).await;
    assert_eq!(world.table().job(key(1)).await, Ok(None));
    assert_eq!(live(world).await, 0);
}

async fn a_counter_goes_down_by_several_in_one_commit<W: TableWorld>(world: &W) {
    commit(world, &[new_counter(&capacity(3, None))]).await;
    commit(world, &[down(), down(), new_job(&queued(1))]).await;
    assert_eq!(live(world).await, 1);
}

async fn a_counter_does_not_go_down_by_more_than_there_is<W: TableWorld>(world: &W) {
    commit(world, &[new_counter(&capacity(1, None))]).await;
    conflicts(world, &[down(), down()]).await;
    assert_eq!(live(world).await, 1);
}

async fn a_counter_goes_up_for_the_holder_of_the_lease<W: TableWorld>(world: &W) {
    commit(world, &[new_counter(&capacity(1, Some("me")))]).await;
    commit(world, &[up(3, 5, "me"), new_job(&queued(1))]).await;
    let now = world.table().capacity(&pool()).await.expect("read").expect("there");
    assert_eq!((now.live, now.generation), (4, 1));
}

async fn a_counter_does_not_go_up_for_somebody_else<W: TableWorld>(world: &W) {
    commit(world, &[new_counter(&capacity(1, Some("me")))]).await;
    conflicts(world, &[up(1, 5, "you")]).await;
    assert_eq!(live(world).await, 1);
}

async fn a_counter_does_not_go_up_without_a_lease<W: TableWorld>(world: &W) {
    commit(world, &[new_counter(&capacity(1, None))]).await;
    conflicts(world, &[up(1, 5, "me")]).await;
    assert_eq!(live(world).await, 1);
}

async fn a_counter_that_is_not_there_does_not_go_up<W: TableWorld>(world: &W) {
    conflicts(world, &[up(1, 5, "me")]).await;
    assert_eq!(world.table().capacity(&pool()).await, Ok(None));
}

async fn a_counter_goes_up_to_its_maximum_and_not_beyond<W: TableWorld>(world: &W) {
    commit(world, &[new_counter(&capacity(1, Some("me")))]).await;
    conflicts(world, &[up(5, 5, "me")]).await;
    conflicts(world, &[up(6, 5, "me")]).await;
    commit(world, &[up(4, 5, "me")]).await;
    conflicts(world, &[up(1, 5, "me")]).await;
    assert_eq!(live(world).await, 5);
}

async fn a_counter_that_moved_is_a_conflict_for_a_whole_write<W: TableWorld>(world: &W) {
    let before = capacity(1, None);
    commit(world, &[new_counter(&before)]).await;
    commit(world, &[down()]).await;
    let next = before.woken("me", at(1), &Timings::default());
    let write = |replaces| Write::Capacity { next: next.clone(), replaces: Some(replaces) };
    conflicts(world, &[write(0)]).await;
    commit(world, &[write(1)]).await;
}

async fn a_conflict_leaves_the_counter_alone<W: TableWorld>(world: &W) {
    commit(world, &[new_counter(&capacity(3, Some("me"))), new_job(&queued(1))]).await;
    conflicts(world, &[up(1, 9, "me"), new_job(&queued(1))]).await;
    conflicts(world, &[down(), new_job(&queued(1))]).await;
    assert_eq!(live(world).await, 3);
}

async fn a_machine_has_one_owner<W: TableWorld>(world: &W) {
    let (first, second) = (running(1, None), running(2, None));
    commit(world, &[new_instance(&first), bind(1, &first)]).await;
    conflicts(world, &[bind(1, &second)]).await;
    conflicts(world, &[bind(1, &first)]).await;
    assert_eq!(world.table().owner_of(&machine(1)).await, Ok(Some(first.name)));
}

async fn an_instance_is_not_bound_when_its_machine_is_taken<W: TableWorld>(world: &W) {
    let (first, slot) = (running(1, None), planned(2, None));
    commit(world, &[new_instance(&first), bind(1, &first), new_instance(&slot)]).await;
    let mut bound = slot.clone();
    bound.bind(machine(1), at(9), &Timings::default());
    conflicts(world, &[bind(1, &slot), instance_over(&slot, &bound)]).await;
    assert_eq!(world.table().instance(&slot.name).await, Ok(Some(slot)));
}

async fn an_owner_is_found_after_its_end<W: TableWorld>(world: &W) {
    let instance = running(1, None);
    commit(world, &[new_instance(&instance), bind(1, &instance)]).await;
    commit(world, &[instance_over(&instance, &deleted(&instance))]).await;
    assert_eq!(world.table().owner_of(&machine(1)).await, Ok(Some(instance.name)));
}

/// When the lease of a slot planned at second `n` ends.
fn lease_end(n: u32) -> Time {
    at(n) + Timings::default().creating_lease_seconds
}

async fn due_instances_are_those_whose_time_has_come<W: TableWorld>(world: &W) {
    put(world, &[&planned(1, None), &planned(2, None), &planned(3, None)]).await;
    let (found, _) = due(world, lease_end(2), 10).await;
    assert_eq!(each_once(found), [planned(1, None).name, planned(2, None).name].into());
    assert_eq!(due(world, lease_end(0), 10).await.0, []);
}

async fn due_instances_come_in_pages_and_each_once<W: TableWorld>(world: &W) {
    for n in 0..23 {
        put(world, &[&planned(n, None)]).await;
    }
    let (found, pages) = due(world, lease_end(14), 4).await;
    assert_eq!(each_once(found).len(), 15);
    assert!(pages >= 4, "{pages} pages");
}

async fn a_deleted_instance_is_never_due<W: TableWorld>(world: &W) {
    let instance = running(1, None);
    put(world, &[&instance]).await;
    commit(world, &[instance_over(&instance, &deleted(&instance))]).await;
    assert_eq!(due(world, at(1_000_000), 10).await.0, []);
    let stored = world.table().instance(&instance.name).await;
    assert_eq!(stored, Ok(Some(deleted(&instance))), "the tombstone stays");
}

async fn live_instances_are_those_of_the_pool<W: TableWorld>(world: &W) {
    let all = [running(1, None), running(2, Some(key(2))), failed(3, None), ending(4, 50)];
    put(world, &all.each_ref()).await;
    let (found, _) = live_of(world, &pool()).await;
    assert_eq!(each_once(found), all.map(|one| one.name).into());
    assert_eq!(live_of(world, &other_pool()).await, (vec![], 1));
}

async fn live_instances_come_in_pages_and_each_once<W: TableWorld>(world: &W) {
    for n in 0..60 {
        put(world, &[&planned(n, None)]).await;
    }
    let (found, _) = live_of(world, &pool()).await;
    assert_eq!(each_once(found).len(), 60);
}

async fn a_deleted_instance_is_not_live<W: TableWorld>(world: &W) {
    let (gone, stays) = (running(1, None), running(2, None));
    put(world, &[&gone, &stays]).await;
    commit(world, &[instance_over(&gone, &deleted(&gone))]).await;
    assert_eq!(live_of(world, &pool()).await.0, std::slice::from_ref(&stays.name));
    assert_eq!(names(&world.table().free_instances(&pool()).await.expect("read")), [&stays.name]);
}

async fn free_instances_have_no_claim<W: TableWorld>(world: &W) {
    let (free, taken, ends) = (running(1, None), running(2, Some(key(2))), ending(3, 50));
    put(world, &[&free, &taken, &ends]).await;
    assert_eq!(names(&world.table().free_instances(&pool()).await.expect("read")), [&free.name]);
    assert_eq!(world.table().free_instances(&other_pool()).await, Ok(vec![]));
}

async fn free_instances_come_machines_first_and_oldest_first<W: TableWorld>(world: &W) {
    let (free, older, retry) = (running(5, None), running(4, None), failed(1, None));
    put(world, &[&free, &retry, &older]).await;
    let found = world.table().free_instances(&pool()).await.expect("read");
    assert_eq!(names(&found), [&older.name, &free.name, &retry.name]);
}

async fn an_instance_moves_between_listings<W: TableWorld>(world: &W) {
    let free = running(1, None);
    put(world, &[&free]).await;
    let mut taken = free.clone();
    taken.set_claim(key(1), at(9));
    commit(world, &[instance_over(&free, &taken)]).await;
    assert_eq!(world.table().free_instances(&pool()).await, Ok(vec![]));
    let mut again = taken.clone();
    again.clear_claim(at(10), "a check");
    commit(world, &[instance_over(&taken, &again)]).await;
    assert_eq!(world.table().free_instances(&pool()).await, Ok(vec![again]));
}

async fn slots_to_retry_wait_for_a_launch<W: TableWorld>(world: &W) {
    let (claimed, free) = (failed(2, Some(key(2))), failed(1, None));
    put(world, &[&claimed, &free, &running(3, None), &planned(4, None)]).await;
    let found = world.table().slots_to_retry(&pool()).await.expect("read");
    let found: BTreeSet<&InstanceName> = names(&found).into_iter().collect();
    assert_eq!(found, [&free.name, &claimed.name].into());
}

async fn ending_instances_come_in_the_order_of_their_marks<W: TableWorld>(world: &W) {
    let (late, early, middle) = (ending(7, 900), ending(9, 800), ending(8, 850));
    put(world, &[&late, &early, &middle, &running(1, None)]).await;
    let found = world.table().ending_instances(&pool(), 10).await.expect("read");
    assert_eq!(names(&found), [&early.name, &middle.name, &late.name]);
}

async fn ending_instances_are_limited<W: TableWorld>(world: &W) {
    let (late, early) = (ending(7, 900), ending(8, 800));
    put(world, &[&late, &early]).await;
    let found = world.table().ending_instances(&pool(), 1).await.expect("read");
    assert_eq!(names(&found), [&early.name]);
}

async fn queue<W: TableWorld>(world: &W, jobs: &[&Job]) {
    for job in jobs {
        commit(world, &[new_job(job)]).await;
    }
}

async fn demand<W: TableWorld>(world: &W, limit: u32) -> Vec<u64> {
    numbers(&world.table().demand(&pool(), limit).await.expect("read"))
}

async fn demand_comes_oldest_first<W: TableWorld>(world: &W) {
    queue(world, &[&queued(5), &queued(3), &queued(4)]).await;
    assert_eq!(demand(world, 10).await, [3, 4, 5]);
    assert_eq!(world.table().demand(&other_pool(), 10).await, Ok(vec![]));
}

async fn demand_on_hold_stands_where_its_time_comes<W: TableWorld>(world: &W) {
    let mut held = queued(1);
    held.hold = Some(Hold { until: at(500), reason: "none".into(), failures: 1 });
    let mut over = queued(9);
    over.hold = Some(Hold { until: at(2), reason: "none".into(), failures: 1 });
    queue(world, &[&held, &queued(3), &queued(400), &over]).await;
    assert_eq!(demand(world, 10).await, [3, 9, 400, 1]);
    assert_eq!(demand(world, 2).await, [3, 9], "what is held hides nothing that is due");
}

async fn demand_is_limited<W: TableWorld>(world: &W) {
    queue(world, &[&queued(5), &queued(3), &queued(4)]).await;
    assert_eq!(demand(world, 2).await, [3, 4]);
    assert_eq!(demand(world, 0).await, [] as [u64; 0]);
}

async fn demand_has_no_claim_and_a_pool_and_waits<W: TableWorld>(world: &W) {
    let claimed = Job { claim: Some(planned(1, None).name), ..queued(2) };
    let unmatched = Job { pool: None, ..queued(6) };
    let expired = Job { expired: true, ..queued(7) };
    let runs = fold(Some(queued(8)), event(8, JobStatus::InProgress), at(70));
    let over = fold(Some(queued(9)), event(9, JobStatus::Completed), at(70));
    queue(world, &[&claimed, &unmatched, &expired, &runs, &over, &queued(5)]).await;
    assert_eq!(demand(world, 10).await, [5]);
}

async fn demand_ends_when_a_runner_takes_the_job<W: TableWorld>(world: &W) {
    let before = queued(1);
    queue(world, &[&before]).await;
    let runs = fold(Some(before.clone()), event(1, JobStatus::InProgress), at(70));
    commit(world, &[job_over(before.generation, &runs)]).await;
    assert_eq!(demand(world, 10).await, [] as [u64; 0]);
    assert_eq!(world.table().waiting_jobs(&pool(), 10).await, Ok(vec![]));
}

async fn waiting_jobs_come_with_and_without_a_claim<W: TableWorld>(world: &W) {
    let claim = |n: u64| Job { claim: Some(planned(1, None).name), ..queued(n) };
    queue(world, &[&queued(5), &claim(2), &queued(3), &claim(1)]).await;
    let found = world.table().waiting_jobs(&pool(), 10).await.expect("read");
    assert_eq!(numbers(&found), [3, 5, 1, 2]);
}

async fn waiting_jobs_are_those_of_the_pool<W: TableWorld>(world: &W) {
    queue(world, &[&queued(1)]).await;
    assert_eq!(world.table().waiting_jobs(&other_pool(), 10).await, Ok(vec![]));
}

async fn open_launches_are_listed_until_they_are_settled<W: TableWorld>(world: &W) {
    let (first, second) = (launch(1), launch(2));
    commit(world, &[new_launch(&second), new_launch(&first)]).await;
    let open = world.table().open_launches(&pool()).await;
    assert_eq!(open, Ok(vec![first.clone(), second.clone()]), "oldest first");
    let write = Write::Launch { next: Box::new(first.settled()), replaces: Some(0) };
    commit(world, &[write]).await;
    assert_eq!(world.table().open_launches(&pool()).await, Ok(vec![second]));
    assert_eq!(world.table().open_launches(&other_pool()).await, Ok(vec![]));
}

async fn the_ledger_holds_a_machine_until_it_is_struck<W: TableWorld>(world: &W) {
    commit(world, &[new_orphan(&orphan(1)), new_orphan(&orphan(2))]).await;
    commit(world, &[Write::OrphanGone(machine(1))]).await;
    assert_eq!(world.table().orphans().await, Ok(vec![orphan(2)]));
    assert_eq!(world.table().orphan(&machine(1)).await, Ok(None));
}

async fn a_machine_struck_twice_is_struck<W: TableWorld>(world: &W) {
    commit(world, &[new_orphan(&orphan(1))]).await;
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

async fn the_audit_trail_is_newest_first<W: TableWorld>(world: &W) {
    for (second, why) in [(1, "first"), (2, "second"), (3, "third")] {
        commit(world, &[Write::Audit(audit(second, why))]).await;
    }
    assert_eq!(trail(world, 10).await, ["third", "second", "first"]);
}

async fn the_audit_trail_is_newest_first_whatever_was_written_last<W: TableWorld>(world: &W) {
    for (second, why) in [(3, "third"), (1, "first"), (2, "second")] {
        commit(world, &[Write::Audit(audit(second, why))]).await;
    }
    assert_eq!(trail(world, 10).await, ["third", "second", "first"]);
}

async fn the_audit_trail_is_limited_and_by_subject<W: TableWorld>(world: &W) {
    for second in 1..=5 {
        commit(world, &[Write::Audit(audit(second, "a line"))]).await;
    }
    assert_eq!(trail(world, 2).await.len(), 2);
    let other = planned(11, None).name;
    assert_eq!(world.table().audit(other.as_str(), 10).await, Ok(vec![]));
}

async fn an_audit_line_written_twice_is_one<W: TableWorld>(world: &W) {
    for _ in 0..2 {
        commit(world, &[Write::Audit(audit(1, "a line"))]).await;
    }
    commit(world, &[Write::Audit(audit(1, "another at the same moment"))]).await;
    assert_eq!(trail(world, 10).await.len(), 2);
}

async fn a_cursor_is_set_once<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(table.move_cursor("reconciled", None, at(1)).await, Ok(()));
    let again = table.move_cursor("reconciled", None, at(2)).await;
    assert_eq!(again, Err(CommitError::Conflict));
    assert_eq!(table.cursor("reconciled").await, Ok(Some(at(1))));
}

async fn a_cursor_is_moved_by_one_of_two<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(table.move_cursor("reconciled", None, at(1)).await, Ok(()));
    assert_eq!(table.move_cursor("reconciled", Some(at(1)), at(3)).await, Ok(()));
    let late = table.move_cursor("reconciled", Some(at(1)), at(4)).await;
    assert_eq!(late, Err(CommitError::Conflict));
    assert_eq!(table.cursor("reconciled").await, Ok(Some(at(3))));
}

async fn cursors_are_apart<W: TableWorld>(world: &W) {
    let table = world.table();
    assert_eq!(table.move_cursor("reconciled", None, at(1)).await, Ok(()));
    assert_eq!(table.cursor("other").await, Ok(None));
    let from_nothing = table.move_cursor("other", Some(at(1)), at(2)).await;
    assert_eq!(from_nothing, Err(CommitError::Conflict));
}

fn health(entity: &str, since: Option<u32>) -> EntityHealth {
    EntityHealth {
        entity: entity.parse().expect("an entity"),
        unauthorized_since: since.map(at),
        last_error: None,
    }
}

async fn set_health<W: TableWorld>(world: &W, health: &EntityHealth) {
    assert_eq!(world.table().set_entity_health(health).await, Ok(()));
}

async fn an_entitys_health_is_kept_and_the_last_writer_wins<W: TableWorld>(world: &W) {
    let (first, last) = (health("acme/web", Some(1)), health("acme/web", Some(2)));
    set_health(world, &first).await;
    set_health(world, &last).await;
    assert_eq!(world.table().entity_health(&last.entity).await, Ok(Some(last.clone())));
    assert_eq!(world.table().unhealthy_entities().await, Ok(vec![last]));
    let other = health("acme", None).entity;
    assert_eq!(world.table().entity_health(&other).await, Ok(None), "the owner is another");
}

async fn a_healed_entity_is_not_listed<W: TableWorld>(world: &W) {
    set_health(world, &health("acme/web", Some(1))).await;
    set_health(world, &health("acme", Some(2))).await;
    set_health(world, &health("acme/web", None)).await;
    let left = health("acme", Some(2));
    assert_eq!(world.table().unhealthy_entities().await, Ok(vec![left]));
    assert_eq!(world.table().entity_health(&health("acme/web", None).entity).await, Ok(None));
}

async fn healing_twice_is_healing<W: TableWorld>(world: &W) {
    for _ in 0..2 {
        set_health(world, &health("acme", None)).await;
    }
    assert_eq!(world.table().unhealthy_entities().await, Ok(vec![]));
}

async fn spoiled<W: TableWorld>(world: &W, n: u32) -> InstanceName {
    for n in 0..3 {
        put(world, &[&planned(n, None)]).await;
    }
    let name = planned(n, None).name;
    world.spoil(&name).await;
    name
}

async fn a_record_of_a_later_version_is_not_read<W: TableWorld>(world: &W) {
    let name = spoiled(world, 1).await;
    let answer = world.table().instance(&name).await;
    let Err(ReadError::Unreadable { key, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(key, name.as_str());
}

/// Nothing is decided about a group of which one cannot be read.
async fn a_group_with_an_unreadable_record_is_not_read<W: TableWorld>(world: &W) {
    let name = spoiled(world, 1).await;
    let answer = world.table().instances(&[name, planned(2, None).name]).await;
    assert!(matches!(answer, Err(ReadError::Unreadable { .. })), "{answer:?}");
}

async fn a_listing_names_unreadable_records_and_goes_on<W: TableWorld>(world: &W) {
    let name = spoiled(world, 1).await;
    let page = world.table().due_instances(at(9999), 10, None).await.expect("a page");
    assert_eq!((page.items.len(), page.unreadable), (2, vec![name.to_string()]));
    let page = world.table().live_instances(&pool(), None).await.expect("a page");
    assert_eq!((page.items.len(), page.unreadable.len()), (2, 1));
}

async fn a_page_that_is_none_of_ours_is_refused<W: TableWorld>(world: &W) {
    put(world, &[&planned(1, None)]).await;
    let answer = world.table().due_instances(at(9999), 4, Some("nonsense".into())).await;
    assert!(answer.is_err(), "{answer:?}");
}
