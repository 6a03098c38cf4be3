//! The conformance suite (tests/conformance) at the simulator's in-process doors.
//!
//! Nothing runs here but the check: functions and machines that the world would start are not
//! started, so every effect is the check's own.

mod page;

use std::future::Future;
use std::path::Path;
use std::rc::Rc;

use muster_cloud::github::{Agents, AppOwner, HookAttributes, Manifest};
use muster_conformance::queue::Which;
use muster_conformance::records::{OTHER_POOL, POOL};
use muster_conformance::{differences, ec2, github, names, queue, run_all, setup, table};
use muster_control::Settings;
use muster_control::ports::Registrar;
use muster_domain::app::AppSettings;
use muster_domain::ec2::Arch;
use muster_domain::ids::{AppName, Entity, EntityKind, InstanceName, MachineId};
use muster_domain::job::labels::Labels;
use muster_domain::pool_file::{
    EntityId, FoundImage, FoundPlacement, FoundTemplate, ImageFilter, NamedTemplate, RunnerGroup,
};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_sim::agenda::{self, Arrival, Event, HOUR, MINUTE, Millis, SECOND, TaskId};
use muster_sim::door::Door;
use muster_sim::executor::{Pause, Sim, Work};
use muster_sim::fault::{Fault, FaultRates};
use muster_sim::github::Job;
use muster_sim::queue::{Body, Received};
use muster_sim::schedule;
use muster_sim::world::{CloudConfig, World};

const SURELY: u32 = 1_000_000;
const CHECK: TaskId = TaskId { place: 0, age: 0 };

/// A world of its own for a check.
struct Bench {
    door: Door,
}

impl Bench {
    fn new() -> Self {
        let pools =
            [POOL, OTHER_POOL].map(|name| schedule::pool(name, &["linux"], 9, "spot", None));
        let cloud_config = CloudConfig {
            replay_shows_machines: true,
            slowest_call: 1,
            redrives: true,
            by_hand: true,
        };
        let mut world = World::new(1, &pools, FaultRates::none(), cloud_config);
        ["acme", "zoo"].into_iter().for_each(|login| world.github.install(login));
        world.tables.pools = None;
        let settings =
            Settings::from_parameters(schedule::STACK.into(), pools.into(), Timings::default());
        let sim = Rc::new(Sim { world: world.into(), settings });
        Self { door: Door { sim, skew: 0, cold: false.into(), is_api: false } }
    }

    fn change<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        change(&mut self.door.sim.world.borrow_mut())
    }

    fn surely(&self, fault: Fault) {
        self.change(|world| world.fault_rates.set(fault, SURELY));
    }

    fn named(&self, kind: EntityKind, number: u64, name: &str) -> (u64, Entity) {
        let entity: Entity = name.parse().expect("an entity");
        let known = Some(entity.clone());
        self.change(|world| {
            world.names.entities.insert(EntityId { app: AppName::MAIN, kind, number }, known)
        });
        (number, entity)
    }

    fn number(&self, machine: &MachineId) -> u32 {
        self.change(|world| world.ec2.number(machine)).expect("a machine of this world")
    }

    async fn wait(&self, length: Millis) {
        Pause::new(&self.door.sim, length).await;
    }

    /// Runs a check to its end, in virtual time.
    fn drive(&self, check: impl Future<Output = ()>) {
        let mut check = Work::new(check);
        loop {
            self.change(|world| world.current = Some(CHECK));
            let done = check.poll().is_ready();
            self.change(|world| world.current = None);
            if done {
                return;
            }
            self.change(until_woken);
        }
    }
}

fn until_woken(world: &mut World) {
    loop {
        let (when, event) = world.agenda.next(Millis::MAX).expect("something to wait for");
        world.now = when;
        match event {
            Event::Wake(task) if task == CHECK => return world.wakers.wake(CHECK),
            Event::Wake(_) | Event::Kill(_) | Event::Poll(_) | Event::Tick => {}
            Event::Start(number) => drop(world.take_pending(number)),
            other => world.happen(other),
        }
    }
}

impl ec2::Ec2World for Bench {
    type Ec2 = Door;

    fn ec2(&self) -> &Door {
        &self.door
    }

    fn stack(&self) -> &str {
        &self.door.sim.settings.stack
    }

    fn more_than_a_page(&self) -> u32 {
        40
    }

    async fn settle(&self) {
        self.wait(MINUTE).await;
    }

    async fn forget_the_ended(&self) {
        self.wait(2 * HOUR).await;
    }

    async fn hide_new(&self) {
        self.surely(Fault::MachineHidden);
    }

    async fn show(&self) {
        self.wait(MINUTE).await;
    }

    async fn stop(&self, machine: &MachineId) {
        let number = self.number(machine);
        self.change(|world| world.machine_arrives(number, Arrival::Halted));
        self.wait(MINUTE).await;
    }

    async fn protect(&self, machine: &MachineId, protected: bool) {
        let number = self.number(machine);
        let until = if protected { Millis::MAX } else { 0 };
        self.change(|world| world.ec2.at_mut(number).behaviour.blocked_until = until);
    }

    async fn run_short(&self, some: bool) {
        self.surely(if some { Fault::LaunchPartial } else { Fault::LaunchNoCapacity });
    }

    async fn lack_the_spot_role(&self) {
        self.change(|world| world.ec2.without_spot = true);
    }

    async fn answer_replays_barely(&self) {
        self.change(|world| world.cloud_config.replay_shows_machines = false);
    }

    async fn fail(&self, call: ec2::Call, how: ec2::Failure) {
        use ec2::{Call, Failure};
        self.surely(match (call, how) {
            (Call::Launch, Failure::Unheard) => Fault::LaunchAnswerLost,
            (Call::Launch, Failure::Undone) => Fault::LaunchTimedOut,
            (Call::Launch, Failure::Throttled) => Fault::LaunchThrottled,
            (Call::Launch, Failure::Misconfigured) => Fault::LaunchMisconfigured,
            (Call::Launch, Failure::OverQuota) => Fault::LaunchQuota,
            (Call::Launch, Failure::RunnerApiError) => unreachable!("no check does that"),
            (Call::Terminate, Failure::RunnerApiError) => Fault::TerminateDenied,
            (Call::Terminate, Failure::Unheard) => Fault::TerminateAnswerLost,
            (Call::Terminate, _) => Fault::TerminateFailed,
            (Call::Describe | Call::Console | Call::Images, _) => Fault::DescribeFailed,
            (Call::CreateImage, Failure::Unheard) => Fault::ImageAnswerLost,
            (Call::CreateImage, Failure::RunnerApiError) => Fault::ImageDenied,
            (Call::CreateImage, _) => Fault::ImageTimedOut,
            (Call::Deregister, Failure::Unheard) => Fault::DeregisterAnswerLost,
            (Call::Deregister, Failure::RunnerApiError) => Fault::DeregisterDenied,
            (Call::Deregister, _) => Fault::DeregisterFailed,
        });
    }

    async fn mend(&self) {
        self.change(|world| world.fault_rates = FaultRates::none());
    }

    async fn print(&self, machine: &MachineId, text: &str) {
        let number = self.number(machine);
        self.change(|world| world.ec2.cloud.at_mut(number as usize).console.push_str(text));
    }

    async fn somebody_elses(&self) -> MachineId {
        let number = self.change(|world| world.make_machine(None));
        self.wait(MINUTE).await;
        self.change(|world| world.ec2.at(number).id.clone())
    }

    async fn living(&self) -> usize {
        self.change(|world| world.ec2.live())
    }

    async fn finish_images(&self) {
        self.wait(HOUR).await;
    }

    async fn fail_images(&self) {
        self.surely(Fault::ImageFails);
    }

    async fn keep_snapshots(&self) {
        self.surely(Fault::SnapshotStays);
    }

    async fn snapshots(&self) -> usize {
        self.change(|world| world.ec2.snapshots().count())
    }
}

/// Jobs of the simulator are numbered from here.
const FIRST_JOB: u64 = 1000;

fn job_number(job: u64) -> u32 {
    u32::try_from(job - FIRST_JOB).expect("a job of this world")
}

fn runner_number(world: &World, name: &str) -> u64 {
    let mut runners = world.github.truth.runners();
    runners.find(|one| one.name == name).expect("registered").id
}

fn registrar(entity: &str) -> Registrar {
    let entity = entity.parse().expect("an entity");
    Registrar { entity, installation: None }
}

impl github::GithubWorld for Bench {
    type Github = Door;

    fn github(&self) -> &Door {
        &self.door
    }

    fn organization(&self) -> Registrar {
        registrar("acme")
    }

    fn another_organization(&self) -> Registrar {
        registrar("zoo")
    }

    fn repository(&self) -> String {
        "acme/web".into()
    }

    fn now(&self) -> Time {
        self.door.now()
    }

    async fn queue_job(&self) -> u64 {
        self.change(|world| {
            let number = u32::try_from(world.github.jobs.len()).expect("few");
            let job = Job::planned(number, "acme/web", true, Labels::default(), None);
            world.github.jobs.push(job);
            world.queue_job(number);
            FIRST_JOB + u64::from(number)
        })
    }

    async fn connect(&self, runner: &str) {
        self.change(|world| {
            let (id, now) = (runner_number(world, runner), world.now);
            // It may be there already.
            let _ = world.github.truth.connect(id, None, now);
        });
    }

    async fn take(&self, job: u64, runner: &str) {
        self.connect(runner).await;
        self.change(|world| {
            let id = runner_number(world, runner);
            world.assign(job_number(job), id);
        });
    }

    async fn end(&self, job: u64, conclusion: &'static str) {
        let number = job_number(job);
        self.change(|world| {
            let taken = world.github.truth_of(number).and_then(|job| job.runner.clone());
            world.agent_done(taken.expect("taken").id, number, conclusion);
        });
    }

    async fn close_door(&self) {
        self.change(|world| world.github.script.fail_next = u32::MAX);
    }

    async fn a_moment(&self) {
        self.wait(SECOND).await;
    }

    async fn cancel(&self, job: u64) {
        self.change(|world| world.cancel_job(job_number(job)));
    }

    async fn lie(&self) {
        self.change(|world| world.github.script.always_lies = true);
    }

    async fn list_from_cache(&self) {
        self.surely(Fault::ListCached);
    }

    async fn list_agent(&self, version: &str) {
        let agents = Agents::listing(version, "https://github.com", &"0".repeat(64));
        self.change(|world| world.github.truth.agents = agents);
    }

    async fn fail(&self, how: github::Failure) {
        use github::Failure;
        self.surely(match how {
            Failure::Broken => Fault::GithubFails,
            Failure::Unauthorized | Failure::Forbidden => Fault::Unauthorized,
            Failure::TooMany | Failure::LimitUsedUp => Fault::RateLimited,
            Failure::Unheard => Fault::ConfigureAnswerLost,
        });
        if how == Failure::Unheard {
            self.surely(Fault::DeleteAnswerLost);
        }
    }

    async fn mend(&self) {
        self.change(|world| world.fault_rates = FaultRates::none());
    }

    async fn registered(&self) -> Vec<String> {
        let names = |world: &mut World| {
            world.github.truth.runners().map(|runner| runner.name.clone()).collect()
        };
        self.change(names)
    }
}

impl names::NamesWorld for Bench {
    type Github = Door;
    type Ec2 = Door;

    fn github(&self) -> &Door {
        &self.door
    }

    fn ec2(&self) -> &Door {
        &self.door
    }

    async fn organization(&self) -> (u64, Entity) {
        self.named(EntityKind::Organization, 9919, "acme")
    }

    async fn repository(&self) -> (u64, Entity) {
        self.named(EntityKind::Repository, 77, "acme/web")
    }

    async fn have_app(&self, app: &AppSettings) {
        self.change(|world| world.app.app = Ok(app.clone()));
    }

    async fn have_group(&self, id: u64, name: &str) {
        let group = |id, name: &str| RunnerGroup::new(id, name);
        let groups = vec![group(1, "Default"), group(id, name)];
        let acme = "acme".parse().expect("an entity");
        self.change(|world| world.names.groups.insert(acme, groups));
    }

    /// The simulator's EC2 knows filters, not images.
    async fn have_images(&self, arch: Arch, images: &[(&str, &str)]) {
        let name = "runner-*".to_owned();
        let filter = ImageFilter { name, owner: "self".to_owned(), arch };
        let fitting = images.iter().rfind(|(_, name)| name.starts_with("runner-"));
        let newest =
            fitting.map(|(id, name)| FoundImage { id: (*id).to_owned(), name: (*name).to_owned() });
        self.change(|world| world.names.images.insert(filter, newest));
    }

    async fn have_template(&self, id: &str, versions: u64, tags: &[(&str, &str)]) {
        let tag = |key| tags.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
        let found = |version: u64, (boot, _): (&str, &str)| FoundTemplate {
            version,
            is_ours: tag("muster:stack") == Some(names::STACK),
            role: tag("muster:role").map(str::to_owned),
            device: Some("/dev/sdf".to_owned()),
            user_data: boot.to_owned(),
        };
        let named = |version| NamedTemplate { id: id.to_owned(), version };
        self.change(|world| {
            let known = &mut world.names.templates;
            for (number, boot) in (1..=versions).zip(names::BOOTS) {
                known.insert(named(None), Some(found(number, boot)));
                known.insert(named(Some(number)), Some(found(number, boot)));
            }
        });
    }

    async fn have_placement_group(&self, name: &str, tags: &[(&str, &str)]) {
        let is_ours = tags.contains(&("muster:stack", names::STACK));
        let found = Some(FoundPlacement { is_ours, is_cluster: true });
        self.change(|world| world.names.placements.insert(name.to_owned(), found));
    }

    async fn fall_silent(&self) {
        self.surely(Fault::GithubFails);
        self.surely(Fault::DescribeFailed);
    }
}

impl setup::SetupWorld for Bench {
    type Github = Door;

    fn github(&self) -> &Door {
        &self.door
    }

    fn api(&self) -> String {
        "https://api.github.com".to_owned()
    }

    async fn make_app(&self, name: &str, ago: Seconds, hook: bool) -> String {
        let url = Some("https://elsewhere.example/webhook".to_owned());
        let manifest = Manifest {
            hook_attributes: hook.then_some(HookAttributes { url, active: false }),
            ..Manifest::default()
        };
        let owner = AppOwner { login: "acme".to_owned(), id: 9919, is_organization: true };
        self.change(|world| {
            let then = world.now - SECOND * Millis::from(ago.0);
            world.github.make_app(owner, name, &manifest, then)
        })
    }

    async fn told(&self, app: &str) -> (Option<String>, Option<String>) {
        self.change(|world| {
            let truth = &world.github.truth;
            let url = truth.hook(app).and_then(|hook| hook.url.clone());
            (url, truth.hook_secret(app).map(str::to_owned))
        })
    }
}

impl table::TableWorld for Bench {
    type Table = Door;

    fn table(&self) -> &Door {
        &self.door
    }

    async fn spoil(&self, instance: &InstanceName) {
        self.change(|world| world.tables.unreadable.insert(instance.clone()));
    }
}

fn which(which: Which) -> agenda::Which {
    match which {
        Which::Jobs => agenda::Which::Jobs,
        Which::Launch => agenda::Which::Launch,
        Which::Reap => agenda::Which::Reap,
    }
}

impl queue::QueueWorld for Bench {
    type Queue = Door;

    fn queue(&self) -> &Door {
        &self.door
    }

    async fn receive(&self, from: Which) -> Vec<queue::Received> {
        // A message takes a moment to arrive.
        self.wait(SECOND / 10).await;
        let batch = self.change(|world| {
            let now = world.now;
            world.queues.of(which(from)).receive(10, now)
        });
        let told = |received: Received| queue::Received {
            receipt: received.receipt(),
            receives: received.receives,
            body: match &*received.body {
                Body::Jobs(message) => queue::Body::Jobs(message.clone()),
                Body::Reap(message) => queue::Body::Reap(message.clone()),
            },
        };
        batch.into_iter().map(told).collect()
    }

    async fn delete(&self, from: Which, received: &queue::Received) {
        let (id, _) = received.receipt.split_once('/').expect("a receipt of the simulator");
        let id = id.parse().expect("a number");
        let body = Rc::new(match received.body.clone() {
            queue::Body::Jobs(message) => Body::Jobs(message),
            queue::Body::Reap(message) => Body::Reap(message),
        });
        let received = Received { id, receives: received.receives, body };
        self.change(|world| world.acknowledge(which(from), &received));
    }

    async fn pass(&self, seconds: u32) {
        self.wait(Millis::from(seconds) * SECOND).await;
    }

    async fn lapse(&self) {
        self.wait(7 * MINUTE).await;
    }
}

#[test]
fn ec2_is_as_the_passes_know_it() {
    let run = |name: &str| {
        let bench = Bench::new();
        bench.drive(ec2::check(name, &bench));
    };
    assert!(run_all(ec2::CHECKS, differences::SIMULATOR_EC2, run) >= 40);
}

#[test]
fn github_is_as_the_passes_know_it() {
    let run = |name: &str| {
        let bench = Bench::new();
        bench.drive(github::check(name, &bench));
    };
    assert!(run_all(github::CHECKS, differences::SIMULATOR_GITHUB, run) >= 30);
}

#[test]
fn the_app_is_set_up_as_the_admin_function_knows_it() {
    let run = |name: &str| {
        let bench = Bench::new();
        bench.drive(setup::check(name, &bench));
    };
    assert_eq!(run_all(setup::CHECKS, differences::SIMULATOR_SETUP, run), setup::CHECKS.len());
}

#[test]
fn names_are_as_the_admin_function_knows_them() {
    let run = |name: &str| {
        let bench = Bench::new();
        bench.drive(names::check(name, &bench));
    };
    assert_eq!(run_all(names::CHECKS, differences::SIMULATOR_NAMES, run), names::CHECKS.len());
}

#[test]
fn the_tables_are_as_the_passes_know_them() {
    let run = |name: &str| {
        let bench = Bench::new();
        bench.drive(table::check(name, &bench));
    };
    assert!(run_all(table::CHECKS, differences::SIMULATOR_TABLE, run) >= 65);
}

#[test]
fn the_queues_are_as_the_passes_know_them() {
    let run = |name: &str| {
        let bench = Bench::new();
        bench.drive(queue::check(name, &bench));
    };
    assert!(run_all(queue::CHECKS, differences::SIMULATOR_QUEUE, run) >= 15);
}

/// A simulator with other queues than the template's would show another product.
#[test]
fn the_simulated_queues_are_the_templates() {
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../template.yaml");
    let template = std::fs::read_to_string(template).expect("readable");
    let told = |key: &str| -> Vec<u64> {
        let told = template.split(key).skip(1);
        let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        told.filter_map(number).collect()
    };
    let ours = [muster_sim::queue::JOBS, muster_sim::queue::LAUNCH, muster_sim::queue::REAP];
    assert_eq!(told("maxReceiveCount: "), ours.map(|one| u64::from(one.most_receives)));
    assert_eq!(told("BatchSize: "), ours.map(|one| one.batch));
    assert_eq!(told("MaximumConcurrency: "), ours.map(|one| u64::from(one.concurrency)));
}

/// The suite's page lists every difference, word for word. `UPDATE=1` writes them.
#[test]
fn the_page_lists_every_difference() {
    let row = |door: &str, (check, why): &(&str, &str)| format!("| {door} | `{check}` | {why} |");
    let all = differences::ALL.iter();
    let rows: Vec<String> =
        all.flat_map(|(door, known)| known.iter().map(move |one| row(door, one))).collect();
    page::table("conformance/README.md", "| Door | Check | Why it is left so |", &rows)
        .expect("up to date");
}
