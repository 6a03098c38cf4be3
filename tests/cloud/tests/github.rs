//! The model of GitHub by itself, as a driver of its own sees it.

use std::sync::Arc;

use muster_cloud::github::{
    Delivery, GitHub, GitHubError, JitRequest, JobNumbers, JobSpec, JobStatus, Message, News,
    OwnerSpec, RunnerScope,
};
use muster_cloud::{Ids, Millis};
use serde_json::json;

const NOW: Millis = 1_800_000_000_000;

fn acme() -> RunnerScope {
    RunnerScope::Organization("acme".to_owned())
}

/// GitHub with the organization `acme`.
struct Bench {
    github: GitHub,
    ids: Ids,
}

impl Bench {
    fn new() -> Self {
        let spec = json!({
            "owner": "acme", "installation_id": 77, "app_id": 123, "app_public_key": "",
            "groups": [{ "id": 7, "name": "builders" }],
        });
        let mut github = GitHub::default();
        let spec: OwnerSpec = serde_json::from_value(spec).expect("an owner");
        github.register_owner(spec, 1);
        Self { github, ids: Ids::after(0) }
    }

    fn register(&mut self, name: &str, group: u64) -> Result<u64, GitHubError> {
        let request = JitRequest {
            name: name.to_owned(),
            runner_group_id: group,
            labels: vec!["linux".to_owned()],
            work_folder: None,
        };
        self.github.generate_jit(&mut self.ids, &acme(), &request, NOW).map(|runner| runner.id)
    }

    /// A runner that waits for a job.
    fn idle(&mut self, name: &str) -> u64 {
        let id = self.register(name, 1).expect("registered");
        self.github.connect(id, None, NOW).expect("connected");
        self.github.await_job(id, NOW).expect("waits");
        id
    }

    fn queue(&mut self, job: u64, labels: &[&str]) {
        let spec = json!({ "owner": "acme", "repo": "app", "labels": labels });
        let spec: JobSpec = serde_json::from_value(spec).expect("a job");
        let numbers = JobNumbers { job, run: 1, repository: 1 };
        self.github.queue_job(Arc::new(spec), numbers, NOW).expect("queued");
    }

    fn status(&self, job: u64) -> JobStatus {
        self.github.job(job).expect("there").status
    }

    /// What the webhooks since the last look say of which job.
    fn told(&mut self) -> Vec<(u64, &'static str)> {
        let news = self.github.take_news().into_iter();
        news.filter_map(|news| match news {
            News::Webhook(job) => Some((job.id, job.status.name())),
            News::Silent(_) | News::Works { .. } | News::Dies { .. } => None,
        })
        .collect()
    }
}

#[test]
fn jobs_and_runners_that_fit_are_paired_in_the_order_in_which_they_came() {
    let mut bench = Bench::new();
    bench.queue(20, &["Linux"]);
    bench.queue(10, &["linux"]);
    bench.queue(30, &["linux", "gpu"]);
    let (first, second) = (bench.idle("r-1"), bench.idle("r-2"));
    assert_eq!(bench.github.candidates(), [(20, first), (20, second), (10, first), (10, second)]);
    bench.github.assign(10, second, NOW).expect("fits");
    assert_eq!(bench.github.candidates(), [(20, first)]);
    assert_eq!((bench.status(10), bench.github.job_on(second)), (JobStatus::InProgress, Some(10)));
    assert_eq!(bench.github.assign(10, first, NOW).expect_err("taken").status, 409);
}

#[test]
fn a_barred_runner_and_a_job_without_labels_wait_for_ever() {
    let mut bench = Bench::new();
    let runner = bench.idle("r-1");
    bench.queue(1, &[]);
    assert_eq!(bench.github.candidates(), []);
    bench.queue(2, &["linux"]);
    assert_eq!(bench.github.candidates(), [(2, runner)]);
    bench.github.bar_runner(runner);
    assert_eq!(bench.github.candidates(), []);
}

#[test]
fn a_gated_job_comes_after_those_that_waited_meanwhile() {
    let mut bench = Bench::new();
    bench.queue(1, &["linux"]);
    bench.queue(2, &["linux"]);
    bench.github.gate_job(1).expect("it is queued");
    assert_eq!((bench.github.queued(), bench.status(1)), (&[2][..], JobStatus::Waiting));
    assert_eq!(bench.github.gate_job(1).expect_err("twice").status, 409);
    bench.github.approve_job(1, NOW).expect("it waits");
    assert_eq!(bench.github.queued(), [2, 1]);
    assert_eq!(bench.github.reject_job(1, NOW).expect_err("approved").status, 409);
    bench.github.gate_job(2).expect("it is queued");
    bench.github.reject_job(2, NOW).expect("it waits");
    let told = [(1, "queued"), (2, "queued"), (1, "waiting"), (1, "queued")];
    assert_eq!(bench.told(), [&told[..], &[(2, "waiting"), (2, "completed")]].concat());
}

#[test]
fn a_deleted_group_is_not_one_that_never_was() {
    let mut bench = Bench::new();
    bench.register("r-1", 7).expect("the group is there");
    bench.github.specs_mut().for_each(|spec| spec.deleted_groups = [7].into());
    assert_eq!(bench.register("r-2", 7).expect_err("deleted").status, 422);
    assert_eq!(bench.register("r-2", 8).expect_err("unknown").status, 404);
}

#[test]
fn a_forgotten_runner_gets_no_job_and_is_not_told() {
    let mut bench = Bench::new();
    let runner = bench.idle("r-1");
    assert!(bench.github.forget_runner(runner, NOW));
    bench.queue(1, &["linux"]);
    bench.github.await_job(runner, NOW).expect("its session lives");
    assert_eq!((bench.github.idle(), bench.github.candidates()), (&[][..], vec![]));
    assert_eq!(bench.github.answer(runner, NOW), Ok(Message::Nothing));
    assert!(!bench.github.forget_runner(runner, NOW), "only once");
    bench.register("r-1", 1).expect("the name is free");

    let busy = bench.idle("r-2");
    bench.github.assign(1, busy, NOW).expect("fits");
    assert!(!bench.github.forget_runner(busy, NOW), "it has a job");
}

#[test]
fn a_runner_that_is_given_up_stays_or_goes() {
    for removes in [false, true] {
        let mut bench = Bench::new();
        bench.github.removes_lost_runners = removes;
        let runner = bench.idle("r-1");
        bench.queue(1, &["linux"]);
        bench.github.assign(1, runner, NOW).expect("fits");
        bench.github.take_news();
        bench.github.agent_lost(runner, "hung", NOW);
        let news = bench.github.take_news();
        assert!(matches!(news[..], [News::Silent(1)]), "{news:?}");
        bench.github.give_up(1, NOW);
        assert_eq!(bench.told(), [(1, "completed")]);
        assert_eq!(bench.github.runner(runner).is_none(), removes);
        assert_eq!(bench.github.job_on(runner), None);
    }
}

#[test]
fn a_removed_registration_is_remembered_by_its_name_and_the_time() {
    let mut bench = Bench::new();
    for at in [NOW, NOW + 10] {
        let id = bench.register("r-1", 1).expect("registered");
        bench.github.delete_runner(&acme(), id, false, at).expect("idle");
    }
    let removed =
        |since| bench.github.removed_since(&acme(), "R-1", since).map(|runner| runner.removed_at);
    assert_eq!(removed(NOW - 1), Some(Some(NOW + 10)), "the last one");
    assert_eq!(removed(NOW + 10), None);
    let other = RunnerScope::Organization("zoo".to_owned());
    assert_eq!(bench.github.removed_since(&other, "r-1", NOW - 1), None);
}

#[test]
fn a_delivery_shows_the_job_as_it_was_and_is_missed_until_it_arrives() {
    let mut bench = Bench::new();
    bench.queue(1, &["linux"]);
    let Some(News::Webhook(job)) = bench.github.take_news().pop() else { panic!("no event") };
    bench.github.cancel_job(1, NOW).expect("queued");
    bench.github.deliver(5, job, NOW);
    assert_eq!(bench.github.delivery(5).map(Delivery::action), Some("queued"));

    assert_eq!(bench.github.undelivered(), None);
    bench.github.attempted(5, None, NOW);
    bench.github.attempted(5, Some(502), NOW + 1);
    let missed = bench.github.undelivered().expect("it never arrived");
    assert_eq!((missed.number, missed.at, missed.again), (5, NOW + 1, true));
    let again = bench.github.attempt_again("123", missed.id).expect("kept");
    assert_eq!(again.number, 5);
    assert_eq!(bench.github.attempt_again("123", 3).expect_err("unknown").status, 404);
    bench.github.attempted(5, Some(202), NOW + 2);
    assert_eq!(bench.github.undelivered(), None);
}
