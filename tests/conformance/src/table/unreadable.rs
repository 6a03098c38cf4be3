//! Records of a later version, and marks that are none of ours.

use super::*;
use muster_control::ports::Instances;

async fn spoiled<W: TableWorld>(world: &W, n: u32) -> InstanceName {
    for n in 0..3 {
        put(world, &[&planned(n, None)]).await;
    }
    let name = planned(n, None).name;
    world.spoil(&name).await;
    name
}

pub(super) async fn a_record_of_a_later_version_is_not_read<W: TableWorld>(world: &W) {
    let name = spoiled(world, 1).await;
    let answer = world.table().instance(&name).await;
    let Err(ReadError::Unreadable { key, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(key, name.as_str());
}

/// Nothing is decided about a group of which one cannot be read.
pub(super) async fn a_group_with_an_unreadable_record_is_not_read<W: TableWorld>(world: &W) {
    let name = spoiled(world, 1).await;
    let answer = world.table().instances(&[name, planned(2, None).name]).await;
    assert!(matches!(answer, Err(ReadError::Unreadable { .. })), "{answer:?}");
}

pub(super) async fn a_listing_names_unreadable_records_and_goes_on<W: TableWorld>(world: &W) {
    let name = spoiled(world, 1).await;
    let page = world.table().due_instances(at(9999), 10, None).await.expect("a page");
    assert_eq!((page.items.len(), page.unreadable), (2, vec![name.to_string()]));
    let page = world.table().live_instances(&pool(), None).await.expect("a page");
    assert_eq!((page.items.len(), page.unreadable.len()), (2, 1));
}

pub(super) async fn a_page_that_is_none_of_ours_is_refused<W: TableWorld>(world: &W) {
    put(world, &[&planned(1, None)]).await;
    let answer = world.table().due_instances(at(9999), 4, Some("nonsense".into())).await;
    assert!(answer.is_err(), "{answer:?}");
}
