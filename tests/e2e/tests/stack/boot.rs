//! A machine that never becomes a runner.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::Test;
use serde_json::json;

pub(super) async fn never_registers(test: Test) -> Result<()> {
    const DEADLINE_MS: u64 = 25_000;
    let stack = test.stack(&[("boot_deadline_seconds", "25")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    stack.next_machines(1, &json!({ "never_boots": true })).await?;
    let job = stack.queue_job(&json!({ "duration_ms": 500 })).await?;
    let dead = stack.until_launched(1, 30).await?[0].clone();
    let served = stack.until_served(&job, 90).await?;
    let machines = stack.machines().await?;
    ensure!(machines.len() == 2, "{} machines", machines.len());
    ensure!(served["runner"]["machine"] == machines[1]["id"], "served by {}", served["runner"]);

    let row = stack.row_of(&dead).await?;
    ensure!(row["mark"]["reason"]["kind"] == "boot_timeout", "ended for {}", row["mark"]["reason"]);
    let launched = |n: usize| machines[n]["launched_at"].as_u64().unwrap_or_default();
    let terminates = stack.calls("ec2", "TerminateInstances").await?;
    let at = terminates.first().and_then(|call| call["at_ms"].as_u64()).unwrap_or_default();
    let after = at.saturating_sub(launched(0));
    test.shows(format!(
        "terminated {after} ms after its launch; the next machine came {} ms after the first",
        launched(1).saturating_sub(launched(0))
    ));
    // The deadline counts from the record, which is made a moment before the launch.
    ensure!(after + 1500 >= DEADLINE_MS, "reaped too early: {after} ms");
    stack.until_all_deleted(60).await?;
    stack.no_dead_letters().await
}
