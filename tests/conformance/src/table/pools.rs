//! The set of pools and its versions.

use muster_control::ports::Operations;
use muster_domain::ec2::Arch;
use muster_domain::job::labels::{LabelRows, Labels};
use muster_domain::pool::limits::{Balance, Limits};
use muster_domain::pool::proxy::Proxy;
use muster_domain::pool::{Allocation, Disk, Image, Pool, Requirements};
use muster_domain::pool_set::PoolSet;

use super::*;

/// A set that says all that a set can say.
fn set(version: u64) -> PoolSet {
    let full = Pool {
        entity: Some("acme".parse().expect("an entity")),
        labels: LabelRows::new(vec![Labels::new(["linux", "x64"]), Labels::new(["gpu"])]),
        arch: Some(Arch::X64),
        requirements: Some(Requirements {
            vcpus_min: 2,
            vcpus_max: Some(4),
            memory_mib_min: 4096,
            memory_mib_max: None,
        }),
        subnets: vec!["subnet-a".into()],
        allocation: Some(Allocation::PriceCapacityOptimized),
        max_price: Some("0.05".into()),
        image: Some(Image::Ssm("/acme/image".into())),
        disk: Some(Disk {
            device: "/dev/xvda".into(),
            size_gib: 40,
            iops: None,
            throughput_mib: Some(250),
        }),
        tags: [("team".to_owned(), "build".to_owned())].into(),
        environment: [("EMPTY".to_owned(), String::new())].into(),
        boot_hook: Some("true\n".into()),
        image_hook: Some("true\n".into()),
        agent_mirror: Some("https://mirror.example".into()),
        proxy: Some(Proxy {
            https: Some("http://ada@proxy:3128".into()),
            no_proxy: vec![".corp.example".into()],
            password_secret: Some("office".into()),
            ..Proxy::default()
        }),
        boot_deadline_seconds: Some(muster_domain::time::Seconds(60)),
        max: 3,
        generation: version,
        machines_since: version,
        removed_at: Some(at(7)),
        ..Pool::named(pool())
    };
    let mut set = PoolSet::from_parameters(
        vec![full, Pool::named(other_pool())],
        Limits::default(),
        Balance::default(),
    );
    set.version = version;
    (set.applied_at, set.by) = (at(3), "ada".to_owned());
    set.limits.stack = Some(9);
    set.limits.entities.insert("acme/web".parse().expect("an entity"), 4);
    set.balance = Balance::RoundRobin;
    set.app_owner = "acme".parse().ok();
    set
}

fn keep(set: &PoolSet) -> Write {
    Write::PoolsVersion(Box::new(set.clone()))
}

pub(super) async fn a_set_of_pools_reads_as_it_was_written<W: TableWorld>(world: &W) {
    commit(world, &[new(&set(1))]).await;
    assert_eq!(world.table().pool_set().await, Ok(Some(made(set(1)))));
}

pub(super) async fn a_set_of_pools_is_made_once_and_replaced_by_version<W: TableWorld>(world: &W) {
    commit(world, &[new(&set(1))]).await;
    conflicts(world, &[new(&set(2))]).await;
    commit(world, &[over(0, &set(2))]).await;
    conflicts(world, &[over(0, &set(3))]).await;
    assert_eq!(world.table().pool_set().await, Ok(Some(stored(1, set(2)))));
}

pub(super) async fn a_version_of_the_pools_is_kept_once<W: TableWorld>(world: &W) {
    commit(world, &[keep(&set(1))]).await;
    conflicts(world, &[keep(&set(1))]).await;
    assert_eq!(world.table().pool_set().await, Ok(None), "a version is not the set");
}

pub(super) async fn versions_are_read_without_the_missing_ones<W: TableWorld>(world: &W) {
    for version in [1, 2, 12] {
        commit(world, &[keep(&set(version))]).await;
    }
    let mut read = world.table().pool_versions(&[12, 2, 3, 2]).await.expect("read");
    read.sort_by_key(|set| set.version);
    assert_eq!(read, [set(2), set(12)]);
}

pub(super) async fn a_version_that_is_forgotten_is_gone<W: TableWorld>(world: &W) {
    commit(world, &[keep(&set(1))]).await;
    for _ in 0..2 {
        commit(world, &[Write::PoolsVersionGone(1)]).await;
    }
    assert_eq!(world.table().pool_versions(&[1]).await, Ok(vec![]));
}

pub(super) async fn a_set_and_its_version_are_one_commit<W: TableWorld>(world: &W) {
    commit(world, &[new(&set(1)), keep(&set(1))]).await;
    let late = [over(99, &set(2)), keep(&set(2)), Write::PoolsVersionGone(1)];
    conflicts(world, &late).await;
    assert_eq!(world.table().pool_versions(&[1, 2]).await, Ok(vec![set(1)]));
    let next = [over(0, &set(2)), keep(&set(2)), Write::PoolsVersionGone(1)];
    commit(world, &next).await;
    assert_eq!(world.table().pool_versions(&[1, 2]).await, Ok(vec![set(2)]));
}

pub(super) async fn a_commit_that_checks_the_set_fails_once_it_has_changed<W: TableWorld>(
    world: &W,
) {
    let unchanged = |version: Option<u64>| Write::PoolsUnchanged(version.map(Version));
    let mut kept = (10..).map(|version| keep(&set(version)));
    let mut with = |check: Write| [kept.next().expect("endless"), check];
    commit(world, &with(unchanged(None))).await;
    conflicts(world, &with(unchanged(Some(0)))).await;
    commit(world, &[new(&set(1))]).await;
    conflicts(world, &with(unchanged(None))).await;
    commit(world, &with(unchanged(Some(0)))).await;
    commit(world, &[over(0, &set(2))]).await;
    conflicts(world, &with(unchanged(Some(0)))).await;
    commit(world, &with(unchanged(Some(1)))).await;
    let read = world.table().pool_versions(&[10, 11, 12, 13, 14, 15]).await.expect("read");
    let written: std::collections::BTreeSet<u64> = read.iter().map(|set| set.version).collect();
    assert_eq!(written, [10, 13, 15].into());
}
