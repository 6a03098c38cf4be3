//! GitHub refuses our credentials.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::stack::id;
use muster_e2e::wait::when;
use muster_e2e::{Stack, Test, wait_for};
use serde_json::{Value, json};

pub(super) async fn unauthorized(test: Test) -> Result<()> {
    let stack = test.stack(&[("idle_limit_seconds", "120")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    let (name, machine) = idle_runner(&stack).await?;
    let fault = stack
        .fault(&json!({
            "door": "github",
            "answer": { "error": { "status": 401, "message": "Bad credentials" } },
        }))
        .await?;
    let order = |flags: Value| {
        let mut request =
            json!({ "action": "delete", "name": name, "reason": "key was revoked", "force": true });
        if let (Some(request), Value::Object(flags)) = (request.as_object_mut(), flags) {
            request.extend(flags);
        }
        request
    };
    stack.admin(&order(json!({}))).await?;
    wait_for("the forced delete to wait for GitHub", 30, async || {
        let row = stack.row(&name).await?;
        let waiting = &row["mark"]["waiting"]["kind"];
        Ok(when(waiting == "unauthorized", || format!("{} {}", row["state"], row["mark"])))
    })
    .await?;
    until_unhealthy(&stack, 1).await?;
    ensure!(stack.calls("ec2", "TerminateInstances").await?.is_empty(), "force passed a 401");
    let explained = stack.admin(&json!({ "action": "explain", "name": name })).await?;
    for line in explained["explanation"].as_array().into_iter().flatten() {
        test.shows(format!("explain: {}", id(line)));
    }

    stack.admin(&order(json!({ "bypass_github_unauthorized": true }))).await?;
    stack.until_state(&name, &["deleted"], 30).await?;
    test.shows(format!("with bypass_github_unauthorized {machine} is gone"));

    stack.heal(fault).await?;
    let job = stack.queue_job(&json!({ "duration_ms": 500 })).await?;
    stack.until_served(&job, 60).await?;
    until_unhealthy(&stack, 0).await?;
    test.shows("GitHub healed: the next job is served, and the entity is healthy again");
    stack.until_all_deleted(60).await?;
    stack.no_dead_letters().await
}

/// A registered runner without a job: its own was cancelled while it booted.
async fn idle_runner(stack: &Stack) -> Result<(String, String)> {
    let job = stack.queue_job(&json!({})).await?;
    let machine = stack.until_launched(1, 30).await?.remove(0);
    stack.cancel(&job).await?;
    let name = stack.until_bound(&machine, 30).await?;
    wait_for("the runner to be idle", 60, async || {
        let row = stack.row(&name).await?;
        Ok(when(row["runner"]["state"] == "idle", || row["runner"].to_string()))
    })
    .await?;
    Ok((name, machine))
}

/// In `status` and in the metric that the alarm watches.
async fn until_unhealthy(stack: &Stack, count: u64) -> Result<()> {
    wait_for(&format!("{count} unhealthy entities"), 30, async || {
        let status = stack.admin(&json!({ "action": "status" })).await?;
        let entities = status["entities"].as_array().cloned().unwrap_or_default();
        let unwell = entities.iter().filter(|one| one["healthy"] == false);
        let unwell: Vec<&str> = unwell.filter_map(|one| one["entity"].as_str()).collect();
        let (listed, ours) =
            (unwell.len(), unwell.iter().all(|one| one.eq_ignore_ascii_case(&stack.owner)));
        let measured = stack.metric("EntitiesUnhealthy").await?.last().map(|one| one.value);
        let done = listed as u64 == count && ours && measured.is_some_and(|n| n as u64 == count);
        Ok(when(done, || format!("{}, measured {measured:?}", status["entities"])))
    })
    .await
}
