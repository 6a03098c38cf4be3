//! Metrics, written to standard output.

use std::io::Write as _;

use muster_control::metrics::{Measure, Measures, lines};

/// Writes the values of metrics that `kept` selects.
///
/// CloudWatch may count a line twice, so alarms on gauges use the maximum and never the sum.
pub fn emit(stack: &str, kept: Measures, measures: &[Measure]) {
    let lines = lines(stack, kept, measures, crate::clock::now());
    if lines.is_empty() {
        return;
    }
    // A closed standard output must not stop the measured work.
    let _ = std::io::stdout().lock().write_all(lines.as_bytes());
}
