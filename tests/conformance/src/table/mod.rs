//! The tables, as `muster_control::ports::Table` reads and writes them.

mod commits;
mod counters;
mod instances;
mod jobs;
mod ledgers;
mod pools;
mod records;
mod unreadable;
mod usage;

use std::collections::BTreeSet;

use muster_control::ports::{
    CommitError, Instances, LaunchConditions, Launches, Page, ReadError, Table, Write,
};
use muster_domain::ec2::{Bucket, CooldownScope, ErrorClass, Market, Override};
use muster_domain::ids::{ImageId, InstallationId, InstanceName, JobKey, PoolName};
use muster_domain::image::{Build, BuildReason, BuildStep, BuiltImage, Images, Trust};
use muster_domain::inquiry::{Inquiries, ListPosition};
use muster_domain::instance::{Baked, BootMethod, DeleteReason, Groups, Instance};
use muster_domain::job::{Job, JobStatus, PassedOver, fold};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::orphan::Orphan;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::redelivery::{Delivery, DeliveryPage, Redeliveries};
use muster_domain::stored::{Change, Stored, Version};
use muster_domain::switches::{Switch, SwitchedOff, Switches};
use muster_domain::time::Time;
use muster_domain::timings::Timings;

use crate::checks;
use crate::records::{
    at, audit, capacity, deleted, ending, event, failed, key, launch, machine, orphan, other_pool,
    planned, pool, queued, running,
};

use self::commits::*;
use self::counters::*;
use self::instances::*;
use self::jobs::*;
use self::ledgers::*;
use self::pools::*;
use self::records::*;
use self::unreadable::*;
use self::usage::*;

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
    what_ec2_refused_reads_as_it_was_written,
    what_ec2_refused_is_replaced_by_version,
    who_is_to_be_asked_about_is_replaced_by_version,
    how_far_deliveries_were_read_is_replaced_by_version,
    how_a_pool_stands_is_read_in_one_call,
    an_orphan_reads_as_it_was_written,
    a_run_to_repeat_is_listed_while_it_is_open_and_then_by_its_end,
    many_instances_are_read_without_the_missing_ones,
    an_instance_asked_for_twice_is_read_once,
    many_jobs_are_read_in_one_call_each_once,
    an_instance_is_made_once,
    a_job_is_made_once,
    a_launch_is_made_once,
    a_counter_is_made_once,
    an_orphan_is_entered_once,
    a_write_names_the_version_it_replaces,
    a_late_write_is_a_conflict,
    replacing_what_is_not_there_is_a_conflict,
    a_job_is_replaced_by_version,
    a_launch_is_replaced_by_version,
    an_orphan_is_replaced_by_version,
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
    a_counter_does_not_go_up_past_a_wake_up_that_is_to_stop_it,
    a_counter_that_is_not_there_does_not_go_up,
    a_counter_goes_up_to_its_maximum_and_not_beyond,
    a_limit_counts_from_nothing_up_to_its_maximum,
    a_limit_counts_down_and_not_below_zero,
    limits_are_read_in_one_call_without_those_that_count_none,
    a_counter_that_moved_is_a_conflict_for_a_whole_write,
    a_conflict_leaves_the_counter_alone,
    a_machine_has_one_owner,
    an_instance_is_not_bound_when_its_machine_is_taken,
    an_owner_is_found_after_its_end,
    many_owners_are_found_at_once,
    due_instances_are_those_whose_time_has_come,
    due_instances_come_in_pages_and_each_once,
    a_deleted_instance_is_never_due,
    live_instances_are_those_of_the_pool,
    live_instances_come_in_pages_and_each_once,
    a_listing_goes_on_behind_any_instance,
    a_deleted_instance_is_not_live,
    free_instances_have_no_claim,
    free_instances_come_machines_first_and_oldest_first,
    an_instance_moves_between_listings,
    slots_to_retry_wait_for_a_launch,
    ending_instances_come_in_the_order_of_their_marks,
    ending_instances_are_limited,
    late_ends_were_marked_by_then,
    live_instances_are_counted_by_their_groups,
    ended_instances_come_last_first_and_are_limited,
    free_instances_may_be_marked_idle,
    demand_comes_oldest_first,
    demand_is_limited,
    demand_has_no_claim_and_a_pool_and_waits,
    demand_ends_when_a_runner_takes_the_job,
    jobs_without_a_pool_are_listed_until_they_have_one,
    jobs_behind_an_approval_are_listed_by_their_silence,
    waiting_jobs_come_with_and_without_a_claim,
    waiting_jobs_are_those_of_the_pool,
    groups_of_jobs_are_listed_from_any_job_on,
    open_launches_are_listed_until_they_are_settled,
    the_ledger_holds_a_machine_until_it_is_struck,
    a_machine_struck_twice_is_struck,
    the_audit_trail_is_newest_first,
    the_audit_trail_is_newest_first_whatever_was_written_last,
    the_audit_trail_is_limited_and_by_subject,
    an_audit_line_written_twice_is_one,
    the_audit_trail_of_all_is_by_time,
    the_audit_trail_of_all_crosses_months,
    days_of_usage_are_kept_in_items,
    lines_of_usage_lie_under_the_day_of_their_end,
    prices_are_kept_by_the_hour,
    a_line_of_usage_written_again_says_what_is_known_by_then,
    a_cursor_is_set_once,
    a_cursor_is_moved_by_one_of_two,
    cursors_are_apart,
    a_set_of_pools_reads_as_it_was_written,
    a_set_of_pools_is_made_once_and_replaced_by_version,
    a_version_of_the_pools_is_kept_once,
    versions_are_read_without_the_missing_ones,
    a_version_that_is_forgotten_is_gone,
    a_set_and_its_version_are_one_commit,
    a_commit_that_checks_the_set_fails_once_it_has_changed,
    a_record_of_a_later_version_is_not_read,
    a_group_with_an_unreadable_record_is_not_read,
    a_listing_names_unreadable_records_and_goes_on,
    a_page_that_is_none_of_ours_is_refused,
}

/// A record as the table has it after so many writes of it.
fn stored<T>(version: u64, record: T) -> Stored<T> {
    Stored::read(record, Version(version))
}

/// The same as it was made.
fn made<T>(record: T) -> Stored<T> {
    stored(0, record)
}

/// The first write of a record.
fn new<T: Clone>(record: &T) -> Write
where
    Write: From<Change<T>>,
{
    Change::create(record.clone()).into()
}

/// A write that replaces a version.
fn over<T: Clone>(replaces: u64, next: &T) -> Write
where
    Write: From<Change<T>>,
{
    stored(replaces, next.clone()).change(next.clone()).into()
}

fn up(count: u32, max: u32, holder: &str) -> Write {
    Write::CapacityUp { pool: pool(), count, max, holder: holder.into(), wakes: None }
}

fn down() -> Write {
    Write::CapacityDown(pool())
}

fn count_up(scope: &Scope, count: u32, max: u32) -> Write {
    Write::CountUp { scope: scope.clone(), count, max }
}

fn count_down(scope: &Scope) -> Write {
    Write::CountDown(scope.clone())
}

async fn counted<W: TableWorld>(world: &W, scope: &Scope) -> u32 {
    let counts = world.table().counts(std::slice::from_ref(scope)).await.expect("read");
    counts.get(scope).copied().unwrap_or(0)
}

fn bind(n: u32, to: &Instance) -> Write {
    Write::BindMachine { machine: machine(n), instance: to.name.clone() }
}

async fn commit<W: TableWorld>(world: &W, writes: &[Write]) {
    assert!(world.table().commit(writes).await.is_ok());
}

async fn conflicts<W: TableWorld>(world: &W, writes: &[Write]) {
    assert_eq!(world.table().commit(writes).await, Err(CommitError::Conflict));
}

async fn put<W: TableWorld>(world: &W, instances: &[&Instance]) {
    for instance in instances {
        commit(world, &[new(*instance)]).await;
    }
}

async fn live<W: TableWorld>(world: &W) -> u32 {
    world.table().capacity(&pool()).await.expect("read").expect("there").live
}

fn names(instances: &[Stored<Instance>]) -> Vec<&InstanceName> {
    instances.iter().map(|instance| &instance.name).collect()
}

fn numbers(jobs: &[Stored<Job>]) -> Vec<u64> {
    jobs.iter().map(|job| job.key().job).collect()
}

/// All pages: what they hold, and how many there were.
async fn pages<F: Future<Output = Result<Page<Stored<Instance>>, ReadError>>>(
    next: impl Fn(Option<String>) -> F,
) -> (Vec<InstanceName>, usize) {
    let (mut all, mut count, mut page) = (Vec::new(), 0, None);
    loop {
        let answer = next(page).await.expect("a page");
        all.extend(answer.items.into_iter().map(|instance| instance.name.clone()));
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
