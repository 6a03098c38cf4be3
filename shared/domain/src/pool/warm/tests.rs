//! Which events warm a pool, how long, and what the jobs leave of it.

use super::{RepositoryEvent, Warm, WarmEvent, WarmRule};
use crate::pool::Pool;
use crate::testkit::{With as _, at, pool};
use crate::time::{Seconds, Time};

fn rule(event: WarmEvent, idle: u32) -> WarmRule {
    WarmRule {
        event,
        repositories: Vec::new(),
        branches: Vec::new(),
        idle,
        for_seconds: Seconds(600),
    }
}

fn warmed() -> Pool {
    pool().with(|pool| pool.warm_on = vec![rule(WarmEvent::Push, 4)])
}

fn event(kind: WarmEvent, repository: &str, branch: &str, at: Time) -> RepositoryEvent {
    RepositoryEvent {
        kind,
        repository: repository.into(),
        private: true,
        user_owned: false,
        branch: branch.into(),
        at,
    }
}

fn push(seconds: u32) -> RepositoryEvent {
    event(WarmEvent::Push, "acme/web", "main", at(seconds))
}

/// The entries after an event at its own time: `4 until 600, 4 missing`.
fn after(all: &[Warm], pool: &Pool, event: &RepositoryEvent) -> Option<Vec<Warm>> {
    Warm::after(all, pool, event, event.at)
}

#[test]
fn an_event_warms_a_pool_that_serves_its_repository_and_has_a_rule_for_it() {
    use WarmEvent::{CheckRun, PullRequest, Push};
    let ruled = |change: fn(&mut WarmRule)| {
        warmed().with(|pool| pool.warm_on[0] = rule(Push, 4).with(change))
    };
    let rows = [
        ("any repository and branch", warmed(), push(0), true),
        ("a different event", warmed(), event(PullRequest, "acme/web", "main", at(0)), false),
        (
            "each event has its rule",
            warmed().with(|pool| pool.warm_on.push(rule(CheckRun, 1))),
            event(CheckRun, "acme/web", "main", at(0)),
            true,
        ),
        ("the branch", ruled(|rule| rule.branches = vec!["main".into()]), push(0), true),
        ("not the branch", ruled(|rule| rule.branches = vec!["mai".into()]), push(0), false),
        ("the branch's start", ruled(|rule| rule.branches = vec!["ma*".into()]), push(0), true),
        ("branches have cases", ruled(|rule| rule.branches = vec!["Main".into()]), push(0), false),
        (
            "the repository, in any case",
            ruled(|rule| rule.repositories = vec!["ACME/Web".into()]),
            push(0),
            true,
        ),
        (
            "a different repository",
            ruled(|rule| rule.repositories = vec!["acme/api".into()]),
            push(0),
            false,
        ),
        ("the owner", ruled(|rule| rule.repositories = vec!["acme/*".into()]), push(0), true),
        ("no rule", pool(), push(0), false),
        ("a stranger", warmed(), event(Push, "evil/web", "main", at(0)), false),
        ("a public repository", warmed(), push(0).with(|event| event.private = false), false),
        (
            "a public repository that the pool serves",
            warmed().with(|pool| pool.public_repositories = true),
            push(0).with(|event| event.private = false),
            true,
        ),
        (
            "a repository that the pool does not list",
            warmed().with(|pool| pool.repositories = vec!["acme/api".into()]),
            push(0),
            false,
        ),
        (
            "a different entity",
            warmed().with(|pool| pool.entity = "other".parse().ok()),
            push(0),
            false,
        ),
        ("an unknown owner", warmed().with(|pool| pool.app_owner = None), push(0), false),
        ("a disabled pool", warmed().with(|pool| pool.enabled = false), push(0), false),
        ("a removed pool", warmed().with(|pool| pool.removed_at = Some(at(0))), push(0), false),
    ];
    for (name, pool, event, expected) in rows {
        assert_eq!(pool.is_warmed_by(&event), expected, "{name}");
        assert_eq!(after(&[], &pool, &event).is_some(), expected, "{name}");
    }
}

#[test]
fn runners_register_where_the_jobs_do() {
    let entity = |pool: Pool, event: &RepositoryEvent| {
        after(&[], &pool, event).map(|all| all[0].entity.to_string())
    };
    let owned = push(0).with(|event| event.user_owned = true);
    assert_eq!(entity(warmed(), &push(0)).as_deref(), Some("acme"));
    assert_eq!(entity(warmed(), &owned).as_deref(), Some("acme/web"));
    let named = warmed().with(|pool| pool.entity = "acme".parse().ok());
    assert_eq!(entity(named, &owned).as_deref(), Some("acme"));
}

#[test]
fn repeated_events_extend_the_time_and_never_add_up() {
    let pool = warmed();
    let first = after(&[], &pool, &push(0)).expect("warm");
    assert_eq!((first[0].idle, first[0].missing, first[0].until), (4, 4, at(600)));
    let used = Warm::counted(&first, 0, 3);
    assert_eq!(used[0].missing, 1);
    // Less than a tenth of the time: the same forecast, and no write.
    assert_eq!(after(&used, &pool, &push(59)), None);
    let second = after(&used, &pool, &push(60)).expect("extended");
    assert_eq!((second.len(), second[0].idle, second[0].missing), (1, 4, 4));
    assert_eq!(second[0].until, at(660));
    // An event that comes late counts from its own time, or no longer.
    assert_eq!(Warm::after(&second, &pool, &push(10), at(300)), None);
    assert_eq!(Warm::after(&[], &pool, &push(0), at(600)), None);
    // Two rules are two entries: the larger one counts, as long as it lasts.
    let two = warmed().with(|pool| {
        pool.warm_on.push(rule(WarmEvent::Push, 2).with(|rule| rule.for_seconds = Seconds(1200)));
    });
    let both = after(&[], &two, &push(0)).expect("warm");
    let wanted = |now| two.while_warm(&both, now).idle_wanted();
    assert_eq!([at(0), at(599), at(600), at(1199), at(1200)].map(wanted), [4, 4, 2, 2, 0]);
}

#[test]
fn a_pool_without_an_entity_is_warm_for_one_owner_at_a_time() {
    let pool = warmed().with(|pool| pool.repositories = vec!["*".into()]);
    let other = event(WarmEvent::Push, "other/web", "main", at(100));
    let first = after(&[], &pool, &push(0)).expect("warm");
    assert_eq!(after(&first, &pool, &other), None);
    let later = other.with(|event| event.at = at(600));
    assert_eq!(after(&first, &pool, &later).map(|all| all.len()), Some(1));
}

#[test]
fn the_wanted_number_is_the_larger_one_within_the_maximum() {
    let kept = |min_idle, max| {
        warmed().with(|pool| {
            (pool.entity, pool.min_idle, pool.max) = ("acme".parse().ok(), min_idle, max);
        })
    };
    let rows = [
        ("the event's", kept(0, 10), 4, 4),
        ("the event's is not added", kept(3, 10), 4, 4),
        ("the pool's", kept(6, 10), 6, 6),
        ("the maximum", kept(0, 3), 3, 3),
        ("a rule that was removed", kept(1, 10).with(|pool| pool.warm_on.clear()), 1, 1),
        ("a disabled pool", kept(1, 10).with(|pool| pool.enabled = false), 0, 0),
        ("a different entity", kept(1, 10).with(|pool| pool.entity = "b".parse().ok()), 1, 4),
    ];
    let all = after(&[], &kept(0, 10), &push(0)).expect("warm");
    for (name, pool, wanted, most) in rows {
        assert_eq!(pool.while_warm(&all, at(1)).idle_wanted(), wanted, "{name}");
        assert_eq!(pool.idle_missing(&all, 0, 0, at(1)), wanted, "{name}");
        assert_eq!(pool.most_idle(), most, "{name}");
    }
    let pool = kept(1, 10);
    // Columns: kept, served, missing. Jobs use up the forecast, but not the pool's own minimum.
    for (kept, served, missing) in
        [(0, 0, 4), (3, 0, 1), (4, 0, 0), (0, 3, 1), (0, 4, 1), (1, 4, 0), (2, 1, 1), (0, 9, 1)]
    {
        let row = (kept, served);
        assert_eq!(pool.idle_missing(&all, kept, served, at(1)), missing, "{row:?}");
    }
    let launched = Warm::launched(&Warm::counted(&all, 1, 0), 3);
    assert_eq!(pool.idle_missing(&launched, 0, 0, at(1)), 1, "only the pool's own");
    assert_eq!(pool.while_warm(&launched, at(1)).idle_wanted(), 4, "but they stay");
}

#[test]
fn the_reason_names_the_event() {
    use WarmEvent::{CheckRun, PullRequest, Push};
    let rows = [
        (Push, "kept warm until 00:26:40 for a push to main of acme/web"),
        (PullRequest, "kept warm until 00:26:40 for a pull request to main of acme/web"),
        (CheckRun, "kept warm until 00:26:40 for a check run on main of acme/web"),
    ];
    for (kind, expected) in rows {
        let pool = warmed().with(|pool| pool.warm_on[0].event = kind);
        let all = after(&[], &pool, &event(kind, "acme/web", "main", at(0))).expect("warm");
        let warm = Warm::current(&all, &pool, at(1)).expect("warm");
        assert_eq!(warm.sentence(at(1)), expected);
    }
}
