//! Runs whose machines EC2 takes at random: R1 to R6 and R9 hold under ours, and each policy of a peer breaks
//! one of them within 500 stories.

use muster_sim::naive::PeerPolicy;
use muster_sim::scenario::{InterruptedRun, interrupted};

/// `INTERRUPTIONS=20000` makes as many of them as that.
#[test]
fn only_interrupted_jobs_are_run_again() {
    let wanted = std::env::var("INTERRUPTIONS").map_or(600, |n| n.parse().expect("a number"));
    let (mut all, mut seed) = (InterruptedRun::default(), 0);
    while all.interrupted < wanted {
        let run = interrupted(seed, None).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        all.interrupted += run.interrupted;
        all.ordered += run.ordered;
        seed += 1;
    }
    eprintln!("{seed} stories: {all:?}");
    assert!(all.ordered * 10 > all.interrupted, "{all:?}");
}

#[test]
fn each_policy_of_a_peer_is_caught() {
    let policies = [
        PeerPolicy::AllFailedAreRerun,
        PeerPolicy::ReRunsAreRetried,
        PeerPolicy::ActsThenNotes,
        PeerPolicy::LooksOnce,
        PeerPolicy::NoSettleRule,
        PeerPolicy::NoLookAtNewerRuns,
        PeerPolicy::AttemptsAreAlike,
    ];
    for policy in policies {
        let caught = (0..500).find_map(|seed| interrupted(seed, Some(policy)).err());
        let caught = caught.unwrap_or_else(|| panic!("{policy:?} is not caught"));
        let rule = caught.lines().next().unwrap_or_default();
        assert!(rule.starts_with('R'), "{policy:?}: {caught}");
    }
}
