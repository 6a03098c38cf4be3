//! Which pool serves a job, and where its runner is registered.

use proptest::prelude::*;
use proptest::sample::select;

use super::{LabelMatch, Mismatch, Pool};
use crate::job::Job;
use crate::job::labels::{LabelRows, Labels};
use crate::testkit::{With, at, job, pool, searched};
use crate::time::Seconds;

fn of(entity: &str, name: &str) -> Pool {
    pool().with(|pool| {
        pool.entity = Some(entity.parse().expect("valid"));
        pool.name = name.parse().expect("valid");
    })
}

fn asks(labels: &[&str]) -> Job {
    job(1).with(|job| job.last_event.labels = Labels::new(labels))
}

fn public() -> Job {
    job(1).with(|job| job.last_event.private = false)
}

#[test]
fn a_pool_serves_jobs_that_its_runners_may_take() {
    let labels = |missing: &[&str]| {
        Err(Mismatch::Labels(missing.iter().map(|&label| label.to_owned()).collect()))
    };
    let open = || pool().with(|pool| pool.public_repositories = true);
    let only = |allowed: &[&str]| {
        let allowed = allowed.iter().map(|&one| one.to_owned()).collect();
        pool().with(|pool| pool.repositories = allowed)
    };
    let elsewhere = || of("other", "default");
    let stranger = || job(1).with(|job| job.last_event.repository = "stranger/web".into());
    let acme = || "acme".parse().ok();
    let owned = |by: &str| pool().with(|pool| pool.app_owner = by.parse().ok());
    let unowned = |pool: Pool| pool.with(|pool| pool.app_owner = None);
    let rows = [
        ("all labels", pool(), asks(&["self-hosted", "linux", "x64"]), Ok(())),
        ("some labels, in any case", pool(), asks(&["Linux"]), Ok(())),
        ("nothing but self-hosted", pool(), asks(&["self-hosted"]), Ok(())),
        ("a label too many", pool(), asks(&["linux", "gpu", "arm64"]), labels(&["arm64", "gpu"])),
        ("no label", pool(), asks(&[]), Err(Mismatch::NoLabels)),
        ("a public repository", pool(), public(), Err(Mismatch::Public)),
        ("a public repository, allowed", open(), public(), Ok(())),
        (
            "a disabled pool",
            pool().with(|pool| pool.enabled = false),
            job(1),
            Err(Mismatch::Disabled),
        ),
        (
            "a pool that was taken out of the file",
            pool().with(|pool| pool.removed_at = Some(at(0))),
            job(1),
            Err(Mismatch::Removed),
        ),
        ("its repository is listed", only(&["acme/api", "ACME/Web"]), job(1), Ok(())),
        ("its owner is listed", only(&["Acme/*"]), job(1), Ok(())),
        ("another repository is listed", only(&["acme/api"]), job(1), Err(Mismatch::Repository)),
        ("another owner is listed", only(&["acm/*"]), job(1), Err(Mismatch::Repository)),
        ("somebody else's, without an entity", pool(), stranger(), Err(Mismatch::Owner(acme()))),
        ("somebody else's, listed", only(&["Stranger/*"]), stranger(), Ok(())),
        ("somebody else's, where all are listed", only(&["*"]), stranger(), Ok(())),
        (
            "somebody else's, in the enterprise that owns the App",
            owned("enterprises/big"),
            stranger(),
            Ok(()),
        ),
        (
            "the App is another's",
            owned("stranger"),
            job(1),
            Err(Mismatch::Owner("stranger".parse().ok())),
        ),
        ("nobody knows whose the App is", unowned(pool()), job(1), Err(Mismatch::Owner(None))),
        ("nobody need know it: listed", unowned(only(&["acme/web"])), job(1), Ok(())),
        ("nobody need know it: an entity", unowned(of("acme", "default")), job(1), Ok(())),
        (
            "whose the App is comes after all else",
            pool(),
            stranger().with(|job| job.last_event.labels = Labels::new(["gpu"])),
            labels(&["gpu"]),
        ),
        ("its organization", of("ACME", "default"), job(1), Ok(())),
        ("its repository", of("acme/WEB", "default"), job(1), Ok(())),
        ("its enterprise", of("enterprises/big", "default"), job(1), Ok(())),
        (
            "another organization",
            elsewhere(),
            job(1),
            Err(Mismatch::Entity("other".parse().expect("valid"))),
        ),
        (
            "the entity is named before all else",
            elsewhere(),
            asks(&[]),
            Err(Mismatch::Entity("other".parse().expect("valid"))),
        ),
    ];
    for (name, pool, job, expected) in rows {
        assert_eq!(pool.serves(&job), expected, "{name}");
    }
}

#[test]
fn a_job_matches_one_row_and_all_of_it_where_that_is_asked() {
    let rows = ["linux,x64", "linux,gpu"].map(|row| Labels::new(row.split(',')));
    let pool = |label_match| {
        pool().with(|pool| {
            pool.labels = LabelRows::new(rows.to_vec());
            pool.label_match = label_match;
        })
    };
    let (superset, exact) = (pool(LabelMatch::Superset), pool(LabelMatch::Exact));
    let missing = |labels: &[&str]| {
        Err(Mismatch::Labels(labels.iter().map(|&label| label.to_owned()).collect()))
    };
    for (labels, by_superset, by_exact) in [
        (&["linux", "x64"][..], Ok(()), Ok(())),
        (&["GPU", "self-hosted", "Linux"], Ok(()), Ok(())),
        (&["gpu"], Ok(()), Err(Mismatch::NotExact)),
        (&["self-hosted"], Ok(()), Err(Mismatch::NotExact)),
        // Two rows are not merged, although the runners carry the labels of both.
        (&["x64", "gpu"], missing(&["gpu"]), missing(&["gpu"])),
        (&["linux", "x64", "big"], missing(&["big"]), missing(&["big"])),
    ] {
        let job = asks(labels);
        assert_eq!(superset.serves(&job), by_superset, "{labels:?}");
        assert_eq!(exact.serves(&job), by_exact, "{labels:?}");
    }
}

/// GitHub assigns a job to a runner that has all its labels, and every runner has `self-hosted`.
fn carries(runner: &Labels, job: &Labels) -> bool {
    let mut wanted = job.iter().filter(|label| *label != "self-hosted");
    wanted.all(|label| runner.iter().any(|own| own == label))
}

/// `owner/repo` matches itself, `owner` and `owner/*`, case-insensitively; `*` matches all.
fn is_of(repository: &str, of: &str) -> bool {
    if of == "*" {
        return true;
    }
    let (repository, of) = (repository.to_lowercase(), of.to_lowercase());
    repository == of || repository.starts_with(&format!("{}/", of.trim_end_matches("/*")))
}

/// Returns whether the pool's runners can take a job, apart from the pool's other reasons to refuse
/// it.
fn may_take(pool: &Pool, job: &Job) -> bool {
    let (asked, repository) = (&job.last_event.labels, &job.last_event.repository);
    let is_exact = |row: &Labels| carries(row, asked) && carries(asked, row);
    !asked.is_empty()
        && pool.entity.as_ref().is_none_or(|entity| is_of(repository, entity.as_str()))
        && match pool.label_match {
            LabelMatch::Superset => pool.labels.iter().any(|row| carries(row, asked)),
            LabelMatch::Exact => pool.labels.iter().any(is_exact),
        }
}

/// An independent implementation of docs/design/pools.md.
fn is_served(pool: &Pool, job: &Job) -> bool {
    let listed = pool.repositories.iter().any(|of| is_of(&job.last_event.repository, of));
    may_take(pool, job)
        && pool.enabled
        && pool.removed_at.is_none()
        && match (&pool.entity, &pool.app_owner) {
            _ if !pool.repositories.is_empty() => listed,
            (Some(_), _) => true,
            (None, owner) => {
                owner.as_ref().is_some_and(|own| is_of(&job.last_event.repository, own.as_str()))
            }
        }
        && (job.last_event.private || pool.public_repositories)
}

fn labels(count: std::ops::Range<usize>) -> impl Strategy<Value = Labels> {
    let label = select(vec!["self-hosted", "Self-Hosted", "linux", "Linux", "x64", "gpu"]);
    prop::collection::vec(label, count).prop_map(Labels::new)
}

fn some_pool() -> impl Strategy<Value = Pool> {
    let entity = select(vec!["acme", "ACME", "other", "acme/web", "Acme/WEB", "acme/api"]);
    let listed = select(vec!["acme/web", "ACME/Web", "acme/*", "Acme/*", "other/*", "acm/*", "*"]);
    let owner = prop::option::of(select(vec!["acme", "ACME", "other"]));
    let of_labels = (prop::collection::vec(labels(1..4), 1..3), any::<bool>());
    let of_names = (prop::option::of(entity), prop::collection::vec(listed, 0..3), any::<bool>());
    let state = (prop::bool::weighted(0.8), prop::bool::weighted(0.2), owner);
    (of_labels, of_names, state).prop_map(|((rows, exact), (entity, names, public), state)| {
        pool().with(|pool| {
            pool.labels = LabelRows::new(rows);
            pool.label_match = if exact { LabelMatch::Exact } else { LabelMatch::Superset };
            pool.entity = entity.map(|entity| entity.parse().expect("valid"));
            pool.repositories = names.into_iter().map(str::to_owned).collect();
            pool.public_repositories = public;
            pool.enabled = state.0;
            pool.removed_at = state.1.then(|| at(0));
            pool.app_owner = state.2.and_then(|owner| owner.parse().ok());
        })
    })
}

fn some_job() -> impl Strategy<Value = Job> {
    let repository = select(vec!["acme/web", "Acme/WEB", "acme/api", "acmes/web", "other/web"]);
    (labels(0..4), repository, prop::bool::weighted(0.7)).prop_map(|(asked, name, private)| {
        job(1).with(|job| {
            job.last_event.labels = asked;
            job.last_event.repository = name.into();
            job.last_event.private = private;
        })
    })
}

proptest! {
    #![proptest_config(searched(4_000))]

    #[test]
    fn a_pool_serves_what_the_pool_file_and_githubs_labels_say(
        pool in some_pool(),
        job in some_job(),
    ) {
        prop_assert_eq!(pool.is_meant_by(&job), may_take(&pool, &job));
        prop_assert_eq!(pool.serves(&job).is_ok(), is_served(&pool, &job));
    }
}

#[test]
fn a_runner_is_registered_where_its_pool_says_or_where_the_repository_belongs() {
    let entity = |pool: Pool, job: &Job| pool.entity_for(job).map(|entity| entity.to_string());
    let person = job(1).with(|job| job.last_event.user_owned = true);
    assert_eq!(entity(of("acme/api", "x"), &job(1)).as_deref(), Some("acme/api"));
    assert_eq!(entity(pool(), &job(1)).as_deref(), Some("acme"));
    // A user has no runners: only the repository can have them.
    assert_eq!(entity(pool(), &person).as_deref(), Some("acme/web"));
    let nameless = job(1).with(|job| job.last_event.repository = "acme".into());
    assert_eq!(entity(pool(), &nameless), None);
}

#[test]
fn runners_are_kept_idle_where_they_can_be_registered_and_never_above_the_maximum() {
    let wanted = |change: fn(&mut Pool)| {
        let kept = of("acme", "warm").with(|pool| (pool.min_idle, pool.max) = (3, 10));
        kept.with(change).idle_wanted()
    };
    assert_eq!(wanted(|_| {}), 3);
    assert_eq!(wanted(|pool| pool.max = 2), 2);
    assert_eq!(wanted(|pool| pool.entity = None), 0);
    assert_eq!(wanted(|pool| pool.enabled = false), 0);
}

#[test]
fn a_machine_is_launched_for_a_job_of_the_pools_age() {
    let aged = |seconds| pool().with(|pool| pool.job_age_seconds = Seconds(seconds));
    for (age, now, launches) in [(0, 1, true), (30, 1, false), (30, 30, false), (30, 31, true)] {
        assert_eq!(aged(age).is_old_enough(&job(1), at(now)), launches, "{age} at {now}");
    }
    assert_eq!(Pool::named("plain".parse().expect("valid")).job_age_seconds, Seconds(0));
}
