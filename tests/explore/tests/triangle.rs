//! placeholder
use explore::rules::Rules;
use explore::search::explore;
use explore::triangle::{Config, FAULTS, Replay, Triangle};
use std::io::Write as _;

#[test]
fn quick() {
    for faults in 0..=std::env::var("F").ok().and_then(|f| f.parse().ok()).unwrap_or(1) {
        for replay in [Replay::Whole, Replay::Bare, Replay::ErrorsOnly] {
            let config = Config { max: 2, faults, kinds: FAULTS, replay, grain: if std::env::var("FINE").is_ok() {explore::triangle::Grain::Verb} else {explore::triangle::Grain::Effect}, jobs: std::env::var("J").ok().and_then(|f| f.parse().ok()).unwrap_or(2) };
            let world = Triangle::new(config, Rules::real());
            match explore(&world, std::env::var("L").ok().and_then(|f| f.parse().ok()).unwrap_or(1_000_000)) {
                Ok(report) => writeln!(std::io::stderr(), "{faults} {replay:?}: {report}").unwrap(),
                Err(error) => panic!("{faults} {replay:?}: {error}"),
            }
        }
    }
}
