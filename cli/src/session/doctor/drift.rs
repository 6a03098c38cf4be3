//! `--deep`: has CloudFormation compare every resource with the template, which takes a minute or
//! two.

use muster_domain::time::Seconds;
use muster_sigv4::Call;
use serde_json::Value;

use super::super::Session;
use super::super::batch::{Answer, CallBatch};
use crate::doctor::facts::Drifted;
use crate::doctor::{Fact, Unknown};
use crate::failure::Failure;
use crate::world::{Cloud, Console};

/// Time between two checks.
const LOOKS: Seconds = Seconds(3);
/// Maximum number of checks: five minutes.
const MOST: usize = 100;
/// Maximum number of pages of differences.
const PAGES: usize = 20;

fn call(action: &str, fields: &[(&str, &str)]) -> Call {
    let all = [&[("Action", action), ("Version", "2010-05-15")], fields].concat();
    Call::query("cloudformation", &all)
}

fn text<'a>(answer: &'a Value, pointer: &str) -> &'a str {
    answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn drift(&mut self, stack: &str) -> Result<Fact<Vec<Drifted>>, Failure> {
        let begun = match self.one(call("DetectStackDrift", &[("StackName", stack)])).await? {
            Ok(answer) => answer,
            Err(failure) => return Ok(Err(failure.into())),
        };
        let id = text(&begun, "/DetectStackDriftResult/StackDriftDetectionId");
        self.world.say("CloudFormation compares the resources with the template…");
        if let Err(unknown) = self.compared(id).await? {
            return Ok(Err(unknown));
        }
        let mut found = Vec::new();
        let mut token = String::new();
        for _ in 0..PAGES {
            let mut fields = vec![
                ("StackName", stack),
                ("StackResourceDriftStatusFilters.member.1", "MODIFIED"),
                ("StackResourceDriftStatusFilters.member.2", "DELETED"),
            ];
            if !token.is_empty() {
                fields.push(("NextToken", &token));
            }
            match self.one(call("DescribeStackResourceDrifts", &fields)).await? {
                Ok(answer) => {
                    found.extend(Drifted::read(&answer));
                    token =
                        text(&answer, "/DescribeStackResourceDriftsResult/NextToken").to_owned();
                }
                Err(failure) => return Ok(Err(failure.into())),
            }
            if token.is_empty() {
                break;
            }
        }
        Ok(Ok(found))
    }

    /// Waits until the comparison is complete.
    async fn compared(&mut self, id: &str) -> Result<Fact<()>, Failure> {
        const STATUS: &str = "DescribeStackDriftDetectionStatus";
        let late = || Ok(Err(Unknown::NoAnswer("CloudFormation is not done yet".to_owned())));
        for _ in 0..MOST {
            let answer = match self.one(call(STATUS, &[("StackDriftDetectionId", id)])).await? {
                Ok(answer) => answer,
                Err(failure) => return Ok(Err(failure.into())),
            };
            let of = |name: &str| text(&answer, &format!("/{STATUS}Result/{name}"));
            match of("DetectionStatus") {
                "DETECTION_IN_PROGRESS" => {
                    if !self.world.wait(LOOKS).await {
                        return late();
                    }
                }
                // Some resources could not be compared, but the others were.
                "DETECTION_FAILED" if of("StackDriftStatus").is_empty() => {
                    return Ok(Err(Unknown::NoAnswer(of("DetectionStatusReason").to_owned())));
                }
                _ => return Ok(Ok(())),
            }
        }
        late()
    }

    async fn one(&mut self, call: Call) -> Result<Answer, Failure> {
        let batch = CallBatch::default();
        self.together(&batch, batch.ask(call)).await
    }
}
