//! A machine from its launch to its end.

use super::*;

pub(super) async fn a_new_machine_is_pending_and_then_runs<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    assert_eq!(state(world, &machine).await, Machine::Pending);
    world.settle().await;
    assert_eq!(state(world, &machine).await, Machine::Running);
}

pub(super) async fn a_new_machine_may_be_unknown_at_first<W: Ec2World>(world: &W) {
    world.hide_new().await;
    let machine = one(world).await;
    assert_eq!(state(world, &machine).await, Machine::Absent);
    world.show().await;
    assert_ne!(state(world, &machine).await, Machine::Absent);
}

pub(super) async fn a_hidden_machine_is_in_no_list<W: Ec2World>(world: &W) {
    world.hide_new().await;
    let machine = one(world).await;
    assert_eq!(found(world, "one").await, []);
    assert_eq!(listed(world).await, []);
    world.show().await;
    assert_eq!(found(world, "one").await, [machine.clone()]);
    assert_eq!(listed_ids(world).await, [machine].into());
}

pub(super) async fn a_hidden_machine_cannot_be_terminated<W: Ec2World>(world: &W) {
    world.hide_new().await;
    let machine = one(world).await;
    let answer = end(world, &machine).await;
    assert!(matches!(answer, Termination::NotFound(_)), "{answer:?}");
    assert_eq!(world.living().await, 1);
}

pub(super) async fn a_stopped_machine_is_shown_as_stopped<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.settle().await;
    world.stop(&machine).await;
    assert_eq!(state(world, &machine).await, Machine::Stopped);
}

pub(super) async fn terminate_is_accepted_and_the_machine_is_gone<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.settle().await;
    assert_eq!(end(world, &machine).await, Termination::Accepted(Machine::Gone));
    assert_eq!(state(world, &machine).await, Machine::Gone);
    assert_eq!(world.living().await, 0);
}

pub(super) async fn terminate_is_idempotent<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    for _ in 0..2 {
        assert_eq!(end(world, &machine).await, Termination::Accepted(Machine::Gone));
    }
    world.settle().await;
    assert_eq!(end(world, &machine).await, Termination::Accepted(Machine::Gone));
}

pub(super) async fn an_ended_machine_is_shown_as_gone_for_a_while<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    end(world, &machine).await;
    world.settle().await;
    assert_eq!(state(world, &machine).await, Machine::Gone);
}

pub(super) async fn an_ended_machine_is_forgotten_after_a_while<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    end(world, &machine).await;
    world.settle().await;
    world.forget_the_ended().await;
    assert_eq!(state(world, &machine).await, Machine::Absent);
}

pub(super) async fn a_forgotten_machine_cannot_be_terminated<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    end(world, &machine).await;
    world.settle().await;
    world.forget_the_ended().await;
    let answer = end(world, &machine).await;
    assert!(matches!(answer, Termination::NotFound(_)), "{answer:?}");
}

pub(super) async fn an_unknown_id_is_absent<W: Ec2World>(world: &W) {
    one(world).await;
    assert_eq!(state(world, &unknown()).await, Machine::Absent);
}

pub(super) async fn an_unknown_id_cannot_be_terminated<W: Ec2World>(world: &W) {
    one(world).await;
    let answer = end(world, &unknown()).await;
    assert!(matches!(answer, Termination::NotFound(_)), "{answer:?}");
    assert_eq!(world.living().await, 1);
}

pub(super) async fn a_pending_machine_can_be_terminated<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    assert_eq!(state(world, &machine).await, Machine::Pending);
    assert_eq!(end(world, &machine).await, Termination::Accepted(Machine::Gone));
    world.settle().await;
    assert_eq!(state(world, &machine).await, Machine::Gone, "it never runs");
}

pub(super) async fn a_stopped_machine_can_be_terminated<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.settle().await;
    world.stop(&machine).await;
    assert_eq!(end(world, &machine).await, Termination::Accepted(Machine::Gone));
}

pub(super) async fn a_console_shows_what_its_machine_wrote<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.settle().await;
    assert_eq!(world.ec2().console(&machine).await, Ok(String::new()));
    world.print(&machine, "no route to host\r\ncaf\u{e9}\n").await;
    let written = || Ok("no route to host\r\ncaf\u{e9}\n".to_owned());
    assert_eq!(world.ec2().console(&machine).await, written());
    end(world, &machine).await;
    assert_eq!(world.ec2().console(&machine).await, written(), "for a while");
}

pub(super) async fn a_console_that_is_not_shown_is_an_error<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.fail(Call::Console, Failure::Undone).await;
    let answer = world.ec2().console(&machine).await;
    assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
}

pub(super) async fn a_protected_machine_is_not_terminated<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.protect(&machine, true).await;
    let answer = end(world, &machine).await;
    assert!(matches!(answer, Termination::Failed(ErrorClass::Blocked, _)), "{answer:?}");
    assert_eq!(world.living().await, 1);
    world.protect(&machine, false).await;
    assert_eq!(end(world, &machine).await, Termination::Accepted(Machine::Gone));
}

pub(super) async fn an_unheard_terminate_has_happened<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.fail(Call::Terminate, Failure::Unheard).await;
    let answer = end(world, &machine).await;
    assert!(matches!(answer, Termination::Failed(ErrorClass::Ambiguous, _)), "{answer:?}");
    assert_eq!(world.living().await, 0);
}

pub(super) async fn an_undone_terminate_has_not_happened<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.fail(Call::Terminate, Failure::Undone).await;
    let answer = end(world, &machine).await;
    assert!(matches!(answer, Termination::Failed(ErrorClass::Ambiguous, _)), "{answer:?}");
    assert_eq!(world.living().await, 1);
}

pub(super) async fn a_denied_terminate_has_not_happened<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.fail(Call::Terminate, Failure::RunnerApiError).await;
    let answer = end(world, &machine).await;
    assert!(matches!(answer, Termination::Failed(ErrorClass::Authorization, _)), "{answer:?}");
    assert_eq!(world.living().await, 1);
}

pub(super) async fn a_machine_is_ended_and_no_other<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 3).await;
    world.settle().await;
    end(world, &machines[1]).await;
    assert_eq!(world.living().await, 2);
    assert_eq!(state(world, &machines[0]).await, Machine::Running);
    assert_eq!(state(world, &machines[2]).await, Machine::Running);
}

pub(super) async fn an_ended_machine_says_what_ended_it<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.settle().await;
    let before = world.ec2().machine(&machine).await.expect("an answer");
    assert_eq!((before.state, before.reason), (Machine::Running, None));
    end(world, &machine).await;
    let after = world.ec2().machine(&machine).await.expect("an answer");
    let code = after.reason.as_ref().map(|reason| reason.code.as_str());
    assert_eq!((after.state, code), (Machine::Gone, Some("Client.UserInitiatedShutdown")));
}

pub(super) async fn silence_about_a_machine_is_not_absence<W: Ec2World>(world: &W) {
    let machine = one(world).await;
    world.fail(Call::Describe, Failure::Undone).await;
    for asked in [&machine, &unknown()] {
        let answer = world.ec2().machine(asked).await;
        assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
    }
}

pub(super) async fn many_are_ended_in_one_call<W: Ec2World>(world: &W) {
    let machines: BTreeSet<MachineId> = launched(world, "l-1", 5).await.into_iter().collect();
    world.settle().await;
    let shown = world.ec2().terminate(&machines).await.expect("accepted");
    assert_eq!(shown, machines.iter().map(|id| (id.clone(), Machine::Gone)).collect());
    assert_eq!(world.living().await, 0);
}

pub(super) async fn many_are_looked_at_in_one_call<W: Ec2World>(world: &W) {
    let ours = launched(world, "l-1", 3).await;
    let theirs = world.somebody_elses().await;
    world.settle().await;
    assert_eq!(end(world, &ours[0]).await, Termination::Accepted(Machine::Gone));
    let ids = ours.iter().cloned().chain([theirs.clone(), unknown()]).collect();
    let shown = world.ec2().machines(&ids).await.expect("an answer");
    let seen = |id: &MachineId| {
        let machine = shown.get(id).expect("shown");
        (machine.state, machine.is_ours, machine.launch.clone())
    };
    assert_eq!(shown.len(), 4, "an id that EC2 does not know fails nothing: {shown:?}");
    assert_eq!(shown.get(&ours[0]).and_then(|machine| machine.state), Some(Machine::Gone));
    for machine in &ours[1..] {
        assert_eq!(seen(machine), (Some(Machine::Running), true, Some(id("l-1"))));
    }
    assert_eq!(seen(&theirs), (Some(Machine::Running), false, None));
    world.fail(Call::Describe, Failure::Undone).await;
    let answer = world.ec2().machines(&ids).await;
    assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
}

pub(super) async fn an_unknown_id_fails_its_call_and_is_named<W: Ec2World>(world: &W) {
    let machines: BTreeSet<MachineId> = launched(world, "l-1", 3).await.into_iter().collect();
    let with_unknown = machines.iter().cloned().chain([unknown()]).collect();
    let refusal = world.ec2().terminate(&with_unknown).await.expect_err("refused");
    assert!(matches!(refusal.answer, Termination::NotFound(_)), "{refusal:?}");
    assert_eq!(refusal.named, [unknown()].into());
    assert_eq!(world.living().await, 3);
}

pub(super) async fn a_protected_machine_fails_its_zone_and_is_named<W: Ec2World>(world: &W) {
    let machines: BTreeSet<MachineId> = launched(world, "l-1", 3).await.into_iter().collect();
    world.settle().await;
    let first = machines.first().expect("one");
    world.protect(first, true).await;
    let refusal = world.ec2().terminate(&machines).await.expect_err("refused");
    assert!(matches!(refusal.answer, Termination::Failed(ErrorClass::Blocked, _)), "{refusal:?}");
    assert_eq!(refusal.named, [first.clone()].into());
    assert_ne!(state(world, first).await, Machine::Gone);
}

pub(super) async fn what_is_wrong_with_one_machine_spares_the_others<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 9).await;
    world.settle().await;
    world.protect(&machines[2], true).await;
    world.protect(&machines[6], true).await;
    let all = machines.iter().cloned().chain([unknown()]).collect();
    let answers = terminate::all(world.ec2(), all, Time::from_millis(0)).await;
    assert_eq!(answers.len(), 10);
    for (id, answer) in answers {
        let fits = match &answer {
            Termination::NotFound(_) => id == unknown(),
            Termination::Failed(ErrorClass::Blocked, _) => {
                [&machines[2], &machines[6]].contains(&&id)
            }
            answer => *answer == Termination::Accepted(Machine::Gone),
        };
        assert!(fits, "{id}: {answer:?}");
    }
    assert_eq!(world.living().await, 2);
}

pub(super) async fn an_unheard_end_of_many_is_the_answer_for_each<W: Ec2World>(world: &W) {
    let machines: BTreeSet<MachineId> = launched(world, "l-1", 3).await.into_iter().collect();
    world.fail(Call::Terminate, Failure::Unheard).await;
    let answers = terminate::all(world.ec2(), machines, Time::from_millis(0)).await;
    let is_silence =
        |one: &Termination| matches!(one, Termination::Failed(ErrorClass::Ambiguous, _));
    assert!(answers.len() == 3 && answers.values().all(is_silence), "{answers:?}");
    assert_eq!(world.living().await, 0);
}
