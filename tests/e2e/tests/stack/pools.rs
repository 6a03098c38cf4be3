//! A pool file through the deployed admin function: refused, resolved, applied, a pool taken out
//! again.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::wait::when;
use muster_e2e::{Stack, Test, wait_for};
use serde_json::{Value, json};

/// The built-in pool, as a file says it.
const KEPT: &str = "
defaults:
  subnets: [subnet-00000001, subnet-00000002]
  instances: { types: [m7i.large, m7a.large] }
pools:
  - name: default
    labels: [STACK]
    limits: { max: 5 }
";

/// Another, whose runners may wait for long: nothing but its removal ends them soon. It names its
/// organization by id, its runner group by name and its image by filter.
const BIG: &str = "
  - name: big
    entity: { organization: ORGANIZATION }
    runner_group: linux-builders
    image: { filter: { name: STACK-runner-* } }
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
    let stack = test.stack(&[("busy_reads_apart_seconds", "1")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    refused(&test, &stack).await?;
    let kept = KEPT.replace("STACK", &stack.name);
    let both = format!("{kept}{}", named(&stack).await?);
    unanswered(&test, &stack, &both).await?;
    let answer = stack.admin(&file(&both)).await?;
    ensure!(answer["applied"] == true && answer["pools_version"] == 1, "applied: {answer}");
    ensure!(answer["lines"].to_string().contains("+ pool big is added"), "{answer}");
    resolved(&test, &stack, &answer).await?;
    let again = stack.admin(&file(&both)).await?;
    ensure!(again["applied"] == false && again["pools_version"] == 1, "again: {again}");
    served(&test, &stack).await?;
    newer_image(&test, &stack, &both).await?;
    let idle = idle_runner(&stack).await?;
    let answer = stack.admin(&file(&kept)).await?;
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

/// What the file names, and the file.
async fn named(stack: &Stack) -> Result<String> {
    let group = json!([{ "id": 5, "name": "Linux-Builders" }]);
    stack.world.post(&format!("owners/{}/groups", stack.owner), &group).await?;
    put_image(stack, 1).await?;
    let owners = stack.world.list("owners").await?;
    let own = owners.iter().find(|owner| owner["owner"] == stack.owner.as_str());
    let id = own.map(|owner| owner["id"].to_string()).unwrap_or_default();
    Ok(BIG.replace("ORGANIZATION", &id).replace("STACK", &stack.name))
}

/// Images of the stack's own, each newer than the one before.
async fn put_image(stack: &Stack, number: u64) -> Result<()> {
    let image = json!({ "id": image(number), "name": format!("{}-runner-{number}", stack.name),
        "created_at": 1_790_000_000_000_u64 + number });
    stack.world.post("images", &image).await.map(drop)
}

fn image(number: u64) -> String {
    format!("ami-{number:017x}")
}

/// Without GitHub's word nothing changes, and the mistake is not the file's.
async fn unanswered(test: &Test, stack: &Stack, text: &str) -> Result<()> {
    let fault = json!({ "door": "github", "operation": "list-runner-groups", "times": 1,
        "answer": { "error": { "status": 502 } } });
    stack.fault(&fault).await?;
    let told = stack.refused(&file(text), "unavailable").await?;
    let shown = stack.admin(&json!({ "action": "pools" })).await?;
    ensure!(shown["pools_version"] == 0, "without an answer: {shown}");
    test.shows(format!("no answer: {told}"));
    Ok(())
}

/// What is told and stored is what is behind the names.
async fn resolved(test: &Test, stack: &Stack, answer: &Value) -> Result<()> {
    let told = answer["resolved"].to_string();
    let name = format!("{} ({}-runner-1)", image(1), stack.name);
    for line in [
        format!("pools[1].entity: {} (organization ", stack.owner),
        "pools[1].runner_group: 5 (Linux-Builders)".to_owned(),
        format!("pools[1].image: {name}"),
    ] {
        ensure!(told.contains(&line), "{line:?} is not told: {told}");
    }
    let shown = stack.admin(&json!({ "action": "pools" })).await?;
    let big = &shown["file"]["pools"][1];
    ensure!(
        big["entity"] == stack.owner.as_str()
            && big["runner_group"] == 5
            && big["image"]["id"] == image(1).as_str(),
        "stored: {big}"
    );
    test.shows(format!("resolved: {told}"));
    Ok(())
}

/// Applied again, the pool would move to the newest image.
async fn newer_image(test: &Test, stack: &Stack, text: &str) -> Result<()> {
    put_image(stack, 2).await?;
    let mut request = file(text);
    request["dry_run"] = json!(true);
    let answer = stack.admin(&request).await?;
    let lines = answer["lines"].to_string();
    ensure!(answer["applied"] == false && lines.contains(&image(2)), "a newer image: {answer}");
    test.shows(format!("a newer image: {lines}"));
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
