//! A pool file through the deployed admin function: refused, applied, a pool taken out again.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::wait::when;
use e2e::{Stack, Test, wait_for};
use serde_json::{Value, json};

/// The pool of the stack's parameters, as a file says it.
const KEPT: &str = "
defaults:
  subnets: [subnet-0000000a, subnet-0000000b]
  instances: { types: [m7i.large, m7a.large] }
pools:
  - name: default
    labels: [linux]
    limits: { max: 5 }
";

/// Another, whose runners may wait for long: nothing but its removal ends them soon.
const BIG: &str = "
  - name: big
    labels: [big]
    limits: { max: 2, idle_limit: 1h, boot_deadline: 15s }
    environment: { GREETING: hello }
    boot_hook: |
      echo \"hooked: $GREETING\"
";

fn file(text: &str) -> Value {
    json!({ "action": "pools", "file": text, "reason": "end-to-end test", "by": "mira" })
}

pub(super) async fn applied_and_removed(test: Test) -> Result<()> {
    let stack = test.stack(&[("BusyReadsApartSeconds", "1")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    refused(&test, &stack).await?;
    let both = format!("{KEPT}{BIG}");
    let answer = stack.admin(&file(&both)).await?;
    ensure!(answer["applied"] == true && answer["pools_version"] == 1, "applied: {answer}");
    ensure!(answer["lines"].to_string().contains("+ pool big is added"), "{answer}");
    let again = stack.admin(&file(&both)).await?;
    ensure!(again["applied"] == false && again["pools_version"] == 1, "again: {again}");
    served(&test, &stack).await?;
    let idle = idle_runner(&stack).await?;
    let answer = stack.admin(&file(KEPT)).await?;
    ensure!(answer["lines"].to_string().contains("- pool big is removed"), "{answer}");
    stack.until_state(&idle, &["deleted"], 90).await?;
    let shown = stack.admin(&json!({ "action": "pools" })).await?;
    ensure!(shown["draining"] == json!(["big"]), "after the removal: {shown}");
    let history = stack.admin(&json!({ "action": "pools", "history": true })).await?;
    let versions = history["versions"].as_array().map_or(0, Vec::len);
    ensure!(versions == 2 && history["audit"][0]["by"] == "mira", "history: {history}");
    test.shows(format!("removed: its idle runner {idle} ended; {versions} versions are kept"));
    stack.no_dead_letters().await
}

/// A file with mistakes changes nothing, and every one of them is named.
async fn refused(test: &Test, stack: &Stack) -> Result<()> {
    let wrong = format!("{KEPT}{}", BIG.replace("labels", "lables").replace("max: 2", "max: 0"));
    let answer = stack.ask(&file(&wrong)).await?;
    let errors = &answer["error"]["errors"];
    let told = errors.to_string();
    let named = ["pools[1].lables", "pools[1].limits.max"].iter().all(|path| told.contains(path));
    ensure!(answer["ok"] == false && named, "a wrong file is answered {answer}");
    let shown = stack.admin(&json!({ "action": "pools" })).await?;
    ensure!(shown["pools_version"] == 0, "after a refusal: {shown}");
    test.shows(format!("refused: {told}"));
    Ok(())
}

/// A job of the new pool gets its machine, with the pool's hook.
async fn served(test: &Test, stack: &Stack) -> Result<()> {
    let fields = json!({ "labels": ["self-hosted", "big"], "duration_ms": 500 });
    let job = stack.queue_job(&fields).await?;
    stack.until_served(&job, 60).await?;
    let rows = stack.until_all_deleted(60).await?;
    ensure!(rows.len() == 1 && rows[0]["pool"] == "big", "rows: {rows:?}");
    test.shows("applied: a job of the new pool is served");
    Ok(())
}

/// A runner of the pool whose job was cancelled while it booted.
async fn idle_runner(stack: &Stack) -> Result<String> {
    stack.next_machines(1, &json!({ "boot_delay_ms": 4000 })).await?;
    let job = stack.queue_job(&json!({ "labels": ["self-hosted", "big"] })).await?;
    let machine = stack.until_launched(2, 30).await?.remove(1);
    let name = stack.until_bound(&machine, 30).await?;
    stack.cancel(&job).await?;
    wait_for("the runner to idle", 60, async || {
        let row = stack.row(&name).await?;
        Ok(when(row["runner"]["state"] == "idle", || row["runner"].to_string()))
    })
    .await?;
    Ok(name)
}
