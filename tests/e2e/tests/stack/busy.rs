//! Runners with a job on them: nothing but `kill_running_job` ends those.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_e2e::stack::id;
use muster_e2e::{Job, Stack, Test, github};
use serde_json::{Value, json};

/// Starts a job that runs until it is finished; answers with it and its instance's name.
async fn running_job(stack: &Stack) -> Result<(Job, String)> {
    let job = stack.queue_job(&json!({ "name": "long" })).await?;
    let running = stack.until_begun(&job, 60).await?;
    let row = stack.row_of(&id(&running["runner"]["machine"])).await?;
    Ok((job, id(&row["name"])))
}

fn delete(name: &str, flags: &[&str]) -> Value {
    let mut request =
        json!({ "action": "delete", "name": name, "reason": "maintenance window", "by": "mira" });
    for flag in flags {
        request[*flag] = json!(true);
    }
    request
}

const ORDERS: [&[&str]; 4] =
    [&[], &["force"], &["force", "bypass_github_unauthorized"], &["dry_run"]];

pub(super) async fn refused_and_killed(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    let (job, name) = running_job(&stack).await?;
    for flags in ORDERS {
        let why = stack.refused(&delete(&name, flags), "busy").await?;
        test.shows(format!("{flags:?}: {why}"));
    }
    let row = stack.row(&name).await?;
    ensure!(row["state"] == "running" && row["mark"].is_null(), "the record has changed: {row}");
    ensure!(stack.calls("ec2", "TerminateInstances").await?.is_empty(), "a terminate was sent");
    ensure!(stack.job(&job).await?["status"] == "in_progress", "the job does not run any more");

    stack.admin(&delete(&name, &["kill_running_job"])).await?;
    stack.until_state(&name, &["deleted"], 40).await?;
    let killed = stack.killed_jobs().await?;
    ensure!(killed.iter().any(|kill| kill["job"] == job.id), "the job was not killed: {killed:?}");
    let audit = stack.show(&name).await?["audit"].clone();
    let kinds = |kind: &str| {
        audit.as_array().into_iter().flatten().filter(|one| one["kind"] == kind).count()
    };
    ensure!(kinds("refused") == 3, "three refusals, and none for the dry run: {audit}");
    ensure!(kinds("ordered") == 1 && kinds("job_killed") == 1, "audit trail: {audit}");
    for one in audit.as_array().into_iter().flatten().rev() {
        test.shows(format!(
            "audit: {} by {}: {}",
            id(&one["kind"]),
            id(&one["by"]),
            id(&one["why"])
        ));
    }
    stack.no_dead_letters().await
}

/// Not busy, DELETE answers 204, no `in_progress`, and a `completed` while the job runs: only the
/// runner's own hook told the truth.
pub(super) async fn liar(test: Test) -> Result<()> {
    let parameters = [
        ("idle_limit_seconds", "4"),
        ("boot_deadline_seconds", "30"),
        ("busy_reads_apart_seconds", "2"),
        ("completed_grace_seconds", "4"),
        ("shutdown_grace_seconds", "4"),
    ];
    let stack = test.stack(&parameters).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    stack.hook_rule(&json!({ "action": "in_progress", "effect": "suppress" })).await?;
    let lies = json!({ "busy_false_from_ms": 0, "delete_busy_answers_204": true });
    stack.world.post(&format!("owners/{}/lies", stack.owner), &lies).await?;
    let (job, name) = running_job(&stack).await?;
    for flags in ORDERS {
        stack.refused(&delete(&name, flags), "busy").await?;
    }

    let now = stack.job(&job).await?;
    let mut completed = github::workflow_job("completed", &now, stack.installation().await?)?;
    completed["workflow_job"]["runner_name"] = now["runner"]["name"].clone();
    completed["workflow_job"]["runner_id"] = now["runner"]["id"].clone();
    let answer = stack.deliver("workflow_job", &completed).await?;
    ensure!(answer.status == 202, "{answer:?}");

    // Long enough for every limit above, one after the other.
    tokio::time::sleep(Duration::from_secs(35)).await;
    for flags in ORDERS {
        stack.refused(&delete(&name, flags), "busy").await?;
    }
    ensure!(stack.killed_jobs().await?.is_empty(), "the started job was killed");
    ensure!(stack.calls("ec2", "TerminateInstances").await?.is_empty(), "a terminate was sent");
    let row = stack.row(&name).await?;
    ensure!(row["state"] == "running", "the record says {}", row["state"]);
    stack.finish(&job).await?;
    let done = stack.job(&job).await?;
    test.shows(format!(
        "after 35 s of lies the job is still {}, and its machine runs",
        done["status"]
    ));
    stack.until_all_deleted(60).await?;
    ensure!(stack.killed_jobs().await?.is_empty(), "the job was killed at its end");
    ensure!(stack.job(&job).await?["conclusion"] == "success", "the job failed");
    stack.no_dead_letters().await
}
