//! EC2, as `control::ports::Compute` shows it.

use std::collections::BTreeSet;

use control::ports::{Compute, ListedMachine};
use domain::ids::{LaunchId, MachineId};
use domain::launch::{ErrorClass, LaunchAnswer, LaunchError};
use domain::observation::{Machine, Termination, Trouble};

use crate::checks;
use crate::records::request;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `CreateFleet`.
    Launch,
    /// `DescribeInstances`.
    Describe,
    /// `TerminateInstances`.
    Terminate,
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
    Denied,
}

/// EC2 behind a door.
#[expect(async_fn_in_trait, reason = "checks run on one thread")]
pub trait Ec2World {
    /// The port.
    type Ec2: Compute;

    /// The port.
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
    /// A replayed fleet is answered without its machines.
    async fn answer_replays_barely(&self);
    /// Calls of a kind fail from now on.
    async fn fail(&self, call: Call, how: Failure);
    /// Nothing fails any more, and there is capacity.
    async fn mend(&self);
    /// A machine of somebody else, running.
    async fn somebody_elses(&self) -> MachineId;
    /// How many machines of ours there are in truth that are not gone.
    async fn living(&self) -> usize;
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
    machines_are_found_by_the_tag_of_their_launch,
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
    a_machine_is_ended_and_no_other,
    silence_about_a_machine_is_not_absence,
    silence_about_a_list_is_not_an_empty_list,
    a_machine_is_identified_by_its_launch,
    somebody_elses_machine_has_no_launch_of_ours,
    somebody_elses_machine_is_never_absent,
    the_list_holds_ours_and_nobody_elses,
    the_list_holds_pending_and_stopped_machines,
    the_list_leaves_out_what_is_ending,
    the_list_tells_launch_and_time,
    the_list_comes_in_pages_and_each_machine_once,
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
    answer.machines
}

async fn one<W: Ec2World>(world: &W) -> MachineId {
    launched(world, "one", 1).await.remove(0)
}

async fn state<W: Ec2World>(world: &W, machine: &MachineId) -> Machine {
    world.ec2().machine(machine).await.expect("an answer")
}

fn set(machines: &[MachineId]) -> BTreeSet<&MachineId> {
    machines.iter().collect()
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

async fn a_fleet_launches_what_is_asked<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 3).await;
    assert_eq!(set(&machines).len(), 3);
    assert_eq!(world.living().await, 3);
}

async fn a_token_launches_once<W: Ec2World>(world: &W) {
    launched(world, "l-1", 2).await;
    for _ in 0..3 {
        call(world, "l-1", 2).await.expect("answered");
    }
    assert_eq!(world.living().await, 2);
}

async fn a_replay_is_answered_with_the_first_machines<W: Ec2World>(world: &W) {
    let first = launched(world, "l-1", 2).await;
    let again = launched(world, "l-1", 2).await;
    assert_eq!(set(&first), set(&again));
}

async fn a_replay_may_be_answered_without_machines<W: Ec2World>(world: &W) {
    world.answer_replays_barely().await;
    let first = launched(world, "l-1", 2).await;
    let again = call(world, "l-1", 2).await.expect("answered");
    assert_eq!(again.machines, []);
    let found = world.ec2().find_launched(&id("l-1")).await.expect("an answer");
    assert_eq!(set(&found), set(&first));
    assert_eq!(world.living().await, 2);
}

async fn a_token_with_another_request_is_refused<W: Ec2World>(world: &W) {
    launched(world, "l-1", 1).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Idempotency);
    let mut other = request(world.stack(), "l-1", 1);
    other.overrides.rotate_left(1);
    let answer = world.ec2().launch(&id("l-1"), &other).await;
    assert_eq!(class(answer), ErrorClass::Idempotency);
    assert_eq!(world.living().await, 1);
}

async fn another_token_is_another_fleet<W: Ec2World>(world: &W) {
    let (first, second) = (launched(world, "l-1", 1).await, launched(world, "l-2", 1).await);
    assert_ne!(first, second);
    assert_eq!(world.living().await, 2);
}

async fn a_fleet_may_be_partial<W: Ec2World>(world: &W) {
    world.run_short(true).await;
    let answer = call(world, "l-1", 4).await.expect("answered");
    assert!(answer.machines.len() < 4, "{answer:?}");
    assert!(!answer.errors.is_empty(), "{answer:?}");
    assert!(answer.errors.iter().all(|error| error.class == ErrorClass::Capacity), "{answer:?}");
    assert_eq!(world.living().await, answer.machines.len());
}

async fn a_partial_answer_is_replayed_as_it_was<W: Ec2World>(world: &W) {
    world.run_short(true).await;
    let first = call(world, "l-1", 4).await.expect("answered");
    world.mend().await;
    let again = call(world, "l-1", 4).await.expect("answered");
    assert_eq!(set(&first.machines), set(&again.machines));
    assert_eq!(world.living().await, first.machines.len());
}

async fn no_capacity_is_said_to_be_that<W: Ec2World>(world: &W) {
    world.run_short(false).await;
    // Both forms were seen: an error of the whole call, and an answer of errors alone.
    match call(world, "l-1", 2).await {
        Err(error) => assert_eq!(error.class, ErrorClass::Capacity),
        Ok(answer) => {
            assert_eq!(answer.machines, []);
            assert!(!answer.errors.is_empty());
            assert!(answer.errors.iter().all(|error| error.class == ErrorClass::Capacity));
        }
    }
    assert_eq!(world.living().await, 0);
}

async fn a_new_token_launches_once_there_is_capacity<W: Ec2World>(world: &W) {
    world.run_short(false).await;
    let _ = call(world, "l-1", 2).await;
    world.mend().await;
    launched(world, "l-2", 2).await;
}

async fn an_unheard_launch_has_happened<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Unheard).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Ambiguous);
    assert_eq!(world.living().await, 2);
}

async fn an_unheard_launch_is_replayed_whole<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Unheard).await;
    call(world, "l-1", 2).await.expect_err("no answer");
    world.mend().await;
    launched(world, "l-1", 2).await;
    assert_eq!(world.living().await, 2);
}

async fn an_undone_launch_has_not_happened_and_can_be_repeated<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Undone).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Ambiguous);
    assert_eq!(world.living().await, 0);
    world.mend().await;
    launched(world, "l-1", 2).await;
}

async fn a_throttled_launch_has_not_happened<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Throttled).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Throttle);
    assert_eq!(world.living().await, 0);
}

async fn a_wrong_request_is_said_to_be_that<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Misconfigured).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Configuration);
    assert_eq!(world.living().await, 0);
}

async fn a_used_up_quota_is_said_to_be_that<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::OverQuota).await;
    match call(world, "l-1", 2).await {
        Err(error) => assert_eq!(error.class, ErrorClass::Quota),
        Ok(answer) => {
            assert_eq!(answer.machines, []);
            assert!(answer.errors.iter().all(|error| error.class == ErrorClass::Quota));
            assert!(!answer.errors.is_empty());
        }
    }
    assert_eq!(world.living().await, 0);
}

async fn machines_are_found_by_the_tag_of_their_launch<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 3).await;
    launched(world, "l-2", 2).await;
    let found = world.ec2().find_launched(&id("l-1")).await.expect("an answer");
    assert_eq!((found.len(), set(&found)), (3, set(&machines)));
}

async fn another_launch_finds_nothing<W: Ec2World>(world: &W) {
    launched(world, "l-1", 1).await;
    for other in ["l-2", "l-10", "l"] {
        assert_eq!(world.ec2().find_launched(&id(other)).await, Ok(Vec::new()), "{other}");
    }
}

async fn ending_machines_are_not_found_by_tag<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 2).await;
    world.ec2().terminate(&machines[0]).await;
    let found = world.ec2().find_launched(&id("l-1")).await.expect("an answer");
    assert_eq!(found, machines[1..]);
    world.settle().await;
    let found = world.ec2().find_launched(&id("l-1")).await.expect("an answer");
    assert_eq!(found, machines[1..]);
}

async fn a_new_machine_is_pending_and_then_runs<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    assert_eq!(state(world, &machine).await, Machine::Pending);
    world.settle().await;
    assert_eq!(state(world, &machine).await, Machine::Running);
}

async fn a_new_machine_may_be_unknown_at_first<W: Ec2World>(world: &W) {
    world.hide_new().await;
    let machine = one(world).await;
    assert_eq!(state(world, &machine).await, Machine::Absent);
    assert_eq!(world.ec2().identify(&machine).await, Ok(None));
    world.show().await;
    assert_ne!(state(world, &machine).await, Machine::Absent);
    assert!(world.ec2().identify(&machine).await.expect("an answer").is_some());
}

async fn a_hidden_machine_is_in_no_list<W: Ec2World>(world: &W) {
    world.hide_new().await;
    let machine = one(world).await;
    assert_eq!(world.ec2().find_launched(&id("one")).await, Ok(Vec::new()));
    assert_eq!(listed(world).await, []);
    world.show().await;
    assert_eq!(world.ec2().find_launched(&id("one")).await, Ok(vec![machine.clone()]));
    assert_eq!(listed_ids(world).await, [machine].into());
}

async fn a_hidden_machine_cannot_be_terminated<W: Ec2World>(world: &W) {
    world.hide_new().await;
    let machine = one(world).await;
    let answer = world.ec2().terminate(&machine).await;
    assert!(matches!(answer, Termination::NotFound(_)), "{answer:?}");
    assert_eq!(world.living().await, 1);
}

async fn a_stopped_machine_is_shown_as_stopped<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.settle().await;
    world.stop(&machine).await;
    assert_eq!(state(world, &machine).await, Machine::Stopped);
}

async fn terminate_is_accepted_and_the_machine_is_gone<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.settle().await;
    assert_eq!(world.ec2().terminate(&machine).await, Termination::Accepted(Machine::Gone));
    assert_eq!(state(world, &machine).await, Machine::Gone);
    assert_eq!(world.living().await, 0);
}

async fn terminate_is_idempotent<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    for _ in 0..2 {
        assert_eq!(world.ec2().terminate(&machine).await, Termination::Accepted(Machine::Gone));
    }
    world.settle().await;
    assert_eq!(world.ec2().terminate(&machine).await, Termination::Accepted(Machine::Gone));
}

async fn an_ended_machine_is_shown_as_gone_for_a_while<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.ec2().terminate(&machine).await;
    world.settle().await;
    assert_eq!(state(world, &machine).await, Machine::Gone);
    let shown = world.ec2().identify(&machine).await.expect("an answer").expect("shown");
    assert_eq!(shown.state, Machine::Gone);
}

async fn an_ended_machine_is_forgotten_after_a_while<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.ec2().terminate(&machine).await;
    world.settle().await;
    world.forget_the_ended().await;
    assert_eq!(state(world, &machine).await, Machine::Absent);
    assert_eq!(world.ec2().identify(&machine).await, Ok(None));
}

async fn a_forgotten_machine_cannot_be_terminated<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.ec2().terminate(&machine).await;
    world.settle().await;
    world.forget_the_ended().await;
    let answer = world.ec2().terminate(&machine).await;
    assert!(matches!(answer, Termination::NotFound(_)), "{answer:?}");
}

async fn an_unknown_id_is_absent<W: Ec2World>(world: &W) {
    one(world).await;
    assert_eq!(state(world, &unknown()).await, Machine::Absent);
    assert_eq!(world.ec2().identify(&unknown()).await, Ok(None));
}

async fn an_unknown_id_cannot_be_terminated<W: Ec2World>(world: &W) {
    one(world).await;
    let answer = world.ec2().terminate(&unknown()).await;
    assert!(matches!(answer, Termination::NotFound(_)), "{answer:?}");
    assert_eq!(world.living().await, 1);
}

async fn a_pending_machine_can_be_terminated<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    assert_eq!(state(world, &machine).await, Machine::Pending);
    assert_eq!(world.ec2().terminate(&machine).await, Termination::Accepted(Machine::Gone));
    world.settle().await;
    assert_eq!(state(world, &machine).await, Machine::Gone, "it never runs");
}

async fn a_stopped_machine_can_be_terminated<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.settle().await;
    world.stop(&machine).await;
    assert_eq!(world.ec2().terminate(&machine).await, Termination::Accepted(Machine::Gone));
}

async fn a_protected_machine_is_not_terminated<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.protect(&machine, true).await;
    let answer = world.ec2().terminate(&machine).await;
    assert!(matches!(answer, Termination::Failed(ErrorClass::Blocked, _)), "{answer:?}");
    assert_eq!(world.living().await, 1);
    world.protect(&machine, false).await;
    assert_eq!(world.ec2().terminate(&machine).await, Termination::Accepted(Machine::Gone));
}

async fn an_unheard_terminate_has_happened<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.fail(Call::Terminate, Failure::Unheard).await;
    let answer = world.ec2().terminate(&machine).await;
    assert!(matches!(answer, Termination::Failed(ErrorClass::Ambiguous, _)), "{answer:?}");
    assert_eq!(world.living().await, 0);
}

async fn an_undone_terminate_has_not_happened<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.fail(Call::Terminate, Failure::Undone).await;
    let answer = world.ec2().terminate(&machine).await;
    assert!(matches!(answer, Termination::Failed(ErrorClass::Ambiguous, _)), "{answer:?}");
    assert_eq!(world.living().await, 1);
}

async fn a_denied_terminate_has_not_happened<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.fail(Call::Terminate, Failure::Denied).await;
    let answer = world.ec2().terminate(&machine).await;
    assert!(matches!(answer, Termination::Failed(ErrorClass::Authorization, _)), "{answer:?}");
    assert_eq!(world.living().await, 1);
}

async fn a_machine_is_ended_and_no_other<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 3).await;
    world.settle().await;
    world.ec2().terminate(&machines[1]).await;
    assert_eq!(world.living().await, 2);
    assert_eq!(state(world, &machines[0]).await, Machine::Running);
    assert_eq!(state(world, &machines[2]).await, Machine::Running);
}

async fn silence_about_a_machine_is_not_absence<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.fail(Call::Describe, Failure::Undone).await;
    for asked in [&machine, &unknown()] {
        let answer = world.ec2().machine(asked).await;
        assert!(matches!(answer, Err(Trouble::Unavailable(_))), "{answer:?}");
        let answer = world.ec2().identify(asked).await;
        assert!(matches!(answer, Err(Trouble::Unavailable(_))), "{answer:?}");
    }
}

async fn silence_about_a_list_is_not_an_empty_list<W: Ec2World>(world: &W) {
    one(world).await;
    world.fail(Call::Describe, Failure::Undone).await;
    let answer = world.ec2().list(None).await;
    assert!(matches!(answer, Err(Trouble::Unavailable(_))), "{answer:?}");
    let answer = world.ec2().find_launched(&id("one")).await;
    assert!(matches!(answer, Err(Trouble::Unavailable(_))), "{answer:?}");
}

async fn a_machine_is_identified_by_its_launch<W: Ec2World>(world: &W) {
    let machine = launched(world, "l-7", 1).await.remove(0);
    world.settle().await;
    let shown = world.ec2().identify(&machine).await.expect("an answer").expect("ours");
    assert_eq!((shown.id, shown.state), (machine, Machine::Running));
    assert_eq!(shown.launch, Some(id("l-7")));
}

async fn somebody_elses_machine_has_no_launch_of_ours<W: Ec2World>(world: &W) {
    let machine = world.somebody_elses().await;
    let shown = world.ec2().identify(&machine).await.expect("an answer").expect("EC2 knows it");
    assert_eq!(shown.launch, None);
}

async fn somebody_elses_machine_is_never_absent<W: Ec2World>(world: &W) {
    let machine = world.somebody_elses().await;
    let answer = world.ec2().machine(&machine).await;
    assert!(!matches!(answer, Ok(Machine::Absent | Machine::Gone)), "{answer:?}");
}

async fn the_list_holds_ours_and_nobody_elses<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 3).await;
    world.somebody_elses().await;
    assert_eq!(listed_ids(world).await, machines.into_iter().collect());
}

async fn the_list_holds_pending_and_stopped_machines<W: Ec2World>(world: &W) {
    let stopped = launched(world, "l-1", 1).await.remove(0);
    world.settle().await;
    world.stop(&stopped).await;
    let pending = launched(world, "l-2", 1).await.remove(0);
    let found = listed(world).await;
    let state = |wanted| found.iter().find(|one| one.id == wanted).map(|one| one.state);
    assert_eq!((found.len(), state(stopped)), (2, Some(Machine::Stopped)));
    assert_eq!(state(pending), Some(Machine::Pending));
}

async fn the_list_leaves_out_what_is_ending<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 2).await;
    world.ec2().terminate(&machines[0]).await;
    assert_eq!(listed_ids(world).await, [machines[1].clone()].into());
    world.settle().await;
    assert_eq!(listed_ids(world).await, [machines[1].clone()].into());
}

async fn the_list_tells_launch_and_time<W: Ec2World>(world: &W) {
    let first = launched(world, "l-1", 1).await.remove(0);
    let found = listed(world).await;
    assert_eq!(found[0].launch, Some(id("l-1")));
    let shown = world.ec2().identify(&first).await.expect("an answer").expect("ours");
    assert_eq!(found, [shown]);
    world.settle().await;
    let later = listed(world).await;
    assert_eq!(
        later[0].launched_at, found[0].launched_at,
        "the time of the launch, not of the state"
    );
}

async fn the_list_comes_in_pages_and_each_machine_once<W: Ec2World>(world: &W) {
    let count = world.more_than_a_page();
    let machines = launched(world, "l-1", count).await;
    let first = world.ec2().list(None).await.expect("a page");
    assert!(first.next.is_some(), "one page holds {}", first.items.len());
    let found = listed(world).await;
    assert_eq!(found.len(), count as usize);
    let found: BTreeSet<MachineId> = found.into_iter().map(|machine| machine.id).collect();
    assert_eq!(found, machines.into_iter().collect());
}
