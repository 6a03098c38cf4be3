//! One message of a batch that cannot be handled holds up no other.

use anyhow::{Context as _, Result, ensure};
use muster_e2e::Test;
use serde_json::{Value, json};

/// A sample batch with a message before and behind its own that nobody can read.
fn spoilt(sample: &str) -> Result<Value> {
    let path = muster_e2e::local::root().join("events").join(sample);
    let mut batch: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let records = batch["Records"].as_array_mut().context("a batch")?;
    for (at, id) in [(0, "first"), (records.len() + 1, "last")] {
        let mut bad = records[0].clone();
        (bad["messageId"], bad["body"]) = (json!(id), json!("{\"type\":\"nothing of ours\"}"));
        records.insert(at, bad);
    }
    Ok(batch)
}

pub(super) async fn answered_one_by_one(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    let samples = [
        ("scale-up", "scale-up-jobs.json"),
        ("reaper", "reaper-reap.json"),
        ("reaper", "reaper-ec2-state-change.json"),
    ];
    for (function, sample) in samples {
        let name = format!("{}-{function}", stack.name);
        let answer = stack.aws.invoke(&name, &spoilt(sample)?).await?;
        let stay = json!([{ "itemIdentifier": "first" }, { "itemIdentifier": "last" }]);
        ensure!(answer["batchItemFailures"] == stay, "{function}, {sample}: {answer}");
    }
    test.shows("of three messages the readable one is done with, the other two stay");
    Ok(())
}
