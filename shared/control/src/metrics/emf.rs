//! CloudWatch's embedded metric format.
//!
//! Source:
//! docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html

use std::collections::BTreeMap;

use muster_domain::time::Time;
use serde_json::{Map, Value, json};

use super::{
    DIMENSION, Dimensions, Measure, Measures, Metric, MetricSubject, NAMESPACE, POOL_DIMENSION,
    REASON_DIMENSION,
};

/// Maximum number of a metric's values in one line: the specification's limit for a target member.
const MAX_VALUES: usize = 100;

/// Values by metric.
type Values = BTreeMap<Metric, Vec<f64>>;

/// Formats the values of metrics that `kept` selects as lines, each with a line feed. A line has one subject, because a metric's name occurs
/// only once in it.
#[must_use]
pub fn lines(stack: &str, kept: Measures, measures: &[Measure], now: Time) -> String {
    let mut all: BTreeMap<&MetricSubject, Values> = BTreeMap::new();
    for Measure { metric, of, values } in measures {
        let values = values.iter().copied().filter(|value| value.is_finite());
        all.entry(of).or_default().entry(*metric).or_default().extend(values);
    }
    let mut lines = String::new();
    for (of, mut values) in all {
        values.retain(|metric, _| !filed(*metric, of, kept).is_empty());
        loop {
            // Surplus values go to further lines, so that no value is lost.
            let some: Values =
                values.iter_mut().map(|(metric, values)| (*metric, cut(values))).collect();
            let Some(line) = line(stack, kept, of, &some, now) else { break };
            lines.push_str(&line);
        }
    }
    lines
}

/// Removes and returns the values that fit in one line.
fn cut(values: &mut Vec<f64>) -> Vec<f64> {
    let rest = values.split_off(values.len().min(MAX_VALUES));
    std::mem::replace(values, rest)
}

/// Returns the dimensions under which a value of `of` is recorded.
fn filed(metric: Metric, of: &MetricSubject, kept: Measures) -> Vec<Dimensions> {
    let all = metric.dimensions().iter().copied();
    all.filter(|by| of.has(*by) && kept.keeps(metric, *by)).collect()
}

/// Formats a line. `None` if it would have no metric.
fn line(
    stack: &str,
    kept: Measures,
    of: &MetricSubject,
    values: &Values,
    now: Time,
) -> Option<String> {
    let mut line = Map::new();
    let mut directives: BTreeMap<Vec<Dimensions>, Vec<Value>> = BTreeMap::new();
    for (metric, values) in values.iter().filter(|(_, values)| !values.is_empty()) {
        let definition = json!({"Name": metric.name(), "Unit": metric.unit()});
        directives.entry(filed(*metric, of, kept)).or_default().push(definition);
        let value = match &values[..] {
            [one] => json!(one),
            many => json!(many),
        };
        line.insert(metric.name().to_owned(), value);
    }
    if directives.is_empty() {
        return None;
    }
    let directive = |(by, metrics): (Vec<Dimensions>, Vec<Value>)| {
        let by: Vec<&[&str]> = by.into_iter().map(Dimensions::names).collect();
        json!({"Namespace": NAMESPACE, "Dimensions": by, "Metrics": metrics})
    };
    let directives: Vec<Value> = directives.into_iter().map(directive).collect();
    line.insert(
        "_aws".to_owned(),
        json!({ "Timestamp": now.as_millis(), "CloudWatchMetrics": directives }),
    );
    line.insert(DIMENSION.to_owned(), json!(stack));
    match of {
        MetricSubject::Stack => {}
        MetricSubject::Pool(pool) => drop(line.insert(POOL_DIMENSION.to_owned(), json!(pool))),
        MetricSubject::Reason(reason) => {
            drop(line.insert(REASON_DIMENSION.to_owned(), json!(reason.as_str())));
        }
    }
    Some(format!("{}\n", Value::Object(line)))
}

#[cfg(test)]
mod tests {
    use muster_domain::launch::verdict::WaitReason;

    use super::*;

    fn written(kept: Measures, measures: &[Measure]) -> Vec<Value> {
        let lines = lines("s", kept, measures, Time::from_millis(1_795_000_000_123));
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn gpu() -> MetricSubject {
        MetricSubject::Pool("gpu".to_owned())
    }

    /// Returns the dimensions of the only line.
    fn dimensions(kept: Measures, measure: &Measure) -> Value {
        match &written(kept, std::slice::from_ref(measure))[..] {
            [] => json!([]),
            [line] => line["_aws"]["CloudWatchMetrics"][0]["Dimensions"].clone(),
            more => panic!("{more:?}"),
        }
    }

    #[test]
    fn a_line_has_the_form_of_the_specification() {
        let orphans = Measure::new(Metric::Orphans, 2.0);
        let age = Measure::new(Metric::OldestQueuedJobAgeSeconds, 61.0);
        let expected = json!({
            "_aws": {
                "Timestamp": 1_795_000_000_123_i64,
                "CloudWatchMetrics": [{
                    "Namespace": "Muster",
                    "Dimensions": [["Stack"]],
                    "Metrics": [
                        {"Name": "OldestQueuedJobAgeSeconds", "Unit": "Seconds"},
                        {"Name": "Orphans", "Unit": "Count"},
                    ],
                }],
            },
            "Stack": "s",
            "OldestQueuedJobAgeSeconds": 61.0,
            "Orphans": 2.0,
        });
        assert_eq!(written(Measures::Pools, &[orphans, age]), [expected]);
    }

    #[test]
    fn nothing_to_say_is_no_line() {
        for measures in [vec![], vec![Measure::new(Metric::Orphans, f64::NAN)]] {
            assert_eq!(written(Measures::Pools, &measures), Vec::<Value>::new());
        }
    }

    #[test]
    fn each_metric_is_filed_by_its_own_dimensions() {
        let wait = Measure::of(gpu(), Metric::JobWaitSeconds, 31.5);
        let live = Measure::of(gpu(), Metric::MachinesLive, 3.0);
        let young = MetricSubject::Reason(WaitReason::Young);
        let waiting = Measure::of(young, Metric::JobsWaiting, 2.0);
        let lines = written(Measures::Pools, &[wait.clone(), waiting, live]);
        let [pool, reason] = &lines[..] else { panic!("{lines:?}") };
        let metric = |name, unit| json!([{"Name": name, "Unit": unit}]);
        assert_eq!(
            pool["_aws"]["CloudWatchMetrics"],
            json!([
                {"Namespace": "Muster", "Dimensions": [["Stack"], ["Stack", "Pool"]],
                    "Metrics": metric("JobWaitSeconds", "Seconds")},
                {"Namespace": "Muster", "Dimensions": [["Stack", "Pool"]],
                    "Metrics": metric("MachinesLive", "Count")},
            ])
        );
        assert_eq!((&pool["Pool"], &pool["JobWaitSeconds"]), (&json!("gpu"), &json!(31.5)));
        assert_eq!((&reason["Reason"], &reason["JobsWaiting"]), (&json!("young"), &json!(2.0)));
        assert_eq!(dimensions(Measures::Stack, &wait), json!([["Stack"]]));
        assert_eq!(dimensions(Measures::None, &wait), json!([["Stack"]]));
        let gated = Measure::new(Metric::JobsGated, 1.0);
        assert_eq!(dimensions(Measures::Stack, &gated), json!([["Stack"]]));
        assert_eq!(dimensions(Measures::None, &gated), json!([]));
    }

    #[test]
    fn a_line_has_at_most_a_hundred_values_and_none_is_lost() {
        let wait = |n: u32| Measure::of(gpu(), Metric::JobWaitSeconds, f64::from(n));
        let mut measures: Vec<Measure> = (0..250).map(wait).collect();
        measures.push(Measure::of(gpu(), Metric::MachinesLive, 3.0));
        let lines = written(Measures::Pools, &measures);
        let values: Vec<&Vec<Value>> =
            lines.iter().filter_map(|line| line["JobWaitSeconds"].as_array()).collect();
        let counts: Vec<usize> = values.iter().map(|values| values.len()).collect();
        assert_eq!(counts, [100, 100, 50]);
        let all: Vec<Value> = (0..250).map(|n| json!(f64::from(n))).collect();
        assert_eq!(values.into_iter().flatten().cloned().collect::<Vec<_>>(), all);
        let live = lines.iter().filter(|line| line.get("MachinesLive").is_some());
        assert_eq!(live.count(), 1);
    }
}
