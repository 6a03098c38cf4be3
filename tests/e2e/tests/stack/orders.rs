//! Events of one job in every order, each three times.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::aws::plain;
use muster_e2e::stack::id;
use muster_e2e::{Seen, Stack, Test, github, wait_for};
use serde_json::{Value, json};

const ORDERS: [[&str; 3]; 6] = [
    ["queued", "in_progress", "completed"],
    ["queued", "completed", "in_progress"],
    ["in_progress", "queued", "completed"],
    ["in_progress", "completed", "queued"],
    ["completed", "queued", "in_progress"],
    ["completed", "in_progress", "queued"],
];

/// Somebody else's runner takes each job: the events alone decide what we do.
pub(super) async fn six_orders(test: Test) -> Result<()> {
    let parameters = [
        ("idle_limit_seconds", "5"),
        ("boot_deadline_seconds", "20"),
        ("busy_reads_apart_seconds", "2"),
    ];
    let stack = test.stack(&parameters).await?;
    let installation = stack.installation().await?;
    let mut keys = Vec::new();
    for (n, order) in ORDERS.iter().enumerate() {
        let job = made_up_job(&stack, 8_800_000 + n as u64);
        keys.push(format!("{}/{}", job["repository"]["id"], job["id"]));
        for action in order {
            let payload = github::workflow_job(action, &job, installation)?;
            for _ in 0..3 {
                let answer = stack.deliver("workflow_job", &payload).await?;
                ensure!(answer.status == 202, "{action}: {answer:?}");
            }
        }
    }
    let _sweeps = stack.ticker(Duration::from_secs(2));
    until_all_completed(&stack, &keys).await?;
    // A late `queued` must not launch anything either: whatever there is ends, and nothing follows.
    let rows =
        if stack.rows().await?.is_empty() { vec![] } else { stack.until_all_deleted(90).await? };
    for (order, key) in ORDERS.iter().zip(&keys) {
        let planned = rows.iter().filter(|row| is_planned_for(row, key)).count();
        ensure!(planned <= 1, "{planned} instances for the order {order:?}");
        test.shows(format!("{}: {planned} machine(s)", order.join(", ")));
    }
    ensure!(rows.len() <= ORDERS.len(), "{} instances", rows.len());
    ensure!(stack.machines().await?.len() <= rows.len(), "more machines than records");
    stack.no_dead_letters().await
}

/// A job that only its events know of.
fn made_up_job(stack: &Stack, number: u64) -> Value {
    json!({
        "id": 44_000_000_000 + number,
        "run_id": 33_000_000_000 + number,
        "run_attempt": 1,
        "repository": { "id": 900_100_200, "owner": stack.owner, "name": "app", "private": true },
        "spec": { "labels": ["self-hosted", stack.name], "name": "build" },
    })
}

fn is_planned_for(row: &Value, key: &str) -> bool {
    id(&row["events"][0]["what"]).ends_with(&format!("planned for job {key}"))
}

async fn until_all_completed(stack: &Stack, keys: &[String]) -> Result<()> {
    wait_for("all six jobs to be on record as completed", 60, async || {
        let items = stack.aws.scan(stack.env.get("JOBS_TABLE")?).await?;
        let jobs: Vec<Value> = items.iter().map(|item| plain(&item["body"])).collect();
        let completed = |key: &&String| {
            jobs.iter().any(|job| job["key"] == key.as_str() && job["status"] == "completed")
        };
        let left: Vec<&String> = keys.iter().filter(|key| !completed(key)).collect();
        let depth = stack.aws.queue_depth(stack.env.get("JOBS_QUEUE_URL")?).await?;
        let done = left.is_empty() && depth == 0;
        Ok(Seen::from(done.then_some(()), || format!("{depth} in the queue, open: {left:?}")))
    })
    .await
}
