//! Who gets a job, and what becomes of it.

use crate::common::{
    T0, busy_runner, github, happenings, jit, job, launch, listen, organization, owner, repository,
    runner, runner_in, secret_of, sent,
};
use muster_cloud::github::{Assignment, JobStatus, RunnerScope};
use muster_cloud::rfc3339;
use serde_json::json;

// Who gets a job.

#[test]
fn github_job_goes_to_a_runner_with_all_its_labels_whatever_their_case() {
    let mut world = github();
    let (_, plain) = runner(&mut world, "plain", &["linux"], T0);
    let (_, rich) = runner(&mut world, "rich", &["Self-Hosted", "LINUX", "gpu"], T0);
    listen(&mut world, &plain, T0);
    listen(&mut world, &rich, T0);
    let id = world.queue_job(&job(&["self-hosted", "linux"]), T0).unwrap();
    assert_eq!(listen(&mut world, &plain, T0), None);
    assert_eq!(listen(&mut world, &rich, T0), Some(id));
}

#[test]
fn github_job_goes_to_any_runner_that_fits() {
    let winner = |assignment| {
        let mut world = github();
        world.github.assignment = assignment;
        let sessions: Vec<String> =
            (0..5).map(|n| runner(&mut world, &format!("r-{n}"), &["linux"], T0).1).collect();
        sessions.iter().for_each(|session| assert_eq!(listen(&mut world, session, T0), None));
        let mut winners = vec![];
        for _ in 0..5 {
            world.queue_job(&job(&["linux"]), T0).unwrap();
            let ready = |s: &&String| world.github.has_message(s);
            let winner = sessions.iter().position(|s| ready(&s)).unwrap();
            listen(&mut world, &sessions[winner], T0).unwrap();
            winners.push(winner);
        }
        winners
    };
    assert_eq!(winner(Assignment::Oldest), [0, 1, 2, 3, 4]);
    assert_eq!(winner(Assignment::Newest), [4, 3, 2, 1, 0]);
    let any = winner(Assignment::Any);
    assert_ne!(any, [0, 1, 2, 3, 4], "not always the one launched for the job");
    assert_eq!(any, winner(Assignment::Any));
}

#[test]
fn github_offline_runner_gets_no_job() {
    let mut world = github();
    let (_, silent) = runner(&mut world, "r-1", &["linux"], T0);
    listen(&mut world, &silent, T0);
    world.runner_disconnect(&silent).unwrap();
    let id = world.queue_job(&job(&["linux"]), T0).unwrap();
    assert_eq!(world.github.job(id).unwrap().status, JobStatus::Queued);
    let (_, later) = runner(&mut world, "r-2", &["linux"], T0);
    assert_eq!(listen(&mut world, &later, T0), Some(id));
}

#[test]
fn github_default_group_does_not_serve_public_repositories() {
    let mut world = github();
    let (_, session) = runner(&mut world, "r-1", &["linux"], T0);
    let mut public = job(&["linux"]);
    public.private = false;
    let id = world.queue_job(&public, T0).unwrap();
    assert_eq!(listen(&mut world, &session, T0), None);
    let mut spec = owner("acme", 77);
    spec.public_repositories = true;
    world.register_owner(spec);
    assert_eq!(listen(&mut world, &session, T0), Some(id));
}

#[test]
fn github_runner_serves_its_own_repository_organization_or_enterprise() {
    let mut world = github();
    let mut member = owner("member", 78);
    member.enterprise = Some("corp".to_owned());
    world.register_owner(member);
    world.register_owner(owner("corp", 79));
    let (_, of_repository) = runner_in(&mut world, &repository("acme", "lib"), "r", &["linux"], T0);
    let (_, of_enterprise) =
        runner_in(&mut world, &RunnerScope::Enterprise("corp".to_owned()), "e", &["linux"], T0);
    let app = world.queue_job(&job(&["linux"]), T0).unwrap();
    assert_eq!(listen(&mut world, &of_repository, T0), None);
    assert_eq!(listen(&mut world, &of_enterprise, T0), None);
    let mut elsewhere = job(&["linux"]);
    elsewhere.repo = "Lib".to_owned();
    let lib = world.queue_job(&elsewhere, T0).unwrap();
    elsewhere.owner = "member".to_owned();
    let of_member = world.queue_job(&elsewhere, T0).unwrap();
    assert_eq!(listen(&mut world, &of_repository, T0), Some(lib));
    assert_eq!(listen(&mut world, &of_enterprise, T0), Some(of_member));
    assert_eq!(world.github.job(app).unwrap().status, JobStatus::Queued);
}

// The life of a job.

#[test]
fn github_job_runs_through_its_runner_which_is_gone_afterwards() {
    let mut world = github();
    let (runner, session, id) = busy_runner(&mut world);
    assert_eq!(world.job_over(&session, id, T0).unwrap(), None);
    world.job_began(&session, id, T0 + 100).unwrap();
    world.advance(T0 + 1099);
    assert_eq!(world.job_over(&session, id, T0 + 1099).unwrap(), None);
    world.advance(T0 + 1100);
    assert_eq!(world.job_over(&session, id, T0 + 1100).unwrap().as_deref(), Some("success"));
    world.job_done(&session, id, "success", T0 + 1200).unwrap();
    let job = world.github.job(id).unwrap();
    assert_eq!(job.conclusion.as_deref(), Some("success"));
    assert!(!job.refused && !job.killed);
    assert_eq!(world.get_runner(&organization("acme"), runner, T0).unwrap_err().status, 404);
    let actions: Vec<String> =
        sent(&happenings(&mut world)).into_iter().map(|(_, action)| action).collect();
    assert_eq!(actions, ["queued", "in_progress", "completed"]);
}

#[test]
fn github_job_refused_by_the_hook_fails_without_having_begun() {
    let mut world = github();
    let (_, session, id) = busy_runner(&mut world);
    world.job_done(&session, id, "failure", T0 + 50).unwrap();
    let job = world.github.job(id).unwrap();
    assert!(job.refused && job.began_at.is_none());
}

#[test]
fn github_queued_job_is_cancelled_at_once_and_a_running_one_through_its_runner() {
    let mut world = github();
    let queued = world.queue_job(&job(&["windows"]), T0).unwrap();
    world.cancel_job(queued, T0).unwrap();
    assert_eq!(world.github.job(queued).unwrap().conclusion.as_deref(), Some("cancelled"));
    let (_, session, running) = busy_runner(&mut world);
    world.job_began(&session, running, T0).unwrap();
    world.cancel_job(running, T0 + 10).unwrap();
    assert_eq!(world.github.job(running).unwrap().status, JobStatus::InProgress);
    let over = world.job_over(&session, running, T0 + 10).unwrap();
    assert_eq!(over.as_deref(), Some("cancelled"));
    let error = world.cancel_job(queued, T0 + 20).unwrap_err();
    assert_eq!(error.status, 409);
}

// https://docs.github.com/en/actions/how-tos/deploy/configure-and-manage-deployments/review-deployments,
// RunsOn #539.
#[test]
fn github_gated_job_goes_to_nobody_until_it_is_approved_and_is_queued_again_then() {
    let mut world = github();
    let approved = T0 + 600_000;
    let mut gated = job(&["linux"]);
    gated.gated = true;
    let (_, session) = runner(&mut world, "r-1", &["linux"], T0);
    let id = world.queue_job(&gated, T0).unwrap();
    assert_eq!(listen(&mut world, &session, T0), None);
    let view = world.github.job_view(world.github.job(id).unwrap());
    assert_eq!(view["status"], "waiting");
    world.approve_job(id, approved).unwrap();
    let told = sent(&happenings(&mut world));
    assert_eq!(told, ["queued", "waiting", "queued"].map(|action| (id, action.to_owned())));
    let view = world.github.job_view(world.github.job(id).unwrap());
    assert_eq!((&view["status"], &view["created_at"]), (&json!("queued"), &json!(rfc3339(T0))));
    assert_eq!(listen(&mut world, &session, approved), Some(id));
    assert_eq!(world.approve_job(id, approved + 1).unwrap_err().status, 409);

    let rejected = world.queue_job(&gated, T0).unwrap();
    world.cancel_job(rejected, T0).unwrap();
    assert_eq!(world.github.job(rejected).unwrap().conclusion.as_deref(), Some("cancelled"));
}

#[test]
fn github_held_job_runs_until_it_is_finished() {
    let mut world = github();
    let mut held = job(&["linux"]);
    held.duration_ms = None;
    let id = world.queue_job(&held, T0).unwrap();
    let (_, session) = runner(&mut world, "r-1", &["linux"], T0);
    listen(&mut world, &session, T0);
    world.job_began(&session, id, T0).unwrap();
    world.advance(T0 + 86_400_000);
    assert_eq!(world.job_over(&session, id, T0).unwrap(), None);
    world.finish_job(id, "failure").unwrap();
    assert_eq!(world.job_over(&session, id, T0).unwrap().as_deref(), Some("failure"));
}

#[test]
fn github_job_on_a_machine_without_power_is_killed_and_fails_much_later() {
    for begun in [false, true] {
        let mut world = github();
        let machine = launch(&mut world, "t", 1, T0);
        world.advance(T0 + 500);
        let id = world.queue_job(&job(&["linux"]), T0).unwrap();
        let acme = organization("acme");
        let config = world.generate_jit(&acme, &jit("r-1", &["linux"]), T0).unwrap();
        let secret = secret_of(&config.encoded);
        let session = world.runner_connect(&secret, Some(&machine[0]), T0).unwrap();
        listen(&mut world, &session, T0);
        if begun {
            world.job_began(&session, id, T0).unwrap();
        }
        world.terminate_instances(&machine, T0 + 600).unwrap();
        let kill = &world.github.kills()[0];
        assert_eq!((kill.job, kill.begun, kill.cause.as_str()), (id, begun, "terminated"));
        assert_eq!(world.github.job(id).unwrap().status, JobStatus::InProgress);
        // GitHub goes on calling the runner busy until it has lost patience.
        assert_eq!(world.delete_runner(&acme, config.runner.id, T0 + 700).unwrap_err().status, 422);
        world.advance(T0 + 600 + 600_000);
        assert_eq!(world.github.job(id).unwrap().conclusion.as_deref(), Some("failure"));
        assert!(world.delete_runner(&acme, config.runner.id, T0 + 700_000).is_ok());
    }
}

#[test]
fn github_job_offered_to_a_runner_that_dies_is_queued_again() {
    let mut world = github();
    let machine = launch(&mut world, "t", 1, T0);
    let acme = organization("acme");
    let config = world.generate_jit(&acme, &jit("r-1", &["linux"]), T0).unwrap();
    let secret = secret_of(&config.encoded);
    let first = world.runner_connect(&secret, Some(&machine[0]), T0).unwrap();
    listen(&mut world, &first, T0);
    let id = world.queue_job(&job(&["linux"]), T0).unwrap();
    assert!(world.github.has_message(&first));
    world.terminate_instances(&machine, T0).unwrap();
    assert!(world.github.kills().is_empty());
    let (_, second) = runner(&mut world, "r-2", &["linux"], T0);
    assert_eq!(listen(&mut world, &second, T0), Some(id));
}

// What Muster asks about jobs.

#[test]
fn github_shows_jobs_and_the_runs_that_have_queued_ones() {
    let mut world = github();
    let (_, _, running) = busy_runner(&mut world);
    let queued = world.queue_job(&job(&["gpu"]), T0).unwrap();
    let queued = world.github.job(queued).unwrap();
    let runs = world.github.runs_view("acme", "APP", Some("queued"));
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["id"], queued.run_id);
    let jobs = world.github.run_jobs_view("acme", "app", queued.run_id);
    assert_eq!((jobs.len(), &jobs[0]["id"]), (1, &json!(queued.id)));
    let view = world.github.job_view(world.github.job(running).unwrap());
    assert_eq!((&view["status"], &view["runner_name"]), (&json!("in_progress"), &json!("r-1")));
}
