//! The demo: one job from its webhook to the deleted machine, one that somebody must approve, and a
//! delete that EC2 stands in the way of.
//!
//! `make demo` brings the local stack up and runs this. It shows what happens while it happens,
//! fails when something stalls, and takes back what it made. `--job-only` shows the one job and no more.

mod screen;
mod story;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_e2e::stack::id;
use muster_e2e::{Stack, github};
use serde_json::{Value, json};

use crate::screen::{Screen, Who};
use crate::story::{Now, Story};

fn main() -> ExitCode {
    let screen = Screen::new();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_job_only = match arguments.as_slice() {
        [] => false,
        [only] if only == "--job-only" => true,
        _ => {
            screen.failed("usage: muster-demo [--job-only]");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result =
        runtime.context("runtime").and_then(|runtime| runtime.block_on(demo(&screen, is_job_only)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen.failed(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn demo(screen: &Screen, is_job_only: bool) -> Result<()> {
    let begun = Instant::now();
    let stack = Stack::main()?;
    // What a run that was stopped half-way has left.
    stack.clear_scripts().await.context(muster_e2e::HINT)?;
    screen.chapter("Muster on this machine: real template, real functions; EC2, GitHub and machines are simulated");
    screen.note(&format!("stack {} at {}", stack.name, stack.env.get("AWS_ENDPOINT_URL")?));
    screen.note(&format!("webhook {}", stack.env.get("WEBHOOK_URL")?));
    screen.note("The schedule sweeps every two seconds here, instead of every minute.");
    let sweeps = stack.ticker(Duration::from_secs(2));
    let mut result = served(&stack, screen).await;
    if result.is_ok() && !is_job_only {
        result = gated(&stack, screen).await;
    }
    if result.is_ok() && !is_job_only {
        result = stuck(&stack, screen).await;
    }
    if result.is_err() {
        screen.note("");
        stack.diagnosis().await.lines().for_each(|line| screen.note(line));
    }
    drop(sweeps);
    // Also after a failure: nothing of this must disturb the next run.
    let cleaned = async {
        stack.clear_scripts().await?;
        stack.end_machines().await
    };
    result.and(cleaned.await.context("clean-up"))?;
    screen
        .done(&format!("All of it in {:.0} s. No machine is left.", begun.elapsed().as_secs_f64()));
    screen.note(
        "make test: everything that this and much more holds · make down: stop the local stack",
    );
    Ok(())
}

/// The main job.
async fn served(stack: &Stack, screen: &Screen) -> Result<()> {
    screen.chapter("1  A job is served, and its machine is gone");
    let mut story = Story::begin(stack, screen).await?;
    // The simulated GitHub would send it by itself; here it is GitHub's full sample payload
    // instead.
    stack.hook_rule(&json!({ "action": "queued", "times": 1, "effect": "suppress" })).await?;
    let job = stack.queue_job(&json!({ "duration_ms": 2500, "name": "build" })).await?;
    story.follow(&job);
    let payload =
        github::workflow_job("queued", &stack.job(&job).await?, stack.installation().await?)?;
    let answer = stack.deliver("workflow_job", &payload).await?;
    ensure!(answer.status == 202, "the webhook answered {}: {}", answer.status, answer.body);
    let bytes = payload.to_string().len();
    story.say(
        Who::Github,
        &format!("sends workflow_job, {bytes} bytes, signed: 202 {}", reason(&answer.body)),
    );

    story.until("a machine", 40, |now| !now.machines.is_empty()).await?;
    story.until("its runner to register", 60, |now| now.row()["runner"]["id"].is_u64()).await?;
    story.until("the job to begin", 60, |now| now.job()["began_at"].is_u64()).await?;
    story.until("the job to end", 60, |now| now.job()["completed_at"].is_u64()).await?;
    let gone =
        |now: &Now| now.machine()["state"] == "terminated" && now.row()["state"] == "deleted";
    let now = story.until("the machine's end", 60, gone).await?;
    ensure!(now.job()["conclusion"] == "success", "the job ended with {}", now.job()["conclusion"]);
    ensure!(now.tries == 0, "Muster terminated the machine: it should have ended by itself");
    screen.done("queued → launched → registered → in_progress → completed → terminated → deleted");
    Ok(())
}

/// A job of a protected environment.
async fn gated(stack: &Stack, screen: &Screen) -> Result<()> {
    screen.chapter("2  A job that somebody must approve");
    let mut story = Story::begin(stack, screen).await?;
    let job = stack.queue_job(&json!({ "gated": true, "duration_ms": 1500 })).await?;
    story.follow(&job);
    story.say(Who::Github, "sends queued, then waiting: the job's environment is protected");
    let about = json!({ "action": "explain", "job": job.key });
    let told = muster_e2e::wait_for("Muster to ask GitHub itself", 30, async || {
        let answer = stack.admin(&about).await?;
        let line = first_about(&answer, "approval");
        Ok(muster_e2e::wait::Seen::from(line, || answer.to_string()))
    })
    .await?;
    // GitHub says `queued` first, so one machine has come before anybody could know.
    let before = story.until("the story so far", 10, |_| true).await?.machines.len();
    screen.note(&format!("explain: {told}"));
    stack.approve(&job).await?;
    story.say(Who::Operator, "approve the deployment");
    story.until("the job to end", 60, |now| now.job()["completed_at"].is_u64()).await?;
    let gone =
        |now: &Now| now.machine()["state"] == "terminated" && now.row()["state"] == "deleted";
    let now = story.until("the machine's end", 60, gone).await?;
    ensure!(now.job()["conclusion"] == "success", "the job ended with {}", now.job()["conclusion"]);
    ensure!(before <= 1 && now.machines.len() == 1, "{} machines", now.machines.len());
    screen.done("queued → waiting → approved → in_progress → completed, on one machine");
    Ok(())
}

/// The first sentence that has a word.
fn first_about(answer: &Value, word: &str) -> Option<String> {
    let mut lines = answer["explanation"].as_array()?.iter().map(id);
    lines.find(|line| line.contains(word))
}

/// A delete that fails, is repeated, and is ended by force.
async fn stuck(stack: &Stack, screen: &Screen) -> Result<()> {
    screen.chapter("3  A delete that EC2 stands in the way of");
    let mut story = Story::begin(stack, screen).await?;
    stack.next_machines(1, &json!({ "never_boots": true })).await?;
    let job = stack.queue_job(&json!({ "name": "cancelled" })).await?;
    story.follow(&job);
    story.until("a machine", 40, |now| now.row()["machine"].is_string()).await?;
    stack.cancel(&job).await?;
    story.say(Who::Operator, "cancel the job; its machine hangs in its boot");
    let now = story.until("the claim to end", 30, |now| now.row()["claim"].is_null()).await?;
    let (name, machine) = (id(&now.row()["name"]), id(&now.machine()["id"]));

    let outage = stack
        .fault(&json!({
            "door": "ec2", "operation": "TerminateInstances",
            "answer": { "error": { "status": 500, "code": "InternalError", "message": "simulated outage" } },
        }))
        .await?;
    story.say(Who::Ec2, "fails every TerminateInstances from now on");
    order(stack, &story, &name, false).await?;
    story.until("five attempts, each after a longer wait", 60, |now| now.tries >= 5).await?;
    explain(stack, screen, &name).await?;

    order(stack, &story, &name, true).await?;
    let deleted = |now: &Now| now.row()["state"] == "deleted";
    let now = story.until("force to end it", 40, deleted).await?;
    ensure!(now.machine()["state"] != "terminated", "EC2 was to stand in the way");
    screen.done(
        "force does not wait for EC2: the record is deleted, the machine is in the orphan ledger",
    );
    let orphans = orphans(stack).await?;
    let orphan = orphans.iter().find(|orphan| orphan["machine"] == machine.as_str());
    let orphan = orphan.with_context(|| format!("{machine} is not in the ledger: {orphans:?}"))?;
    screen.note(&format!(
        "status: orphan {machine} of {}, {} attempts",
        id(&orphan["instance"]),
        orphan["attempts"]
    ));

    stack.heal(outage).await?;
    story.say(Who::Ec2, "works again");
    story
        .until("the sweep to end the orphan", 60, |now| now.machine()["state"] == "terminated")
        .await?;
    muster_e2e::wait_for("the ledger to be empty", 40, async || {
        let left = orphans_of(&machine, stack).await?;
        Ok(muster_e2e::wait::when(left == 0, || format!("{left} left")))
    })
    .await?;
    screen.done("pending_delete → back-off → force → orphan ledger → terminated by the sweep");
    Ok(())
}

async fn order(stack: &Stack, story: &Story<'_>, name: &str, force: bool) -> Result<()> {
    let reason = if force { "EC2 is down, the row must go" } else { "hangs in its boot" };
    let request =
        json!({ "action": "delete", "name": name, "force": force, "reason": reason, "by": "you" });
    let answer = stack.admin(&request).await?;
    let force = if force { " --force" } else { "" };
    story.say(Who::Operator, &format!("delete {name}{force}: {}", id(&answer["message"])));
    Ok(())
}

async fn explain(stack: &Stack, screen: &Screen, name: &str) -> Result<()> {
    let answer = stack.admin(&json!({ "action": "explain", "name": name })).await?;
    for sentence in answer["explanation"].as_array().into_iter().flatten() {
        screen.note(&format!("explain: {}", id(sentence)));
    }
    Ok(())
}

async fn orphans(stack: &Stack) -> Result<Vec<Value>> {
    let status = stack.admin(&json!({ "action": "status" })).await?;
    Ok(status["orphans"].as_array().cloned().unwrap_or_default())
}

async fn orphans_of(machine: &str, stack: &Stack) -> Result<usize> {
    Ok(orphans(stack).await?.iter().filter(|orphan| orphan["machine"] == machine).count())
}

fn reason(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    id(&body["reason"])
}

impl Now {
    /// The chapter's instance.
    fn row(&self) -> &Value {
        self.rows.first().unwrap_or(&Value::Null)
    }

    /// Its machine.
    fn machine(&self) -> &Value {
        self.machines.first().unwrap_or(&Value::Null)
    }

    /// Its job.
    fn job(&self) -> &Value {
        self.jobs.first().unwrap_or(&Value::Null)
    }
}
