//! Machine images: what operators order, and what the machines of a build are handed.

use std::rc::Rc;
use std::slice;

use muster_cloud::github::Agents;
use muster_conformance::records;
use muster_control::context::Context;
use muster_control::images::{ImageBuilds, ImagesReport};
use muster_control::ports::{
    Github as _, ImageStore as _, NewImage, ReadError, Registrar, Unavailable,
};
use muster_control::runner_api::{Handout, MachineReport, RunnerApi, RunnerApiError};
use muster_control::{Damage, Settings};
use muster_domain::agent::{AgentOffer, AgentReport};
use muster_domain::ec2::Arch;
use muster_domain::ids::{FamilyKey, ImageId};
use muster_domain::image::{
    Build, BuildReason, BuildStep, BuiltImage, EC2_CREATES_FOR, EC2_HIDES_FOR, Family, Images,
    Trust, UnusedImage,
};
use muster_domain::instance::{Ages, Baked, BootMethod, BuildPart, Instance, ReportError};
use muster_domain::launch::plan::STACK_TAG;
use muster_domain::pool::{self, Pool};
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_sim::executor::Pause;
use muster_sim::fault::Fault;
use muster_sim::schedule;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::listings::answer;

fn image(n: u32) -> ImageId {
    format!("ami-{n:08x}").parse().expect("an image")
}

fn key(text: &str) -> FamilyKey {
    text.parse().expect("a family")
}

fn ask(bench: &Bench, mut request: Value) -> Value {
    request["version"] = json!(1);
    request["action"] = json!("images");
    bench.drive(answer(bench, request))
}

fn built(bench: &Bench, n: u32) -> BuiltImage {
    BuiltImage {
        id: image(n),
        name: format!("small-{n}-0"),
        built_at: bench.door.now(),
        agent: None,
        scripts: "1-a".into(),
        boot: BootMethod::Unit,
        why: None,
        disk_gib: 8,
        used_bytes: 1,
        untried: None,
        trust: Trust::Proven,
    }
}

/// Two families: of x64 with two images, and of Graviton with one.
fn stocked() -> Bench {
    let plain = schedule::pool("small", &["linux"], 9, "spot", None);
    let arm = Pool { arch: Some(Arch::Arm64), ..schedule::pool("arm", &["arm"], 9, "spot", None) };
    let bench = Bench::of(vec![plain, arm]);
    let family = |current, previous: Option<u32>| Family {
        current: Some(built(&bench, current)),
        previous: previous.map(|n| built(&bench, n)),
        ..Family::default()
    };
    let families = [(key("x64"), family(2, Some(1))), (key("arm64"), family(3, None))];
    let images = Images { on: true, families: families.into(), ..Images::default() };
    bench.put(&[Change::create(images).into()]);
    bench
}

fn current(bench: &Bench, family: &str) -> Option<ImageId> {
    let images = bench.change(|world| world.tables.images.clone())?;
    images.families.get(&key(family))?.current.as_ref().map(|image| image.id.clone())
}

/// Columns: the order; what its answer says of the first change, or the error; the images that machines boot then, of x64 and
/// of Graviton; and how many are going to be deleted.
#[test]
fn each_order_changes_what_it_says_and_a_dry_run_nothing() {
    let rows: [(Value, &str, Option<u32>, Option<u32>, usize); 12] = [
        (json!({}), "", Some(2), Some(3), 0),
        (json!({ "order": "on" }), "", Some(2), Some(3), 0),
        (json!({ "order": "off" }), "images are off", Some(2), Some(3), 0),
        (
            json!({ "order": "build", "family": "x64" }),
            "an image for x64 is built",
            Some(2),
            Some(3),
            0,
        ),
        (
            json!({ "order": "rollback" }),
            "error: name a \"family\": arm64, x64",
            Some(2),
            Some(3),
            0,
        ),
        (
            json!({ "order": "rollback", "family": "x64" }),
            "machines of x64 boot ami-00000001 instead of",
            Some(1),
            Some(3),
            1,
        ),
        (
            json!({ "order": "rollback", "family": "arm64" }),
            "machines of arm64 boot the launch template",
            Some(2),
            None,
            1,
        ),
        (
            json!({ "order": "delete", "family": "arm64" }),
            "image ami-00000003 of arm64 is deleted",
            Some(2),
            None,
            1,
        ),
        (json!({ "order": "delete" }), "images are off", None, None, 3),
        (
            json!({ "order": "build", "family": "x86" }),
            "error: there is no image family x86; there are: x64, arm64",
            Some(2),
            Some(3),
            0,
        ),
        (
            json!({ "order": "off", "family": "x64" }),
            "error: images are turned on and off for all pools",
            Some(2),
            Some(3),
            0,
        ),
        (json!({ "order": "erase" }), "error: unknown variant", Some(2), Some(3), 0),
    ];
    for (request, said, x64, arm, unused) in rows {
        for is_dry in [true, false] {
            if is_dry && request["order"].is_null() {
                continue;
            }
            let bench = stocked();
            let mut order = request.clone();
            if is_dry {
                order["dry_run"] = json!(true);
            }
            let answer = ask(&bench, order);
            let error = answer["error"]["message"].as_str().map(|error| format!("error: {error}"));
            let change = answer["changes"][0].as_str().map(str::to_owned);
            if !request["family"].is_null() && change.is_some() {
                assert_eq!(answer["changes"].as_array().map(Vec::len), Some(1), "{request}");
            }
            let found = error.or(change).unwrap_or_default();
            assert!(
                found.starts_with(said) && found.is_empty() == said.is_empty(),
                "{request}: {found}"
            );
            let (x64, arm, unused) =
                if is_dry { (Some(2), Some(3), 0) } else { (x64, arm, unused) };
            assert_eq!(current(&bench, "x64"), x64.map(image), "{request}");
            assert_eq!(current(&bench, "arm64"), arm.map(image), "{request}");
            let left =
                bench.change(|world| world.tables.images.as_ref().map(|all| all.unused.len()));
            assert_eq!(left, Some(unused), "{request}");
            // One line of the audit trail for what was changed, with the operator's name.
            let lines = bench.change(|world| world.tables.audits.len());
            let changes = !is_dry && !said.is_empty() && !said.starts_with("error");
            assert_eq!(lines, usize::from(changes), "{request}");
        }
    }
}

#[test]
fn a_build_needs_images_that_are_on_and_is_ordered_once() {
    let bench = Bench::new();
    let refused = ask(&bench, json!({ "order": "build" }));
    assert_eq!(refused["error"]["message"], "images are off; turn them on first: muster image on");
    let on = json!({ "order": "on", "by": "ada", "reason": "  " });
    assert_eq!(ask(&bench, on)["on"], true);
    let first = ask(&bench, json!({ "order": "build", "by": "ada", "reason": "a new hook" }));
    assert_eq!(first["families"][0]["ordered_by"], "ada");
    assert_eq!(ask(&bench, json!({ "order": "build", "by": "eve" }))["changes"], Value::Null);
    let lines = bench.change(|world| world.tables.audits.clone());
    let told: Vec<&str> = lines.iter().map(|line| line.why.as_str()).collect();
    assert!(told.iter().all(|why| !why.trim_end().ends_with(':')), "{told:?}");
    assert!(
        told.iter().any(|why| why.ends_with("as soon as a machine is available: a new hook")),
        "{told:?}"
    );
}

/// What machines of a build, and others, are handed for their first request.
#[test]
fn a_builder_gets_a_script_and_no_registration() {
    let pool = Pool {
        image_hook: Some("install tools".to_owned()),
        boot_hook: Some("log in".to_owned()),
        ..schedule::pool(records::POOL, &["linux"], 9, "spot", None)
    };
    let digest = "0".repeat(64);
    let rows: [(&str, fn(&mut Instance), Option<&str>, Option<&str>); 4] = [
        ("a machine without an image", |_| (), Some("(\ninstall tools\n)\nlog in"), Some("linux")),
        ("a machine of an image", |one| one.image = Some(image(1)), Some("log in"), Some("linux")),
        (
            "a trial",
            |one| {
                one.image = Some(image(1));
                one.build = Some(BuildPart::Trial);
            },
            Some("log in"),
            Some("muster-trial-"),
        ),
        (
            "a builder",
            |one| one.build = Some(BuildPart::Builder { boot: BootMethod::Unit, baked: None }),
            Some("install tools"),
            None,
        ),
    ];
    for (what, change, hook, label) in rows {
        let bench = Bench::of(vec![pool.clone()]);
        bench.change(|world| {
            world.github.truth.agents =
                Agents::listing("2.336.0", "https://github.com/actions", &digest);
        });
        let mut machine = records::running(1, None);
        change(&mut machine);
        bench.store(slice::from_ref(&machine));
        let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
        let context = Context::new(door, door, door, door, settings);
        let pass = RunnerApi { context, owner: machine.name.clone().into(), role: None };
        let report = AgentReport { arch: Arch::X64, version: None };
        let handout = bench.drive(pass.configure(Some(report), Ages::default(), door.now()));
        let found = match handout {
            Ok(Handout::Runner(config)) => config.boot_hook,
            Ok(Handout::Builder(order)) => {
                assert_eq!(order.boot, BootMethod::Unit);
                assert!(matches!(order.agent, Some(AgentOffer::Download(_))), "{:?}", order.agent);
                order.image_hook
            }
            Err(error) => panic!("{what}: {error}"),
        };
        assert_eq!(found.as_deref(), hook, "{what}");
        let labels: Vec<Vec<String>> = bench.change(|world| {
            world.github.truth.runners().map(|one| one.labels.iter().cloned().collect()).collect()
        });
        match label {
            Some(label) => {
                assert!(labels[0].iter().any(|own| own.starts_with(label)), "{what}: {labels:?}");
            }
            None => assert!(labels.is_empty(), "{what}: {labels:?}"),
        }
        // A disk is ready only on a builder.
        let baked =
            MachineReport::Baked { agent: None, boot: BootMethod::Unit, why: None, disk_bytes: 1 };
        let reported = bench.drive(pass.report(&baked, door.now() + Seconds(60))).err();
        let wanted = (what != "a builder")
            .then_some(RunnerApiError::Refused(ReportError::OtherRegistration));
        assert_eq!(reported, wanted, "{what}");
    }
}

fn sweep(bench: &Bench) -> ImagesReport {
    sweep_with(bench, &bench.door.sim.settings)
}

fn sweep_with(bench: &Bench, settings: &Settings) -> ImagesReport {
    let door = &bench.door;
    let pass = ImageBuilds { context: Context::new(door, door, door, door, settings) };
    bench.drive(pass.run(door.now()))
}

fn trying(bench: &Bench, lost: u32) -> BuildStep {
    let trial = Some("small-l8-0".parse().expect("a name"));
    BuildStep::Trying { since: bench.door.now(), image: Box::new(built(bench, 1)), trial, lost }
}

fn creating(bench: &Bench, seconds: u32) -> BuildStep {
    let baked = Baked {
        at: bench.door.now(),
        agent: None,
        boot: BootMethod::Unit,
        why: None,
        disk_bytes: 1,
    };
    let since = bench.door.now() - Seconds(seconds);
    BuildStep::Creating { since, baked, image: Some(image(9)) }
}

fn registrar(instance: &Instance) -> Registrar {
    Registrar { entity: instance.entity.clone(), installation: instance.installation }
}

fn build(since: Time, step: BuildStep) -> Build {
    Build {
        pool: "small".parse().expect("a pool"),
        builder: "small-l7-0".parse().expect("a name"),
        launch: "small-l7".parse().expect("a launch"),
        since,
        reason: BuildReason::First,
        by: None,
        scripts: "1-a".into(),
        step,
    }
}

/// A build whose machines are on no record, and whose image EC2 does not show. Columns: the step; whether the build goes on,
/// and then how many trials it has lost; how its end is recorded; whether the image is used.
#[test]
fn a_build_that_loses_its_machines_or_its_image_goes_on_or_ends() {
    type Row = (fn(&Bench) -> BuildStep, Option<u32>, &'static str, bool);
    let rows: [Row; 7] = [
        (|_| BuildStep::Preparing, None, "was lost, and starts again soon", false),
        (|bench| trying(bench, 0), Some(1), "", false),
        (|bench| trying(bench, 3), Some(4), "", false),
        (|bench| trying(bench, 4), None, "; not tried: EC2 ended 5 machines that tried it", true),
        (|bench| creating(bench, 0), Some(0), "", false),
        (|bench| creating(bench, EC2_HIDES_FOR.0 - 5), Some(0), "", false),
        (
            |bench| creating(bench, EC2_HIDES_FOR.0 + 5),
            None,
            "EC2 no longer shows the image",
            false,
        ),
    ];
    for (number, (step, lost, end, is_used)) in rows.into_iter().enumerate() {
        let pool = schedule::pool("small", &["linux"], 9, "spot", Some("acme"));
        let bench = Bench::of(vec![pool]);
        let build = build(bench.door.now(), step(&bench));
        let family = Family { build: Some(build), ..Family::default() };
        let families = [(key("x64"), family)].into();
        let images = Images { on: true, families, ..Images::default() };
        bench.put(&[Change::create(images).into()]);
        assert_eq!(sweep(&bench).problems, [] as [&str; 0], "row {number}");
        let record = bench.change(|world| world.tables.images.clone()).expect("a record");
        let found = record.families[&key("x64")].build.as_ref().map(|build| match &build.step {
            BuildStep::Trying { trial, lost, .. } => {
                assert!(trial.as_ref().is_some_and(|trial| trial.as_str() != "small-l8-0"));
                *lost
            }
            BuildStep::Preparing | BuildStep::Creating { .. } => 0,
        });
        assert_eq!(found, lost, "row {number}");
        assert_eq!(current(&bench, "x64").is_some(), is_used, "row {number}");
        let lines = bench.change(|world| world.tables.audits.clone());
        let ends: Vec<&str> = lines.iter().map(|line| line.why.as_str()).collect();
        let is_told = ends.iter().any(|why| why.ends_with(end));
        assert!(is_told == lost.is_none(), "row {number}: {ends:?}");
    }
}

/// An image of a machine of the stack.
fn created(bench: &Bench) -> ImageId {
    let machine = bench.change(|world| {
        let number = world.make_machine(None);
        world.ec2.cloud.at_mut(number as usize).launched_at -= 600_000;
        world.ec2.at(number).id.clone()
    });
    bench.drive(Pause::new(&bench.door.sim, 600_000));
    let tags = [(STACK_TAG.to_owned(), schedule::STACK.to_owned())].into();
    let new = NewImage { name: "lost".to_owned(), description: String::new(), tags };
    bench.drive(bench.door.create_image(&machine, &new)).expect("created")
}

/// An image that no record names may be one whose answer was lost a moment ago.
#[test]
fn an_image_that_no_record_names_is_given_up_after_two_hours() {
    for (age, is_given_up) in [(7_100, false), (7_300, true)] {
        let bench = Bench::new();
        let made = created(&bench);
        bench.put(&[Change::create(Images::default()).into()]);
        bench.change(|world| world.now += age * 1_000);
        assert_eq!(sweep(&bench).problems, [] as [&str; 0], "{age} s");
        let record = bench.change(|world| world.tables.images.clone()).expect("a record");
        let is_gone = bench.change(|world| world.ec2.images().next().is_none());
        assert_eq!(record.unused.contains_key(&made) || is_gone, is_given_up, "{age} s");
    }
}

/// A pool may be enabled again, and an operator may roll back. Columns: what names the image, whether it is due; whether it
/// and its snapshots are deleted.
#[test]
fn an_unused_image_is_deleted_unless_something_names_it() {
    type Row = (&'static str, fn(&mut Settings, &mut Family, BuiltImage), u32, bool);
    fn name(settings: &mut Settings, image: &BuiltImage) {
        settings.pools[0].image = Some(pool::Image::Id(image.id.to_string()));
    }
    let rows: [Row; 7] = [
        ("nothing", |_, _, _| (), 0, true),
        ("nothing, but it is not due", |_, _, _| (), 5, false),
        ("a pool", |settings, _, image| name(settings, &image), 0, false),
        (
            "a disabled pool",
            |settings, _, image| {
                name(settings, &image);
                settings.pools[0].enabled = false;
            },
            0,
            false,
        ),
        ("the current image", |_, family, image| family.current = Some(image), 0, false),
        ("the previous image", |_, family, image| family.previous = Some(image), 0, false),
        (
            "a trial",
            |_, family, image| {
                let since = image.built_at;
                let step = BuildStep::Trying {
                    since,
                    image: Box::new(image),
                    trial: Some("small-l8-0".parse().expect("a name")),
                    lost: 0,
                };
                family.build = Some(build(since, step));
            },
            0,
            false,
        ),
    ];
    for (what, change, due, is_deleted) in rows {
        let bench = Bench::new();
        let id = created(&bench);
        bench.drive(Pause::new(&bench.door.sim, 600_000));
        let (mut settings, mut family) = (bench.door.sim.settings.clone(), Family::default());
        let image = BuiltImage { id: id.clone(), ..built(&bench, 1) };
        change(&mut settings, &mut family, image);
        let unused = UnusedImage { at: bench.door.now() + Seconds(due), snapshots: Vec::new() };
        let families = [(key("x64"), family)].into();
        let unused = [(id, unused)].into();
        let images = Images { on: true, families, unused, ..Images::default() };
        bench.put(&[Change::create(images).into()]);
        assert_eq!(sweep_with(&bench, &settings).problems, [] as [&str; 0], "{what}");
        let left =
            bench.change(|world| (world.ec2.images().count(), world.ec2.snapshots().count()));
        assert_eq!(left == (0, 0), is_deleted, "{what}: {left:?}");
    }
}

/// What EC2 did not delete is still on record, and the next sweep repeats the call.
#[test]
fn an_image_whose_deletion_fails_is_deleted_by_a_later_sweep() {
    let bench = Bench::new();
    let id = created(&bench);
    bench.drive(Pause::new(&bench.door.sim, 600_000));
    let unused = UnusedImage { at: bench.door.now(), snapshots: Vec::new() };
    let images = Images { unused: [(id, unused)].into(), ..Images::default() };
    bench.put(&[Change::create(images).into()]);
    for (rate, left) in [(1_000_000, 1), (0, 0)] {
        bench.change(|world| world.fault_rates.set(Fault::DeregisterFailed, rate));
        assert_eq!(sweep(&bench).problems.len(), left);
        let record = bench.change(|world| world.tables.images.clone()).expect("a record");
        let images = bench.change(|world| world.ec2.images().count());
        assert_eq!((record.unused.len(), images), (left, left));
    }
}

/// Columns: whether the trial's record says that its runner listens, whether GitHub shows it online; whether the image is
/// used.
#[test]
fn an_image_is_used_once_the_runner_of_its_trial_is_online() {
    for (listens, is_online, is_used) in
        [(true, true, true), (true, false, false), (false, true, false), (false, false, false)]
    {
        let bench = Bench::new();
        let mut trial = bench.booting();
        trial.build = Some(BuildPart::Trial);
        let (now, labels) = (bench.door.now(), ["muster-trial".to_owned()]);
        trial.ask_configuration(now).expect("asked");
        let name = trial.runner_name();
        let registered = bench.drive(bench.door.configure(&registrar(&trial), &name, &labels, 1));
        let Ok(registered) = registered else { panic!("not registered") };
        trial.configured(registered.runner, now);
        if listens {
            trial.runner_started(&name, now, &Timings::default()).expect("started");
        }
        if is_online {
            bench.change(|world| {
                let at = world.now;
                world.github.truth.connect(registered.runner.0, None, at).expect("connected");
            });
        }
        bench.store(slice::from_ref(&trial));
        let image = Box::new(built(&bench, 1));
        let trial = Some(trial.name);
        let step = BuildStep::Trying { since: now, image, trial, lost: 0 };
        let family = Family { build: Some(build(now, step)), ..Family::default() };
        let families = [(key("x64"), family)].into();
        bench.put(&[Change::create(Images { on: true, families, ..Images::default() }).into()]);
        assert_eq!(sweep(&bench).problems, [] as [&str; 0]);
        let used = current(&bench, "x64").is_some();
        assert_eq!(used, is_used, "listens {listens}, online {is_online}");
    }
}

/// Columns: whether the trial had requested its configuration; then whether the unit is given up, how many failures count,
/// and whether the next build waits.
#[test]
fn a_trial_that_booted_and_failed_later_does_not_blame_the_unit() {
    for (booted, gives_up, failures, waits) in [(false, true, 0, false), (true, false, 1, true)] {
        let bench = Bench::new();
        let mut trial = bench.booting();
        trial.build = Some(BuildPart::Trial);
        let now = bench.door.now();
        if booted {
            trial.ask_configuration(now).expect("asked");
        }
        let log = Some("the boot hook failed".to_owned());
        trial.runner_ended(None, log, now, &Timings::default());
        bench.store(slice::from_ref(&trial));
        let image = Box::new(built(&bench, 1));
        let step = BuildStep::Trying { since: now, image, trial: Some(trial.name), lost: 0 };
        let family = Family { build: Some(build(now, step)), ..Family::default() };
        let families = [(key("x64"), family)].into();
        bench.put(&[Change::create(Images { on: true, families, ..Images::default() }).into()]);
        assert_eq!(sweep(&bench).problems, [] as [&str; 0]);
        let record = bench.change(|world| world.tables.images.clone()).expect("a record");
        let family = &record.families[&key("x64")];
        assert_eq!(family.build, None, "booted {booted}");
        assert_eq!(family.unit_fails.is_some(), gives_up, "booted {booted}");
        assert_eq!(record.failures(), failures, "booted {booted}");
        assert_eq!(family.not_before.is_some(), waits, "booted {booted}");
        let why = family.failure.as_ref().map(|failure| failure.why.as_str());
        assert!(why.is_none_or(|why| why.contains("the boot hook failed")), "{why:?}");
    }
}

/// It may take EC2 hours, and long after an image is usually shown.
#[test]
fn a_build_waits_for_an_image_that_ec2_still_creates() {
    for (seconds, goes_on) in [(EC2_HIDES_FOR.0 + 5, true), (EC2_CREATES_FOR.0 + 5, false)] {
        let bench = Bench::new();
        let id = created(&bench);
        let BuildStep::Creating { since, baked, .. } = creating(&bench, seconds) else {
            unreachable!("it creates")
        };
        let step = BuildStep::Creating { since, baked, image: Some(id) };
        let family = Family { build: Some(build(since, step)), ..Family::default() };
        let families = [(key("x64"), family)].into();
        bench.put(&[Change::create(Images { on: true, families, ..Images::default() }).into()]);
        assert_eq!(sweep(&bench).problems, [] as [&str; 0]);
        let record = bench.change(|world| world.tables.images.clone()).expect("a record");
        assert_eq!(record.families[&key("x64")].build.is_some(), goes_on, "after {seconds} s");
    }
}

/// Then no family has a pool, and its build would be cancelled.
#[test]
fn nothing_happens_to_images_while_the_pools_are_unknown() {
    let bench = Bench::new();
    let now = bench.door.now();
    let family = Family { build: Some(build(now, creating(&bench, 0))), ..Family::default() };
    let images = Images { on: true, families: [(key("x64"), family)].into(), ..Images::default() };
    bench.put(&[Change::create(images.clone()).into()]);
    let error = ReadError::Unavailable(Unavailable::new("simulated"));
    let damage = Some(Damage { error, is_bridged: false });
    let settings = Settings { pools: Vec::new(), damage, ..bench.door.sim.settings.clone() };
    assert_eq!(sweep_with(&bench, &settings), ImagesReport::default());
    let record = bench.change(|world| world.tables.images.clone()).expect("a record");
    assert_eq!(*record.record(), images);
}

#[test]
fn a_rollback_lasts_a_week_and_what_is_deleted_goes_at_once() {
    let bench = stocked();
    ask(&bench, json!({ "order": "rollback", "family": "x64" }));
    let after = |time: Time| time.since(bench.door.now()).0 / 86_400;
    let record = || bench.change(|world| world.tables.images.clone()).expect("a record");
    let quiet = record().families[&key("x64")].not_before.map(after);
    assert!(quiet.is_some_and(|days| (6..=7).contains(&days)), "{quiet:?}");
    assert!(record().unused.values().all(|unused| unused.at > bench.door.now()));
    ask(&bench, json!({ "order": "delete" }));
    assert!(record().unused.values().all(|unused| unused.at <= bench.door.now()));
}

/// The end of the build would undo them: its image becomes the current one.
#[test]
fn a_rollback_and_a_delete_are_refused_while_the_family_is_built() {
    for order in ["rollback", "delete"] {
        let bench = stocked();
        let stored = bench.change(|world| world.tables.images.clone()).expect("a record");
        let mut next = stored.record().clone();
        next.family_mut(&key("x64")).build = Some(build(bench.door.now(), BuildStep::Preparing));
        bench.put(&[stored.change(next).into()]);
        let refused = ask(&bench, json!({ "order": order, "family": "x64" }));
        assert_eq!(
            refused["error"]["message"],
            "family x64 is being built; wait for its end, or turn images off",
            "{order}"
        );
        assert_eq!(current(&bench, "x64"), Some(image(2)), "{order}");
        // That of another family is not affected.
        ask(&bench, json!({ "order": order, "family": "arm64" }));
        assert_eq!(current(&bench, "arm64"), None, "{order}");
    }
}
