//! Reports of the machine and of GitHub, in any order and any number of times.

use super::{ReportError, Start, StartReport};
use crate::ids::{AppName, JobKey, RunnerId};
use crate::instance::{DeleteReason, Instance, RunnerState, StopCause};
use crate::pool::Pool;
use crate::testkit::{
    self, CLAIMED, RUNNER, Story, With, absent, active, active_by_github, asking, at, boot_failed,
    booting, completed, creating, error, exited, forced, idle, installing, plain, pool, report,
    timings,
};

const OTHER: JobKey = JobKey { app: AppName::MAIN, repository: 1, job: 9 };

fn start(instance: &mut Instance, second: u32) -> Result<Start, ReportError> {
    testkit::start(instance, report(), at(second))
}

#[test]
fn a_configuration_is_counted_before_it_is_asked_for() {
    let asked = booting().with(|i| assert_eq!(i.ask_configuration(at(30)), Ok(None)));
    assert_eq!((asked.runner.n, asked.runner.asking_since), (1, Some(at(30))));
    assert_eq!(asked.runner_name(), "default-l-1-1");
    let answered = asked.with(|i| i.configured(RUNNER, at(31)));
    assert_eq!((answered.runner.id, answered.runner.asking_since), (Some(RUNNER), None));
    assert_eq!(answered.runner.state, RunnerState::Installing);
    // The response did not reach the machine: the next request has a new name, and the first
    // registration is removed.
    let again = answered.with(|i| assert_eq!(i.ask_configuration(at(40)), Ok(Some(RUNNER))));
    assert_eq!((again.runner.n, again.runner.id), (2, None));
    assert_eq!(again.runner_name(), "default-l-1-2");
    // A launch whose response is not recorded yet may have machines that already call.
    assert_eq!(creating().with(|i| assert!(i.ask_configuration(at(30)).is_ok())).runner.n, 1);
}

#[test]
fn no_second_agent_and_none_on_a_machine_that_ends() {
    use ReportError::{AlreadyStarted, Draining, Ended};
    let by_github = || installing().with(|i| assert!(i.github_started(CLAIMED, at(35))));
    let ended_at_github =
        || installing().with(|i| assert!(i.github_completed(CLAIMED, false, at(36), &timings())));
    let rows = [
        ("marked", booting().marked(DeleteReason::Ordered, 20), Draining),
        ("ordered away", booting().ordered(plain(20)), Draining),
        ("forced away", booting().ordered(forced(20)), Draining),
        ("failed for good", error(), Draining),
        ("its agent runs", idle(), AlreadyStarted),
        ("its job runs", active(), AlreadyStarted),
        ("GitHub saw its job", by_github(), AlreadyStarted),
        ("GitHub saw its job end", ended_at_github(), AlreadyStarted),
        ("its agent ended", exited(), Ended),
        ("its agent never started", boot_failed(), Ended),
    ];
    for (name, mut instance, expected) in rows {
        let before = instance.clone();
        assert_eq!(instance.ask_configuration(at(900)), Err(expected), "{name}");
        assert_eq!(instance, before, "{name}");
    }
}

#[test]
fn a_call_that_github_knows_nothing_of_is_settled() {
    assert!(!asking().runner.is_without_configuration(), "it may be in flight");
    let never = asking().with(|i| i.not_configured(at(90)));
    assert_eq!((never.runner.asking_since, never.runner.id), (None, None));
    assert!(never.runner.is_without_configuration());
    assert!(!installing().runner.is_without_configuration());
    assert!(booting().runner.is_without_configuration());
}

#[test]
fn the_agents_start_makes_it_idle_once() {
    let started = idle();
    assert_eq!((started.runner.state, started.runner.since), (RunnerState::Idle, at(40)));
    assert_eq!(started.due_at(), Some(at(100)), "its claim is looked at soon");
    let mut busy = active();
    let name = busy.runner_name();
    assert_eq!(busy.runner_started(&name, at(70), &timings()), Ok(()));
    assert_eq!(busy.runner.state, RunnerState::Active);
}

/// A job can repeat these reports without limit, and each write restarts the pass that deletes its
/// machine.
#[test]
fn a_report_that_says_nothing_new_changes_nothing() {
    let ordered = |i: Instance| i.ordered(plain(300));
    for (name, mut row) in [
        ("idle", idle()),
        ("marked", idle().marked(DeleteReason::Idle, 300)),
        ("at work", active()),
        ("at work, says GitHub", active_by_github()),
        ("its job ended", completed()),
        ("its agent ended", exited()),
        ("ordered away", ordered(idle())),
        ("ordered away at work", ordered(active())),
        ("being terminated", ordered(active()).deleting(310)),
    ] {
        let runner = row.runner_name();
        let say_all = |row: &mut Instance, second: u32| {
            let said = row.runner_started(&runner, at(second), &timings());
            assert_eq!(said, Ok(()), "{name}");
            let _ = start(row, second);
            let said = row.job_completed(&runner, at(second), &timings());
            assert_eq!(said, Ok(()), "{name}");
            assert_eq!(row.interrupted(&runner, at(second)), Ok(()), "{name}");
            row.runner_ended(Some(0), None, at(second), &timings());
            row.runner_stopped(StopCause::Interruption, 0, at(second), &timings());
            row.runner_ended(None, Some("no".to_owned()), at(second), &timings());
        };
        let agent_runs = row.clone();
        assert_eq!(row.runner_started(&runner, at(400), &timings()), Ok(()), "{name}");
        assert_eq!(row, agent_runs, "{name}: it runs, and that is known");
        say_all(&mut row, 410);
        let once = row.clone();
        say_all(&mut row, 420);
        assert_eq!(row, once, "{name}");
    }
}

#[test]
fn reports_of_another_registration_are_refused() {
    let old = "default-l-1-0";
    let mut instance = idle();
    let before = instance.clone();
    let refused = Err(ReportError::OtherRegistration);
    assert_eq!(instance.runner_started(old, at(50), &timings()), refused);
    let start = instance.job_started(old, report(), &pool(), at(50), &timings());
    assert_eq!(start, Err(ReportError::OtherRegistration));
    assert_eq!(instance.job_completed(old, at(50), &timings()), refused);
    assert_eq!(instance, before);
}

fn asked(mut instance: Instance) -> Instance {
    instance.update_mark(|mark| mark.removing_until = Some(at(46)));
    instance
}

#[test]
fn a_delete_of_ours_that_has_yet_to_ask_github_waits_for_the_job() {
    use DeleteReason::{Idle, Outdated, Retired, Unreachable};
    for reason in [Idle, Outdated, Retired, Unreachable] {
        let before = idle().stopping(reason.clone(), 45).through_gate();
        let mut held = before.clone();
        assert_eq!(start(&mut held, 50), Ok(Start::Accepted), "{reason:?}");
        assert_eq!((held.state(), held.mark()), (before.state(), before.mark()), "{reason:?}");
        assert!(held.runner.is_busy(), "{reason:?}");
    }
}

#[test]
fn a_job_starts_unless_a_delete_came_first() {
    let mut idle_one = idle();
    assert_eq!(start(&mut idle_one, 50), Ok(Start::Accepted));
    let job = idle_one.runner.started.clone().expect("on record");
    assert_eq!((job.at, job.repository.as_str(), job.run), (at(50), "acme/web", 3));
    assert_eq!(idle_one.runner.state, RunnerState::Active);
    let once = idle_one.clone();
    assert_eq!(start(&mut idle_one, 55), Ok(Start::Accepted), "the answer was lost");
    assert_eq!(idle_one, once);

    use ReportError::{Draining, Ended};
    let rows = [
        ("marked by an order", idle().marked(DeleteReason::Ordered, 45), Draining),
        ("taken back by EC2", idle().marked(DeleteReason::SpotNotice, 45), Draining),
        (
            "GitHub is asked to remove it, and its age waits for no answer",
            asked(idle().stopping(DeleteReason::Idle, 45)).with(|i| {
                i.update_mark(|mark| mark.kill_told = true);
            }),
            Draining,
        ),
        ("removed", idle().stopping(DeleteReason::Idle, 45).deregistered(), Draining),
        ("too old", idle().stopping(DeleteReason::MaxLifetime, 45), Draining),
        (
            "ordered away while it idled out",
            idle().stopping(DeleteReason::Idle, 45).ordered(plain(46)),
            Draining,
        ),
        ("ordered away", idle().ordered(plain(45)), Draining),
        ("forced away", idle().ordered(forced(45)), Draining),
        (
            "ordered away, and GitHub is asked",
            asked(idle().stopping(DeleteReason::Idle, 45).ordered(plain(46))),
            Draining,
        ),
        ("deregistered", idle().ordered(plain(45)).deregistered(), Draining),
        ("being terminated", idle().ordered(plain(45)).deleting(46), Draining),
        ("no machine is bound", creating(), Draining),
        ("its agent ended", exited(), Ended),
    ];
    for (name, mut instance, expected) in rows {
        let before = instance.clone();
        assert_eq!(start(&mut instance, 60), Err(expected), "{name}");
        assert_eq!(instance, before, "{name}");
    }
}

/// GitHub gives a runner any job of its group with matching labels.
#[test]
fn a_job_that_the_pool_does_not_serve_ends_the_runner() {
    let listed = || Pool { repositories: vec!["acme/deploy".to_owned()], ..pool() };
    let open = || Pool { public_repositories: true, ..pool() };
    let rows = [
        ("listed", listed(), "Acme/Deploy", Some(true), Start::Accepted),
        ("not listed", listed(), "acme/evil", Some(true), Start::Foreign),
        ("not listed, said by nobody", listed(), "", None, Start::Foreign),
        ("public", pool(), "acme/web", Some(false), Start::Foreign),
        ("public, and served", open(), "acme/web", Some(false), Start::Accepted),
        ("nobody knows whether it is public", pool(), "acme/web", None, Start::Accepted),
        ("of another owner", open(), "other/web", Some(true), Start::Foreign),
    ];
    for (name, pool, repository, private, expected) in rows {
        let report = StartReport { repository: repository.to_owned(), private, ..report() };
        let say = |row: &mut Instance, report: &StartReport| {
            row.job_started(&row.runner_name(), report.clone(), &pool, at(50), &timings())
        };
        for before in [idle(), idle().marked(DeleteReason::Idle, 45), active_by_github()] {
            let mut row = before.clone();
            assert_eq!(say(&mut row, &report), Ok(expected), "{name}");
            assert_eq!(row.runner.started.is_some(), expected == Start::Accepted, "{name}");
            assert_eq!(row.runner.is_busy(), expected == Start::Accepted, "{name}");
            let once = row.clone();
            assert_eq!(say(&mut row, &report), Ok(expected), "{name}: the answer was lost");
            assert_eq!(row, once, "{name}");
            if expected == Start::Foreign {
                // Its agent is being stopped: it gets no other job either.
                let own = StartReport { repository: "acme/deploy".to_owned(), ..testkit::report() };
                assert_eq!(say(&mut row, &own), Ok(Start::Foreign), "{name}");
                assert_eq!((row.due_at(), row.claim()), (Some(at(50)), before.claim()), "{name}");
            }
        }
        // A running job is not checked again when the pool changes.
        let mut row = active();
        assert_eq!(say(&mut row, &report), Ok(Start::Accepted), "{name}");
        assert_eq!(row, active(), "{name}");
    }
}

#[test]
fn of_a_ref_only_the_number_of_a_pull_request_is_kept() {
    let queue = |branch: &str| format!("refs/heads/gh-readonly-queue/{branch}");
    let sha = "a".repeat(40);
    let rows = [
        ("refs/pull/123/merge".to_owned(), Some(123)),
        ("refs/pull/123/head".to_owned(), Some(123)),
        (queue(&format!("main/pr-45-{sha}")), Some(45)),
        (queue(&format!("release/pr-1/pr-45-{sha}")), Some(45)),
        (queue("main/pr-45-"), None),
        (queue("main/pr-45-not-a-sha"), None),
        (queue(&format!("pr-45-{sha}")), None),
        (format!("refs/heads/main/pr-45-{sha}"), None),
        ("refs/heads/main".to_owned(), None),
        ("refs/tags/v1".to_owned(), None),
        ("refs/pull/123".to_owned(), None),
        ("refs/pull/123/merge/head".to_owned(), None),
        ("refs/pull/+123/merge".to_owned(), None),
        ("refs/pull//merge".to_owned(), None),
        ("refs/pull/0/merge".to_owned(), None),
        (format!("refs/pull/{}/merge", "9".repeat(30)), None),
        (String::new(), None),
    ];
    for (git_ref, expected) in rows {
        let report = StartReport::new("acme/web", Some(true), 3, "build", &git_ref);
        assert_eq!(report.pull_request, expected, "{git_ref}");
    }
}

/// GitHub may have assigned the job before the removal request, and then keeps the runner (422).
#[test]
fn a_start_while_github_is_asked_is_undecided_until_it_answers() {
    use DeleteReason::{Idle, Outdated, Retired, Unreachable};
    for reason in [Idle, Outdated, Retired, Unreachable] {
        let before = asked(idle().stopping(reason.clone(), 45).through_gate());
        let mut open = before.clone();
        // While the call is in flight (46), or with an unknown outcome.
        for second in [45, 46, 900] {
            assert_eq!(start(&mut open, second), Ok(Start::Undecided), "{reason:?}");
            assert_eq!(open, before, "{reason:?}: nothing runs yet");
        }
        let mut kept = open.clone().with(|i| i.update_mark(|mark| mark.removing_until = None));
        assert_eq!(start(&mut kept, 50), Ok(Start::Accepted), "{reason:?}");
        assert_eq!(start(&mut open.deregistered(), 50), Err(ReportError::Draining), "{reason:?}");
    }
}

#[test]
fn a_job_that_starts_takes_our_own_mark_back() {
    use DeleteReason::{BootTimeout, Idle, JobCompleted, Outdated};
    for reason in [Idle, Outdated, BootTimeout, JobCompleted] {
        let mut spared = installing().marked(reason.clone(), 45);
        assert_eq!(start(&mut spared, 50), Ok(Start::Accepted), "{reason:?}");
        assert_eq!((spared.mark(), spared.runner.state), (None, RunnerState::Active), "{reason:?}");
        assert!(spared.runner.is_busy(), "{reason:?}");
    }
    // A repeated report changes nothing, so a later mark remains.
    let mut marked = completed().marked(JobCompleted, 700);
    let before = marked.clone();
    assert_eq!(start(&mut marked, 710), Ok(Start::Accepted));
    assert_eq!(marked, before);
}

#[test]
fn a_jobs_end_is_noted_once_and_awaits_the_agents() {
    let ended = completed();
    let over = |i: &Instance| i.runner.started.as_ref().and_then(|job| job.completed_at);
    assert_eq!((over(&ended), ended.runner.is_busy()), (Some(at(100)), false));
    assert!(ended.runner.has_taken_job());
    let mut again = ended.clone();
    let name = again.runner_name();
    assert_eq!(again.job_completed(&name, at(200), &timings()), Ok(()));
    assert_eq!(again, ended);
    let mut never = idle();
    assert_eq!(never.job_completed(&name, at(60), &timings()), Ok(()));
    assert_eq!(never, idle());
    let late = active().due(9000).with(|i| {
        assert_eq!(i.job_completed(&name, at(100), &timings()), Ok(()));
    });
    assert_eq!(late.due_at(), Some(at(400)));
}

#[test]
fn the_agents_end_is_noted_once() {
    let ended = exited();
    assert_eq!(ended.runner.state, RunnerState::Terminated);
    assert_eq!(ended.clone().with(|i| i.runner_ended(None, None, at(300), &timings())), ended);
    assert_eq!(boot_failed().runner.state, RunnerState::Failed);
    let exit = boot_failed().runner.exit.expect("on record");
    assert_eq!((exit.code, exit.log.as_deref()), (None, Some("no disk")));
    // After a job, the machine gets a grace period; without a job, its claim must not wait.
    let ends =
        |i: Instance| i.due(9000).with(|i| i.runner_ended(Some(0), None, at(110), &timings()));
    assert_eq!(ends(completed()).due_at(), Some(at(230)));
    assert_eq!(ends(idle()).due_at(), Some(at(110)));
    // Regardless of earlier reports, no job runs after the agent ended.
    for busy in [active(), active_by_github()] {
        assert!(busy.runner.is_busy());
        assert!(!ends(busy).runner.is_busy());
    }
}

#[test]
fn an_agent_that_its_supervisor_stopped_ended_with_that_reason() {
    let stop =
        |i: Instance| i.with(|i| i.runner_stopped(StopCause::Interruption, 0, at(300), &timings()));
    let exit =
        |i: &Instance| i.runner.exit.clone().map(|exit| (exit.at, exit.code, exit.stopped_for));
    let stopped = stop(active().due(9000));
    let reason = Some(StopCause::Interruption);
    assert_eq!(exit(&stopped), Some((at(300), Some(0), reason)));
    assert_eq!(stopped.runner.state, RunnerState::Terminated);
    assert_eq!(stopped.due_at(), Some(at(420)), "the grace period as after any job");
    // Noted once, whatever comes first.
    assert_eq!(stop(stopped.clone()), stopped);
    assert_eq!(
        stopped.clone().with(|i| i.runner_ended(Some(7), None, at(310), &timings())),
        stopped
    );
    assert_eq!(stop(exited()), exited());
    // The reason's name in records and reports. An unknown one is not a reason.
    assert_eq!(serde_json::to_value(reason).ok(), Some(serde_json::json!("interruption")));
    assert_eq!("interruption".parse().ok(), reason);
    assert_eq!("something".parse::<StopCause>().ok(), None);
}

#[test]
fn an_interruption_that_the_machine_reports_is_noted_once_and_decides_nothing() {
    for (what, before) in [("idle", idle()), ("with a job", active()), ("ended", exited())] {
        let name = before.runner_name();
        let told = before.clone().with(|i| assert_eq!(i.interrupted(&name, at(300)), Ok(())));
        assert_eq!(told.runner.interrupted_at, Some(at(300)), "{what}");
        assert_eq!(told.events.len(), before.events.len() + 1, "{what}");
        assert_eq!(told.clone().with(|i| assert_eq!(i.interrupted(&name, at(310)), Ok(()))), told);
        let otherwise = told.with(|i| {
            i.runner.interrupted_at = None;
            i.events.clone_from(&before.events);
        });
        assert_eq!(otherwise, before, "{what}: the rest of the record is unchanged");
    }
    let other = idle().with(|i| {
        assert_eq!(i.interrupted("default-l-1-9", at(300)), Err(ReportError::OtherRegistration));
    });
    assert_eq!(other, idle());
}

#[test]
fn github_reports_a_start_once() {
    let mut instance = idle();
    assert!(instance.github_started(CLAIMED, at(50)));
    assert_eq!((instance.runner.state, instance.runner.since), (RunnerState::Active, at(50)));
    assert!(instance.runner.is_busy() && instance.runner.has_taken_job());
    let once = instance.clone();
    assert!(!instance.github_started(CLAIMED, at(60)));
    assert_eq!(instance, once);
    // The event adds to the hook's report and does not restart its time.
    let both = active().with(|i| assert!(i.github_started(CLAIMED, at(70))));
    assert_eq!((both.runner.since, both.runner.github_job), (at(50), Some(CLAIMED)));

    let over = idle().with(|i| assert!(i.github_completed(CLAIMED, false, at(60), &timings())));
    let deleted = idle().ordered(plain(60)).deleting(61).with(|i| i.to_deleted(at(62), "gone"));
    let late = [
        ("completed", over, Some(CLAIMED)),
        ("agent ended", exited(), Some(OTHER)),
        ("deleted", deleted, None),
    ];
    for (name, mut late, ran) in late {
        let before = late.clone().with(|i| i.runner.ran = ran);
        assert!(!late.github_started(OTHER, at(90)), "{name}");
        assert_eq!(late, before, "{name}: nothing but which job it ran");
    }
}

/// The hook runs on the job's own machine, which can report anything.
#[test]
fn which_job_ran_is_githubs_word_and_stays() {
    assert_eq!(completed().runner.ran, None);
    let started = active_by_github();
    let ended = started.with(|i| assert!(i.github_completed(CLAIMED, false, at(90), &timings())));
    let ended = ended.with(|i| i.runner_ended(Some(0), None, at(110), &timings()));
    let told_another = ended.with(|i| assert!(!i.github_started(OTHER, at(120))));
    assert_eq!(told_another.runner.ran, Some(CLAIMED));
    let only_end = idle().with(|i| assert!(i.github_completed(OTHER, true, at(60), &timings())));
    assert_eq!(only_end.runner.ran, Some(OTHER));
}

#[test]
fn githubs_end_gives_the_machine_time_for_its_own_report() {
    let ended = active_by_github().due(9000).with(|i| {
        assert!(i.github_completed(CLAIMED, false, at(200), &timings()));
    });
    assert!(!ended.runner.is_busy() && ended.runner.has_taken_job());
    assert_eq!((ended.due_at(), ended.runner.github_job), (Some(at(500)), None));
    let again =
        ended.clone().with(|i| assert!(!i.github_completed(CLAIMED, false, at(300), &timings())));
    assert_eq!(again, ended);
    // The hook's start still applies: GitHub's report alone ends no job.
    let started =
        active().with(|i| assert!(i.github_completed(CLAIMED, false, at(60), &timings())));
    assert!(started.runner.is_busy());
    let reported = exited().due(9000).with(|i| {
        assert!(i.github_completed(CLAIMED, false, at(200), &timings()));
    });
    assert_eq!(reported.due_at(), Some(at(9000)));
}

#[test]
fn any_sign_of_a_job_clears_the_mark() {
    let spared = idle().marked(DeleteReason::Idle, 700).with(|i| i.seen_busy(at(710), "busy"));
    assert_eq!((spared.mark(), spared.runner.state), (None, RunnerState::Active));
    assert_eq!(spared.runner.since, at(710));
    let again = active().marked(DeleteReason::JobCompleted, 700);
    let again = again.with(|i| i.seen_busy(at(710), "busy"));
    assert_eq!(again.runner.since, at(710), "every wait starts over");
}

#[test]
fn free_supply_could_still_take_a_job() {
    let free = || idle().unclaimed();
    assert!(free().is_free_supply());
    assert!(booting().unclaimed().is_free_supply());
    assert!(creating().unclaimed().is_free_supply());
    let rows = [
        ("claimed", idle()),
        ("marked", free().marked(DeleteReason::Idle, 50)),
        ("ordered away", free().ordered(plain(50))),
        ("failed for good", error().unclaimed()),
        ("busy", active().unclaimed()),
        ("busy by GitHub", active_by_github().unclaimed()),
        ("called busy, by what job nobody knows", free().with(|i| i.seen_busy(at(90), "busy"))),
        ("its job ended", completed().unclaimed()),
        ("its agent ended", exited().unclaimed()),
        ("it never started", boot_failed().unclaimed()),
        ("passed over", free().with(|i| i.passed_over = true)),
        ("denied by EC2", free().with(|i| i.absence = Some(absent(at(90))))),
    ];
    for (name, instance) in rows {
        assert!(!instance.is_free_supply(), "{name}");
    }
    assert_eq!(RunnerId(900), RUNNER);
}

/// A request can be delayed for as long as its function may run; the machine repeats it much
/// earlier.
#[test]
fn a_request_that_was_held_up_takes_nothing_from_a_later_one() {
    let asked = booting().with(|i| {
        i.ask_configuration(at(50)).expect("asked");
    });
    let answered = asked.clone().with(|i| i.configured(RUNNER, at(50)));
    let started = answered.clone().with(|i| {
        let name = i.runner_name();
        i.runner_started(&name, at(60), &timings()).expect("started");
    });
    for (name, instance, begun, overtaken) in [
        ("the first", booting(), 20, false),
        ("while GitHub is asked", asked.clone(), 20, true),
        ("later", asked, 51, false),
        ("it is answered", answered.clone(), 20, true),
        ("and the answer was lost", answered, 80, false),
        ("its runner is there: refused as such", started, 20, false),
    ] {
        assert_eq!(instance.is_overtaken(at(begun)), overtaken, "{name}");
    }
}
