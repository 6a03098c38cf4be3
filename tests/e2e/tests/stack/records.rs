//! Records that another version wrote.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use muster_e2e::local::root;
use muster_e2e::wait::when;
use muster_e2e::{Stack, Test, wait_for};
use serde_json::{Value, json};

/// Items that functions of schema 1 left, by key, in DynamoDB's own JSON.
const FIXTURE: &str = "shared/aws/tests/fixtures/schema1.json";
/// The live instance among them.
const LIVE: &str = "default-l1-0";
/// The pool's counter.
const POOL: &str = "pool#default";

pub(super) async fn previous_schema(test: Test) -> Result<()> {
    let stack = test.stack(&[("AbsenceConfirmSeconds", "3"), ("OrphanAgeSeconds", "6")]).await?;
    let text = std::fs::read_to_string(root().join(FIXTURE)).context(FIXTURE)?;
    let items: Value = serde_json::from_str(&text)?;
    let items = items.as_object().context("the fixture is no object")?;
    for (key, item) in items {
        let mut item = item.clone();
        if key == POOL {
            // Counted from the items themselves: one is live.
            item["live"] = json!({ "N": "1" });
        }
        put(&stack, &item).await?;
    }
    test.shows(format!("{} items of schema 1 put into the tables", items.len()));

    let shown = stack.show(LIVE).await?;
    ensure!(shown["instance"]["name"] == LIVE, "show answers {shown}");
    let listed = stack.admin(&json!({ "action": "list" })).await?;
    ensure!(listed["unreadable"] == json!([]), "list cannot read {}", listed["unreadable"]);
    let jobs = stack.admin(&json!({ "action": "jobs" })).await?;
    ensure!(jobs["jobs"].as_array().is_some_and(|jobs| !jobs.is_empty()), "no waiting job: {jobs}");
    stack.admin(&json!({ "action": "explain", "job": "1/1" })).await?;
    stack.admin(&json!({ "action": "status" })).await?;

    let _sweeps = stack.ticker(Duration::from_secs(2));
    // Its machine has never been in this EC2: the record is worked on until it is at its end.
    let row = stack.until_state(LIVE, &["deleted"], 60).await?;
    ensure!(row["schema"] == 2, "written as schema {}", row["schema"]);
    let unknown = stack.metric("UnknownRecords").await?;
    ensure!(unknown.iter().all(|one| one.value == 0.0), "UnknownRecords: {unknown:?}");
    test.shows("show, list, jobs, explain and status read them; the live instance was worked on to its end, as schema 2");

    newer_is_left_alone(&stack, &items[LIVE]).await?;
    test.shows("a record of schema 3 is left alone and counted");
    Ok(())
}

async fn put(stack: &Stack, item: &Value) -> Result<()> {
    let table =
        ["name", "job", "id"].iter().zip(["INSTANCES_TABLE", "JOBS_TABLE", "CONTROL_TABLE"]);
    let Some((_, table)) = table.into_iter().find(|(key, _)| item[**key].is_object()) else {
        bail!("no table for {item}");
    };
    let body = json!({ "TableName": stack.env.get(table)?, "Item": item });
    stack.aws.json("dynamodb", "DynamoDB_20120810.PutItem", &body).await.map(drop)
}

/// A version that comes back after a failed deployment meets records of the one after it.
async fn newer_is_left_alone(stack: &Stack, item: &Value) -> Result<()> {
    const NAME: &str = "default-l9-0";
    let mut newer = item.clone();
    newer["name"] = json!({ "S": NAME });
    newer["schema"] = json!({ "N": "3" });
    newer["due_at"] = json!({ "S": "2020-01-01T00:00:00.000Z" });
    put(stack, &newer).await?;
    wait_for("the newer record to be counted", 30, async || {
        let last = stack.metric("UnknownRecords").await?.last().map(|one| one.value);
        Ok(when(last.is_some_and(|count| count >= 1.0), || format!("{last:?}")))
    })
    .await?;
    stack.refused(&json!({ "action": "show", "name": NAME }), "unreadable_record").await.map(drop)
}
