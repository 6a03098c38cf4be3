//! What a person would look at first when a scenario fails.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::Stack;
use crate::logs::FUNCTIONS;
use crate::stack::id;

/// Lines of each function's log, and calls, that are shown.
const SHOWN: usize = 15;

impl Stack {
    /// Records, jobs, machines, calls and warnings of the stack, as text.
    pub async fn diagnosis(&self) -> String {
        let mut text = format!("--- stack {}\n", self.name);
        self.instances_to(&mut text).await;
        self.jobs_to(&mut text).await;
        self.machines_to(&mut text).await;
        self.calls_to(&mut text).await;
        self.logs_to(&mut text).await;
        text
    }

    async fn instances_to(&self, text: &mut String) {
        let rows = match self.rows().await {
            Ok(rows) => rows,
            Err(error) => return line(text, format!("instances: {error:#}")),
        };
        for row in rows {
            line(
                text,
                format!(
                    "instance {}: {}, runner {}, machine {}, claim {}, attempts {}, due {}",
                    row["name"],
                    row["state"],
                    row["runner"]["state"],
                    row["machine"],
                    row["claim"],
                    row["attempts"],
                    row["due_at"]
                ),
            );
            for event in row["events"].as_array().into_iter().flatten() {
                line(text, format!("    {} {}", id(&event["at"]), id(&event["what"])));
            }
        }
    }

    async fn jobs_to(&self, text: &mut String) {
        let jobs = self.world.list(&format!("jobs?owner={}", self.owner)).await;
        for job in jobs.unwrap_or_default() {
            line(
                text,
                format!(
                    "job {}: {} {}, runner {}, refused {}, killed {}",
                    job["id"],
                    job["status"],
                    job["conclusion"],
                    job["runner"]["name"],
                    job["refused"],
                    job["killed"]
                ),
            );
            if job["status"] == "completed" {
                continue;
            }
            let key = format!("{}/{}", job["repository"]["id"], job["id"]);
            let asked = json!({ "action": "explain", "job": key });
            let explained = self.ask(&asked).await.unwrap_or(Value::Null);
            for sentence in explained["explanation"].as_array().into_iter().flatten() {
                line(text, format!("    {}", id(sentence)));
            }
        }
    }

    async fn machines_to(&self, text: &mut String) {
        for machine in self.machines().await.unwrap_or_default() {
            let name = id(&machine["id"]);
            line(text, format!("machine {name}: {} {}", machine["state"], machine["reason"]));
            let console = self.world.console(&name).await.unwrap_or_default();
            let lines: Vec<&str> = console.lines().collect();
            for console in &lines[lines.len().saturating_sub(6)..] {
                line(text, format!("    {console}"));
            }
        }
    }

    async fn calls_to(&self, text: &mut String) {
        let calls = self.world.list(&format!("calls?stack={}", self.name)).await;
        let calls = calls.unwrap_or_default();
        for call in &calls[calls.len().saturating_sub(SHOWN)..] {
            line(
                text,
                format!(
                    "call {} {}:{} {} → {}",
                    call["at_ms"],
                    id(&call["door"]),
                    id(&call["operation"]),
                    call["targets"],
                    call["outcome"]
                ),
            );
        }
    }

    async fn logs_to(&self, text: &mut String) {
        for function in FUNCTIONS {
            let lines = self.log(function).await.unwrap_or_default();
            let bad = |line: &&String| {
                ["\"WARN\"", "\"ERROR\"", "panicked", "errorMessage"]
                    .iter()
                    .any(|sign| line.contains(sign))
            };
            let bad: Vec<&String> = lines.iter().filter(bad).collect();
            for one in &bad[bad.len().saturating_sub(SHOWN)..] {
                line(text, format!("{function}: {one}"));
            }
        }
    }
}

fn line(text: &mut String, line: String) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}
