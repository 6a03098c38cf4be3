//! The operator's command at a stack that works.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::wait::when;
use muster_e2e::{Job, Stack, Test, wait_for};
use serde_json::json;

/// What a first user gets wrong, and what the command says of it.
pub(super) async fn first_mistakes(test: Test) -> Result<()> {
    let stack = test.stack(&[("boot_deadline_seconds", "15")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    let status = stack.muster(&[]).await?;
    ensure!(status.code == 0, "status ended with {}: {}", status.code, status.err);

    let public = stack.queue_job(&json!({ "repo": "site", "private": false })).await?;
    let typo = stack.queue_job(&json!({ "labels": ["self-hosted", "lniux"] })).await?;
    stack.next_machines(1, &json!({ "never_boots": true })).await?;
    let mute = stack.queue_job(&json!({ "duration_ms": 500 })).await?;

    says(&test, &stack, "a public repository", &public, "the repository is public").await?;
    says(&test, &stack, "a label with a typo", &typo, "lniux").await?;
    let unserved = stack.muster(&["status"]).await?;
    test.shows(format!("status: {}", unserved.line(&["2 jobs"])?.trim()));

    let gone = stack.until_launched(1, 30).await?[0].clone();
    stack.until_served(&mute, 90).await?;
    let explained = stack.muster(&["explain", &gone]).await?;
    ensure!(explained.code == 0, "explain ended with {}: {}", explained.code, explained.err);
    test.shows(format!("explain of a machine without a way out: {}", explained.out.trim()));

    let unknown = stack.muster(&["show", "default-0-0-0"]).await?;
    ensure!(unknown.code == 1, "show of nothing ended with {}", unknown.code);
    let audit = stack.muster(&["audit"]).await?;
    ensure!(audit.code == 0, "audit ended with {}: {}", audit.code, audit.err);
    let alarms = stack.muster(&["alarms", "jobs-unserved"]).await?;
    ensure!(alarms.code == 0, "alarms ended with {}: {}", alarms.code, alarms.err);
    let dead = stack.muster(&["dead-letters"]).await?;
    ensure!(dead.code == 0, "dead-letters ended with {}: {}", dead.code, dead.err);
    let logs = stack.muster(&["logs", "scale-up", "--since", "5m"]).await?;
    ensure!(logs.code == 0, "logs ended with {}: {}", logs.code, logs.err);
    stack.until_all_deleted(60).await?;
    Ok(())
}

/// `jobs` and `explain` both name it.
async fn says(test: &Test, stack: &Stack, what: &str, job: &Job, why: &str) -> Result<()> {
    wait_for(&format!("jobs to name {what}"), 30, async || {
        let jobs = stack.muster(&["jobs"]).await?;
        Ok(when(jobs.line(&[why]).is_ok(), || format!("{}{}", jobs.out, jobs.err)))
    })
    .await?;
    let explained = stack.muster(&["explain", &job.key]).await?;
    test.shows(format!("explain of {what}: {}", explained.line(&[why])?.trim()));
    Ok(())
}
