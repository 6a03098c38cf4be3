//! Deliveries of the App's webhook that failed.

use muster_domain::ids::AppName;
use muster_domain::redelivery::{Delivery, DeliveryPage};
use muster_domain::time::Seconds;

use super::*;

/// The first page of attempts, once it holds this many.
async fn attempts<W: GithubWorld>(world: &W, count: usize) -> DeliveryPage {
    for _ in 0..100 {
        let page = world
            .github()
            .deliveries(AppName::MAIN, None)
            .await
            .expect("an answer")
            .expect("a page");
        if page.deliveries.len() >= count {
            return page;
        }
        world.a_moment().await;
    }
    panic!("{count} attempts were never listed");
}

pub(super) async fn a_failed_delivery_is_listed<W: GithubWorld>(world: &W) {
    world.close_door().await;
    world.queue_job().await;
    let page = attempts(world, 1).await;
    let Ok([first]) = <[Delivery; 1]>::try_from(page.deliveries) else { panic!("one attempt") };
    assert!(!first.is_settled && !first.is_again && first.is_queued && !first.guid.is_empty());
    assert!(world.now().since(first.at) <= Seconds(60), "{first:?}");
    assert_eq!((page.newest, page.oldest, page.next), (Some(first.at), Some(first.at), None));
}

pub(super) async fn a_repeated_delivery_is_another_attempt_of_the_same_event<W: GithubWorld>(
    world: &W,
) {
    world.close_door().await;
    world.queue_job().await;
    let first = attempts(world, 1).await.deliveries.remove(0);
    assert_eq!(world.github().redeliver(AppName::MAIN, first.id).await, Ok(true));
    let listed = attempts(world, 2).await.deliveries;
    assert_eq!(listed.len(), 2);
    // The newest first.
    assert_eq!(listed[1], first);
    assert_eq!((&listed[0].guid, listed[0].is_settled), (&first.guid, false));
    assert!(listed[0].id != first.id && listed[0].at >= first.at && listed[0].is_again);
}

pub(super) async fn deliveries_are_listed_in_pages_of_a_hundred<W: GithubWorld>(world: &W) {
    world.close_door().await;
    world.queue_job().await;
    let first = attempts(world, 1).await.deliveries.remove(0);
    for _ in 0..100 {
        assert_eq!(world.github().redeliver(AppName::MAIN, first.id).await, Ok(true));
    }
    let mut page = attempts(world, 100).await;
    while page.next.is_none() {
        world.a_moment().await;
        page = attempts(world, 100).await;
    }
    assert_eq!(page.deliveries.len(), 100);
    let next =
        world.github().deliveries(AppName::MAIN, page.next.as_deref()).await.expect("an answer");
    let next = next.expect("the cursor was given a moment ago");
    assert_eq!((next.deliveries.as_slice(), next.next), (&[first][..], None));
}

pub(super) async fn an_unknown_cursor_is_no_page<W: GithubWorld>(world: &W) {
    assert_eq!(world.github().deliveries(AppName::MAIN, Some("v9_none")).await, Ok(None));
}

pub(super) async fn an_unknown_delivery_is_not_repeated<W: GithubWorld>(world: &W) {
    assert_eq!(world.github().redeliver(AppName::MAIN, 987_654_321).await, Ok(false));
}
