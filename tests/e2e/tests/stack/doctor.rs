//! What `muster doctor` says of each thing that can be wrong with the simulated account, as it is
//! read from AWS's and GitHub's answers. The rules by themselves have their tests in `cli`.

mod faults;
mod rows;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use muster_e2e::{Stack, Test};
use serde_json::{Value, json};

use self::faults::Bench;
use self::rows::{ROWS, Row};

/// Of a check: the key of its finding or else its name, how it ended, and the message.
type Told = (String, String, String);

/// Every row is set alone, told, and taken back.
pub(super) async fn each_wrong_is_told(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    let bench = Bench::new(&stack).await?;
    let (usual, code) = doctor(&stack).await?;
    test.shows(format!("the stack itself (exit {code}): {usual:#?}"));
    ensure!(code == 0, "an error before anything is wrong: {usual:#?}");
    let mut wrong = Vec::new();
    for row in ROWS {
        match told(&stack, &bench, row, &usual).await {
            Ok(message) => test.shows(format!("{}: {message}", row.what)),
            Err(error) => wrong.push(format!("{}: {error:#}", row.what)),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (now, _) = doctor(&stack).await?;
    let left: Vec<&Told> = now.difference(&usual).collect();
    ensure!(left.is_empty(), "still told when nothing is wrong any more: {left:#?}");
    Ok(())
}

/// The first run after the fault names it, with the exit code that belongs to it.
async fn told(stack: &Stack, bench: &Bench, row: &Row, usual: &BTreeSet<Told>) -> Result<String> {
    let set = bench.set(&row.fault).await;
    let found = match set {
        Ok(()) => doctor(stack).await,
        Err(error) => Err(error.context("it cannot be set")),
    };
    bench.unset(&row.fault).await.context("it cannot be taken back")?;
    let (found, code) = found?;
    let new: Vec<&Told> = found.difference(usual).collect();
    let words = row.words.replace("STACK", &stack.name);
    let is_told = |(key, level, message): &&&Told| {
        key == row.check && level == row.level && message.contains(&words)
    };
    let (_, _, message) = new
        .iter()
        .find(is_told)
        .with_context(|| format!("no {} of {} with {words:?}: {new:#?}", row.level, row.check))?;
    let wanted = if row.level == "error" { 3 } else { 0 };
    ensure!(code == wanted, "it ended with {code}, and not {wanted}: {new:#?}");
    Ok(message.clone())
}

async fn doctor(stack: &Stack) -> Result<(BTreeSet<Told>, i32)> {
    swept(stack).await?;
    let said = stack.muster(&["doctor", "--json"]).await?;
    let answer: Value =
        serde_json::from_str(&said.out).with_context(|| format!("{}{}", said.out, said.err))?;
    let checks = answer["checks"].as_array().context("no checks")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = checks.iter().filter(|check| check["level"] != "ok");
    let told = told.map(|check| match &check["finding"] {
        Value::Null => (text(&check["id"]), text(&check["level"]), text(&check["unknown"])),
        one => (text(&one["key"]), text(&check["level"]), text(&one["message"])),
    });
    Ok((told.collect(), said.code))
}

/// The emulator makes no metric of what a sweep logs, so it is put there.
async fn swept(stack: &Stack) -> Result<()> {
    let tick = json!({ "Namespace": "Muster", "MetricData": [{ "MetricName": "ReaperTick",
        "Dimensions": [{ "Name": "Stack", "Value": stack.name }], "Value": 1 }] });
    let target = "GraniteServiceVersion20100801.PutMetricData";
    stack.aws.json("monitoring", target, &tick).await.map(drop)
}
