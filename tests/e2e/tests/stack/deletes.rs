//! Deletes that EC2 stands in the way of.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_e2e::stack::id;
use muster_e2e::wait::when;
use muster_e2e::{Seen, Stack, Test, wait_for};
use serde_json::{Value, json};

/// Seconds before each attempt.
const WAITS: [u64; 6] = [0, 1, 2, 4, 8, 16];

/// EC2 fails every TerminateInstances, or the next few.
async fn terminate_fails(stack: &Stack, times: Option<u32>) -> Result<u64> {
    let mut fault = json!({
        "door": "ec2",
        "operation": "TerminateInstances",
        "answer": { "error": { "status": 500, "code": "InternalError", "message": "simulated outage" } },
    });
    if let Some(times) = times {
        fault["times"] = json!(times);
    }
    stack.fault(&fault).await
}

/// A machine that hangs in its boot, and whose job is cancelled: nothing but the operator's order
/// moves its instance. Answers with the instance's name and the machine.
async fn idle_instance(stack: &Stack) -> Result<(String, String)> {
    let before = stack.machines().await?.len();
    stack.next_machines(1, &json!({ "never_boots": true })).await?;
    let job = stack.queue_job(&json!({})).await?;
    let machine = stack.until_launched(before + 1, 30).await?.remove(before);
    let name = stack.until_bound(&machine, 30).await?;
    stack.cancel(&job).await?;
    wait_for("the cancelled job's claim to end", 30, async || {
        let row = stack.row(&name).await?;
        Ok(when(row["claim"].is_null(), || row["claim"].to_string()))
    })
    .await?;
    Ok((name, machine))
}

fn delete(name: &str, more: Value) -> Value {
    let mut request =
        json!({ "action": "delete", "name": name, "reason": "end-to-end test", "by": "tester" });
    if let (Some(request), Value::Object(more)) = (request.as_object_mut(), more) {
        request.extend(more);
    }
    request
}

pub(super) async fn backoff(test: Test) -> Result<()> {
    let stack = test.stack(&[("retry_cap_seconds", "300")]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    let _quiet = test.quiet().await;
    // Never early is a promise; at most two seconds late is one only while the machine has time. A
    // busy one gets two more tries.
    for last in [false, false, true] {
        let waited = climb(&test, &stack).await?;
        let late = |(waited, wait): (&u64, u64)| *waited > (wait + 2) * 1000;
        let is_late = waited.iter().zip(WAITS).any(late);
        test.shows(format!("waits before the attempts, seen at EC2's door, ms: {waited:?}"));
        if !is_late {
            break;
        }
        ensure!(!last, "more than 2 s late three times; the last time, ms: {waited:?}");
    }
    stack.no_dead_letters().await
}

/// One delete that fails five times. Answers with the waits before its attempts, in milliseconds.
async fn climb(test: &Test, stack: &Stack) -> Result<Vec<u64>> {
    let (name, machine) = idle_instance(stack).await?;
    terminate_fails(stack, Some(5)).await?;
    stack.admin(&delete(&name, json!({}))).await?;
    let shown = wait_for("three failed attempts", 30, async || {
        let shown = stack.show(&name).await?;
        let attempts = shown["instance"]["attempts"].as_u64().unwrap_or_default();
        Ok(Seen::from((attempts >= 3).then_some(shown), || format!("{attempts} attempts")))
    })
    .await?;
    let error = &shown["instance"]["last_error"];
    ensure!(
        error["operation"] == "TerminateInstances" && error["code"] == "InternalError",
        "show has the last error {error}"
    );
    for line in shown["explanation"].as_array().into_iter().flatten() {
        test.shows(format!("explain: {}", id(line)));
    }
    let row = stack.until_state(&name, &["deleted"], 60).await?;
    ensure!(row["attempts"] == 5, "{} attempts on record", row["attempts"]);

    let ordered: jiff::Timestamp = id(&row["order"]["at"]).parse().context("order.at")?;
    let calls = stack.calls("ec2", &format!("TerminateInstances&target={machine}")).await?;
    let times: Vec<u64> = calls.iter().filter_map(|call| call["at_ms"].as_u64()).collect();
    ensure!(times.len() == WAITS.len(), "{} calls at the door", times.len());
    let mut before = u64::try_from(ordered.as_millisecond())?;
    let mut waited = Vec::new();
    for (at, wait) in times.into_iter().zip(WAITS) {
        waited.push(at.saturating_sub(before));
        ensure!(at >= before + wait * 1000, "earlier than after {wait} s: {waited:?} ms");
        before = at;
    }
    Ok(waited)
}

pub(super) async fn forever(test: Test) -> Result<()> {
    let stack = test.stack(&[("notice_over_seconds", "3")]).await?;
    let receiver = format!("notices/{}", stack.name);
    tell_notices(&stack, &receiver).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    let (name, machine) = idle_instance(&stack).await?;
    let outage = terminate_fails(&stack, None).await?;
    stack.admin(&delete(&name, json!({}))).await?;
    plain_keeps_trying(&test, &stack, &name).await?;

    let before = stack.calls("ec2", "TerminateInstances").await?.len();
    stack.admin(&delete(&name, json!({ "force": true, "reason": "EC2 is down" }))).await?;
    stack.until_state(&name, &["deleted"], 40).await?;
    let tries = stack.calls("ec2", "TerminateInstances").await?.len() - before;
    test.shows(format!("force after failed attempts: deleted after {tries} more call(s)"));
    ensure!(tries <= 3, "{tries} tries");

    let (fresh, second) = idle_instance(&stack).await?;
    stack.admin(&delete(&fresh, json!({ "force": true, "reason": "EC2 is down" }))).await?;
    let row = stack.until_state(&fresh, &["deleted"], 40).await?;
    test.shows(format!("force from the start: deleted after {} failed calls", row["attempts"]));
    ensure!(row["attempts"].as_u64().is_some_and(|n| n <= 3), "{} tries", row["attempts"]);

    for (name, machine) in [(&name, &machine), (&fresh, &second)] {
        check_ledger(&stack, name, machine).await?;
    }
    until_measured(&stack, "Orphans", 2.0).await?;

    stack.heal(outage).await?;
    for machine in [&machine, &second] {
        until_swept(&stack, machine).await?;
    }
    until_measured(&stack, "Orphans", 0.0).await?;
    test.shows("EC2 healed: the sweep terminated both orphans and struck them from the ledger");
    until_told(&test, &stack, &receiver).await?;
    stack.no_dead_letters().await
}

/// The world is who is told.
async fn tell_notices(stack: &Stack, receiver: &str) -> Result<()> {
    let told = format!("json {}/{receiver}", stack.env.get("WORLD_CONTROL_URL")?);
    let secret = json!({ "Name": format!("{}/notices", stack.name), "SecretString": told });
    stack.aws.json("secretsmanager", "secretsmanager.CreateSecret", &secret).await?;
    Ok(())
}

/// Two notices of the orphans, one when they began and one when they were over, behind a first call
/// that says whose notices come here.
async fn until_told(test: &Test, stack: &Stack, receiver: &str) -> Result<()> {
    let told = wait_for("the end of the orphans to be told", 40, async || {
        let messages = stack.world.list(receiver).await?;
        let notices: Vec<Value> = messages
            .iter()
            .flat_map(|message| message["notices"].as_array().cloned().unwrap_or_default())
            .filter(|notice| notice["key"] == "orphans")
            .collect();
        let firsts = messages.iter().filter(|message| message["first"] == true).count();
        ensure!(firsts <= 1, "{firsts} first calls: {messages:?}");
        let is_over = notices.iter().any(|notice| notice["what"] == "over");
        let state = format!("{notices:?}");
        Ok(Seen::from(is_over.then_some(notices), || state))
    })
    .await?;
    let what: Vec<String> = told.iter().map(|notice| id(&notice["what"])).collect();
    ensure!(what == ["begun", "over"], "told {told:?}");
    test.shows(format!(
        "told once when it began: {}; and once when it was over",
        id(&told[0]["message"])
    ));
    Ok(())
}

/// Attempt follows attempt, nothing is given up, and the age that the alarm watches rises.
async fn plain_keeps_trying(test: &Test, stack: &Stack, name: &str) -> Result<()> {
    let ages = wait_for(
        "five attempts, and an age of ten seconds in the reaper's metric",
        60,
        async || {
            let row = stack.row(name).await?;
            ensure!(row["state"] != "deleted", "a plain delete gave up");
            let measured = stack.metric("OldestPendingDeleteAgeSeconds").await?;
            let ages: Vec<f64> =
                measured.iter().map(|one| one.value).filter(|age| *age > 0.0).collect();
            let attempts = row["attempts"].as_u64().unwrap_or_default();
            let done = attempts >= 5 && ages.last().is_some_and(|age| *age >= 10.0);
            Ok(Seen::from(done.then(|| ages.clone()), || {
                format!("{attempts} attempts, ages {ages:?}")
            }))
        },
    )
    .await?;
    ensure!(ages.is_sorted() && ages.len() >= 3, "the age does not rise: {ages:?}");
    test.shows(format!("plain delete keeps trying; OldestPendingDeleteAgeSeconds: {ages:?}"));
    Ok(())
}

async fn check_ledger(stack: &Stack, name: &str, machine: &str) -> Result<()> {
    let status = stack.admin(&json!({ "action": "status" })).await?;
    let orphans = status["orphans"].as_array().cloned().unwrap_or_default();
    let orphan = orphans.iter().find(|orphan| orphan["machine"] == machine);
    let orphan = orphan.with_context(|| format!("{machine} is not in the ledger: {orphans:?}"))?;
    ensure!(orphan["instance"] == name, "the ledger says {orphan}");
    let audit = stack.show(name).await?["audit"].clone();
    for kind in ["ordered", "given_up"] {
        let found = audit.as_array().into_iter().flatten().any(|one| one["kind"] == kind);
        ensure!(found, "no {kind:?} in the audit trail: {audit}");
    }
    Ok(())
}

async fn until_measured(stack: &Stack, metric: &str, wanted: f64) -> Result<()> {
    wait_for(&format!("{metric} to be {wanted}"), 30, async || {
        let last = stack.metric(metric).await?.last().map(|one| one.value);
        Ok(when(last == Some(wanted), || format!("{last:?}")))
    })
    .await
}

async fn until_swept(stack: &Stack, machine: &str) -> Result<()> {
    wait_for(&format!("the sweep to end the orphan {machine}"), 40, async || {
        let machines = stack.machines().await?;
        let state = machines.iter().find(|one| one["id"] == machine).map(|one| id(&one["state"]));
        let status = stack.admin(&json!({ "action": "status" })).await?;
        let listed =
            status["orphans"].as_array().into_iter().flatten().any(|one| one["machine"] == machine);
        let done = state.as_deref() == Some("terminated") && !listed;
        Ok(when(done, || format!("EC2 says {state:?}; in the ledger: {listed}")))
    })
    .await
}
