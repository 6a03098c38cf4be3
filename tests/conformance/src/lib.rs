//! One suite for every door to the cloud.
//!
//! The passes run over ports. Two implementations of each are asked here: the simulated cloud's own,
//! and the real adapters, which are tested on the simulated world of `tests/world` and on an
//! emulator.
//! What the simulator proves about the passes holds for AWS and GitHub only as far as its doors
//! behave like theirs. Each check here is a sentence about a port, asked of both sides; where they
//! differ, [`differences`] says so, by name.
//!
//! A door implements the trait of its part (`Ec2World`, `GithubWorld`, `NamesWorld`, `SetupWorld`,
//! `TableWorld`, `QueueWorld`): the port under test, and what a test must be able to do to the world behind it.

#![warn(missing_docs)]

pub mod differences;
pub mod ec2;
pub mod github;
pub mod names;
pub mod queue;
pub mod records;
pub mod setup;
pub mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Names the checks of a part, and runs one by its name.
macro_rules! checks {
    ($world:ident: $($name:ident,)+) => {
        /// Every check of this part.
        pub const CHECKS: &[&str] = &[$(stringify!($name)),+];

        /// Runs a check in a world of its own.
        ///
        /// # Panics
        /// When the door does not do what the check says.
        pub async fn check<W: $world>(name: &str, world: &W) {
            match name {
                $(stringify!($name) => $name(world).await,)+
                other => panic!("there is no check {other}"),
            }
        }
    };
}
pub(crate) use checks;

/// A check that a door does not pass, and why that is so.
pub type Difference = (&'static str, &'static str);

/// Runs all checks of a part, and says how many a door passes.
///
/// # Panics
/// When one fails that is not listed as a difference, or when one that is listed does not fail any
/// more.
#[must_use]
pub fn run_all(checks: &[&str], differences: &[Difference], run: impl Fn(&str)) -> usize {
    let mut problems = Vec::new();
    for (name, _) in differences {
        if !checks.contains(name) {
            problems.push(format!("{name}: listed as a difference, and there is no such check"));
        }
    }
    let mut passed = 0;
    for name in checks {
        let listed = differences.iter().any(|(known, _)| known == name);
        match (catch_unwind(AssertUnwindSafe(|| run(name))), listed) {
            (Ok(()), false) => passed += 1,
            (Ok(()), true) => {
                problems.push(format!("{name}: passes; strike it from the differences"));
            }
            (Err(_), true) => {}
            (Err(panic), false) => problems.push(format!("{name}: {}", words(panic.as_ref()))),
        }
    }
    assert!(
        problems.is_empty(),
        "{} of {}:\n{}",
        problems.len(),
        checks.len(),
        problems.join("\n")
    );
    passed
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}
