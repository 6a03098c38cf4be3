//! Every scenario once more for each call that its functions make: with the function stopped at
//! that call, and with the call held up for so long that others come first. No rule breaks, and all
//! comes to its end.
//!
//! Short stories are told so by every `cargo test` that is optimised, all of them by `make soak`:
//! two hundred thousand tellings, minutes of processor time.

mod stories;

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use muster_sim::many;
use muster_sim::scenario::{Disturbance, calls_of, disturb_each, undisturbed};
use muster_sim::summary::{Kind, Summary};

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

/// A story with at most so many calls is short: each call is disturbed in three ways.
const SHORT: usize = 150;

#[test]
#[cfg_attr(debug_assertions, ignore = "minutes where it is not optimised")]
fn no_rule_breaks_wherever_a_function_is_stopped_or_held_up_in_a_short_story() {
    // One that breaks a rule undisturbed is told, to say so.
    disturb_all(true, |name, text| {
        !TOO_LONG.contains(&name) && calls_of(text).as_ref().map_or(true, |calls| *calls <= SHORT)
    });
}

#[test]
#[ignore = "minutes: make soak"]
fn no_rule_breaks_wherever_a_function_is_stopped_or_held_up() {
    disturb_all(false, |name, _| !TOO_LONG.contains(&name));
}

/// Tells each wanted story again and again, on all processors. Where `is_compared`, the outcome is
/// that of the undisturbed story within the factors of an interruption.
fn disturb_all(is_compared: bool, is_wanted: fn(&str, &str) -> bool) {
    let stories: Vec<(String, String)> = scenarios()
        .into_iter()
        .map(|(_, name, text)| (name, text))
        .filter(|(name, text)| is_wanted(name, text))
        .collect();
    assert!(!stories.is_empty(), "no story is wanted");
    let next = AtomicUsize::new(0);
    let tell_some = || {
        while let Some((name, text)) = stories.get(next.fetch_add(1, Ordering::Relaxed)) {
            let usual = undisturbed(text)
                .unwrap_or_else(|broken| panic!("{name}: {}\n{}", broken.what, broken.trace));
            let watch = |_, disturbances: &[Disturbance], outcome: &Summary| {
                // A story boots its machines by command. One that is launched after its command boots when the
                // story ends, so waits cannot be compared.
                let mut wrong = outcome.differs_from(&usual, Kind::Interrupted);
                wrong.retain(|one| !one.starts_with("waited"));
                assert!(
                    !is_compared || wrong.is_empty(),
                    "{name}, {disturbances:?}: {}",
                    wrong.join("; ")
                );
            };
            match disturb_each(text, 1, watch) {
                // Past the harness, which keeps a test's words until its end.
                Ok(times) => writeln!(std::io::stdout().lock(), "{name}: told {times} times")
                    .expect("stdout"),
                Err(broken) => {
                    let lines: Vec<&str> = broken.trace.lines().collect();
                    let shown = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
                    panic!("{name}, {:?}: {}\n{shown}", broken.disturbances, broken.what);
                }
            }
        }
    };
    thread::scope(|scope| (0..many::threads()).for_each(|_| drop(scope.spawn(tell_some))));
}
