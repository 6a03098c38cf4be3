//! The scale-up process dies while EC2 works on its request.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_e2e::{Job, Seen, Stack, Test, process, wait_for};
use serde_json::{Value, json};

pub(super) async fn killed_in_create_fleet(test: Test) -> Result<()> {
    let first = test.named_stack("-a", &[]).await?;
    let second = test.named_stack("-b", &[]).await?;
    answers_show_machines(&first, true).await?;
    tokio::try_join!(
        replayed(&test, &first, "continue", true),
        replayed(&test, &second, "drop", true),
    )?;

    let first = test.named_stack("-c", &[]).await?;
    let second = test.named_stack("-d", &[]).await?;
    // Every stack sees this setting. That is fine: Muster must do with either.
    answers_show_machines(&first, false).await?;
    let both = tokio::try_join!(
        replayed(&test, &first, "continue", false),
        replayed(&test, &second, "drop", false),
    );
    answers_show_machines(&first, true).await?;
    both.map(drop)
}

/// Whether EC2 answers a replayed CreateFleet with the machines of the first call: AWS does not
/// say.
async fn answers_show_machines(stack: &Stack, shown: bool) -> Result<()> {
    let toggle = json!({ "ec2": { "replay_shows_instances": shown } });
    stack.world.post("toggles", &toggle).await.map(drop)
}

/// Kills the process that waits for EC2, then has EC2 perform or lose its request.
async fn kill_in_call(stack: &Stack, then: &str) -> Result<(u32, Job)> {
    let hold = json!({ "door": "ec2", "operation": "CreateFleet", "times": 1, "hold": true });
    stack.fault(&hold).await?;
    let job = stack.queue_job(&json!({ "duration_ms": 500 })).await?;
    let call = wait_for("EC2 to hold the CreateFleet call", 30, async || {
        Ok(Seen::from(stack.world.held(&stack.name).await?, || "nothing is held".to_owned()))
    })
    .await?;
    let pid = process::connected(&format!("{}-scale-up", stack.name), ec2_port(stack)?)?;
    process::kill(pid)?;
    stack.world.release(call, then).await?;
    Ok((pid, job))
}

/// The replay decides: with the machine in its answer, or found by its tag, or launched only now. A
/// machine of the first call boots before that, and asks again until it is bound.
async fn replayed(test: &Test, stack: &Stack, then: &str, shown: bool) -> Result<()> {
    let (pid, job) = kill_in_call(stack, then).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    stack.until_served(&job, 90).await?;
    let rows = stack.until_all_deleted(60).await?;
    let machines = stack.machines().await?;
    ensure!(machines.len() == 1, "{} machines were launched", machines.len());
    ensure!(rows.len() == 1, "{} instances", rows.len());
    let calls = stack.calls("ec2", "CreateFleet").await?;
    ensure!(calls.len() >= 2, "no replay: {calls:?}");
    ensure!(tokens(&calls).len() == 1, "replayed under another token: {calls:?}");
    test.shows(format!(
        "process {pid} killed, request {}, a replay is answered {} machines: one machine after {} calls",
        if then == "drop" { "lost" } else { "performed" },
        if shown { "with" } else { "without" },
        calls.len(),
    ));
    Ok(())
}

/// The client tokens; each call's first target.
fn tokens(calls: &[Value]) -> BTreeSet<String> {
    calls.iter().map(|call| call["targets"][0].to_string()).collect()
}

fn ec2_port(stack: &Stack) -> Result<u16> {
    let url = stack.env.get("AWS_ENDPOINT_URL_EC2")?;
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
    port.with_context(|| format!("no port in {url}"))
}
