//! What an operator switches off stays off, is said, and goes on where it stopped.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_e2e::wait::when;
use muster_e2e::{Job, Stack, Test, wait_for};
use serde_json::{Value, json};

fn switch(what: &str, to: &str) -> Value {
    json!({ "action": "switch", what: to, "reason": "moving subnets", "by": "mira" })
}

pub(super) async fn held_back(test: Test) -> Result<()> {
    let stack =
        test.stack(&[("idle_limit_seconds", "2"), ("busy_reads_apart_seconds", "1")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    let job = launches(&test, &stack).await?;
    let (name, machine) = idle_runner(&stack, &job).await?;
    deletes(&test, &stack, &name).await?;
    stack.until_state(&name, &["deleted"], 60).await?;
    let calls = stack.calls("ec2", &format!("TerminateInstances&target={machine}")).await?;
    ensure!(calls.len() == 1, "{} calls of TerminateInstances", calls.len());
    stack.no_dead_letters().await
}

/// A job waits, and is told why; switched on again, it gets its machine.
async fn launches(test: &Test, stack: &Stack) -> Result<Job> {
    stack.admin(&switch("launches", "off")).await?;
    let job = stack.queue_job(&json!({ "name": "patient" })).await?;
    wait_for("the reason why the job waits", 20, async || {
        let answer = stack.ask(&json!({ "action": "explain", "job": job.key })).await?;
        let explained = answer["explanation"].to_string();
        Ok(when(explained.contains("by mira: moving subnets"), || answer.to_string()))
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(6)).await;
    ensure!(stack.machines().await?.is_empty(), "a machine was launched");
    let status = stack.admin(&json!({ "action": "status" })).await?;
    ensure!(status["switches"]["launches"]["by"] == "mira", "status: {}", status["switches"]);
    ensure!(status["switched"][0]["why"] == "launches off: moving subnets", "{status}");
    let measured = stack.metric("SwitchedOffSeconds").await?;
    let last = measured.last().context("no SwitchedOffSeconds")?.value;
    ensure!(last >= 2.0, "SwitchedOffSeconds is {last}");
    test.shows(format!("launches off: the job waits, explained; SwitchedOffSeconds {last}"));
    // It boots slowly enough for its job to be cancelled meanwhile.
    stack.next_machines(1, &json!({ "boot_delay_ms": 4000 })).await?;
    stack.admin(&switch("launches", "on")).await?;
    Ok(job)
}

/// The runner of a job that is cancelled while it boots: only a delete of ours ends it.
async fn idle_runner(stack: &Stack, job: &Job) -> Result<(String, String)> {
    stack.admin(&switch("deletes", "off")).await?;
    let machine = stack.until_launched(1, 30).await?.remove(0);
    let name = stack.until_bound(&machine, 30).await?;
    stack.cancel(job).await?;
    wait_for("the runner to idle", 60, async || {
        let row = stack.row(&name).await?;
        Ok(when(row["runner"]["state"] == "idle", || row["runner"].to_string()))
    })
    .await?;
    Ok((name, machine))
}

/// Long over its idle limit, and nothing happens; a plain delete is refused, and switched on it
/// ends.
async fn deletes(test: &Test, stack: &Stack, name: &str) -> Result<()> {
    tokio::time::sleep(Duration::from_secs(12)).await;
    let row = stack.row(name).await?;
    ensure!(row["state"] == "running" && row["mark"].is_null(), "the record says {row}");
    let order = json!({ "action": "delete", "name": name, "reason": "end-to-end test" });
    let why = stack.refused(&order, "switched_off").await?;
    test.shows(format!("deletes off: the idle runner stays, and a plain delete says: {why}"));
    let set = stack.admin(&switch("deletes", "on")).await?;
    ensure!(set["switches"]["deletes"].is_null(), "switched on: {}", set["switches"]);
    Ok(())
}
