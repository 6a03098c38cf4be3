//! The state `running` without a mark: timers, the machine's end, released claims.

use super::{check, hint, job_waits, nothing, sees, sees_runner};
use crate::ec2::Make;
use crate::observation::Machine::{Gone, Running};
use crate::observation::{Look, Machine, Observation, RunnerSeen};
use crate::testkit::{
    RUNNER, Story, With, aborted, absent, active, active_by_github, asking, at, boot_failed,
    booting, completed, exited, exited_unused, idle, installing, timings, unavailable,
};

fn no_answer_on_job() -> Observation {
    Observation { claimed_job_waits: Look::Failed(unavailable()), ..nothing() }
}

/// The console is read, and delays no step.
pub(super) fn silent_console() -> Observation {
    Observation { console: Look::Failed(unavailable()), ..nothing() }
}

fn prints(seen: Observation) -> Observation {
    Observation { console: Look::Seen("no route to host".to_owned()), ..seen }
}

#[test]
fn a_machine_that_ends_before_its_runner_is_asked_what_it_said() {
    let late = "to pending_delete, claim ended, console kept, marked boot_timeout";
    let gone = "to deleted, claim ended, marked machine_gone, never due";
    let gone_now = "to deleted, claim ended, marked machine_gone, never due";
    let kept = "to deleted, claim ended, console kept, marked machine_gone, never due";
    let failed =
        "to deleted, claim ended, error Client.InternalError, marked machine_gone, never due";
    let ended_by_ec2 = Observation { machine_reason: Some(aborted()), ..sees(Machine::Gone) };
    let noticed = || booting().with(|i| i.spot_notice(at(60)));
    let denied = || booting().with(|i| i.absence = Some(absent(at(700)))).due(820);
    check(vec![
        ("too late", booting(), nothing(), 600, "look at console"),
        ("too late, with a configuration", installing(), nothing(), 600, "look at console"),
        ("it says something", booting(), prints(nothing()), 600, late),
        ("gone", booting(), sees(Machine::Gone), 70, "look at console"),
        ("gone, and it said something", booting(), prints(sees(Machine::Gone)), 70, kept),
        ("EC2 says why", booting(), ended_by_ec2, 70, failed),
        ("taken back by EC2", noticed(), sees(Machine::Gone), 70, gone_now),
        ("not known to EC2 any more", denied(), sees(Machine::Absent), 820, gone),
        ("gone after its runner came", idle(), sees(Machine::Gone), 70, gone_now),
        ("gone after it told why", boot_failed().due(70), sees(Machine::Gone), 70, gone),
    ]);
}

/// Stored in the commit that the machine's end needs anyway, even if EC2 still shows the machine
/// alive.
#[test]
fn what_ec2_tells_of_a_machine_beside_its_state_is_kept() {
    let told = |at_second, machine| Observation {
        machine_hint: true,
        machine_told_gone: true,
        machine_ended_at: Some(at(at_second)),
        ..sees(machine)
    };
    let known = |second| active().with(|i| i.ended_at = Some(at(second)));
    let zone = Some("us-east-1a".into());
    let shown = Observation { machine_make: Make { zone, ..Make::default() }, ..told(60, Gone) };
    let gone = "to deleted, claim ended, ended at 60, marked machine_gone, never due";
    let later = "to deleted, claim ended, marked machine_gone, never due";
    let whole = "to deleted, claim ended, ended at 60, is known, marked machine_gone, never due";
    check(vec![
        ("the end", active(), told(60, Gone), 70, gone),
        ("the second event of the end", known(60), told(62, Gone), 70, later),
        ("which comes first", known(62), told(60, Gone), 70, gone),
        ("shown alive yet", known(62), told(60, Running), 70, "rest until 110, ended at 60"),
        ("shown with its zone", active(), shown, 70, whole),
    ]);
}

#[test]
fn a_machine_boots_until_its_deadline() {
    let late = "claim ended, marked boot_timeout";
    check(vec![
        ("boots", booting(), nothing(), 599, "rest until 600"),
        ("installs", installing(), nothing(), 599, "rest until 600"),
        (
            "never asked for a configuration: no job can reach it",
            booting(),
            silent_console(),
            600,
            "to pending_delete, claim ended, marked boot_timeout",
        ),
        ("has a configuration: evidence first", installing(), silent_console(), 600, late),
        ("its call may be in flight: evidence first", asking(), silent_console(), 600, late),
    ]);
}

#[test]
fn an_idle_runner_waits_for_its_job_and_then_for_any() {
    let pause = |seconds| {
        move |i: &mut crate::instance::Instance| {
            i.set_claim(crate::testkit::CLAIMED, at(seconds));
        }
    };
    let connected = |job| Observation { runner: Look::Seen(RunnerSeen::NotBusy(RUNNER)), ..job };
    let back = "claim ended, passed over, due 100, wake pool";
    let lost = "claim ended, marked unreachable, due 100, wake pool";
    let waiting = || idle().due(50);
    check(vec![
        ("beside its queued job", waiting(), nothing(), 99, "rest until 100"),
        ("for too long", idle(), nothing(), 100, "look at runner"),
        ("nobody has its agent", waiting(), sees_runner(RunnerSeen::Offline(RUNNER)), 100, lost),
        ("nor its registration", waiting(), sees_runner(RunnerSeen::Absent), 100, lost),
        ("it is there", idle(), connected(nothing()), 100, "look at claimed job"),
        ("the job still waits", waiting(), connected(job_waits(true)), 100, back),
        (
            "GitHub does not say",
            waiting(),
            Observation { runner: Look::Failed(unavailable()), ..job_waits(true) },
            100,
            back,
        ),
        (
            "the job is gone",
            waiting(),
            connected(job_waits(false)),
            100,
            "claim ended, due 100, wake pool",
        ),
        ("nobody can say", waiting(), connected(no_answer_on_job()), 100, "rest until 160"),
        (
            "a claim made later counts from then",
            idle().with(pause(200)),
            nothing(),
            259,
            "rest until 260",
        ),
        ("and no longer", idle().with(pause(200)), nothing(), 260, "look at runner"),
        ("without a job", idle().unclaimed(), nothing(), 339, "rest until 340"),
        ("without a job for too long", idle().unclaimed(), nothing(), 340, "marked idle, due 340"),
    ]);
}

#[test]
fn a_busy_runner_is_left_alone_until_its_lifetime_ends() {
    check(vec![
        ("GitHub names the job", active_by_github(), nothing(), 60, "rest until 43200"),
        ("without a claim", active().unclaimed(), nothing(), 9000, "rest until 43200"),
        ("only the hook spoke so far", active(), nothing(), 109, "rest until 110"),
        ("and GitHub's event stays away", active(), nothing(), 110, "look at claimed job"),
        (
            "its claimed job waits for a runner that is taken",
            active(),
            job_waits(true),
            110,
            "claim ended, due 110, wake pool",
        ),
        (
            "its claimed job waits no more",
            active(),
            job_waits(false),
            110,
            "claim ended, due 110, wake pool",
        ),
        ("nobody can say", active(), no_answer_on_job(), 110, "rest until 170"),
    ]);
}

#[test]
fn after_the_job_the_machines_report_is_given_time() {
    let both = || {
        completed().with(|i| {
            assert!(i.github_completed(crate::testkit::CLAIMED, false, at(200), &timings()));
        })
    };
    let by_github = || {
        active_by_github().with(|i| {
            assert!(i.github_completed(crate::testkit::CLAIMED, false, at(200), &timings()));
        })
    };
    let near_the_end = || {
        active().with(|i| {
            let name = i.runner_name();
            assert_eq!(i.job_completed(&name, at(43_100), &timings()), Ok(()));
        })
    };
    let busy_again = || {
        installing().with(|i| {
            assert!(i.github_completed(crate::testkit::CLAIMED, false, at(36), &timings()));
            i.seen_busy(at(700), "GitHub says so");
        })
    };
    let nameless = || idle().with(|i| i.seen_busy(at(60), "GitHub says so"));
    check(vec![
        ("the hook's end", completed(), nothing(), 399, "rest until 400"),
        ("for too long", completed(), nothing(), 400, "marked job_completed, due 400"),
        ("GitHub's end counts when it is later", both(), nothing(), 499, "rest until 500"),
        ("GitHub's end alone", by_github(), nothing(), 499, "rest until 500"),
        (
            "GitHub's end alone, too long",
            by_github(),
            nothing(),
            500,
            "marked job_completed, due 500",
        ),
        ("never beyond its lifetime", near_the_end(), nothing(), 43_150, "rest until 43200"),
        ("busy by a later read counts from then", busy_again(), nothing(), 999, "rest until 1000"),
        ("busy by a read alone", nameless(), nothing(), 359, "rest until 360"),
        (
            "busy by a read alone, too long",
            nameless(),
            nothing(),
            360,
            "marked job_completed, due 360",
        ),
    ]);
}

#[test]
fn a_machine_whose_runner_ended_shuts_itself_down_or_is_ended() {
    let silent = Observation { machine: Look::Failed(unavailable()), ..nothing() };
    let ended = "to pending_delete, claim ended, marked runner_ended, due 230";
    let back = "claim ended, passed over, due 115, wake pool";
    check(vec![
        ("gets a moment", exited(), nothing(), 229, "rest until 230"),
        ("is looked at", exited(), nothing(), 230, "look at machine"),
        ("still runs", exited().due(200), sees(Machine::Running), 230, ended),
        ("cannot be looked at", exited().due(200), silent, 230, ended),
        (
            "did shut down",
            exited(),
            sees(Machine::Gone),
            150,
            "to deleted, claim ended, marked machine_gone, never due",
        ),
        ("held a claim", exited_unused(), nothing(), 115, "look at claimed job"),
        ("its job needs another runner", exited_unused(), job_waits(true), 115, back),
        (
            "its job needs none",
            exited_unused(),
            job_waits(false),
            115,
            "claim ended, due 115, wake pool",
        ),
        ("nobody can say", exited_unused(), no_answer_on_job(), 115, "rest until 175"),
        ("never started", boot_failed(), job_waits(true), 115, back),
        (
            "never started, without a job",
            boot_failed().unclaimed(),
            nothing(),
            115,
            "rest until 230",
        ),
    ]);
}

#[test]
fn what_ec2_says_of_the_machine_comes_first() {
    let gone = "to deleted, claim ended, marked machine_gone, never due";
    let known = || active().with(|i| i.absence = Some(absent(at(700))));
    check(vec![
        ("a hint is looked into", active(), hint(), 70, "look at machine"),
        (
            "a hint about nothing",
            active(),
            Observation { machine_hint: true, ..sees(Machine::Running) },
            70,
            "rest until 110",
        ),
        ("pending is alive", booting(), sees(Machine::Pending), 70, "rest until 600"),
        ("gone, whatever ran on it", active().due(70), sees(Machine::Gone), 70, gone),
        (
            "stopped, whatever ran on it",
            active().due(70),
            sees(Machine::Stopped),
            70,
            "to pending_delete, claim ended, marked machine_stopped",
        ),
        ("absent and young: EC2 is behind", active(), sees(Machine::Absent), 604, "rest until 605"),
        ("absent once", active(), sees(Machine::Absent), 700, "rest until 820, absent"),
        (
            "absent once: its job gets another machine",
            idle(),
            sees(Machine::Absent),
            700,
            "claim ended, absent, due 820, wake pool",
        ),
        ("absent again too soon", known(), sees(Machine::Absent), 819, "rest until 820"),
        (
            "the second look is made when it is due",
            known().due(820),
            nothing(),
            820,
            "look at machine",
        ),
        ("or sooner, where another pass comes by", known(), nothing(), 760, "look at machine"),
        (
            "shown again: two denials must be neighbours",
            known(),
            sees(Machine::Running),
            750,
            "known again",
        ),
        ("absent twice", known().due(820), sees(Machine::Absent), 820, gone),
        (
            "absent, and EC2 said that it ends",
            active().due(700),
            Observation { machine_told_gone: true, ..sees(Machine::Absent) },
            700,
            gone,
        ),
        (
            "silence is not absence",
            known().unclaimed(),
            Observation { machine_hint: true, machine: Look::Failed(unavailable()), ..nothing() },
            820,
            "rest until 43200",
        ),
    ]);
}
