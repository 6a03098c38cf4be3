//! The last day of waiting jobs and live machines, from CloudWatch.

use std::collections::BTreeMap;

use muster_domain::time::{Seconds, Time};
use muster_sigv4::Call;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::queues::{Services, call};

/// The period of a point.
const STEP: Seconds = Seconds(900);
/// Number of points: a day.
const POINTS: i64 = 96;
/// The metrics, with their IDs in the request. The reaper publishes both for each pool, once a minute.
const METRICS: [(&str, &str); 2] = [("jobs", "JobsWaiting"), ("machines", "MachinesLive")];

/// The last day, in steps of 15 minutes; `None` where the reaper published nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trend {
    /// The maximum of waiting jobs in each step, summed over the pools.
    pub jobs: Vec<Option<u64>>,
    /// The maximum of live machines in each step, summed over the pools.
    pub machines: Vec<Option<u64>>,
    /// Why CloudWatch did not answer.
    pub failed: Option<String>,
}

impl Trend {
    /// Queries CloudWatch. A failure is part of the result, because no page depends on the trend.
    pub async fn of(services: &mut impl Services, stack: &str, now: Time) -> Self {
        match call(services, request(stack, now)).await {
            Ok(answer) => Self::read(&answer, now),
            Err(failure) => Self { failed: Some(failure.sentence()), ..Self::default() },
        }
    }

    /// Parses CloudWatch's answer.
    #[must_use]
    pub fn read(answer: &Value, now: Time) -> Self {
        let series = |id: &str| {
            let all = answer["MetricDataResults"].as_array().into_iter().flatten();
            let one = all.filter(|one| one["Id"] == id);
            let points: BTreeMap<i64, u64> = one.flat_map(points).collect();
            let last = step(now);
            (last - POINTS + 1..=last).map(|step| points.get(&step).copied()).collect()
        };
        let [jobs, machines] = METRICS.map(|(id, _)| series(id));
        Self { jobs, machines, failed: None }
    }
}

fn step(at: Time) -> i64 {
    at.as_secs().div_euclid(i64::from(STEP.0))
}

/// Sums each metric over all pools.
/// Source: docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-search-expressions.html
fn request(stack: &str, now: Time) -> Call {
    let query = |(id, name): (&str, &str)| {
        let search = format!("{{Muster,Pool,Stack}} MetricName=\"{name}\" Stack=\"{stack}\"");
        json!({ "Id": id, "Expression": format!("SUM(SEARCH('{search}', 'Maximum', {}))", STEP.0) })
    };
    let from = now - Seconds(STEP.0 * POINTS.unsigned_abs() as u32);
    let body = json!({
        "MetricDataQueries": METRICS.map(query),
        "StartTime": from.as_secs(), "EndTime": now.as_secs(),
    });
    Call::json("monitoring", "GraniteServiceVersion20100801.GetMetricData", &body)
}

/// Returns the step and value of each point. CloudWatch writes times as seconds or as text.
fn points(series: &Value) -> Vec<(i64, u64)> {
    let all = |field: &str| series[field].as_array().cloned().unwrap_or_default();
    let at = |time: &Value| match time {
        Value::String(text) => text.parse().ok(),
        time => time.as_f64().map(|seconds| Time::from_millis((seconds * 1_000.0) as i64)),
    };
    let value = |value: &Value| value.as_f64().map(|value| value.max(0.0).round() as u64);
    let pairs = all("Timestamps").into_iter().zip(all("Values"));
    pairs.filter_map(|(time, one)| Some((step(at(&time)?), value(&one)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stand_at_their_times_whatever_their_form_and_order() {
        let now: Time = "2026-11-21T00:07:00.000Z".parse().expect("a time");
        let step = now.as_secs() - now.as_secs() % 900;
        let answer = json!({ "MetricDataResults": [
            { "Id": "jobs", "Timestamps": [step, step - 900], "Values": [3.0, 12.4] },
            { "Id": "machines", "Timestamps": ["2026-11-20T23:45:00Z", "2026-11-19T23:45:00Z"], "Values": [7, 9] },
            { "Id": "other", "Timestamps": [step], "Values": [1] },
        ] });
        let trend = Trend::read(&answer, now);
        assert_eq!((trend.jobs.len(), &trend.jobs[94..]), (96, &[Some(12), Some(3)][..]));
        assert_eq!(trend.machines.iter().flatten().collect::<Vec<_>>(), [&7]);
        assert_eq!(trend.machines[94], Some(7));
        assert!(Trend::read(&json!({}), now).jobs.iter().all(Option::is_none));
    }
}
