//! One machine that no job needs, followed by the operator's command at a stack that works.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_e2e::command::Said;
use muster_e2e::{Stack, Test};
use serde_json::{Value, json};

pub(super) async fn one_machine_to_see(test: Test) -> Result<()> {
    let stack = test.stack(&[("boot_deadline_seconds", "15")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    refused(&test, &stack).await?;
    all_the_way(&test, &stack).await?;
    mute(&test, &stack).await?;
    stack.until_all_deleted(60).await?;
    stack.no_dead_letters().await
}

async fn canary(stack: &Stack, more: &[&str]) -> Result<Said> {
    let words = ["doctor", "--canary", "--entity", &stack.owner, "--by", "mira"];
    stack.muster(&[&words, more].concat()).await
}

/// Nothing is started without a yes, without a place for its runner, or while launches are off.
async fn refused(test: &Test, stack: &Stack) -> Result<()> {
    let unasked = canary(stack, &[]).await?;
    ensure!(unasked.code == 2, "without a yes it ended with {}: {}", unasked.code, unasked.err);
    let homeless = stack.muster(&["doctor", "--canary", "--yes"]).await?;
    ensure!(homeless.code == 1, "without --entity it ended with {}", homeless.code);
    homeless.line(&["--entity"])?;
    let switch = |to: &str| json!({ "action": "switch", "launches": to, "reason": "moving subnets", "by": "mira" });
    stack.admin(&switch("off")).await?;
    let held = canary(stack, &["--yes"]).await?;
    ensure!(held.code == 1, "with launches off it ended with {}: {}", held.code, held.err);
    test.shows(format!("launches off: {}", held.line(&["moving subnets"])?.trim()));
    stack.admin(&switch("on")).await?;
    ensure!(stack.machines().await?.is_empty(), "a machine was launched");
    Ok(())
}

async fn all_the_way(test: &Test, stack: &Stack) -> Result<()> {
    let seen = canary(stack, &["--yes", "--json"]).await?;
    ensure!(seen.code == 0, "it ended with {}: {}{}", seen.code, seen.out, seen.err);
    let report: Value = serde_json::from_str(&seen.out).context(seen.out.clone())?;
    let phases = report["phases"].as_array().context("no phases")?;
    let steps: Vec<&str> = phases.iter().filter_map(|phase| phase["step"].as_str()).collect();
    let machine = ["running", "booted", "prepared", "registered", "started"];
    let all = [&["planned", "launched"][..], &machine, &["online", "deleted"]].concat();
    ensure!(steps == all, "{report:#}");
    ensure!(report["course"] == "listens" && report["end"] == "gone", "{report:#}");
    let last = phases.last().map(|phase| phase["seconds"].to_string()).unwrap_or_default();
    test.shows(format!("a canary: {} after {last} s", steps.join(", ")));
    let name = report["name"].as_str().context("no name")?;
    let shown = stack.admin(&json!({ "action": "show", "name": name })).await?;
    let audited = shown["audit"].as_array().into_iter().flatten();
    let kinds: Vec<&str> = audited.filter_map(|line| line["kind"].as_str()).collect();
    ensure!(kinds.contains(&"canary_ordered") && kinds.contains(&"ordered"), "{}", shown["audit"]);
    Ok(())
}

/// A machine that never calls: its deadline is over before the command's own patience.
async fn mute(test: &Test, stack: &Stack) -> Result<()> {
    stack.next_machines(1, &json!({ "never_boots": true })).await?;
    let seen = canary(stack, &["--yes"]).await?;
    ensure!(seen.code == 3, "it ended with {}: {}{}", seen.code, seen.out, seen.err);
    test.shows(format!("a machine without a way out: {}", seen.line(&["never called"])?.trim()));
    Ok(())
}
