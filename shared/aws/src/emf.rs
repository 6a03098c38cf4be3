//! Metrics, as lines of CloudWatch's embedded metric format on standard output.
//!
//! Source:
//! docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html

use std::io::Write as _;

use muster_control::metrics::{DIMENSION, Metric, NAMESPACE, POOL_DIMENSION};
use muster_domain::ids::PoolName;
use muster_domain::time::Time;
use serde_json::{Map, Value, json};

/// Writes values of metrics, one of each.
///
/// CloudWatch may count a line twice, so alarms on gauges look at the maximum and never at the sum.
pub fn emit(stack: &str, metrics: &[(Metric, f64)]) {
    write(line(stack, None, metrics, crate::clock::now()));
}

/// The same of a pool.
pub fn emit_of_pool(stack: &str, pool: &PoolName, metrics: &[(Metric, f64)]) {
    write(line(stack, Some(pool), metrics, crate::clock::now()));
}

fn write(line: Option<String>) {
    let Some(line) = line else { return };
    // A closed standard output must not stop the work that is being measured.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// The line, with its line feed; none when there is nothing to say.
fn line(
    stack: &str,
    pool: Option<&PoolName>,
    metrics: &[(Metric, f64)],
    now: Time,
) -> Option<String> {
    let values = || metrics.iter().filter(|(_, value)| value.is_finite());
    let definitions: Vec<Value> =
        values().map(|(metric, _)| json!({"Name": metric.name(), "Unit": metric.unit()})).collect();
    if definitions.is_empty() {
        return None;
    }
    let mut line = Map::new();
    let dimensions: Vec<&str> =
        std::iter::once(DIMENSION).chain(pool.map(|_| POOL_DIMENSION)).collect();
    line.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": now.as_millis(),
            "CloudWatchMetrics": [{
                "Namespace": NAMESPACE,
                "Dimensions": [dimensions],
                "Metrics": definitions,
            }],
        }),
    );
    line.insert(DIMENSION.to_owned(), json!(stack));
    if let Some(pool) = pool {
        line.insert(POOL_DIMENSION.to_owned(), json!(pool));
    }
    for (metric, value) in values() {
        line.insert(metric.name().to_owned(), json!(value));
    }
    Some(format!("{}\n", Value::Object(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(metrics: &[(Metric, f64)]) -> Value {
        let at = Time::from_millis(1_795_000_000_123);
        let line = line("my-stack", None, metrics, at).expect("a line");
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
        assert_eq!(line("s", None, &[], Time::default()), None);
        assert_eq!(line("s", None, &[(Metric::Orphans, f64::NAN)], Time::default()), None);
    }

    #[test]
    fn a_pool_s_metric_has_both_dimensions() {
        let pool = "gpu".parse().expect("a name");
        let metrics = [(Metric::MachinesServedNothing, 3.0)];
        let line = line("s", Some(&pool), &metrics, Time::default()).expect("a line");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        let dimensions = &line["_aws"]["CloudWatchMetrics"][0]["Dimensions"];
        assert_eq!(*dimensions, json!([["Stack", "Pool"]]));
        let told = (&line["Stack"], &line["Pool"], &line["MachinesServedNothing"]);
        assert_eq!(told, (&json!("s"), &json!("gpu"), &json!(3.0)));
    }
}
