//! EC2: crate `ec2` at the world's EC2 Query door.

use std::time::Duration;

use aws_sdk_dynamodb::config::{Credentials, Region, SharedCredentialsProvider};
use muster_cloud::ec2::{LaunchTemplate, PlaceSpec, STACK_TAG, ShutdownBehavior};
use muster_cloud::faults::{Answer, FaultSpec};
use muster_cloud::{Millis, World};
use muster_conformance::ec2::{CHECKS, Call, Ec2World, Failure, check};
use muster_conformance::{differences, run_all};
use muster_control::ports::Compute as _;
use muster_domain::ids::MachineId;
use muster_world::Running;

use crate::{NEVER_MS, RUNTIME, open};

const STACK: &str = "s1";
const HIDDEN: Duration = Duration::from_secs(3);

struct Bench {
    running: Running,
    ec2: muster_ec2::Ec2,
}

/// The adapter at a world's door.
pub(crate) async fn client(running: &Running) -> muster_ec2::Ec2 {
    let config = muster_aws::client::load()
        .await
        .into_builder()
        .endpoint_url(format!("http://{}", running.ec2))
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
        .build();
    muster_ec2::Ec2::new(&config, STACK.into())
}

impl Bench {
    async fn new() -> Self {
        let running = open().await;
        running.cloud.with(|world, _| {
            world.ec2.toggles.page_limit = 10;
            world.ec2.put_template(LaunchTemplate {
                id: "lt-1".into(),
                name: "runner".into(),
                version: 3,
                on_shutdown: ShutdownBehavior::Terminate,
                ..LaunchTemplate::default()
            });
        });
        let ec2 = client(&running).await;
        Self { running, ec2 }
    }

    fn change<R>(&self, change: impl FnOnce(&mut World, Millis) -> R) -> R {
        self.running.cloud.with(change)
    }
}

impl Ec2World for Bench {
    type Ec2 = muster_ec2::Ec2;

    fn ec2(&self) -> &muster_ec2::Ec2 {
        &self.ec2
    }

    fn stack(&self) -> &str {
        STACK
    }

    fn more_than_a_page(&self) -> u32 {
        25
    }

    async fn settle(&self) {
        self.change(|world, now| world.advance(now + 2 * NEVER_MS));
    }

    async fn forget_the_ended(&self) {
        self.change(|world, _| world.timings_mut().terminated_visible_ms = 0);
    }

    async fn hide_new(&self) {
        let hidden = Millis::try_from(HIDDEN.as_millis()).expect("small");
        self.change(|world, _| world.timings_mut().visible_after_ms = hidden);
    }

    async fn show(&self) {
        tokio::time::sleep(HIDDEN).await;
    }

    async fn stop(&self, machine: &MachineId) {
        self.change(|world, now| world.stop_instance(machine.as_str(), now)).expect("stopped");
    }

    async fn protect(&self, machine: &MachineId, protected: bool) {
        self.change(|world, _| world.protect(machine.as_str(), protected)).expect("there");
    }

    async fn run_short(&self, some: bool) {
        let rules = serde_json::json!([{ "left": u32::from(some) }]);
        let rules = serde_json::from_value(rules).expect("a rule");
        self.change(|world, _| world.ec2.set_capacity(rules));
    }

    async fn lack_the_spot_role(&self) {
        // Source: the errorSet in aws/karpenter-provider-aws#7998
        let rule = serde_json::json!([{
            "market": "spot",
            "code": "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
            "message": "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.",
        }]);
        let rules = serde_json::from_value(rule).expect("a rule");
        self.change(|world, _| world.ec2.set_capacity(rules));
    }

    async fn answer_replays_barely(&self) {
        self.change(|world, _| world.ec2.toggles.replay_shows_instances = false);
    }

    async fn fail(&self, call: Call, how: Failure) {
        let operation = match call {
            Call::Launch => "CreateFleet",
            Call::Describe => "DescribeInstances",
            Call::Terminate => "TerminateInstances",
            Call::Console => "GetConsoleOutput",
            Call::CreateImage => "CreateImage",
            Call::Images => "DescribeImages",
            Call::Deregister => "DeregisterImage",
        };
        let error = |status, code: &str| {
            let (code, message) = (code.into(), "scripted".into());
            Answer::Error { status, code, message, headers: Vec::new(), body: None }
        };
        let (perform, answer) = match how {
            Failure::Unheard => (Some(true), Answer::Drop),
            Failure::Undone => (Some(false), Answer::Drop),
            Failure::Throttled => (None, error(503, "RequestLimitExceeded")),
            Failure::Misconfigured => (None, error(400, "InvalidLaunchTemplateId.NotFound")),
            Failure::OverQuota => (None, error(400, "VcpuLimitExceeded")),
            Failure::RunnerApiError => (None, error(403, "UnauthorizedOperation")),
        };
        let fault = FaultSpec { perform, answer, ..crate::github::fault("ec2", operation) };
        self.change(|world, _| world.faults.add(fault)).expect("a fault that makes sense");
    }

    async fn mend(&self) {
        self.change(|world, _| {
            world.faults.clear(None);
            world.ec2.set_capacity(Vec::new());
        });
    }

    async fn print(&self, machine: &MachineId, text: &str) {
        self.change(|world, _| world.print(machine.as_str(), text)).expect("there");
    }

    async fn somebody_elses(&self) -> MachineId {
        let place = serde_json::json!({ "tags": { STACK_TAG: "somebody-elses" } });
        let place: PlaceSpec = serde_json::from_value(place).expect("a place");
        let id = self.change(|world, now| world.place_instance(&place, now));
        id.parse().expect("an id")
    }

    async fn living(&self) -> usize {
        self.change(|world, _| {
            let ours = world.ec2.instances().iter().filter(|one| one.stack() == Some(STACK));
            ours.filter(|one| !one.state.is_ending()).count()
        })
    }

    async fn finish_images(&self) {
        self.change(|world, now| {
            let ids: Vec<String> = world.ec2.images().iter().map(|one| one.id.clone()).collect();
            for id in ids {
                world.ec2.image_mut(&id).expect("there").pending_until = now;
            }
        });
    }

    async fn fail_images(&self) {
        let reason = "Client.InternalError: the snapshot failed".to_owned();
        self.change(|world, _| world.ec2.toggles.images_fail = Some(reason));
    }

    async fn keep_snapshots(&self) {
        self.change(|world, _| world.ec2.toggles.keeps_snapshots = true);
    }

    async fn snapshots(&self) -> usize {
        self.change(|world, _| world.ec2.snapshots().count())
    }
}

/// Only machines on Nitro show what stands on the console now.
#[test]
fn a_machine_on_xen_shows_what_ec2_stored_of_its_console() {
    RUNTIME.block_on(async {
        let bench = Bench::new().await;
        let id = bench.change(|world, now| {
            let id = world.place_instance(&PlaceSpec::default(), now);
            world.ec2.instance_mut(&id).expect("there").instance_type = "t2.micro".into();
            world.print(&id, "stored").expect("there");
            id
        });
        let machine: MachineId = id.parse().expect("an id");
        assert_eq!(bench.ec2.console(&machine).await, Ok("stored".to_owned()));
    });
}

#[test]
fn ec2_is_as_the_passes_know_it() {
    let run = |name: &str| {
        RUNTIME.block_on(async {
            let bench = Bench::new().await;
            check(name, &bench).await;
        });
    };
    assert!(run_all(CHECKS, differences::WIRE_EC2, run) >= 40);
}
