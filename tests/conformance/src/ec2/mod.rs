//! EC2, as `muster_control::ports::Compute` and `ImageStore` show it.

mod images;
mod launches;
mod listings;
mod machines;

use std::collections::BTreeSet;

use muster_control::ports::{Compute, ImageStore, ListedMachine};
use muster_control::reaps::terminate;
use muster_domain::ec2::{ErrorClass, LaunchError};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::launch::LaunchAnswer;
use muster_domain::observation::{Machine, Termination};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;

use crate::checks;
use crate::records::request;

use self::images::*;
use self::launches::*;
use self::listings::*;
use self::machines::*;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `CreateFleet`.
    Launch,
    /// `DescribeInstances`.
    Describe,
    /// `TerminateInstances`.
    Terminate,
    /// `GetConsoleOutput`.
    Console,
    /// `CreateImage`.
    CreateImage,
    /// `DescribeImages`.
    Images,
    /// `DeregisterImage`.
    Deregister,
}

/// What becomes of calls until they are mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Done, and no answer comes.
    Unheard,
    /// Not done, and no answer comes.
    Undone,
    /// Refused: too many calls.
    Throttled,
    /// Refused: the request is wrong.
    Misconfigured,
    /// Refused: a quota of the account is used up.
    OverQuota,
    /// Refused: we may not.
    RunnerApiError,
}

/// EC2 behind a door.
#[expect(async_fn_in_trait, reason = "checks run on one thread")]
pub trait Ec2World {
    /// The ports.
    type Ec2: Compute + ImageStore;

    /// The ports.
    fn ec2(&self) -> &Self::Ec2;
    /// The value of our stack's tag.
    fn stack(&self) -> &str;
    /// More machines than one page of a listing holds.
    fn more_than_a_page(&self) -> u32;
    /// Time passes until new machines run and ending ones are gone for good.
    async fn settle(&self);
    /// Time passes until EC2 does not show ended machines any more.
    async fn forget_the_ended(&self);
    /// Machines that are launched from now on are not shown until [`Self::show`].
    async fn hide_new(&self);
    /// Time passes until hidden machines are shown.
    async fn show(&self);
    /// Somebody stops a machine, and it is stopped.
    async fn stop(&self, machine: &MachineId);
    /// Sets or removes the protection against termination.
    async fn protect(&self, machine: &MachineId, protected: bool);
    /// From now on no fleet, or (some) only a part of each, finds capacity.
    async fn run_short(&self, some: bool);
    /// The account has no service-linked role for Spot, and we may not make it.
    async fn lack_the_spot_role(&self);
    /// A replayed fleet is answered without its machines.
    async fn answer_replays_barely(&self);
    /// Calls of a kind fail from now on.
    async fn fail(&self, call: Call, how: Failure);
    /// Nothing fails any more, and there is capacity.
    async fn mend(&self);
    /// A machine writes on its console.
    async fn print(&self, machine: &MachineId, text: &str);
    /// A machine of somebody else, running.
    async fn somebody_elses(&self) -> MachineId;
    /// How many machines of ours there are in truth that are not gone.
    async fn living(&self) -> usize;
    /// Time passes until images are not pending any more.
    async fn finish_images(&self);
    /// Images that are created from now on fail.
    async fn fail_images(&self);
    /// From now on images are deregistered without their snapshots, and the answer says so.
    async fn keep_snapshots(&self);
    /// How many snapshots there are in truth.
    async fn snapshots(&self) -> usize;
}

checks! { Ec2World:
    a_fleet_launches_what_is_asked,
    a_token_launches_once,
    a_replay_is_answered_with_the_first_machines,
    a_replay_may_be_answered_without_machines,
    a_token_with_another_request_is_refused,
    another_token_is_another_fleet,
    a_fleet_may_be_partial,
    a_partial_answer_is_replayed_as_it_was,
    no_capacity_is_said_to_be_that,
    a_new_token_launches_once_there_is_capacity,
    an_unheard_launch_has_happened,
    an_unheard_launch_is_replayed_whole,
    an_undone_launch_has_not_happened_and_can_be_repeated,
    a_throttled_launch_has_not_happened,
    a_wrong_request_is_said_to_be_that,
    a_used_up_quota_is_said_to_be_that,
    an_account_without_the_spot_role_has_spot_nowhere_and_on_demand_everywhere,
    machines_are_found_by_the_tag_of_their_launch,
    a_machine_is_the_same_in_every_answer,
    another_launch_finds_nothing,
    ending_machines_are_not_found_by_tag,
    a_new_machine_is_pending_and_then_runs,
    a_new_machine_may_be_unknown_at_first,
    a_hidden_machine_is_in_no_list,
    a_hidden_machine_cannot_be_terminated,
    a_stopped_machine_is_shown_as_stopped,
    terminate_is_accepted_and_the_machine_is_gone,
    terminate_is_idempotent,
    an_ended_machine_is_shown_as_gone_for_a_while,
    an_ended_machine_says_what_ended_it,
    an_ended_machine_is_forgotten_after_a_while,
    a_forgotten_machine_cannot_be_terminated,
    an_unknown_id_is_absent,
    an_unknown_id_cannot_be_terminated,
    a_pending_machine_can_be_terminated,
    a_stopped_machine_can_be_terminated,
    a_protected_machine_is_not_terminated,
    an_unheard_terminate_has_happened,
    an_undone_terminate_has_not_happened,
    a_denied_terminate_has_not_happened,
    a_console_shows_what_its_machine_wrote,
    a_console_that_is_not_shown_is_an_error,
    a_machine_is_ended_and_no_other,
    many_are_ended_in_one_call,
    an_unknown_id_fails_its_call_and_is_named,
    a_protected_machine_fails_its_zone_and_is_named,
    what_is_wrong_with_one_machine_spares_the_others,
    an_unheard_end_of_many_is_the_answer_for_each,
    many_are_looked_at_in_one_call,
    silence_about_a_machine_is_not_absence,
    silence_about_a_list_is_not_an_empty_list,
    somebody_elses_machine_is_never_absent,
    the_list_holds_ours_and_nobody_elses,
    the_list_holds_pending_and_stopped_machines,
    the_list_leaves_out_what_is_ending,
    the_list_tells_launch_and_time,
    the_list_comes_in_pages_and_each_machine_once,
    an_image_is_pending_and_then_available,
    an_image_leaves_its_machine_running,
    a_name_is_given_to_one_image,
    only_a_running_machine_is_imaged,
    a_failed_image_tells_its_reason,
    machines_are_launched_from_an_available_image_only,
    images_of_other_stacks_are_not_listed,
    all_images_are_listed_from_all_pages,
    a_deleted_image_leaves_neither_image_nor_snapshot,
    images_are_deleted_in_every_state,
    snapshots_that_stay_are_deleted_as_well,
    an_unheard_image_has_been_created_and_keeps_its_name,
    an_undone_image_has_not_been_created,
    a_denied_image_has_not_been_created,
    silence_about_images_is_not_an_empty_list,
    an_unheard_deletion_has_happened_and_can_be_repeated,
    an_undone_deletion_has_not_happened,
    a_denied_deletion_has_not_happened,
}

fn id(text: &str) -> LaunchId {
    text.parse().expect("a launch's id")
}

fn unknown() -> MachineId {
    "i-0fffffffffffffff0".parse().expect("a machine's id")
}

async fn call<W: Ec2World>(
    world: &W,
    token: &str,
    count: u32,
) -> Result<LaunchAnswer, LaunchError> {
    world.ec2().launch(&id(token), &request(world.stack(), token, count)).await
}

async fn launched<W: Ec2World>(world: &W, token: &str, count: u32) -> Vec<MachineId> {
    let answer = call(world, token, count).await.expect("launched");
    assert_eq!((answer.machines.len(), answer.errors.len()), (count as usize, 0));
    answer.machines.into_keys().collect()
}

async fn one<W: Ec2World>(world: &W) -> MachineId {
    launched(world, "one", 1).await.remove(0)
}

async fn end<W: Ec2World>(world: &W, machine: &MachineId) -> Termination {
    let one = BTreeSet::from([machine.clone()]);
    let answers = terminate::all(world.ec2(), one, Time::from_millis(0)).await;
    answers.into_values().next().expect("an answer")
}

async fn state<W: Ec2World>(world: &W, machine: &MachineId) -> Machine {
    world.ec2().machine(machine).await.expect("an answer").state
}

fn set(machines: &[MachineId]) -> BTreeSet<&MachineId> {
    machines.iter().collect()
}

/// The machines that a look by the tag of their launch shows.
async fn found<W: Ec2World>(world: &W, token: &str) -> Vec<MachineId> {
    let found = world.ec2().find_launched(&id(token)).await.expect("an answer");
    found.into_keys().collect()
}

async fn listed<W: Ec2World>(world: &W) -> Vec<ListedMachine> {
    let (mut all, mut page) = (Vec::new(), None);
    loop {
        let answer = world.ec2().list(page).await.expect("a page");
        assert_eq!(answer.unreadable, [] as [String; 0]);
        all.extend(answer.items);
        page = answer.next;
        if page.is_none() {
            return all;
        }
    }
}

async fn listed_ids<W: Ec2World>(world: &W) -> BTreeSet<MachineId> {
    listed(world).await.into_iter().map(|machine| machine.id).collect()
}

fn class(answer: Result<LaunchAnswer, LaunchError>) -> ErrorClass {
    answer.expect_err("an error").class
}
