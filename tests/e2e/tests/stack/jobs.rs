//! Jobs that are simply served: one, and thirty.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::stack::id;
use muster_e2e::wait::when;
use muster_e2e::{Stack, Test, github, wait_for};
use serde_json::{Value, json};

pub(super) async fn happy(test: Test) -> Result<()> {
    let stack = test.stack(&[("orphan_age_seconds", "900")]).await?;
    // The comparison of EC2 with the tables is the sweep's own; it comes once in five minutes.
    stack.sweep().await?;
    stack.world.delete(&format!("calls?stack={}", stack.name)).await?;

    // GitHub's own sample payload instead of the simulated one: with all that we never read.
    stack.hook_rule(&json!({ "action": "queued", "times": 1, "effect": "suppress" })).await?;
    let job = stack.queue_job(&json!({ "duration_ms": 1500, "name": "größe L 🚀" })).await?;
    let payload =
        github::workflow_job("queued", &stack.job(&job).await?, stack.installation().await?)?;
    let answer = stack.deliver("workflow_job", &payload).await?;
    ensure!(answer.status == 202, "the webhook answered {answer:?}");

    let _sweeps = stack.ticker(Duration::from_secs(2));
    stack.until_served(&job, 60).await?;
    let rows = stack.until_all_deleted(60).await?;
    ensure!(rows.len() == 1, "one instance, not {}", rows.len());
    for event in rows[0]["events"].as_array().into_iter().flatten() {
        test.shows(format!("{} {}", id(&event["at"]), id(&event["what"])));
    }
    let machines = stack.machines().await?;
    ensure!(machines.len() == 1, "one machine, not {}", machines.len());
    test.shows(format!("EC2: {}", id(&machines[0]["reason"]["message"])));

    check_calls(&test, &stack.counters().await?)?;
    check_costs(&test, &stack).await?;
    ensure!(stack.killed_jobs().await?.is_empty(), "a job lost its machine");
    stack.no_dead_letters().await
}

/// What it cost and what its wait was made of, as soon as it is over.
async fn check_costs(test: &Test, stack: &Stack) -> Result<()> {
    // The prices came with the first sweep, before there was a machine to ask them for.
    let rows = stack.muster(&["costs", "--rows", "--since", "1d"]).await?;
    ensure!(rows.code == 0, "costs ended with {}: {}", rows.code, rows.err);
    let row = rows.line(&["größe L 🚀", "spot", "$"])?;
    for part in ["github ", "limits ", "ec2 ", "boot ", "register ", "pick-up "] {
        ensure!(row.contains(part), "no {part}in {row}");
    }
    test.shows(format!("costs --rows: {}", row.replace('\t', "  ")));
    let waits = stack.muster(&["waits", "--since", "1d"]).await?;
    ensure!(waits.code == 0, "waits ended with {}: {}", waits.code, waits.err);
    waits.line(&["default", "1"])?;
    Ok(())
}

pub(super) async fn unheard(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    stack.hook_rule(&json!({ "action": "queued", "times": 1, "effect": "fail" })).await?;
    let job = stack.queue_job(&json!({ "duration_ms": 300 })).await?;
    ensure!(stack.rows().await?.is_empty(), "nobody was told of the job");
    // The first sweep of a stack looks back an hour.
    let answer = stack.sweep().await?;
    test.shows(format!("the sweep: {answer}"));
    ensure!(answer["redelivered"].as_u64() >= Some(1), "nothing was delivered again: {answer}");
    let _sweeps = stack.ticker(Duration::from_secs(2));
    stack.until_served(&job, 60).await?;
    stack.until_all_deleted(60).await?;
    stack.no_dead_letters().await
}

pub(super) async fn gated(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    let job = stack.queue_job(&json!({ "gated": true, "duration_ms": 300 })).await?;
    wait_for("its approval to be awaited", 30, async || {
        let lines = stack.admin(&json!({ "action": "explain", "job": job.key })).await?;
        let told = lines["explanation"].to_string();
        Ok(when(told.contains("waiting for an approval at GitHub"), || told.clone()))
    })
    .await?;
    // GitHub says `queued` first, so one machine may have come.
    let before = stack.machines().await?.len();
    ensure!(before <= 1, "{before} machines for a job that waits");
    tokio::time::sleep(Duration::from_secs(6)).await;
    let after = stack.machines().await?.len();
    ensure!(after == before, "{after} machines for a job that waits");
    test.shows(format!("{after} machine while it waits"));

    stack.approve(&job).await?;
    stack.until_served(&job, 60).await?;
    stack.until_all_deleted(60).await?;
    let machines = stack.machines().await?.len();
    ensure!(machines == 1, "one machine serves it, not {machines}");
    stack.no_dead_letters().await
}

/// At most one core call and one JIT call at GitHub, three calls at EC2, and no terminate.
fn check_calls(test: &Test, calls: &[(String, u64)]) -> Result<()> {
    let sum = |wanted: &dyn Fn(&str) -> bool| -> u64 {
        calls.iter().filter(|(call, _)| wanted(call)).map(|(_, count)| count).sum()
    };
    let jit = sum(&|call| call == "github:generate-jitconfig");
    // Once an hour for each process, and beside the other.
    let agents = sum(&|call| call == "github:list-agents");
    let core = sum(&|call| call.starts_with("github:")) - jit - agents;
    let ec2 = sum(&|call| call.starts_with("ec2:"));
    test.shows(format!("calls: {calls:?}"));
    ensure!(sum(&|call| call == "ec2:TerminateInstances") == 0, "we terminated it: {calls:?}");
    ensure!(jit == 1 && core <= 1, "{core} core and {jit} JIT calls at GitHub: {calls:?}");
    ensure!(agents <= 1, "{agents} lists of agents: {calls:?}");
    ensure!((1..=3).contains(&ec2), "{ec2} calls at EC2: {calls:?}");
    Ok(())
}

pub(super) async fn many(test: Test) -> Result<()> {
    const JOBS: usize = 30;
    const MAX: usize = 5;
    let stack = test.stack(&[("MaxMachines", "5")]).await?;
    let _quiet = test.quiet().await;
    let _sweeps = stack.ticker(Duration::from_secs(3));
    let mut jobs = Vec::new();
    for n in 0..JOBS {
        let fields = json!({ "duration_ms": 300, "name": format!("job {n}") });
        jobs.push(stack.queue_job(&fields).await?);
    }
    for job in &jobs {
        stack.until_served(job, 200).await?;
    }
    let rows = stack.until_all_deleted(60).await?;
    let machines = stack.machines().await?;
    let most = most_at_once(&machines);
    test.shows(format!("{JOBS} jobs, {} machines, at most {most} at once", machines.len()));
    ensure!(most <= MAX, "{most} machines at once");
    ensure!(machines.len() == JOBS, "{} machines for {JOBS} jobs", machines.len());
    ensure!(rows.len() == JOBS, "{} records for {JOBS} jobs", rows.len());
    ensure!(stack.killed_jobs().await?.is_empty(), "a job lost its machine");
    let status = stack.admin(&json!({ "action": "status" })).await?;
    let pool = &status["pools"][0];
    ensure!(pool["live"] == 0 && pool["waiting_jobs"] == 0, "something is left: {pool}");
    stack.no_dead_letters().await
}

/// The most machines that were pending or running at one time, from EC2's own books.
fn most_at_once(machines: &[Value]) -> usize {
    // The world's default between shutting-down, which ends a machine's life, and terminated.
    const SHUTTING_DOWN_MS: u64 = 500;
    let time = |value: &Value| value.as_u64().unwrap_or_default();
    let mut changes: Vec<(u64, i8)> = Vec::new();
    for machine in machines {
        changes.push((time(&machine["launched_at"]), 1));
        changes.push((time(&machine["since"]) - SHUTTING_DOWN_MS, -1));
    }
    // Ends before starts of the same moment.
    changes.sort_unstable();
    let (mut live, mut most) = (0_i32, 0_i32);
    for (_, change) in changes {
        live += i32::from(change);
        most = most.max(live);
    }
    usize::try_from(most).unwrap_or_default()
}
