//! The names of a pool file: crates `github` and `ec2` at the world's doors.

use std::collections::BTreeMap;

use muster_cloud::ec2::LaunchTemplate;
use muster_cloud::faults::{Answer, FaultSpec};
use muster_cloud::github::{Group, HookConfig};
use muster_cloud::{Millis, World};
use muster_conformance::names::{BOOTS, CHECKS, NamesWorld, check};
use muster_conformance::{differences, run_all};
use muster_domain::app::AppSettings;
use muster_domain::ec2::Arch;
use muster_domain::ids::Entity;
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

    async fn have_template(&self, id: &str, versions: u64, tags: &[(&str, &str)]) {
        let tags: BTreeMap<String, String> =
            tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        for (version, (_, encoded)) in (1..=versions).zip(BOOTS) {
            let template = LaunchTemplate {
                id: id.to_owned(),
                version,
                user_data: encoded.to_owned(),
                tags: tags.clone(),
                device: Some("/dev/sdf".to_owned()),
                ..LaunchTemplate::default()
            };
            self.change(|world, _| world.ec2.put_template(template));
        }
    }

    async fn have_placement_group(&self, name: &str, tags: &[(&str, &str)]) {
        let tags: BTreeMap<&str, &str> = tags.iter().copied().collect();
        let group = json!({ "name": name, "strategy": "cluster", "tags": tags });
        let group = serde_json::from_value(group).expect("a placement group");
        self.change(|world, _| world.ec2.put_placement_group(group));
    }

    async fn fall_silent(&self) {
        let calls = [
            ("github", "get-app"),
            ("github", "get-hook"),
            ("github", "list-deliveries"),
            ("github", "list-installations"),
            ("github", "list-runner-groups"),
            ("ec2", "DescribeImages"),
            ("ec2", "DescribeLaunchTemplateVersions"),
            ("ec2", "DescribePlacementGroups"),
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
