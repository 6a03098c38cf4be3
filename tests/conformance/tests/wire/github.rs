//! GitHub: crate `github` at the world's REST door.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{LazyLock, Mutex};

use muster_cloud::faults::{Answer, FaultSpec};
use muster_cloud::github::{Agents, Lies, Message, RunnerScope};
use muster_cloud::{Millis, World};
use muster_conformance::github::{CHECKS, Failure, GithubWorld, check};
use muster_conformance::{differences, run_all};
use muster_control::ports::Registrar;
use muster_domain::ids::{AppName, InstallationId};
use muster_domain::time::Time;
use muster_github::{App, AppIdentity};
use muster_world::Running;
use serde_json::json;

use crate::{RUNTIME, directory, github_behind_tls, open};

const CALLS: [&str; 5] =
    ["generate-jitconfig", "list-runners", "get-runner", "delete-runner", "get-job"];

/// The App's key, made for this run: private and public.
static KEY: LazyLock<(String, String)> = LazyLock::new(|| {
    let file = directory().join(format!("app-{}.pem", std::process::id()));
    let file = file.to_str().expect("a path in UTF-8");
    let openssl = |arguments: &[&str]| {
        let run = Command::new("openssl").args(arguments).output().expect("openssl is installed");
        assert!(run.status.success(), "openssl {arguments:?}");
        String::from_utf8(run.stdout).expect("PEM")
    };
    openssl(&["genrsa", "-out", file, "2048"]);
    let private = std::fs::read_to_string(file).expect("the key");
    let public = openssl(&["rsa", "-in", file, "-pubout"]);
    std::fs::remove_file(file).expect("removed");
    (private, public)
});

/// A fault that hits every call of a kind.
pub(crate) fn fault(door: &str, operation: &str) -> FaultSpec {
    let fault = json!({ "door": door, "operation": operation });
    serde_json::from_value(fault).expect("a fault")
}

fn registrar(entity: &str, installation: u64) -> Registrar {
    let entity = entity.parse().expect("an entity");
    Registrar { entity, installation: Some(InstallationId(installation)) }
}

pub(crate) struct Bench {
    pub(crate) running: Running,
    pub(crate) app: App<AppIdentity>,
    /// The connections of agents, by the job that they run.
    agents: Mutex<BTreeMap<u64, String>>,
    /// Those of agents that wait, by their runner's name.
    waiting: Mutex<BTreeMap<String, String>>,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let running = open().await;
        let (private, public) = &*KEY;
        running.cloud.with(|world, _| {
            for (owner, installation) in [("acme", 77), ("zoo", 78)] {
                let spec = json!({
                    "owner": owner, "installation_id": installation, "app_id": "123",
                    "app_public_key": public,
                });
                world.register_owner(serde_json::from_value(spec).expect("an owner"));
            }
        });
        let (url, settings) = github_behind_tls(&running).await;
        let secret = json!({ "app_id": 123, "private_key": private, "api_url": url }).to_string();
        let identity = AppIdentity::read(&secret, AppName::MAIN).expect("an App");
        let app = App::new(&settings, identity).expect("a client");
        Self { running, app, agents: Mutex::default(), waiting: Mutex::default() }
    }

    fn change<R>(&self, change: impl FnOnce(&mut World, Millis) -> R) -> R {
        self.running.cloud.with(change)
    }

    fn lies(&self, lies: Lies) {
        self.change(|world, _| world.set_lies("acme", lies)).expect("the owner");
    }
}

impl GithubWorld for Bench {
    type Github = App<AppIdentity>;

    fn github(&self) -> &App<AppIdentity> {
        &self.app
    }

    fn organization(&self) -> Registrar {
        registrar("acme", 77)
    }

    fn another_organization(&self) -> Registrar {
        registrar("zoo", 78)
    }

    fn repository(&self) -> String {
        "acme/web".into()
    }

    fn now(&self) -> Time {
        muster_aws::clock::now()
    }

    async fn queue_job(&self) -> u64 {
        let job = json!({ "owner": "acme", "repo": "web", "labels": ["linux"] });
        let job = serde_json::from_value(job).expect("a job");
        self.change(|world, now| world.queue_job(&job, now)).expect("queued")
    }

    async fn connect(&self, runner: &str) {
        let session = self.change(|world, now| {
            let registered = world.github.runners().find(|one| one.name == runner);
            let secret = registered.expect("registered").secret();
            world.runner_connect(&secret, None, now).expect("connected")
        });
        self.waiting.lock().expect("no panic").insert(runner.to_owned(), session);
    }

    async fn take(&self, job: u64, runner: &str) {
        if !self.waiting.lock().expect("no panic").contains_key(runner) {
            self.connect(runner).await;
        }
        let session = self.waiting.lock().expect("no panic").remove(runner).expect("connected");
        let session = self.change(|world, now| {
            let message = world.runner_listen(&session, now).expect("an answer");
            assert!(matches!(&message, Message::Job(offer) if offer.id == job), "{message:?}");
            world.job_began(&session, job, now).expect("begun");
            session
        });
        self.agents.lock().expect("no panic").insert(job, session);
    }

    async fn end(&self, job: u64, conclusion: &'static str) {
        let session = self.agents.lock().expect("no panic").remove(&job).expect("taken");
        self.change(|world, now| world.job_done(&session, job, conclusion, now)).expect("ended");
    }

    async fn close_door(&self) {
        // No address was given to deliver to.
    }

    async fn a_moment(&self) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }

    async fn cancel(&self, job: u64) {
        self.change(|world, now| world.cancel_job(job, now)).expect("cancelled");
    }

    async fn lie(&self) {
        self.lies(Lies {
            busy_false_from_ms: Some(0),
            delete_busy_answers_204: true,
            ..Lies::default()
        });
    }

    async fn list_from_cache(&self) {
        self.lies(Lies { list_cache_ms: 60_000, ..Lies::default() });
    }

    async fn list_agent(&self, version: &str) {
        let agents = Agents::listing(version, "https://github.com", &"0".repeat(64));
        self.change(|world, _| world.github.agents = agents);
    }

    async fn fail(&self, how: Failure) {
        let error = |status, message: &str, headers: &[(&str, String)]| {
            let header = |(name, value): &(&str, String)| ((*name).to_owned(), value.clone());
            Answer::Error {
                status,
                code: String::new(),
                message: message.into(),
                headers: headers.iter().map(header).collect(),
                body: None,
            }
        };
        let reset = self.now().as_secs() + 600;
        let used_up =
            [("x-ratelimit-remaining", "0".to_owned()), ("x-ratelimit-reset", reset.to_string())];
        let (perform, answer) = match how {
            Failure::Broken => (None, error(502, "Server Error", &[])),
            Failure::Unauthorized => (None, error(401, "Bad credentials", &[])),
            Failure::Forbidden => (None, error(403, "Resource not accessible by integration", &[])),
            Failure::TooMany => {
                (None, error(429, "Too many requests", &[("retry-after", "60".into())]))
            }
            Failure::LimitUsedUp => (None, error(403, "API rate limit exceeded", &used_up)),
            Failure::Unheard => (Some(true), Answer::Drop),
        };
        self.change(|world, _| {
            for call in CALLS {
                let answer = answer.clone();
                let fault = FaultSpec { perform, answer, ..fault("github", call) };
                world.faults.add(fault).expect("a fault that makes sense");
            }
        });
    }

    async fn mend(&self) {
        self.change(|world, _| world.faults.clear(None));
    }

    async fn registered(&self) -> Vec<String> {
        let acme = RunnerScope::Organization("acme".into());
        self.change(|world, _| {
            let ours = world.github.runners().filter(|one| one.scope == acme);
            ours.map(|one| one.name.clone()).collect()
        })
    }
}

#[test]
fn github_is_as_the_passes_know_it() {
    let run = |name: &str| {
        RUNTIME.block_on(async {
            let bench = Bench::new().await;
            check(name, &bench).await;
        });
    };
    assert!(run_all(CHECKS, differences::WIRE_GITHUB, run) >= 35);
}
