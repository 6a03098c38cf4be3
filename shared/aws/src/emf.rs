//! Metrics, as lines of CloudWatch's embedded metric format on standard output.
//!
//! Source:
//! docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html

use std::io::Write as _;

use muster_control::metrics::{DIMENSION, Metric, NAMESPACE};
use muster_domain::time::Time;
use serde_json::{Map, Value, json};

/// Writes values of metrics, one of each.
///
/// CloudWatch may count a line twice, so alarms on gauges look at the maximum and never at the sum.
pub fn emit(stack: &str, metrics: &[(Metric, f64)]) {
    let Some(line) = line(stack, metrics, crate::clock::now()) else { return };
    // A closed standard output must not stop the work that is being measured.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// The line, with its line feed; none when there is nothing to say.
fn line(stack: &str, metrics: &[(Metric, f64)], now: Time) -> Option<String> {
    let values = || metrics.iter().filter(|(_, value)| value.is_finite());
    let definitions: Vec<Value> =
        values().map(|(metric, _)| json!({"Name": metric.name(), "Unit": metric.unit()})).collect();
    if definitions.is_empty() {
        return None;
    }
    let mut line = Map::new();
    line.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": now.as_millis(),
            "CloudWatchMetrics": [{
                "Namespace": NAMESPACE,
                "Dimensions": [[DIMENSION]],
                "Metrics": definitions,
            }],
        }),
    );
    line.insert(DIMENSION.to_owned(), json!(stack));
    for (metric, value) in values() {
        line.insert(metric.name().to_owned(), json!(value));
    }
    Some(format!("{}\n", Value::Object(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(metrics: &[(Metric, f64)]) -> Value {
        let line = line("my-stack", metrics, Time::from_millis(1_795_000_000_123)).expect("a line");
        assert_eq!(line.matches('\n').count(), 1, "one line");
        serde_json::from_str(&line).expect("JSON")
    }

    #[test]
    fn a_line_has_the_form_of_the_specification() {
        let line = parsed(&[(Metric::Orphans, 2.0), (Metric::OldestQueuedJobAgeSeconds, 61.0)]);
        let expected = json!({
            "_aws": {
                "Timestamp": 1_795_000_000_123_i64,
                "CloudWatchMetrics": [{
                    "Namespace": "Muster",
                    "Dimensions": [["Stack"]],
                    "Metrics": [
                        {"Name": "Orphans", "Unit": "Count"},
                        {"Name": "OldestQueuedJobAgeSeconds", "Unit": "Seconds"},
                    ],
                }],
            },
            "Stack": "my-stack",
            "OldestQueuedJobAgeSeconds": 61.0,
            "Orphans": 2.0,
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn nothing_to_say_is_no_line() {
        assert_eq!(line("s", &[], Time::default()), None);
        assert_eq!(line("s", &[(Metric::Orphans, f64::NAN)], Time::default()), None);
    }
}
