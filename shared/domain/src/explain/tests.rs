//! Every condition has a sentence, and each sentence names its subject.

use super::{JobContext, instance, job as job_lines};
use crate::instance::{DeleteOrder, DeleteReason, Instance, StopCause, Waiting};
use crate::job::{FailedMachine, Job, JobStatus};
use crate::launch::verdict::Conditions;
use crate::testkit::{
    CLAIMED, Story, With, active, active_by_github, at, boot_failed, booting, creating, error,
    exited, fault, forced, idle, installing, job, plain, pool, retrying, slot, timings,
};
use crate::time::Seconds;

const UNKNOWN: JobContext<'_> = JobContext { pool: None, claim: None, choice: &[] };

/// Returns all lines except the first, which names the job.
fn of_job(job: &Job, context: &JobContext<'_>) -> Vec<String> {
    let lines = job_lines(job, context, at(601));
    assert_eq!(
        lines[0],
        "Job 1/1 (\"build\" of acme/web, run 3 attempt 1) requests the labels \"linux\", \
         \"self-hosted\"."
    );
    assert!(lines.iter().all(|line| line.ends_with('.')), "{lines:#?}");
    lines[1..].to_vec()
}

fn status(status: JobStatus, runner: Option<&str>, conclusion: Option<&str>) -> Job {
    job(1).with(|job| {
        job.last_event.status = status;
        job.last_event.runner = runner.map(str::to_owned);
        job.last_event.conclusion = conclusion.map(str::to_owned);
    })
}

#[test]
fn a_job_that_needs_no_runner_says_so() {
    use JobStatus::{Completed, InProgress, Waiting};
    let expired = job(1).with(|job| job.expired = true);
    let rows = [
        (status(Completed, Some("r-1"), Some("success")), "It ended: success, run by r-1."),
        (status(Completed, None, Some("cancelled")), "It ended: cancelled."),
        (status(Completed, None, None), "It ended: completed."),
        (status(InProgress, Some("r-1"), None), "It runs on r-1."),
        (status(InProgress, None, None), "It runs on a runner that GitHub did not name."),
        (
            status(Waiting, None, None),
            "It has been waiting for an approval at GitHub for 10 min; it needs no runner yet.",
        ),
        (
            job(1).found_waiting(at(541)).found_waiting(at(600)),
            "It has been waiting for an approval at GitHub for 60 s; it needs no runner yet.",
        ),
        (
            expired,
            "It was queued so long that GitHub has cancelled it; it no longer needs a runner.",
        ),
    ];
    for (job, expected) in rows {
        assert_eq!(of_job(&job, &UNKNOWN), [expected]);
    }
}

/// Each reason has a row in the tests of `launch/verdict`.
#[test]
fn a_queued_job_says_what_it_waits_for() {
    let free = Conditions::default();
    let own = pool();
    let disabled = own.clone().with(|pool| pool.enabled = false);
    let patient = own.clone().with(|pool| pool.job_age_seconds = Seconds(900));
    let why = "pool default launches no machine for a job before it has waited for 15 min";
    let rows = [
        (None, "Pool default is no longer configured.".to_owned()),
        (Some(&own), "The next launch pass will assign or launch a runner for it.".to_owned()),
        (
            Some(&disabled),
            "No machine is launched for it now: pool default no longer serves it: it is disabled."
                .to_owned(),
        ),
        (Some(&patient), format!("No machine is launched for it before {}: {why}.", at(901))),
    ];
    for (pool, expected) in rows {
        let context = JobContext { pool: pool.map(|pool| (pool, &free)), ..UNKNOWN };
        let served = ["It has been queued for 10 min.", "Pool default serves it."];
        assert_eq!(of_job(&job(1), &context), [served[0], served[1], &expected]);
    }
}

#[test]
fn a_job_tells_when_github_was_asked_for_it() {
    let asked = job(1).with(|job| job.asked_at = Some(at(541)));
    let lines = of_job(&asked, &UNKNOWN);
    assert_eq!(lines[1], "GitHub was last queried about it 60 s ago.");
}

#[test]
fn a_job_tells_where_it_came_from_and_the_order_of_the_pools() {
    let pool = pool();
    let moved = job(1).moved_to(&pool.name, "the pool is at its maximum", at(300));
    let choice = ["Only pool default serves it.".to_owned()];
    let free = Conditions::default();
    let context = JobContext { pool: Some((&pool, &free)), choice: &choice, ..UNKNOWN };
    let lines = of_job(&moved, &context);
    assert_eq!(
        lines[2..],
        [
            format!(
                "It was moved there from pool default at {}: the pool is at its maximum.",
                at(300)
            ),
            "The next launch pass will assign or launch a runner for it.".to_owned(),
            choice[0].clone(),
        ]
    );
    // The pool of an ended job is irrelevant.
    let ended = moved.with(|job| job.last_event.status = JobStatus::Completed);
    let lines = of_job(&ended, &JobContext { choice: &choice, ..UNKNOWN });
    assert!(!lines.contains(&choice[0]));
}

#[test]
fn a_job_without_a_pool_says_why() {
    let unmatched = job(1).with(|job| {
        job.pool = None;
        job.unmatched = Some("pool a: the job requests no label".to_owned());
    });
    let lines = of_job(&unmatched, &UNKNOWN);
    assert_eq!(
        lines[1],
        "No pool served it when it arrived: pool a: the job requests no label. The sweep checks \
         again every minute."
    );
    let silent = unmatched.with(|job| job.unmatched = None);
    assert_eq!(
        of_job(&silent, &UNKNOWN)[1],
        "No pool served it when it arrived: no reason is recorded. The sweep checks again every \
         minute."
    );
}

#[test]
fn a_job_with_a_claim_tells_its_instances_story() {
    let claim = idle();
    let lines = of_job(&job(1), &JobContext { claim: Some(&claim), ..UNKNOWN });
    assert_eq!(lines[2], "Instance default-l-1 is meant to run it.");
    assert_eq!(lines[3..], instance(&claim, at(601)));
}

/// Its next instance has a different name by then.
#[test]
fn a_job_whose_machine_failed_says_what_that_machine_said() {
    let before = boot_failed();
    let next = before.clone().with(|i| i.passed_over = true);
    let failed = FailedMachine {
        instance: before.name.clone(),
        at: at(120),
        why: before.served_nothing(&next).expect("it served nothing"),
    };
    let lines = of_job(&job(1).with(|job| job.failed = Some(failed)), &UNKNOWN);
    let why = format!(
        "Instance default-l-1 was launched for it but never ran a job (at {}): its machine failed \
         to \
         boot; last log lines: \"no disk\".",
        at(120)
    );
    assert_eq!(lines[2], why);
}

/// The line between the state and the last error or due time.
fn of_instance(instance: &Instance) -> Vec<String> {
    let lines = super::instance(instance, at(1000));
    assert!(lines.iter().all(|line| line.ends_with('.')), "{lines:#?}");
    let told = lines.into_iter().skip(1);
    told.filter(|line| !line.starts_with("Its next check is due")).collect()
}

#[test]
fn every_state_has_a_sentence() {
    let refused = format!("Last error, at {}: CreateFleet: Capacity: no.", at(10));
    let rows = [
        (retrying(), vec!["Its launch will be retried (attempt 2).", &refused]),
        (creating(), vec!["A machine is being requested from EC2."]),
        (booting(), vec!["Its machine boots for job 1/1."]),
        (booting().unclaimed(), vec!["Its machine boots."]),
        (installing(), vec!["Its runner default-l-1-1 has its configuration for job 1/1."]),
        (idle(), vec!["Its runner default-l-1-1 waits for job 1/1."]),
        (active(), vec!["It runs job \"build\" of acme/web."]),
        (active_by_github(), vec!["It runs a job for job 1/1."]),
        (exited(), vec!["Its runner ended; the machine shuts itself down."]),
        (
            exited().with(|i| i.kept_until = Some(at(900))),
            vec![
                "Its job failed, and its pool keeps such machines for inspection: it shuts itself \
                 down at 1970-01-01T00:31:40.000Z.",
            ],
        ),
        (
            boot_failed(),
            vec!["Its machine failed to boot and shuts itself down.", "Machine log: \"no disk\"."],
        ),
        (idle().ordered(plain(700)).deleting(700).with(|i| i.to_deleted(at(800), "gone")), vec![]),
    ];
    for (instance, expected) in rows {
        assert_eq!(of_instance(&instance), expected, "{}", instance.state());
    }
}

#[test]
fn an_interruption_is_explained_while_the_job_runs_and_after_the_agent_was_stopped() {
    let stop =
        |i: Instance| i.with(|i| i.runner_stopped(StopCause::Interruption, 0, at(140), &timings()));
    let by_ec2 = |i: Instance| i.with(|i| i.spot_notice(at(60)));
    // EC2's own event was lost.
    let by_machine = |i: Instance| {
        let name = i.runner_name();
        i.with(|i| assert_eq!(i.interrupted(&name, at(64)), Ok(())))
    };
    let text = |second, what: &str| {
        Some(format!("EC2 announced the interruption at {}; {what}.", at(second)))
    };
    let runs = "if the job has not ended 40 seconds before the machine does, the agent is stopped";
    let stopped = "the agent was stopped so GitHub knew before the machine ended";
    let free = "the agent had no job and was stopped";
    let deleted =
        |i: Instance| i.ordered(plain(150)).deleting(150).with(|i| i.to_deleted(at(180), "gone"));
    let rows = [
        ("a job runs", by_ec2(active()), text(60, runs)),
        ("a job runs, by the machine's word", by_machine(active()), text(64, runs)),
        ("stopped", stop(by_ec2(active())), text(60, stopped)),
        ("EC2's time counts", stop(by_machine(by_ec2(active()))), text(60, stopped)),
        ("stopped, by the machine's word", stop(by_machine(active())), text(64, stopped)),
        ("the record has ended", deleted(stop(by_ec2(active()))), text(60, stopped)),
        ("without a job", stop(by_machine(idle())), text(64, free)),
        ("the job ended in time", by_ec2(exited()), None),
        ("no interruption", active(), None),
    ];
    for (what, instance, expected) in rows {
        let lines = of_instance(&instance);
        let found = lines.iter().find(|line| line.starts_with("EC2 announced"));
        assert_eq!(found, expected.as_ref(), "{what}: {lines:?}");
    }
}

#[test]
fn a_job_that_github_calls_over_is_told_beside_its_silent_machine() {
    let over =
        || active().with(|i| assert!(i.github_completed(CLAIMED, false, at(200), &timings())));
    let runs = "It runs job \"build\" of acme/web.";
    let since = format!(
        "GitHub reported the end of that job at {}; if the machine does not report it by {}, \
         GitHub's report is accepted.",
        at(200),
        at(3800)
    );
    assert_eq!(of_instance(&over()), [runs, &since]);
    assert_eq!(of_instance(&over().ordered(plain(700)))[0], since);
    let written_off = over().with(|i| i.write_job_off(at(3800)));
    let ends = format!(
        "GitHub reported the end of that job and the machine did not for an hour, so Muster has \
         been ending it since {} unless GitHub reports its runner as busy.",
        at(3800)
    );
    assert_eq!(of_instance(&written_off), ["Its job \"build\" of acme/web has ended.", &ends]);
}

#[test]
fn a_row_on_its_way_out_names_who_and_why() {
    let kill = DeleteOrder { by: "eve".to_owned(), reason: "runaway".to_owned(), ..forced(700) };
    let ordered = format!("Delete ordered by ada at {}: not needed.", at(700));
    let by_force = format!("Forced delete ordered by eve at {}: runaway.", at(700));
    let no_key = fault(crate::app::NO_KEY);
    let last_error =
        format!("Last error, at {}: {}: no-key: {}.", no_key.at, no_key.operation, no_key.message);
    let rows = [
        (idle().ordered(plain(700)), vec![ordered.as_str(), "Being deleted: ordered."]),
        (idle().ordered(kill), vec![by_force.as_str(), "Being deleted: ordered."]),
        (exited().stopping(DeleteReason::RunnerEnded, 700), vec!["Being deleted: runner_ended."]),
        (
            idle().unclaimed().marked(DeleteReason::SpotNotice, 700),
            vec![
                "Its runner default-l-1-1 waits.",
                "Marked for delete, so it takes no job: spot_notice.",
            ],
        ),
        (
            idle().unclaimed().marked(DeleteReason::Idle, 700).with(|i| {
                i.update_mark(|mark| mark.waiting = Some(Waiting::Unauthorized));
            }),
            vec![
                "Its runner default-l-1-1 waits.",
                "Marked for delete unless a job starts: idle.",
                "GitHub refuses the App's credentials (bypass_github_unauthorized skips this \
                 check).",
            ],
        ),
        (
            idle().unclaimed().marked(DeleteReason::Idle, 700).with(|i| {
                i.update_mark(|mark| mark.waiting = Some(Waiting::Unauthorized));
                i.last_error = Some(fault(crate::app::NO_KEY));
            }),
            vec![
                "Its runner default-l-1-1 waits.",
                "Marked for delete unless a job starts: idle.",
                "GitHub cannot be asked to remove its runner (bypass_github_unauthorized skips \
                 this check).",
                last_error.as_str(),
            ],
        ),
    ];
    for (instance, expected) in rows {
        assert_eq!(of_instance(&instance), expected);
    }
    assert_eq!(of_instance(&error())[0][..10], *"Last error");
}

#[test]
fn the_first_line_names_state_age_and_machine_and_the_last_the_next_look() {
    let lines = instance(&booting(), at(605));
    let first = format!(
        "Instance default-l-1: running since {} (10 min ago), machine i-00000000000000001.",
        at(5)
    );
    assert_eq!(lines.first(), Some(&first));
    assert_eq!(lines.last(), Some(&format!("Its next check is due at {}.", at(600))));
    let bare = instance(&creating(), at(30));
    assert_eq!(bare[0], format!("Instance default-l-1: creating since {} (30 s ago).", at(0)));
    assert_eq!(slot(1).name.as_str(), "default-l-1");
}
