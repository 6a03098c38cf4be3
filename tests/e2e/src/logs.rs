//! What the functions wrote: log lines and metrics.

use anyhow::Result;
use muster_control::metrics::{DIMENSION, NAMESPACE};
use serde_json::{Value, json};

use crate::Stack;

/// The five functions, by the ends of their names.
pub const FUNCTIONS: [&str; 5] = ["webhook", "scale-up", "reaper", "runner-api", "admin"];

/// A value of a metric, as a function reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The metric's name.
    pub metric: String,
    /// Its value.
    pub value: f64,
    /// When, in milliseconds.
    pub at: u64,
    /// Namespace and dimensions, as CloudWatch would file it: `Muster{Stack=…}`.
    pub filed: String,
}

/// How a metric with one dimension is filed.
#[must_use]
pub fn filed(namespace: &str, dimensions: &[(&str, &str)]) -> String {
    let mut dimensions: Vec<String> =
        dimensions.iter().map(|(name, value)| format!("{name}={value}")).collect();
    dimensions.sort();
    format!("{namespace}{{{}}}", dimensions.join(","))
}

impl Stack {
    /// The lines of a function's log, oldest first.
    ///
    /// # Errors
    /// When the log cannot be read; a function that never ran has an empty one.
    pub async fn log(&self, function: &str) -> Result<Vec<String>> {
        let group = format!("/aws/lambda/{}-{function}", self.name);
        let body = json!({ "logGroupName": group, "limit": 10_000 });
        let reply = self.aws.try_json("logs", "Logs_20140328.FilterLogEvents", &body).await?;
        if reply.body.contains("ResourceNotFoundException") {
            return Ok(Vec::new());
        }
        let answer = reply.json()?;
        let lines = answer["events"].as_array().into_iter().flatten();
        Ok(lines.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect())
    }

    /// How often a function was invoked.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub async fn invocations(&self, function: &str) -> Result<usize> {
        let lines = self.log(function).await?;
        Ok(lines.iter().filter(|line| line.starts_with("START ")).count())
    }

    /// Everything that the functions measured, oldest first for each function.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub async fn measured(&self) -> Result<Vec<Measured>> {
        let mut all = Vec::new();
        for function in ["webhook", "reaper", "scale-up", "runner-api", "admin"] {
            for line in self.log(function).await? {
                if let Some(line) = serde_json::from_str(&line).ok().filter(is_metrics) {
                    all.extend(values(&line));
                }
            }
        }
        Ok(all)
    }

    /// The values of one metric, oldest first, as this stack's alarm sees them.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub async fn metric(&self, name: &str) -> Result<Vec<Measured>> {
        let ours = filed(NAMESPACE, &[(DIMENSION, &self.name)]);
        let all = self.measured().await?;
        Ok(all.into_iter().filter(|one| one.metric == name && one.filed == ours).collect())
    }
}

fn is_metrics(line: &Value) -> bool {
    line["_aws"]["CloudWatchMetrics"].is_array()
}

/// Reads a line of the embedded metric format as CloudWatch does: names, dimensions and values are
/// looked up in the line, never assumed.
fn values(line: &Value) -> Vec<Measured> {
    let at = line["_aws"]["Timestamp"].as_u64().unwrap_or_default();
    let mut found = Vec::new();
    for group in array(&line["_aws"]["CloudWatchMetrics"]) {
        let namespace = group["Namespace"].as_str().unwrap_or_default();
        for set in array(&group["Dimensions"]) {
            let names = array(set).iter().filter_map(Value::as_str);
            let dimensions: Vec<(&str, &str)> =
                names.map(|name| (name, line[name].as_str().unwrap_or_default())).collect();
            for metric in array(&group["Metrics"]) {
                let name = metric["Name"].as_str().unwrap_or_default();
                let value = &line[name];
                let values =
                    value.as_array().map_or_else(|| vec![value], |many| many.iter().collect());
                found.extend(values.into_iter().filter_map(Value::as_f64).map(|value| Measured {
                    metric: name.to_owned(),
                    value,
                    at,
                    filed: filed(namespace, &dimensions),
                }));
            }
        }
    }
    found
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
