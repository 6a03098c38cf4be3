//! Two Apps of two organizations in one stack.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_e2e::local::root;
use muster_e2e::{Stack, Test};
use serde_json::{Value, json};

const POOLS: &str = "
defaults:
  subnets: [subnet-00000001, subnet-00000002]
  instances: { types: [m7i.large] }
  labels: [STACK]
  limits: { max: 2 }
pools:
  - { name: first, entity: FIRST }
  - { name: second, entity: \"two:SECOND\" }
";

pub(super) async fn two_apps(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    let _sweeps = stack.ticker(Duration::from_secs(2));
    let second = format!("{}-two", stack.owner);
    connect(&stack, &second).await?;
    test.shows(format!("App two of {second} is connected, and its events go to /webhook/two"));
    let file = POOLS.replace("STACK", &stack.name);
    let file = file.replace("FIRST", &stack.owner).replace("SECOND", &second);
    stack.admin(&json!({ "action": "pools", "file": file, "by": "mira" })).await?;

    let of_first = stack.queue_job(&json!({ "duration_ms": 500 })).await?;
    let of_second = stack.queue_job(&json!({ "duration_ms": 500, "owner": second })).await?;
    for job in [&of_first, &of_second] {
        stack.until_served(job, 60).await?;
    }
    let rows = stack.until_all_deleted(60).await?;
    let mut served: Vec<&str> = rows.iter().filter_map(|row| row["entity"].as_str()).collect();
    served.sort_unstable();
    ensure!(served == [stack.owner.as_str(), &format!("two:{second}")], "served: {served:?}");
    test.shows(format!("one job of each is served: {served:?}"));

    let told = stack.refused(&remove(), "not_allowed").await?;
    ensure!(told.contains("pool second uses App two"), "{told}");
    test.shows(format!("not removed: {told}"));
    stack.no_dead_letters().await
}

fn remove() -> Value {
    json!({ "action": "github", "app": "two", "remove": true })
}

/// Makes an App that belongs to another organization, at another name of the same host.
async fn connect(stack: &Stack, owner: &str) -> Result<()> {
    let id = stack.installation().await? + 1;
    let public = std::fs::read_to_string(root().join(".local/app-key.pub.pem"))?;
    let secret = json!({ "SecretId": format!("{}/app-key", stack.name) });
    let secret = stack.aws.json("secretsmanager", "secretsmanager.GetSecretValue", &secret).await?;
    let own: Value = serde_json::from_str(secret["SecretString"].as_str().context("a secret")?)?;
    let registered = json!({ "owner": owner, "kind": "organization", "installation_id": id,
        "app_id": id, "app_public_key": public, "webhook_url": "http://127.0.0.1:1/nowhere",
        "webhook_secret": "0".repeat(64), "stack": stack.name });
    stack.world.post("owners", &registered).await?;
    let api = own["api_url"].as_str().context("an address")?.replace("127.0.0.1", "localhost");
    let connect = json!({ "app_id": id, "private_key": own["private_key"], "api_url": api });
    let connect = json!({ "action": "github", "app": "two", "connect": connect, "by": "mira" });
    let answer = stack.admin(&connect).await?;
    let url = answer["hook"]["url"].as_str().unwrap_or_default();
    ensure!(answer["hook"]["ours"] == true && url.ends_with("/webhook/two"), "{answer}");
    let main = stack.admin(&json!({ "action": "github" })).await?;
    ensure!(main["other_apps"] == json!(["two"]), "{main}");
    Ok(())
}
