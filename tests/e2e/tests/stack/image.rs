//! Machine images, from `muster image on` to the deletion of the last one.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_e2e::stack::id;
use muster_e2e::wait::Seen;
use muster_e2e::{Stack, Test, wait_for};
use serde_json::{Value, json};

pub(super) async fn built_used_and_deleted(test: Test) -> Result<()> {
    let stack = test.stack(&[("boot_deadline_seconds", "30")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    muster(&stack, &["image", "on", "--by", "mira"]).await?;
    let first = build(&test, &stack).await?;
    ensure!(
        image_of_next_job(&stack).await? == first,
        "the job's machine booted a different image"
    );

    let second = build(&test, &stack).await?;
    ensure!(second != first, "the second build made no image");
    ensure!(
        image_of_next_job(&stack).await? == second,
        "the job's machine booted a different image"
    );

    let back = muster(&stack, &["image", "rollback", "--yes", "--by", "mira"]).await?;
    test.shows(format!("rollback: {}", back.lines().next().unwrap_or_default()));
    ensure!(
        image_of_next_job(&stack).await? == first,
        "the job's machine booted a different image"
    );

    muster(&stack, &["image", "delete", "--yes", "--by", "mira"]).await?;
    wait_for("the images to be deleted", 60, async || {
        let status = status(&stack).await?;
        Ok(Seen::from((status["unused"] == 0).then_some(()), || status.to_string()))
    })
    .await?;
    ensure!(
        stack.calls("ec2", "DeregisterImage").await?.len() >= 2,
        "two images were deregistered"
    );
    ensure!(image_of_next_job(&stack).await? != first, "a deleted image is used");

    let history = muster(&stack, &["image", "history"]).await?;
    for words in ["images are on", "machines of x64 boot", "instead of", "is deleted"] {
        ensure!(history.contains(words), "no {words:?} in {history}");
    }
    stack.until_all_deleted(60).await?;
    ensure!(stack.killed_jobs().await?.is_empty(), "a job lost its machine");
    stack.no_dead_letters().await
}

/// Orders a build, follows it to its end, and returns the image.
async fn build(test: &Test, stack: &Stack) -> Result<String> {
    let said = muster(stack, &["image", "build", "--watch", "--by", "mira"]).await?;
    test.shows(format!("build --watch: {}", said.lines().last().unwrap_or_default()));
    let status = status(stack).await?;
    let current = &status["families"][0]["current"];
    ensure!(current["untried"].is_null(), "no machine tried it: {status:#}");
    Ok(id(&current["id"]))
}

async fn status(stack: &Stack) -> Result<Value> {
    stack.admin(&json!({ "action": "images" })).await
}

/// Serves a job, and returns the image that its machine booted.
async fn image_of_next_job(stack: &Stack) -> Result<String> {
    let job = stack.queue_job(&json!({ "duration_ms": 500 })).await?;
    stack.until_served(&job, 60).await?;
    let machines = stack.machines().await?;
    let last = machines.last().context("no machine")?;
    Ok(id(&last["image_id"]))
}

async fn muster(stack: &Stack, words: &[&str]) -> Result<String> {
    let said = stack.muster(words).await?;
    ensure!(
        said.code == 0,
        "{} ended with {}: {}{}",
        words.join(" "),
        said.code,
        said.out,
        said.err
    );
    Ok(said.out)
}
