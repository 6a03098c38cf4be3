//! Which pool serves a job, in which order, and the reasons given.

use super::{candidates, choose, reasons};
use crate::job::Job;
use crate::job::labels::{LabelRows, Labels};
use crate::pool::limits::Balance::{self, Pack, RoundRobin};
use crate::pool::{LabelMatch, Pool};
use crate::testkit::{With, job, pool};

fn named(name: &str) -> Pool {
    pool().with(|pool| pool.name = name.parse().expect("valid"))
}

fn of(entity: &str, name: &str) -> Pool {
    named(name).with(|pool| pool.entity = Some(entity.parse().expect("valid")))
}

fn first(name: &str, priority: u32) -> Pool {
    named(name).with(|pool| pool.priority = priority)
}

fn asks(labels: &[&str]) -> Job {
    job(1).with(|job| job.last_event.labels = Labels::new(labels))
}

fn order(pools: &[Pool], balance: Balance, job: &Job) -> Vec<String> {
    candidates(pools, balance, job).iter().map(|pool| pool.name.to_string()).collect()
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
    let chosen = |pools: &[Pool]| choose(pools, Pack, &job(1)).map(|pool| pool.name.to_string());
    for (left, expected) in [(5, "repository"), (4, "org-1"), (2, "enterprise"), (1, "default")] {
        assert_eq!(chosen(&pools[..left]), Ok(expected.to_owned()));
    }
    // A pool that does not serve the job never wins, however specific it is.
    let deaf =
        of("acme/web", "deaf").with(|pool| pool.labels = LabelRows::one(Labels::new(["windows"])));
    assert_eq!(chosen(&[deaf, pool()]), Ok("default".to_owned()));
    assert_eq!(
        order(&pools, Pack, &job(1)),
        ["repository", "org-1", "org-2", "enterprise", "default"]
    );
}

#[test]
fn priority_decides_across_match_kinds_and_after_the_entity() {
    let exact = first("exact", 1).with(|pool| pool.label_match = LabelMatch::Exact);
    let pools = [first("low", 0), exact, first("high", 7), of("acme", "org")];
    let job = asks(&["linux", "x64"]);
    assert_eq!(order(&pools, Pack, &job), ["org", "high", "exact", "low"]);
    // An exact match is not preferred; only the priority counts.
    let exact_last = [first("low", 2), pools[1].clone()];
    assert_eq!(order(&exact_last, Pack, &job), ["low", "exact"]);
}

#[test]
fn pack_takes_the_first_and_round_robin_each_in_its_turn() {
    let pools = [first("low", 0), first("a", 5), first("b", 5), first("c", 5), of("acme", "org")];
    for n in 0..7 {
        assert_eq!(order(&pools, Pack, &job(n)), ["org", "a", "b", "c", "low"]);
    }
    let turns: Vec<String> = (0..4).map(|n| order(&pools, RoundRobin, &job(n)).join(" ")).collect();
    assert_eq!(turns, ["org a b c low", "org b c a low", "org c a b low", "org a b c low"]);
    // Only pools that serve the job take turns.
    let gap = [first("a", 5), first("deaf", 5).with(|pool| pool.enabled = false), first("b", 5)];
    let turns: Vec<String> = (0..3).map(|n| order(&gap, RoundRobin, &job(n)).join(" ")).collect();
    assert_eq!(turns, ["a b", "b a", "a b"]);
}

#[test]
fn a_job_that_no_pool_serves_is_told_why_pool_by_pool() {
    let why = |pools: &[Pool], job: &Job| choose(pools, Pack, job).expect_err("nobody serves it").0;
    let public = job(1).with(|job| job.last_event.private = false);
    assert_eq!(why(&[], &job(1)), "no pool is configured");
    assert_eq!(
        why(&[pool(), of("other", "far")], &asks(&["gpu"])),
        "pool default: its runners lack the label \"gpu\"; \
         pool far: its runners belong to other"
    );
    // One label that looks like three, and three labels.
    let lacks = "pool default: its runners lack the labels";
    assert_eq!(why(&[pool()], &asks(&["a, b, c", "d"])), format!(r#"{lacks} "a, b, c", "d""#));
    assert_eq!(why(&[pool()], &asks(&["a", "b", "c"])), format!(r#"{lacks} "a", "b", "c""#));
    assert_eq!(why(&[pool()], &asks(&[])), "pool default: the job requests no label");
    assert_eq!(
        why(&[pool()], &public),
        "pool default: the repository is public and the pool refuses those"
    );
    let listed = pool().with(|pool| pool.repositories = vec!["acme/api".to_owned()]);
    assert_eq!(
        why(&[listed, pool().with(|pool| pool.enabled = false)], &job(1)),
        "pool default: the repository is not in the pool's list; \
         pool default: it is disabled"
    );
}

/// Anyone who can write a workflow chooses the labels, and the reason is stored with the job.
#[test]
fn a_hostile_job_gets_a_reason_of_bounded_length() {
    let labels: Vec<String> = (0..100).map(|n| format!("{n:03}{}", "ä€𐍈".repeat(28))).collect();
    let hostile = job(1).with(|job| job.last_event.labels = Labels::new(&labels));
    let pools: Vec<Pool> = (0..20).map(|n| first(&format!("pool-{n}"), 0)).collect();
    let why = choose(&pools, Pack, &hostile).expect_err("nobody serves it").0;
    assert!(why.len() <= 1024, "{} bytes", why.len());
    assert!(why.starts_with("pool pool-0: its runners lack the labels \"000"), "{why}");
    assert!(why.contains(" and 95 more"), "{why}");
    assert!(why.ends_with(" more pools do not"), "{why}");
    let lines = reasons(&pools, Pack, &hostile);
    assert!(lines.iter().all(|line| line.len() <= 1024));
}

#[test]
fn every_pool_is_explained_with_what_puts_it_behind_the_one_before() {
    let pools = [
        first("low", 1),
        first("a", 5),
        first("b", 5),
        of("acme", "org"),
        first("deaf", 9).with(|pool| pool.enabled = false),
    ];
    assert_eq!(
        reasons(&pools, Pack, &job(2)),
        [
            "Pool org is choice 1.",
            "Pool a is choice 2, after org: it belongs to no entity, the other to an organization.",
            "Pool b is choice 3, after a: equal, and later in the list (pack).",
            "Pool low is choice 4, after b: its priority is 1, the other's 5.",
            "Pool deaf does not serve it: it is disabled.",
        ]
    );
    assert_eq!(
        reasons(&pools[1..3], RoundRobin, &job(1)),
        [
            "Pool b is choice 1.",
            "Pool a is choice 2, after b: equal, and the job's ID determines this turn \
             (round-robin).",
        ]
    );
    assert_eq!(reasons(&pools[..1], Pack, &job(1)), ["Only pool low serves it."]);
}
