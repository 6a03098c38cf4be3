//! What the tests of the model share.

use muster_cloud::{
    Happening, Millis, Timings, World,
    ec2::{
        DescribeRequest, FleetAnswer, FleetConfig, FleetRequest, FleetTags, InstanceState,
        LaunchTemplate, Market, Override, ShutdownBehavior, TemplateRef,
    },
    github::{JitRequest, JobSpec, Message, OwnerSpec, RunnerScope},
};

pub(crate) const T0: Millis = 1_800_000_000_000;

/// A world with one launch template (`lt-1`), whose machines terminate when they power off.
pub(crate) fn world() -> World {
    let mut world = World::new(7, Timings::default());
    world.ec2.put_template(LaunchTemplate {
        id: "lt-1".to_owned(),
        name: "runner".to_owned(),
        version: 3,
        on_shutdown: ShutdownBehavior::Terminate,
        instance_type: Some("t3.small".to_owned()),
        ..LaunchTemplate::default()
    });
    world
}

/// `count` spot machines of stack `dev`, `m7i.large` in `subnet-a` or else in `subnet-b`.
pub(crate) fn fleet(token: &str, count: u32) -> FleetRequest {
    let choice = |subnet: &str| Override {
        instance_type: Some("m7i.large".to_owned()),
        subnet_id: Some(subnet.to_owned()),
        ..Override::default()
    };
    FleetRequest {
        client_token: Some(token.to_owned()),
        kind: Some("instant".to_owned()),
        total: count,
        default_market: Some(Market::Spot),
        configs: vec![FleetConfig {
            template: TemplateRef {
                id: Some("lt-1".to_owned()),
                name: None,
                version: Some("3".to_owned()),
            },
            overrides: vec![choice("subnet-a"), choice("subnet-b")],
        }],
        tags: vec![FleetTags {
            resource_type: "instance".to_owned(),
            tags: [("muster:stack", "dev"), ("muster:launch", token)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        }],
        ..FleetRequest::default()
    }
}

pub(crate) fn ids(answer: &FleetAnswer) -> Vec<String> {
    answer.instances.iter().flat_map(|group| group.ids.clone()).collect()
}

/// Launches `count` machines at `now`.
pub(crate) fn launch(world: &mut World, token: &str, count: u32, now: Millis) -> Vec<String> {
    ids(&world.create_fleet(&fleet(token, count), now).expect("the fleet is created"))
}

pub(crate) fn state(world: &World, id: &str) -> InstanceState {
    world.ec2.instance(id).expect("the instance exists").state
}

/// The ids that `DescribeInstances` shows.
pub(crate) fn described(world: &World, request: &DescribeRequest, now: Millis) -> Vec<String> {
    let page = world.describe_instances(request, now).expect("the request is fine");
    page.instances.into_iter().map(|shown| shown.instance.id.clone()).collect()
}

/// The states that were announced for an instance.
pub(crate) fn announced(happened: &[Happening], id: &str) -> Vec<InstanceState> {
    happened
        .iter()
        .filter_map(|happening| match happening {
            Happening::StateChange { instance, state, .. } if instance == id => Some(*state),
            _ => None,
        })
        .collect()
}

pub(crate) fn owner(login: &str, installation: u64) -> OwnerSpec {
    serde_json::from_value(serde_json::json!({
        "owner": login,
        "installation_id": installation,
        "app_id": 123,
        "app_public_key": "",
        "webhook_url": "http://127.0.0.1:9/",
    }))
    .expect("the owner is well written")
}

/// A world in which the organization `acme` (installation 77) has App 123.
pub(crate) fn github() -> World {
    let mut world = world();
    world.register_owner(owner("acme", 77));
    world
}

pub(crate) fn organization(login: &str) -> RunnerScope {
    RunnerScope::Organization(login.to_owned())
}

pub(crate) fn repository(owner: &str, name: &str) -> RunnerScope {
    RunnerScope::Repository { owner: owner.to_owned(), name: name.to_owned() }
}

pub(crate) fn jit(name: &str, labels: &[&str]) -> JitRequest {
    JitRequest {
        name: name.to_owned(),
        runner_group_id: 1,
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        work_folder: None,
    }
}

/// A job of `acme/app` that works for a second.
pub(crate) fn job(labels: &[&str]) -> JobSpec {
    serde_json::from_value(serde_json::json!({
        "owner": "acme", "repo": "app", "labels": labels, "duration_ms": 1000,
    }))
    .expect("the job is well written")
}

/// Registers a runner and connects its process; returns its id and its session.
pub(crate) fn runner(world: &mut World, name: &str, labels: &[&str], now: Millis) -> (u64, String) {
    runner_in(world, &organization("acme"), name, labels, now)
}

pub(crate) fn runner_in(
    world: &mut World,
    scope: &RunnerScope,
    name: &str,
    labels: &[&str],
    now: Millis,
) -> (u64, String) {
    let config = world.generate_jit(scope, &jit(name, labels), now).expect("the name is free");
    let session = world
        .runner_connect(&secret_of(&config.encoded), None, now)
        .expect("the configuration is good");
    (config.runner.id, session)
}

/// What a runner finds in its configuration to prove who it is.
pub(crate) fn secret_of(encoded: &str) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let open = |text: &str| -> serde_json::Value {
        let bytes = STANDARD.decode(text).expect("base64");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let credentials = open(open(encoded)[".credentials"].as_str().expect("a file"));
    credentials["Data"]["ClientId"].as_str().expect("an id").to_owned()
}

/// Asks for work; the id of the job that came, if one came.
pub(crate) fn listen(world: &mut World, session: &str, now: Millis) -> Option<u64> {
    match world.runner_listen(session, now).expect("the session lives") {
        Message::Job(offer) => Some(offer.id),
        Message::Nothing | Message::Deregistered => None,
    }
}

/// The webhook actions that left GitHub, with their jobs.
pub(crate) fn sent(happened: &[Happening]) -> Vec<(u64, String)> {
    happened
        .iter()
        .filter_map(|happening| match happening {
            Happening::Webhook(delivery) => Some((delivery.job, delivery.action.clone())),
            _ => None,
        })
        .collect()
}

/// A runner that has just been handed the one job there is.
pub(crate) fn busy_runner(world: &mut World) -> (u64, String, u64) {
    let id = world.queue_job(&job(&["linux"]), T0).unwrap();
    let (runner, session) = runner(world, "r-1", &["linux"], T0);
    assert_eq!(listen(world, &session, T0), Some(id));
    (runner, session, id)
}

/// Everything that has happened, deliveries due now included.
pub(crate) fn happenings(world: &mut World) -> Vec<Happening> {
    world.advance(T0 + 1_000_000);
    world.take_happenings()
}
