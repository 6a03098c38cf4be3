//! The scale-up process dies while EC2 works on its request.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{Seen, Stack, Test, process, wait_for};
use serde_json::json;

pub(super) async fn killed_in_create_fleet(test: Test) -> Result<()> {
    let mut result = Ok(());
    for shows in [true, false] {
        let toggle = json!({ "ec2": { "replay_shows_instances": shows } });
        // Every stack sees this setting. That is fine: Muster must do with either.
        let mut world = None;
        let both = async {
            let letter = if shows { 'a' } else { 'b' };
            let performed = test.named_stack(&format!("-{letter}1"), &[]).await?;
            let dropped = test.named_stack(&format!("-{letter}2"), &[]).await?;
            world = Some(performed.world.clone());
            performed.world.post("toggles", &toggle).await?;
            tokio::try_join!(
                one(&test, &performed, "continue", shows),
                one(&test, &dropped, "drop", shows)
            )
        };
        result = both.await.map(drop);
        if let Some(world) = world {
            world.post("toggles", &json!({ "ec2": { "replay_shows_instances": true } })).await?;
        }
        if result.is_err() {
            break;
        }
    }
    result
}

async fn one(test: &Test, stack: &Stack, then: &str, shows: bool) -> Result<()> {
    stack
        .fault(&json!({ "door": "ec2", "operation": "CreateFleet", "times": 1, "hold": true }))
        .await?;
    let job = stack.queue_job(&json!({ "duration_ms": 500 })).await?;
    let call = wait_for("EC2 to hold the CreateFleet call", 30, async || {
        Ok(Seen::from(stack.world.held(&stack.name).await?, || "nothing is held".to_owned()))
    })
    .await?;
    let pid = process::connected(&format!("{}-scale-up", stack.name), ec2_port(stack)?)?;
    process::kill(pid)?;
    stack.world.release(call, then).await?;

    let _sweeps = stack.ticker(Duration::from_secs(2));
    let served = stack.until_served(&job, 90).await?;
    let rows = stack.until_all_deleted(60).await?;
    let machines = stack.machines().await?;
    ensure!(machines.len() == 1, "{} machines were launched", machines.len());
    ensure!(rows.len() == 1, "{} instances", rows.len());
    let calls = stack.calls("ec2", "CreateFleet").await?;
    let waited = served["began_at"].as_u64().zip(served["queued_at"].as_u64()).map(|(a, b)| a - b);
    let replay = if shows { "shows the machine" } else { "shows nothing" };
    test.shows(format!(
        "process {pid} killed, request {}, replay {replay}: one machine, {} CreateFleet calls, the job began after {} ms",
        if then == "drop" { "dropped" } else { "performed" },
        calls.len(),
        waited.unwrap_or_default()
    ));
    Ok(())
}

fn ec2_port(stack: &Stack) -> Result<u16> {
    let url = stack.env.get("AWS_ENDPOINT_URL_EC2")?;
    url.rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .with_context(|| format!("no port in {url}"))
}
