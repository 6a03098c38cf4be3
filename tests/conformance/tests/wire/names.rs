//! The names of a pool file: crates `github` and `ec2` at the world's doors.

use muster_cloud::faults::{Answer, FaultSpec};
use muster_cloud::github::{Group, HookConfig};
use muster_cloud::{Millis, World};
use muster_conformance::names::{CHECKS, NamesWorld, check};
use muster_conformance::{differences, run_all};
use muster_domain::app::AppSettings;
use muster_domain::ids::Entity;
use muster_domain::pool::Arch;
use muster_github::{App, AppIdentity};
use serde_json::json;

use crate::RUNTIME;
use crate::github::fault;

struct Bench {
    github: crate::github::Bench,
    ec2: muster_ec2::Ec2,
}

impl Bench {
    async fn new() -> Self {
        let github = crate::github::Bench::new().await;
        let url = Some("https://hooks.example/webhook".to_owned());
        let hook = HookConfig { url, ..HookConfig::default() };
        github.running.cloud.with(|world, _| {
            world.github.set_hook("123", hook).expect("the App");
            world.github.specs_mut().for_each(|spec| spec.public_repositories = true);
        });
        let ec2 = crate::ec2::client(&github.running).await;
        Self { github, ec2 }
    }

    fn change<R>(&self, change: impl FnOnce(&mut World, Millis) -> R) -> R {
        self.github.running.cloud.with(change)
    }
}

impl NamesWorld for Bench {
    type Github = App<AppIdentity>;
    type Ec2 = muster_ec2::Ec2;

    fn github(&self) -> &App<AppIdentity> {
        &self.github.app
    }

    fn ec2(&self) -> &muster_ec2::Ec2 {
        &self.ec2
    }

    async fn organization(&self) -> (u64, Entity) {
        let number = self.change(|world, _| world.github.owner("acme").expect("the owner").id);
        (number, "acme".parse().expect("an entity"))
    }

    async fn repository(&self) -> (u64, Entity) {
        let job = json!({ "owner": "acme", "repo": "web", "labels": ["linux"] });
        let job = serde_json::from_value(job).expect("a job");
        let number = self.change(|world, now| {
            let job = world.queue_job(&job, now).expect("queued");
            world.github.job(job).expect("there").repository.id
        });
        (number, "acme/web".parse().expect("an entity"))
    }

    async fn have_app(&self, app: &AppSettings) {
        let (events, permissions) = (app.events.clone(), app.permissions.clone());
        let settings = muster_cloud::github::AppSettings { events, permissions };
        self.change(|world, _| world.github.set_app("123", settings)).expect("the App");
    }

    async fn have_group(&self, id: u64, name: &str) {
        let group = Group {
            id,
            name: name.to_owned(),
            public_repositories: true,
            restricted_to_workflows: false,
        };
        self.change(|world, _| world.set_groups("acme", vec![group])).expect("the owner");
    }

    async fn have_images(&self, arch: Arch, images: &[(&str, &str)]) {
        let architecture = match arch {
            Arch::X64 => "x86_64",
            Arch::Arm64 => "arm64",
        };
        for (day, (id, name)) in images.iter().enumerate() {
            let image = json!({ "id": id, "name": name, "architecture": architecture,
                "created_at": 1_790_000_000_000_u64 + 86_400_000 * day as u64 });
            let image = serde_json::from_value(image).expect("an image");
            self.change(|world, _| world.ec2.put_image(image));
        }
    }

    async fn fall_silent(&self) {
        let calls = [
            ("github", "get-app"),
            ("github", "get-hook"),
            ("github", "list-deliveries"),
            ("github", "list-installations"),
            ("github", "list-runner-groups"),
            ("ec2", "DescribeImages"),
        ];
        for (door, operation) in calls {
            let silent =
                FaultSpec { perform: Some(false), answer: Answer::Drop, ..fault(door, operation) };
            self.change(|world, _| world.faults.add(silent)).expect("a fault that makes sense");
        }
    }
}

#[test]
fn names_are_as_the_admin_function_knows_them() {
    let run = |name: &str| {
        RUNTIME.block_on(async {
            let bench = Bench::new().await;
            check(name, &bench).await;
        });
    };
    assert_eq!(run_all(CHECKS, differences::WIRE_NAMES, run), CHECKS.len());
}
