//! GitHub gives a job to any runner that fits.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::Test;
use serde_json::json;

/// The first machine boots late, so the second one's runner takes the first job: it is the oldest.
pub(super) async fn swapped(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    stack.next_machines(1, &json!({ "boot_delay_ms": 8000 })).await?;
    let first = stack.queue_job(&json!({ "duration_ms": 1500, "name": "first" })).await?;
    let late = stack.until_launched(1, 30).await?[0].clone();
    let second = stack.queue_job(&json!({ "duration_ms": 1500, "name": "second" })).await?;
    let quick = stack.until_launched(2, 30).await?[1].clone();

    let first = stack.until_served(&first, 60).await?;
    let second = stack.until_served(&second, 60).await?;
    ensure!(first["runner"]["machine"] == quick.as_str(), "no theft: {}", first["runner"]);
    ensure!(second["runner"]["machine"] == late.as_str(), "taken by {}", second["runner"]);
    test.shows(format!(
        "the first job was launched {late} and ran on {quick}; the second job vice versa"
    ));
    let rows = stack.until_all_deleted(60).await?;
    ensure!(rows.len() == 2, "{} instances", rows.len());
    ensure!(stack.machines().await?.len() == 2, "a third machine");
    stack.no_dead_letters().await
}

/// The same, and the machine that is left for the second job never boots.
pub(super) async fn spared_machine_is_dead(test: Test) -> Result<()> {
    let stack = test.stack(&[("boot_deadline_seconds", "25")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    stack.next_machines(1, &json!({ "never_boots": true })).await?;
    let first = stack.queue_job(&json!({ "duration_ms": 1500, "name": "first" })).await?;
    let dead = stack.until_launched(1, 30).await?[0].clone();
    let second = stack.queue_job(&json!({ "duration_ms": 1500, "name": "second" })).await?;
    let quick = stack.until_launched(2, 30).await?[1].clone();

    let first = stack.until_served(&first, 60).await?;
    ensure!(first["runner"]["machine"] == quick.as_str(), "no theft: {}", first["runner"]);
    let second = stack.until_served(&second, 90).await?;
    let third = stack.until_launched(3, 1).await?[2].clone();
    ensure!(second["runner"]["machine"] == third.as_str(), "taken by {}", second["runner"]);
    let row = stack.row_of(&dead).await?;
    ensure!(row["mark"]["reason"]["kind"] == "boot_timeout", "ended for {}", row["mark"]["reason"]);
    test.shows(format!(
        "{quick} took the other's job; {dead} never booted; {third} served the job left over"
    ));
    stack.until_all_deleted(60).await?;
    ensure!(stack.machines().await?.len() == 3, "more machines than needed");
    stack.no_dead_letters().await
}
