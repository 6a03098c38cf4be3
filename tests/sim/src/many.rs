//! Many seeds on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::run::{SeedOutcome, play};
use crate::schedule::Plan;
use crate::totals::Totals;

/// How many threads there are to use.
#[must_use]
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs seeds, and tells `watch` the totals after each. With `stop`, no seed after the first
/// failing one is begun. `plan` makes a seed's day. Answers with the totals and the failing seeds
/// in order.
pub fn run_many(
    seeds: Range<u64>,
    threads: usize,
    stop: bool,
    plan: impl Fn(u64) -> Plan + Sync,
    mut watch: impl FnMut(&Totals),
) -> (Totals, Vec<SeedOutcome>) {
    let next = AtomicU64::new(seeds.start);
    let end = AtomicU64::new(seeds.end);
    let (sender, results) = mpsc::channel();
    let mut totals = Totals::default();
    let mut failed = Vec::new();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (next, end, plan, sender) = (&next, &end, &plan, sender.clone());
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Nobody listens any more when a thread has panicked: its join tells.
                    if seed >= end.load(Ordering::Relaxed)
                        || sender.send(play(seed, &plan(seed), false)).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for outcome in results {
            totals.add(&outcome);
            if outcome.violation.is_some() {
                if stop {
                    end.fetch_min(outcome.seed, Ordering::Relaxed);
                }
                failed.push(outcome);
            }
            watch(&totals);
        }
    });
    failed.sort_by_key(|outcome| outcome.seed);
    (totals, failed)
}
