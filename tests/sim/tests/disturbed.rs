//! Every scenario once more for each call that its functions make: with the function stopped at
//! that call, and with the call held up for so long that others come first. No rule breaks, and all
//! comes to its end.
//!
//! A hundred thousand tellings: two minutes of processor time, where they are optimised.

mod stories;

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use muster_sim::many;
use muster_sim::scenario::disturb_each;

use self::stories::scenarios;

/// Told too often, or for too long each time. Thousands of jobs: one telling takes a tenth of a
/// second, and there are 1,600 calls. Two days, with a sweep each minute: tens of thousands of
/// calls, and the other gated stories tell the rest; hours, or many jobs and owners beside a GitHub
/// that refuses, likewise.
const TOO_LONG: [&str; 8] = [
    "a-few-more-than-a-launch-holds",
    "gated-expired-then-approved",
    "gated-for-two-days",
    "github-limits-registrations-alone",
    "github-refuses-for-hours",
    "one-of-many-owners-recovers",
    "refused-configurations-of-many-jobs",
    "withheld-jobs-buy-no-machines",
];
/// How much of a trace is shown: its end.
const LINES_SHOWN: usize = 150;

#[test]
#[cfg_attr(debug_assertions, ignore = "half an hour where it is not optimised")]
fn no_rule_breaks_wherever_a_function_is_stopped_or_held_up() {
    let stories: Vec<(String, String)> = scenarios()
        .into_iter()
        .map(|(_, name, text)| (name, text))
        .filter(|(name, _)| !TOO_LONG.contains(&name.as_str()))
        .collect();
    let (next, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let tell_some = || {
        while let Some((name, text)) = stories.get(next.fetch_add(1, Ordering::Relaxed)) {
            match disturb_each(text, 1, |_| ()) {
                Ok(times) => {
                    told.fetch_add(times, Ordering::Relaxed);
                    // Past the harness, which keeps a test's words until its end.
                    writeln!(std::io::stdout().lock(), "{name}: told {times} times")
                        .expect("stdout");
                }
                Err(broken) => {
                    let lines: Vec<&str> = broken.trace.lines().collect();
                    let shown = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
                    panic!("{name}, {:?}: {}\n{shown}", broken.disturbances, broken.what);
                }
            }
        }
    };
    thread::scope(|scope| (0..many::threads()).for_each(|_| drop(scope.spawn(tell_some))));
    let told = told.into_inner();
    assert!(told > 90_000, "only {told} tellings");
}
