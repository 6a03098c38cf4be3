//! Generations, removals, and the reported changes of an apply.

use super::{Balance, Diff, Fate, Limits, PoolSet, REMOVED_FOR};
use crate::ec2::Arch;
use crate::job::labels::{LabelRows, Labels};
use crate::pool::proxy::Proxy;
use crate::pool::warm::{WarmEvent, WarmRule};
use crate::pool::{
    Allocation, Disk, Image, LabelMatch, MarketPolicy, MergeQueuePolicy, OwnTemplate, Placement,
    Pool, Requirements, RerunPolicy,
};
use crate::pool_file::PoolFile;
use crate::testkit::{With, at, job};
use crate::time::Seconds;

fn pool(name: &str) -> Pool {
    Pool {
        labels: LabelRows::one(Labels::new(["linux"])),
        instance_types: vec!["m7i.large".into()],
        subnets: vec!["subnet-a".into()],
        max: 10,
        ..Pool::named(name.parse().expect("valid"))
    }
}

fn file(pools: Vec<Pool>) -> PoolFile {
    PoolFile { pools, limits: Limits::default(), balance: Balance::default() }
}

/// The set of a stack to which no file was ever applied.
fn empty() -> PoolSet {
    PoolSet::from_parameters(Vec::new(), Limits::default(), Balance::default())
}

/// A set after one apply.
fn first(pools: Vec<Pool>) -> PoolSet {
    empty().succeeded_by(&file(pools), "ada", at(1))
}

fn generations(set: &PoolSet) -> Vec<(&str, u64, u64)> {
    set.pools
        .iter()
        .map(|pool| (pool.name.as_str(), pool.generation, pool.machines_since))
        .collect()
}

fn fates(diff: &Diff) -> Vec<(&str, Fate)> {
    diff.pools.iter().map(|pool| (pool.pool.as_str(), pool.fate)).collect()
}

#[test]
fn only_what_changed_gets_a_new_generation() {
    let set = first(vec![pool("a"), pool("b")]);
    assert_eq!((set.version, set.by.as_str()), (1, "ada"));
    assert_eq!(generations(&set), [("a", 1, 1), ("b", 1, 1)]);
    let wider = pool("a").with(|pool| pool.max = 20);
    let next = set.succeeded_by(&file(vec![pool("b"), wider, pool("c")]), "eve", at(2));
    assert_eq!(generations(&next), [("b", 1, 1), ("a", 2, 1), ("c", 2, 2)]);
    assert_eq!((next.version, next.applied_at, next.by.as_str()), (2, at(2), "eve"));
    let diff = Diff::between(&set, &next);
    assert_eq!(fates(&diff), [("b", Fate::Unchanged), ("a", Fate::Changed), ("c", Fate::Added)]);
    let again = next.succeeded_by(&next.file(), "eve", at(3));
    assert_eq!(generations(&again), generations(&next));
    assert!(Diff::between(&next, &again).is_empty());
}

/// GitHub compares names without regard to case.
#[test]
fn an_entity_in_another_letter_case_replaces_no_machine() {
    let of = |name: &str| pool("a").with(|p| p.entity = name.parse().ok());
    let set = first(vec![of("acme/web")]);
    for (name, since) in [("Acme/WEB", 1), ("acme/api", 2), ("acme", 2)] {
        let next = set.succeeded_by(&file(vec![of(name)]), "ada", at(2));
        assert_eq!(generations(&next), [("a", 2, since)], "{name}");
    }
}

/// A change of something that is part of a machine, or was passed to it, replaces idle machines; a
/// change that only affects launches does not.
#[test]
fn idle_machines_are_replaced_when_they_are_not_what_the_pool_says() {
    type Change = fn(&mut Pool);
    let replaces: &[(&str, Change)] = &[
        ("entity", |p| p.entity = "acme".parse().ok()),
        ("labels", |p| p.labels = LabelRows::one(Labels::new(["linux", "gpu"]))),
        ("runner group", |p| p.runner_group_id = 2),
        ("arch", |p| p.arch = Some(Arch::X64)),
        ("types", |p| p.instance_types.push("m7a.large".into())),
        ("requirements", |p| {
            p.requirements = Some(Requirements {
                vcpus_min: 2,
                vcpus_max: None,
                memory_mib_min: 1,
                memory_mib_max: None,
            });
        }),
        ("subnets", |p| p.subnets.push("subnet-b".into())),
        ("image", |p| p.image = Some(Image::Id("ami-1".to_owned()))),
        ("disk", |p| {
            let device = "/dev/xvda".to_owned();
            p.disk = Some(Disk { device, size_gib: 8, iops: None, throughput_mib: None });
        }),
        ("launch template", |p| {
            let role = "AROA1".into();
            let (id, version) = ("lt-2".into(), "1".into());
            p.own_template = Some(OwnTemplate { id, version, role, device: None });
        }),
        ("proxy", |p| p.proxy = Some(Proxy::default())),
        ("placement", |p| p.placement = Some(Placement { group: None, dedicated: true })),
        ("tags", |p| drop(p.tags.insert("a".to_owned(), "b".to_owned()))),
        ("boot hook", |p| p.boot_hook = Some("true".to_owned())),
        ("sudo", |p| p.sudo = false),
        ("environment", |p| drop(p.environment.insert("A".to_owned(), String::new()))),
    ];
    let keeps: &[(&str, Change)] = &[
        ("the same labels in other rows", |p| {
            p.labels = LabelRows::new(vec![Labels::new(["linux"]), Labels::new(["linux"])]);
        }),
        ("match", |p| p.label_match = LabelMatch::Exact),
        ("priority", |p| p.priority = 3),
        ("log", |p| p.log_usage = false),
        ("mirror", |p| p.agent_mirror = Some("https://mirror.example".to_owned())),
        ("prefix", |p| p.name_prefix = "x".parse().ok()),
        ("market", |p| p.market = MarketPolicy::Spot),
        ("re-runs", |p| p.rerun_on_interruption = Some(RerunPolicy::All)),
        ("merge queue", |p| p.merge_queue = MergeQueuePolicy::AsOthers),
        ("allocation", |p| p.allocation = Some(Allocation::LowestPrice)),
        ("price", |p| p.max_price = Some("1".to_owned())),
        ("reservations", |p| p.reserved_first = true),
        ("max", |p| p.max = 3),
        ("min idle", |p| p.min_idle = 3),
        ("warm on", |p| {
            p.warm_on.push(WarmRule {
                event: WarmEvent::Push,
                repositories: Vec::new(),
                branches: Vec::new(),
                idle: 1,
                for_seconds: WarmRule::FOR,
            });
        }),
        ("job age", |p| p.job_age_seconds = Seconds(3)),
        ("boot deadline", |p| p.boot_deadline_seconds = Some(Seconds(60))),
        ("idle limit", |p| p.idle_limit_seconds = Some(Seconds(60))),
        ("lifetime", |p| p.max_lifetime_seconds = Seconds(60)),
        ("keep failed", |p| p.keep_failed_seconds = Seconds(60)),
        ("repositories", |p| p.repositories.push("acme/web".to_owned())),
        ("public", |p| p.public_repositories = true),
        ("enabled", |p| p.enabled = false),
    ];
    let set = first(vec![pool("a")]);
    let rows = replaces.iter().map(|row| (row, 2)).chain(keeps.iter().map(|row| (row, 1)));
    for ((name, change), since) in rows {
        let next = set.succeeded_by(&file(vec![pool("a").with(change)]), "ada", at(2));
        assert_eq!(generations(&next), [("a", 2, since)], "{name}");
        let diff = Diff::between(&set, &next);
        assert_eq!(fates(&diff), [("a", Fate::Changed)], "{name}");
        assert_eq!(diff.pools[0].replaces_machines, since == 2, "{name}");
    }
}

#[test]
fn a_removed_pool_drains_and_then_goes() {
    let set = first(vec![pool("a"), pool("b")]);
    let next = set.succeeded_by(&file(vec![pool("b")]), "ada", at(10));
    assert_eq!(generations(&next), [("b", 1, 1), ("a", 2, 1)]);
    let removed = &next.pools[1];
    assert!(removed.is_removed() && !next.pools[0].is_removed());
    let wanted = job(1).with(|job| job.last_event.labels = Labels::new(["linux"]));
    assert!(removed.serves(&wanted).is_err_and(|why| why.to_string() == "it is being removed"));
    assert_eq!(fates(&Diff::between(&set, &next)), [("b", Fate::Unchanged), ("a", Fate::Removed)]);
    let early = at(10 + REMOVED_FOR.0 - 1);
    assert!(!removed.may_go(early) && removed.may_go(at(10) + REMOVED_FOR));
    assert!(!next.pools[0].may_go(at(100_000)));
    let later = next.succeeded_by(&file(vec![pool("b")]), "ada", at(20));
    assert_eq!(later.pools[1].removed_at, Some(at(10)), "a second apply does not start it anew");
    assert!(Diff::between(&next, &later).is_empty());
    let gone = later.without(&removed.name);
    assert_eq!((generations(&gone), gone.version), (vec![("b", 1, 1)], 3));
}

#[test]
fn a_removal_can_be_taken_back_and_a_name_can_come_again() {
    let set = first(vec![pool("a")]);
    let removed = set.succeeded_by(&file(vec![pool("b")]), "ada", at(2));
    let back = removed.succeeded_by(&set.file(), "ada", at(3));
    assert_eq!(generations(&back), [("a", 3, 1), ("b", 3, 2)]);
    assert!(!back.pools[0].is_removed() && back.pools[1].is_removed());
    let gone = removed.without(&"a".parse().expect("valid"));
    let again = gone.succeeded_by(&file(vec![pool("a")]), "ada", at(4));
    assert_eq!(
        generations(&again)[0],
        ("a", 3, 3),
        "no machine of the first one counts as its own"
    );
}

#[test]
fn the_pools_of_the_parameters_are_succeeded_like_any() {
    let given = pool("default").with(|pool| {
        pool.launch_template_id = "lt-1".into();
        pool.launch_template_version = "3".into();
        pool.template_device = Some("/dev/sda1".into());
    });
    let set = PoolSet { pools: vec![given.clone()], ..empty() };
    let same = set.succeeded_by(&file(vec![pool("default")]), "ada", at(1));
    assert_eq!(generations(&same), [("default", 0, 0)], "the template is the stack's");
    assert_eq!(&*same.pools[0].launch_template_id, "", "and is not stored");
    assert_eq!(same.pools[0].template_device, None);
    let full = same.clone().with_template("lt-2", "4", Some("/dev/xvda"));
    assert_eq!(&*full.pools[0].launch_template_id, "lt-2");
    assert_eq!(full.pools[0].template_device.as_deref(), Some("/dev/xvda"));
    let own = OwnTemplate {
        id: "lt-3".into(),
        version: "7".into(),
        role: "AROA1".into(),
        device: Some("/dev/sdz".into()),
    };
    let listed = pool("own").with(|pool| pool.own_template = Some(own));
    let next = same.succeeded_by(&file(vec![listed]), "ada", at(3));
    let full = next.with_template("lt-2", "4", Some("/dev/xvda"));
    let own = full.pool(&"own".parse().expect("valid")).expect("listed");
    assert_eq!((&*own.launch_template_id, &*own.launch_template_version), ("lt-3", "7"));
    assert_eq!(own.template_device.as_deref(), Some("/dev/sdz"));
    let other = set.succeeded_by(&file(vec![pool("x")]), "ada", at(1));
    assert!(other.pools[1].is_removed());
    assert_eq!(
        other.file().pools,
        [pool("x").with(|pool| {
            (pool.generation, pool.machines_since) = (1, 1);
        })]
    );
}

#[test]
fn an_apply_is_told_in_words() {
    let set = first(vec![pool("a"), pool("b"), pool("c")]);
    let mut next = file(vec![
        pool("a").with(|pool| {
            pool.max = 20;
            pool.boot_hook = Some("true".to_owned());
            pool.priority = 1;
        }),
        pool("c"),
        pool("d"),
    ]);
    next.limits.stack = Some(7);
    let lines = Diff::between(&set, &set.succeeded_by(&next, "ada", at(2))).lines();
    assert_eq!(
        lines,
        [
            "~ limits.stack: 7",
            "~ pool a changes",
            "    boot_hook: \"true\"",
            "    limits.max: 10 → 20",
            "    priority: (default: 0) → 1",
            "    its idle machines are replaced",
            "  pool c stays as it is",
            "+ pool d is added",
            "    instances.types: [\"m7i.large\"]",
            "    labels: [\"linux\"]",
            "    limits.max: 10",
            "    subnets: [\"subnet-a\"]",
            "    market: (default: on-demand)",
            "- pool b is removed: it gets no new jobs, its idle machines end, and its waiting \
             jobs are matched again",
        ]
    );
    let back = set.succeeded_by(&next, "ada", at(2)).succeeded_by(&set.file(), "ada", at(3));
    let diff = Diff::between(&set.succeeded_by(&next, "ada", at(2)), &back);
    assert!(diff.lines().contains(&"    boot_hook: \"true\" → (none)".to_owned()));
}

#[test]
fn a_set_survives_its_json() {
    let mut set = first(vec![pool("a")]).succeeded_by(&file(vec![pool("b")]), "ada", at(2));
    set.limits.entities.insert("acme".parse().expect("valid"), 4);
    set.balance = Balance::RoundRobin;
    let text = serde_json::to_string(&set).expect("text");
    assert_eq!(serde_json::from_str::<PoolSet>(&text).expect("a set"), set);
    let newer = text.replacen("\"name\"", "\"new_field\":1,\"name\"", 1);
    assert!(serde_json::from_str::<PoolSet>(&newer).is_err(), "nothing of a later version is lost");
}
