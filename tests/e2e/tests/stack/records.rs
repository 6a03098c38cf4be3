//! Records that another version wrote.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::Test;
use serde_json::json;

/// An instance as another schema has it, listed among the live ones and due for long.
const OTHER: &str = "default-other-0";

pub(super) async fn other_schema(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    let item = json!({
        "name": { "S": OTHER },
        "schema": { "N": "9" },
        "generation": { "N": "1" },
        "live_pool": { "S": "default" },
        "live_order": { "S": format!("taken#2020-01-01T00:00:00.000Z#{OTHER}") },
        "due_shard": { "S": "0" },
        "due_at": { "S": "2020-01-01T00:00:00.000Z" },
        "body": { "M": {} },
    });
    let body = json!({ "TableName": stack.env.get("INSTANCES_TABLE")?, "Item": item });
    stack.aws.json("dynamodb", "DynamoDB_20120810.PutItem", &body).await?;

    let _sweeps = stack.ticker(Duration::from_secs(2));
    let job = stack.queue_job(&json!({ "duration_ms": 1500 })).await?;
    stack.until_served(&job, 60).await?;
    let listed = stack.admin(&json!({ "action": "list" })).await?;
    ensure!(listed["unreadable"] == json!([OTHER]), "list tells of {}", listed["unreadable"]);
    stack.refused(&json!({ "action": "show", "name": OTHER }), "unreadable_record").await?;
    test.shows("a record of schema 9 is named by list and show, and a job beside it is served");
    Ok(())
}
