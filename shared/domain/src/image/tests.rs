use super::*;
use crate::agent::AgentVersion;
use crate::ids::PoolName;
use crate::instance::{Baked, BuildPart, DeleteReason};
use crate::pool::{Disk, OwnTemplate};
use crate::testkit::{Story, With, aborted, at, boot_failed, booting, idle, pool, slot, timings};

const HOUR: u32 = 3600;
const DAY: u32 = 24 * HOUR;

fn key(text: &str) -> FamilyKey {
    text.parse().expect("a family")
}

fn id(n: u32) -> ImageId {
    format!("ami-{n:08x}").parse().expect("an image")
}

fn name(n: u32) -> InstanceName {
    slot(n).name
}

fn baked() -> Baked {
    Baked::new(at(100), Some(AgentVersion::new(2, 330, 0)), BootMethod::Unit, None, 3_000_000_000)
}

fn build(step: BuildStep) -> Build {
    Build {
        pool: pool().name,
        builder: name(90),
        launch: "default-00000001-0".parse().expect("a launch"),
        since: at(0),
        reason: BuildReason::First,
        by: None,
        scripts: "3-aaaa".into(),
        step,
    }
}

fn image(n: u32) -> BuiltImage {
    BuiltImage { trust: Trust::Proven, ..build(BuildStep::Preparing).built(id(n), &baked(), 40) }
}

fn on_probation(n: u32, machines: &[u32]) -> BuiltImage {
    let machines = machines.iter().copied().map(name).collect();
    BuiltImage { trust: Trust::Probation(machines), ..image(n) }
}

fn images(family: Family) -> Images {
    Images { on: true, families: [(key("x64"), family)].into(), ..Images::default() }
}

fn both(current: BuiltImage) -> Family {
    Family { current: Some(current), previous: Some(image(1)), ..Family::default() }
}

fn disk(size_gib: u32) -> Option<Disk> {
    Some(Disk { device: "/dev/sda1".to_owned(), size_gib, iops: None, throughput_mib: None })
}

#[test]
fn pools_share_an_image_if_their_machines_are_built_alike() {
    let canonical = || Some(Image::Ssm(format!("{CANONICAL}ubuntu/22.04/ami-id")));
    let template =
        OwnTemplate { id: "lt-2".into(), version: "1".into(), role: "AROA".into(), device: None };
    let hook = |text: &str| Some(text.to_owned());
    let rows: [(&str, Pool, Option<&str>); 10] = [
        ("plain", pool(), Some("x64")),
        (
            "Graviton by its types",
            pool().with(|p| p.instance_types = vec!["m7g.large".into()]),
            Some("arm64"),
        ),
        ("Graviton by its field", pool().with(|p| p.arch = Some(Arch::Arm64)), Some("arm64")),
        ("requirements alone", pool().with(|p| p.instance_types.clear()), Some("x64")),
        (
            "a boot hook, which runs at each boot",
            pool().with(|p| p.boot_hook = hook("true")),
            Some("x64"),
        ),
        (
            "an image of somebody's",
            pool().with(|p| p.image = Some(Image::Id("ami-0a1b2c3d".into()))),
            None,
        ),
        (
            "a parameter of somebody's",
            pool().with(|p| p.image = Some(Image::Ssm("/acme/images/x64".into()))),
            None,
        ),
        ("its own template", pool().with(|p| p.own_template = Some(template)), None),
        ("a different Ubuntu", pool().with(|p| p.image = canonical()), Some("x64-*")),
        (
            "an image hook",
            pool().with(|p| p.image_hook = hook("apt-get install gh")),
            Some("x64-*"),
        ),
    ];
    for (what, pool, wanted) in rows {
        let found = family_of(&pool).map(|key| key.to_string());
        match wanted.map(|wanted| (wanted, wanted.strip_suffix('*'))) {
            Some((_, Some(start))) => {
                let rest = found.as_deref().and_then(|found| found.strip_prefix(start));
                assert_eq!(rest.map(str::len), Some(8), "{what}: {found:?}");
            }
            Some((exact, None)) => assert_eq!(found.as_deref(), Some(exact), "{what}"),
            None => assert_eq!(found, None, "{what}"),
        }
    }
    let of = |hook: &str| family_of(&pool().with(|p| p.image_hook = Some(hook.to_owned())));
    assert_ne!(of("a"), of("b"));
}

#[test]
fn a_stack_has_four_families_and_those_with_a_hook_come_first() {
    let named = |n: u32, change: &dyn Fn(&mut Pool)| {
        pool().with(|p| {
            p.name = format!("p{n}").parse().expect("a name");
            change(p);
        })
    };
    let hook = |text: &'static str| move |p: &mut Pool| p.image_hook = Some(text.to_owned());
    let pools = [
        named(0, &|_| ()),
        named(1, &|p| p.arch = Some(Arch::Arm64)),
        named(2, &hook("a")),
        named(3, &|p| p.enabled = false),
        named(4, &|p| p.removed_at = Some(at(0))),
        named(5, &|_| ()),
        named(6, &hook("b")),
        named(7, &hook("c")),
    ];
    let all: Vec<Vec<&str>> = families(&pools)
        .iter()
        .map(|(_, pools)| pools.iter().map(|pool| pool.name.as_str()).collect())
        .collect();
    assert_eq!(all, [vec!["p2"], vec!["p6"], vec!["p7"], vec!["p0", "p5"]]);
}

#[test]
fn a_builder_is_launched_with_the_smallest_disk_and_a_known_owner() {
    let of = |n: u32, size: Option<u32>, entity: Option<&str>| {
        pool().with(|p| {
            p.name = format!("p{n}").parse().expect("a name");
            p.app_owner = None;
            p.disk = size.and_then(disk);
            p.entity = entity.and_then(|entity| entity.parse().ok());
        })
    };
    let rows: [(Vec<Pool>, &str); 4] = [
        (vec![of(1, None, None), of(2, Some(20), None)], "p2"),
        (vec![of(1, None, None), of(2, Some(80), None)], "p1"),
        (vec![of(1, None, None), of(2, Some(40), Some("acme"))], "p2"),
        (vec![of(1, Some(20), None), of(2, None, Some("acme"))], "p1"),
    ];
    for (pools, wanted) in rows {
        let found = building_pool(&pools.iter().collect::<Vec<_>>()).map(|pool| pool.name.as_str());
        assert_eq!(found, Some(wanted));
    }
    assert_eq!(building_pool(&[]), None);
}

#[test]
fn a_machine_without_a_job_registers_where_the_pool_shows() {
    let of = |entity: Option<&str>, repositories: &[&str], owner: Option<&str>| {
        pool().with(|p| {
            p.entity = entity.and_then(|entity| entity.parse().ok());
            p.repositories = repositories.iter().map(|one| (*one).to_owned()).collect();
            p.app_owner = owner.and_then(|owner| owner.parse().ok());
        })
    };
    let rows = [
        (of(Some("acme"), &["zoo/app"], Some("zoo")), Some("acme")),
        (of(Some("enterprises/big"), &[], None), Some("enterprises/big")),
        (of(None, &["zoo/*"], Some("acme")), Some("zoo")),
        (of(None, &["*", "zoo/app"], Some("acme")), Some("zoo/app")),
        (of(None, &["*"], Some("acme")), Some("acme")),
        (of(None, &[], Some("enterprises/big")), None),
        (of(None, &[], None), None),
    ];
    for (pool, wanted) in rows {
        assert_eq!(home(&pool).as_ref().map(Entity::as_str), wanted, "{:?}", pool.repositories);
    }
}

/// Columns: the record, the pool's disk, and then for machines in launches of 1, 2 and 5 the images that they boot.
#[test]
fn a_new_image_is_used_for_three_machines_until_one_has_booted() {
    let none = Family::default();
    let only = |current: BuiltImage| Family { current: Some(current), ..Family::default() };
    let small = |current: BuiltImage| BuiltImage { disk_gib: 20, ..current };
    let off = |family: Family| Images { on: false, ..images(family) };
    let rows: [(&str, Images, Option<u32>, [Option<u32>; 3]); 10] = [
        ("no image", images(none), None, [None; 3]),
        ("proven", images(both(image(2))), None, [Some(2); 3]),
        ("off", off(both(image(2))), None, [None; 3]),
        ("new", images(both(on_probation(2, &[]))), None, [Some(2), Some(2), Some(1)]),
        ("one left", images(both(on_probation(2, &[1, 2]))), None, [Some(2), Some(1), Some(1)]),
        ("none left", images(both(on_probation(2, &[1, 2, 3]))), None, [Some(1); 3]),
        ("none before it", images(only(on_probation(2, &[1, 2, 3]))), None, [None; 3]),
        ("a larger disk", images(both(image(2))), Some(80), [Some(2); 3]),
        ("a disk that is too small", images(both(image(2))), Some(39), [None; 3]),
        ("a small image", images(only(small(image(2)))), Some(20), [Some(2); 3]),
    ];
    for (what, images, size, wanted) in rows {
        let pool = pool().with(|p| p.disk = size.and_then(disk));
        let mut choice = images.choice(&pool);
        let found = [1, 2, 5].map(|count| choice.take(count));
        assert_eq!(found, wanted.map(|n| n.map(id)), "{what}");
    }
    let named = pool().with(|p| p.image = Some(Image::Id("ami-0a1b2c3d".to_owned())));
    assert_eq!(images(both(image(2))).choice(&named), ImageChoice::default());
}

#[test]
fn machines_of_an_image_on_probation_are_recorded_with_it() {
    let record = images(both(on_probation(2, &[7])));
    let next = record.launched(&id(2), &[name(8), name(9)]).expect("on probation");
    assert_eq!(next.families[&key("x64")].current, Some(on_probation(2, &[7, 8, 9])));
    let again = next.launched(&id(2), &[name(9), name(6)]).expect("on probation");
    let counted = again.families[&key("x64")].current.as_ref();
    assert_eq!(counted, Some(&on_probation(2, &[7, 8, 9, 6])), "a slot counts once");
    assert_eq!(record.launched(&id(1), &[name(8)]), None, "the image before it");
    assert_eq!(images(both(image(2))).launched(&id(2), &[name(8)]), None, "proven");
}

#[test]
fn a_build_is_due_for_one_reason_at_a_time() {
    let newer = AgentVersion::new(2, 331, 0);
    let of = |change: &dyn Fn(&mut Family)| both(image(2)).with(|family| change(family));
    let plain = |_: &mut Family| ();
    let (scripts, other) = ("3-aaaa", "4-bbbb");
    let agent = |second: u32| Some((newer, at(second)));
    let rows: [(&str, Family, &str, Option<(AgentVersion, Time)>, u32, Option<BuildReason>); 14] = [
        ("fresh", of(&plain), scripts, None, 200, None),
        ("no image", of(&|f| f.current = None), scripts, None, 200, Some(BuildReason::First)),
        ("other scripts", of(&plain), other, None, 200, Some(BuildReason::Upgrade)),
        ("nearly a week", of(&plain), scripts, None, 99 + 7 * DAY, None),
        ("a week", of(&plain), scripts, None, 100 + 7 * DAY, Some(BuildReason::Age)),
        ("a new agent", of(&plain), scripts, agent(300), 299 + DAY, None),
        (
            "a new agent for a day",
            of(&plain),
            scripts,
            agent(300),
            300 + DAY,
            Some(BuildReason::Agent),
        ),
        (
            "the same agent",
            of(&plain),
            scripts,
            Some((AgentVersion::new(2, 330, 0), at(0))),
            3 * DAY,
            None,
        ),
        (
            "an unknown agent",
            of(&|f| f.current.iter_mut().for_each(|i| i.agent = None)),
            scripts,
            agent(0),
            3 * DAY,
            None,
        ),
        ("waits", of(&|f| f.not_before = Some(at(400))), other, None, 399, None),
        (
            "has waited",
            of(&|f| f.not_before = Some(at(400))),
            other,
            None,
            400,
            Some(BuildReason::Upgrade),
        ),
        (
            "ordered while it waits",
            of(&|f| {
                f.not_before = Some(at(400));
                f.ordered_by = Some("ada".to_owned());
            }),
            scripts,
            None,
            200,
            Some(BuildReason::Ordered),
        ),
        (
            "a build in progress",
            of(&|f| f.build = Some(build(BuildStep::Preparing))),
            other,
            None,
            200,
            None,
        ),
        (
            "ordered during a build",
            of(&|f| {
                f.build = Some(build(BuildStep::Preparing));
                f.ordered_by = Some("ada".to_owned());
            }),
            scripts,
            None,
            200,
            None,
        ),
    ];
    for (what, family, scripts, agent, second, wanted) in rows {
        assert_eq!(family.due(scripts, agent, at(second)), wanted, "{what}");
    }
}

/// A record with a build that has come to its trial.
fn trying() -> Images {
    let step = BuildStep::Trying {
        since: at(200),
        image: Box::new(image(3)),
        trial: Some(name(91)),
        lost: 0,
    };
    images(Family { build: Some(build(step)), ..both(image(2)) })
}

#[test]
fn the_end_of_a_build_says_what_machines_boot_and_when_the_next_one_starts() {
    let now = at(1000);
    let made = || BuildEnd::Made(Box::new(on_probation(3, &[])));
    // Columns: the end; the current and the previous image; the failures; when the next build starts; what is deleted, when.
    let rows: [(BuildEnd, u32, u32, u32, Option<u32>, &[(u32, u32)]); 5] = [
        (made(), 3, 2, 0, None, &[(1, DAY)]),
        (BuildEnd::Failed("no disk".to_owned()), 2, 1, 1, Some(HOUR), &[(3, 0)]),
        (BuildEnd::UnitFailed, 2, 1, 0, None, &[(3, 0)]),
        (BuildEnd::Lost, 2, 1, 0, Some(600), &[(3, 0)]),
        (BuildEnd::Cancelled, 2, 1, 0, None, &[(3, 0)]),
    ];
    for (end, current, previous, failures, waits, unused) in rows {
        let mut record = trying();
        record.end_build(&key("x64"), end.clone(), now);
        let family = &record.families[&key("x64")];
        let ids = (
            family.current.as_ref().map(|i| i.id.clone()),
            family.previous.as_ref().map(|i| i.id.clone()),
        );
        assert_eq!(ids, (Some(id(current)), Some(id(previous))), "{end:?}");
        assert_eq!(family.build, None, "{end:?}");
        assert_eq!(record.failures(), failures, "{end:?}");
        assert_eq!(family.not_before, waits.map(|wait| now + Seconds(wait)), "{end:?}");
        let found: Vec<(ImageId, Time)> =
            record.unused.iter().map(|(id, one)| (id.clone(), one.at)).collect();
        let wanted: Vec<(ImageId, Time)> =
            unused.iter().map(|(n, wait)| (id(*n), now + Seconds(*wait))).collect();
        assert_eq!(found, wanted, "{end:?}");
        assert_eq!(family.unit_fails.is_some(), end == BuildEnd::UnitFailed);
        let boot = family.boot_method("3-aaaa");
        assert_eq!(boot == BootMethod::CloudInit, end == BuildEnd::UnitFailed, "{end:?}");
        assert_eq!(family.boot_method("4-bbbb"), BootMethod::Unit, "scripts that were not tried");
    }
}

#[test]
fn failed_and_lost_builds_start_again_later_each_time() {
    let again = |record: &mut Images, end: &BuildEnd| {
        record.family_mut(&key("x64")).build = Some(build(BuildStep::Preparing));
        record.end_build(&key("x64"), end.clone(), at(0));
        record.families[&key("x64")].not_before.map(|at_| at_.since(at(0)).0 / 60)
    };
    let mut record = images(Family::default());
    let failed = BuildEnd::Failed("no".to_owned());
    let waits = [(); 4].map(|()| again(&mut record, &failed));
    assert_eq!(waits, [Some(60), Some(360), Some(1440), Some(1440)]);
    assert_eq!(record.failures(), 4);
    record.on = false;
    assert_eq!(record.failures(), 0, "no alarm while images are off");
    let mut record = images(Family::default());
    let waits = [(); 8].map(|()| again(&mut record, &BuildEnd::Lost));
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 360, 360].map(Some));
    record.family_mut(&key("x64")).build = Some(build(BuildStep::Preparing));
    record.end_build(&key("x64"), BuildEnd::Made(Box::new(image(1))), at(0));
    assert_eq!(again(&mut record, &BuildEnd::Lost), Some(10));
}

#[test]
fn an_operators_order_survives_a_lost_build() {
    let ordered = Build {
        reason: BuildReason::Ordered,
        by: Some("ada".to_owned()),
        ..build(BuildStep::Preparing)
    };
    let mut record = images(Family { build: Some(ordered), ..Family::default() });
    record.end_build(&key("x64"), BuildEnd::Lost, at(0));
    assert_eq!(record.families[&key("x64")].ordered_by.as_deref(), Some("ada"));
}

#[test]
fn a_rejected_image_makes_way_for_the_one_before() {
    let mut record = images(both(image(2)));
    assert_eq!(record.reject(&id(2), "EC2 rejects it", at(50)), Some(image(2)));
    let family = &record.families[&key("x64")];
    assert_eq!((family.current.as_ref(), family.previous.as_ref()), (Some(&image(1)), None));
    assert_eq!((record.failures(), family.not_before), (1, Some(at(50 + HOUR))));
    // The one before it is rejected too: the launch template's image is left.
    assert_eq!(record.reject(&id(1), "EC2 rejects it", at(60)), Some(image(1)));
    assert_eq!(record.choice(&pool()), ImageChoice::default());
    assert_eq!(
        record.reject(&id(1), "again", at(70)),
        None,
        "a second answer about the same image"
    );
    let mut record = images(both(image(2)));
    assert_eq!(record.reject(&id(1), "EC2 rejects it", at(50)), Some(image(1)), "the previous one");
    assert_eq!(record.families[&key("x64")].current, Some(image(2)));
    assert_eq!(record.failures(), 0);
}

#[test]
fn a_rollback_keeps_builds_from_starting_for_a_while() {
    let mut record = images(both(image(2)));
    assert_eq!(record.roll_back(&key("x64"), Seconds(7 * DAY), at(50)), Some(image(2)));
    let family = &record.families[&key("x64")];
    assert_eq!(family.current, Some(image(1)));
    assert_eq!(family.due("4-bbbb", None, at(40 + 7 * DAY)), None);
    assert_eq!(record.roll_back(&key("x64"), Seconds(0), at(60)), Some(image(1)));
    assert_eq!(record.roll_back(&key("x64"), Seconds(0), at(60)), None);
    assert_eq!(record.roll_back(&key("arm64"), Seconds(0), at(60)), None);
}

/// A machine whose builder's or trial's part does not matter here.
fn ended(reason: DeleteReason) -> Instance {
    booting().marked(reason, 60)
}

#[test]
fn an_end_is_the_images_fault_or_somebody_elses() {
    let failed = true;
    let by_ec2 = |code: &str| {
        booting().with(|i| {
            i.ended_by_ec2(&crate::ec2::StateReason::new(code, "gone"), at(60));
            i.set_mark(DeleteReason::MachineGone, at(60));
        })
    };
    let unlaunched = crate::testkit::error().stopping(DeleteReason::LaunchFailed, 120);
    let rows: [(&str, Instance, Option<bool>); 16] = [
        ("boots", booting(), None),
        ("waits for a job", idle(), None),
        ("did not boot", boot_failed(), Some(failed)),
        ("too slow", ended(DeleteReason::BootTimeout), Some(failed)),
        ("too old", ended(DeleteReason::MaxLifetime), Some(failed)),
        (
            "its agent ended",
            idle().with(|i| i.runner_ended(Some(1), None, at(60), &timings())),
            Some(failed),
        ),
        ("powered off", ended(DeleteReason::MachineGone), Some(failed)),
        ("disk key", by_ec2("Client.InternalError"), Some(failed)),
        ("host", by_ec2("Server.InternalError"), Some(!failed)),
        ("Spot", by_ec2("Server.SpotInstanceTermination"), Some(!failed)),
        ("by hand", by_ec2("Client.UserInitiatedShutdown"), Some(!failed)),
        ("announced", booting().with(|i| i.spot_notice(at(50))), Some(!failed)),
        ("ordered", ended(DeleteReason::Ordered), Some(!failed)),
        ("pool changed", ended(DeleteReason::Outdated), Some(!failed)),
        ("no machine", unlaunched, Some(!failed)),
        (
            "no longer needed",
            crate::testkit::creating().unclaimed().stopping(DeleteReason::NotNeeded, 60),
            Some(!failed),
        ),
    ];
    for (what, instance, wanted) in rows {
        let found = MachineEnd::of(Some(&instance));
        let is_failed = found.as_ref().map(|end| matches!(end, MachineEnd::Failed(_)));
        assert_eq!(is_failed, wanted, "{what}: {found:?}");
    }
    assert!(matches!(MachineEnd::of(None), Some(MachineEnd::Lost(_))));
    let named = |end: Option<MachineEnd>| match end {
        Some(MachineEnd::Failed(why) | MachineEnd::Lost(why)) => why,
        None => String::new(),
    };
    let why = named(MachineEnd::of(Some(&boot_failed())));
    assert_eq!(why, "its machine failed to boot; last log lines: \"no disk\"");
    let refused = crate::testkit::error().stopping(DeleteReason::LaunchFailed, 120);
    let why = named(MachineEnd::of(Some(&refused)));
    assert_eq!(why, "EC2 launched no machine: Capacity: no");
    assert!(named(MachineEnd::of(Some(&by_ec2(&aborted().code)))).starts_with("its machine ended"));
}

#[test]
fn three_machines_that_do_not_boot_reject_an_image_and_one_that_does_proves_it() {
    let asked = || crate::testkit::asking();
    let fails = boot_failed;
    let lost = || ended(DeleteReason::Ordered);
    let previous = |machine: Instance| machine.with(|i| i.image = Some(id(1)));
    let with = |machines: &[Instance]| -> BTreeMap<InstanceName, Instance> {
        let of =
            |machine: &Instance| machine.clone().with(|i| i.image = i.image.take().or(Some(id(2))));
        (1..).zip(machines).map(|(n, machine)| (name(n), of(machine))).collect()
    };
    // Columns: the machines; then the image that is current, and how many machines of it count.
    let rows: [(&str, Vec<Instance>, u32, Option<usize>); 10] = [
        ("none yet", vec![], 2, Some(0)),
        ("they boot", vec![booting(), booting()], 2, Some(2)),
        ("one has booted", vec![booting(), asked()], 2, None),
        (
            "it booted and ended",
            vec![asked().with(|i| i.runner_ended(Some(0), None, at(60), &timings()))],
            2,
            None,
        ),
        ("two failed", vec![fails(), fails()], 2, Some(2)),
        ("three failed", vec![fails(), fails(), fails()], 1, None),
        ("two failed, and one is lost", vec![fails(), lost(), fails()], 2, Some(2)),
        ("two failed, and one booted", vec![fails(), fails(), asked()], 2, None),
        (
            "one was launched again with the image before",
            vec![booting(), previous(asked())],
            2,
            Some(1),
        ),
        ("that one failed", vec![fails(), fails(), previous(fails())], 2, Some(2)),
    ];
    for (what, machines, current, counted) in rows {
        let numbers: Vec<u32> = (1..).take(machines.len()).collect();
        let mut record = images(both(on_probation(2, &numbers)));
        let machines = with(&machines);
        let verdicts = record.judge(|name| machines.get(name), at(100));
        let family = &record.families[&key("x64")];
        let found = family.current.as_ref().expect("an image");
        assert_eq!(found.id, id(current), "{what}");
        let left = match &found.trust {
            Trust::Proven => None,
            Trust::Probation(machines) => Some(machines.len()),
        };
        assert_eq!(left, counted, "{what}");
        assert_eq!(verdicts.len(), usize::from(counted.is_none()), "{what}: {verdicts:?}");
        // The unit may be why its machines do not boot: the next image boots by cloud-init.
        assert_eq!(family.unit_fails.is_some(), current == 1, "{what}");
    }
}

/// Each image passes its trial, and then no machine of a pool boots it.
#[test]
fn images_that_fail_on_probation_are_built_again_later_each_time() {
    let mut record = images(Family { current: Some(image(1)), ..Family::default() });
    let machines = [1, 2, 3].map(name);
    let judged = |record: &mut Images, n: u32, machine: Instance| {
        record.family_mut(&key("x64")).build = Some(build(BuildStep::Preparing));
        record.end_build(&key("x64"), BuildEnd::Made(Box::new(on_probation(n, &[]))), at(0));
        *record = record.launched(&id(n), &machines).expect("on probation");
        let machine = machine.with(|i| i.image = Some(id(n)));
        record.judge(|_| Some(&machine), at(0));
        let family = &record.families[&key("x64")];
        (record.failures(), family.not_before.map(|wait| wait.since(at(0)).0 / HOUR))
    };
    let found = [2, 3, 4].map(|n| judged(&mut record, n, boot_failed()));
    assert_eq!(found, [(1, Some(1)), (2, Some(6)), (3, Some(24))]);
    // A machine that boots one ends it.
    assert_eq!(judged(&mut record, 5, crate::testkit::asking()), (0, None));
}

#[test]
fn families_without_pools_keep_their_images_for_two_weeks() {
    let mut record = images(both(image(2)));
    let other = pool().with(|p| p.arch = Some(Arch::Arm64));
    record.note_pools(&[pool()], at(0));
    assert_eq!(record, images(both(image(2))), "it has a pool");
    record.note_pools(std::slice::from_ref(&other), at(10));
    record.note_pools(std::slice::from_ref(&other), at(9 + 14 * DAY));
    assert_eq!(
        record.choice(&pool()).image,
        Some(id(2)),
        "a pool that returns has its image at once"
    );
    record.note_pools(&[pool()], at(9 + 14 * DAY));
    record.note_pools(std::slice::from_ref(&other), at(10 + 14 * DAY));
    assert_eq!(record.families.len(), 1, "counted anew");
    record.note_pools(&[other], at(11 + 28 * DAY));
    assert!(record.families.is_empty());
    let unused: Vec<&ImageId> = record.unused.keys().collect();
    assert_eq!(unused, [&id(1), &id(2)]);
}

#[test]
fn images_that_a_build_or_a_family_uses_are_kept() {
    let record = trying();
    assert!([1, 2, 3].iter().all(|n| record.uses(&id(*n))) && !record.uses(&id(4)));
    let (_, build) = record.build().expect("a build");
    assert_eq!(build.instances().collect::<Vec<_>>(), [&name(90), &name(91)]);
    assert_eq!(build.pool, PoolName::try_from("default".to_owned()).expect("a name"));
    let part = BuildPart::Trial;
    assert_ne!(part, BuildPart::Builder { boot: BootMethod::Unit, baked: None });
}
