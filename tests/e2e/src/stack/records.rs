//! The tables, read past the functions.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::Stack;
use crate::aws::plain;
use crate::wait::{Seen, wait_for};

impl Stack {
    /// All records of instances, also of those that are gone, straight from the table.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn rows(&self) -> Result<Vec<Value>> {
        let items = self.aws.scan(self.env.get("INSTANCES_TABLE")?).await?;
        // A machine's owner item contains the record as it was when the machine was bound.
        let is_owner = |item: &&Value| {
            item["name"]["S"].as_str().is_some_and(|name| name.starts_with("machine#"))
        };
        let records = items.iter().filter(|item| !is_owner(item));
        let bodies = records.map(|item| plain(&item["body"])).filter(Value::is_object);
        let mut rows: Vec<Value> = bodies.filter(|body| body["state"].is_string()).collect();
        rows.sort_by_key(|row| row["created_at"].to_string());
        Ok(rows)
    }

    /// The record of the instance that holds a machine.
    ///
    /// # Errors
    /// When none does.
    pub async fn row_of(&self, machine: &str) -> Result<Value> {
        let rows = self.rows().await?;
        let found = rows.into_iter().find(|row| row["machine"] == machine);
        found.with_context(|| format!("no record holds {machine}"))
    }

    /// Waits until every instance there ever was is `deleted`; answers with their records.
    ///
    /// # Errors
    /// After `seconds`.
    pub async fn until_all_deleted(&self, seconds: u64) -> Result<Vec<Value>> {
        wait_for("all instances to be deleted", seconds, async || {
            let rows = self.rows().await?;
            let states: Vec<String> = rows
                .iter()
                .map(|row| format!("{} {}/{}", row["name"], row["state"], row["runner"]["state"]))
                .collect();
            let done = !rows.is_empty() && rows.iter().all(|row| row["state"] == "deleted");
            Ok(Seen::from(done.then_some(rows), || states.join(", ")))
        })
        .await
    }

    /// Waits until an instance is in one of these states; answers with its record.
    ///
    /// # Errors
    /// After `seconds`.
    pub async fn until_state(&self, name: &str, states: &[&str], seconds: u64) -> Result<Value> {
        wait_for(&format!("instance {name} to be {}", states.join(" or ")), seconds, async || {
            let row = self.row(name).await?;
            let state = row["state"].as_str().unwrap_or_default().to_owned();
            let there = states.contains(&state.as_str());
            Ok(Seen::from(there.then_some(row), || state))
        })
        .await
    }

    /// The record of an instance, straight from the table.
    ///
    /// # Errors
    /// When there is none.
    pub async fn row(&self, name: &str) -> Result<Value> {
        let table = self.env.get("INSTANCES_TABLE")?;
        let body =
            json!({ "TableName": table, "Key": { "name": { "S": name } }, "ConsistentRead": true });
        let item = self.aws.json("dynamodb", "DynamoDB_20120810.GetItem", &body).await?;
        let row = plain(&item["Item"]["body"]);
        if row.is_null() {
            bail!("no record of instance {name}");
        }
        Ok(row)
    }

    /// Nothing was given up on: all dead-letter queues are empty.
    ///
    /// # Errors
    /// When one is not.
    pub async fn no_dead_letters(&self) -> Result<()> {
        for queue in ["JOBS_DLQ_URL", "LAUNCH_DLQ_URL", "REAP_DLQ_URL"] {
            let depth = self.aws.queue_depth(self.env.get(queue)?).await?;
            ensure!(depth == 0, "{depth} message(s) in {queue}");
        }
        Ok(())
    }
}
