//! Logs: one JSON object per line on standard output, with the `timestamp` and `level` that
//! Lambda's log filter requires.

use std::str::FromStr;

use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Initializes logging. `level` is Lambda's setting (`AWS_LAMBDA_LOG_LEVEL`); an invalid level
/// means `info`.
///
/// Libraries log only `warn` and above: at finer levels the HTTP stack logs headers, which include
/// credentials.
///
/// A second call has no effect, so tests may start handlers of several functions in one process.
pub fn init(level: Option<&str>) {
    let own = level.and_then(|level| LevelFilter::from_str(level.trim()).ok());
    let targets = targets(own.unwrap_or(LevelFilter::INFO));
    let json = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false);
    let _ = tracing_subscriber::registry().with(targets).with(json).try_init();
}

/// The runtime, whose span contains the request ID. At `trace` it logs whole events: signed
/// deliveries, and machines' credentials.
const RUNTIME: &str = "lambda_runtime";
/// The prefix of all Muster crates' targets.
const OURS: &str = "muster_";

fn targets(own: LevelFilter) -> Targets {
    let others = own.min(LevelFilter::from_level(Level::WARN));
    let runtime = own.min(LevelFilter::from_level(Level::DEBUG));
    Targets::new().with_default(others).with_target(OURS, own).with_target(RUNTIME, runtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_http_stack_never_logs_below_warn() {
        let targets = targets(LevelFilter::TRACE);
        assert!(targets.would_enable("muster_control::reaps::reap", &Level::TRACE));
        assert!(targets.would_enable("hyper", &Level::WARN));
        assert!(!targets.would_enable("hyper", &Level::INFO));
        assert!(!targets.would_enable("aws_config::meta", &Level::INFO));
    }

    #[test]
    fn the_runtime_never_logs_events() {
        let targets = targets(LevelFilter::TRACE);
        assert!(targets.would_enable("lambda_runtime::layers", &Level::DEBUG));
        assert!(!targets.would_enable("lambda_runtime::layers::api_response", &Level::TRACE));
    }

    #[test]
    fn a_strict_level_holds_for_all() {
        let targets = targets(LevelFilter::ERROR);
        assert!(!targets.would_enable("hyper", &Level::WARN));
        assert!(!targets.would_enable("muster_control", &Level::WARN));
    }
}
