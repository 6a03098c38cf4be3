//! Deliveries of the App's webhook that found nobody.

use muster_control::ports::Delivery;
use muster_domain::time::Seconds;

use super::*;

/// The attempts to deliver, once there are so many.
async fn attempts<W: GithubWorld>(world: &W, count: usize) -> Vec<Delivery> {
    let since = world.now() - Seconds(600);
    for _ in 0..100 {
        let listed = world.github().deliveries(since).await.expect("an answer");
        if listed.len() >= count {
            return listed;
        }
        world.a_moment().await;
    }
    panic!("{count} attempts were never listed");
}

pub(super) async fn a_failed_delivery_is_listed<W: GithubWorld>(world: &W) {
    world.close_door().await;
    world.queue_job().await;
    let listed = attempts(world, 1).await;
    assert_eq!(listed.len(), 1);
    assert!(!listed[0].settled && !listed[0].guid.is_empty());
    assert!(world.now().since(listed[0].at) <= Seconds(60), "{listed:?}");
}

pub(super) async fn a_repeated_delivery_is_another_attempt_of_the_same_event<W: GithubWorld>(
    world: &W,
) {
    world.close_door().await;
    world.queue_job().await;
    let first = attempts(world, 1).await.remove(0);
    assert_eq!(world.github().redeliver(first.id).await, Ok(true));
    let listed = attempts(world, 2).await;
    assert_eq!(listed.len(), 2);
    // The newest first.
    assert_eq!(listed[1], first);
    assert_eq!((&listed[0].guid, listed[0].settled), (&first.guid, false));
    assert!(listed[0].id != first.id && listed[0].at >= first.at);
}

pub(super) async fn deliveries_before_a_time_are_not_listed<W: GithubWorld>(world: &W) {
    world.close_door().await;
    world.queue_job().await;
    attempts(world, 1).await;
    let later = world.now() + Seconds(60);
    assert_eq!(world.github().deliveries(later).await, Ok(Vec::new()));
}

pub(super) async fn an_unknown_delivery_is_not_repeated<W: GithubWorld>(world: &W) {
    assert_eq!(world.github().redeliver(987_654_321).await, Ok(false));
}
