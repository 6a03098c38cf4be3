//! Which pool serves a job, and where its runner is registered.

use super::{LabelMatch, Mismatch, Pool, choose};
use crate::job::Job;
use crate::labels::{LabelRows, Labels};
use crate::testkit::{With, job, pool};

fn of(entity: &str, name: &str) -> Pool {
    pool().with(|pool| {
        pool.entity = Some(entity.parse().expect("valid"));
        pool.name = name.parse().expect("valid");
    })
}

fn asks(labels: &[&str]) -> Job {
    job(1).with(|job| job.said.labels = Labels::new(labels))
}

fn public() -> Job {
    job(1).with(|job| job.said.private = false)
}

#[test]
fn a_pool_serves_jobs_that_its_runners_may_take() {
    let labels = |missing: &[&str]| {
        Err(Mismatch::Labels(missing.iter().map(|&label| label.to_owned()).collect()))
    };
    let open = || pool().with(|pool| pool.public_repositories = true);
    let elsewhere = || of("other", "default");
    let rows = [
        ("all labels", pool(), asks(&["self-hosted", "linux", "x64"]), Ok(())),
        ("some labels, in any case", pool(), asks(&["Linux"]), Ok(())),
        ("nothing but self-hosted", pool(), asks(&["self-hosted"]), Ok(())),
        ("a label too many", pool(), asks(&["linux", "gpu", "arm64"]), labels(&["arm64", "gpu"])),
        ("no label", pool(), asks(&[]), Err(Mismatch::NoLabels)),
        ("a public repository", pool(), public(), Err(Mismatch::Public)),
        ("a public repository, allowed", open(), public(), Ok(())),
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
fn the_most_specific_pool_wins_and_then_the_first() {
    let pools = [
        pool(),
        of("enterprises/big", "enterprise"),
        of("acme", "org-1"),
        of("acme", "org-2"),
        of("acme/web", "repository"),
    ];
    let chosen = |pools: &[Pool]| choose(pools, &job(1)).map(|pool| pool.name.to_string());
    for (left, expected) in [(5, "repository"), (4, "org-1"), (2, "enterprise"), (1, "default")] {
        assert_eq!(chosen(&pools[..left]), Ok(expected.to_owned()));
    }
    // A pool that does not serve the job never wins, however specific it is.
    let deaf =
        of("acme/web", "deaf").with(|pool| pool.labels = LabelRows::one(Labels::new(["windows"])));
    assert_eq!(chosen(&[deaf, pool()]), Ok("default".to_owned()));
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
        // Two rows are no mixture, although the runners carry the labels of both.
        (&["x64", "gpu"], missing(&["gpu"]), missing(&["gpu"])),
        (&["linux", "x64", "big"], missing(&["big"]), missing(&["big"])),
    ] {
        let job = asks(labels);
        assert_eq!(superset.serves(&job), by_superset, "{labels:?}");
        assert_eq!(exact.serves(&job), by_exact, "{labels:?}");
    }
}

#[test]
fn a_job_that_no_pool_serves_is_told_why_pool_by_pool() {
    let why = |pools: &[Pool], job: &Job| choose(pools, job).expect_err("nobody serves it");
    assert_eq!(why(&[], &job(1)), "no pool is configured");
    assert_eq!(
        why(&[pool(), of("other", "far")], &asks(&["gpu"])),
        "pool default: its runners do not carry the label(s) gpu; \
         pool far: its runners belong to other"
    );
    assert_eq!(why(&[pool()], &asks(&[])), "pool default: the job asks for no label");
    assert_eq!(
        why(&[pool()], &public()),
        "pool default: the repository is public and the pool refuses those"
    );
}

#[test]
fn a_runner_is_registered_where_its_pool_says_or_where_the_repository_belongs() {
    let entity = |pool: Pool, job: &Job| pool.entity_for(job).map(|entity| entity.to_string());
    let person = job(1).with(|job| job.said.user_owned = true);
    assert_eq!(entity(of("acme/api", "x"), &job(1)).as_deref(), Some("acme/api"));
    assert_eq!(entity(pool(), &job(1)).as_deref(), Some("acme"));
    // A person has no runners of her own: only the repository can hold them.
    assert_eq!(entity(pool(), &person).as_deref(), Some("acme/web"));
    let nameless = job(1).with(|job| job.said.repository = "acme".to_owned());
    assert_eq!(entity(pool(), &nameless), None);
}
