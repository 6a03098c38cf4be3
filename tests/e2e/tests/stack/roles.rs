//! Whether the functions' roles hold. What they may do at EC2 is checked on the rendered policies,
//! in tests/template: the emulator does not see those calls.

use anyhow::{Context as _, Result, ensure};
use muster_e2e::aws::Aws;
use muster_e2e::{Stack, Test};
use serde_json::{Value, json};

/// A call and whether the role may make it.
struct Fact {
    role: &'static str,
    call: (&'static str, &'static str, Value),
    allowed: bool,
}

pub(super) async fn enforced(test: Test) -> Result<()> {
    let stack = test.stack(&[]).await?;
    let table = stack.env.get("INSTANCES_TABLE")?;
    let unsigned = stack
        .knock_at(
            stack.env.get("AWS_ENDPOINT_URL")?,
            &[
                ("x-amz-target", "DynamoDB_20120810.Scan"),
                ("content-type", "application/x-amz-json-1.0"),
            ],
            json!({ "TableName": table }).to_string().into_bytes(),
        )
        .await?;
    ensure!(
        unsigned.status >= 400,
        "the emulator answers without a signature: start it with MUSTER_AUTH=true (the default)"
    );

    let facts = facts(&stack)?;
    for Fact { role, call: (service, target, body), allowed } in &facts {
        let caller = caller(&stack, role).await?;
        let reply = caller.try_json(service, target, body).await?;
        let verdict = if reply.is_denied() { "denied" } else { "allowed" };
        ensure!(
            reply.is_denied() != *allowed,
            "{role} is {verdict} {target}: {} {}",
            reply.status,
            reply.body
        );
        if *allowed {
            reply.ok().with_context(|| format!("{role} may {target}, but it fails"))?;
        }
    }
    let denied = facts.iter().filter(|fact| !fact.allowed).count();
    test.shows(format!(
        "{denied} calls of others denied, {} own ones allowed",
        facts.len() - denied
    ));
    runner_api_is_closed(&test, &stack).await
}

async fn caller(stack: &Stack, role: &str) -> Result<Aws> {
    let fields = [
        ("Action", "DescribeStackResource"),
        ("Version", "2010-05-15"),
        ("StackName", &*stack.name),
        ("LogicalResourceId", role),
    ];
    let answer = stack.aws.query("cloudformation", &fields).await?;
    let name = answer
        .split_once("<PhysicalResourceId>")
        .and_then(|(_, rest)| rest.split_once('<'))
        .map(|(name, _)| name)
        .with_context(|| format!("no role {role}: {answer}"))?;
    stack.aws.assume(&format!("arn:aws:iam::000000000000:role/{name}"), "e2e").await
}

fn facts(stack: &Stack) -> Result<Vec<Fact>> {
    let env = |name: &str| stack.env.get(name).map(str::to_owned);
    let item = json!({ "TableName": env("INSTANCES_TABLE")?, "Key": { "name": { "S": "none" } } });
    let get_item = ("dynamodb", "DynamoDB_20120810.GetItem", item);
    let scan =
        ("dynamodb", "DynamoDB_20120810.Scan", json!({ "TableName": env("INSTANCES_TABLE")? }));
    let secret = |name: &str| {
        let body = json!({ "SecretId": format!("{}/{name}", stack.name) });
        ("secretsmanager", "secretsmanager.GetSecretValue", body)
    };
    let receive = |url: String| ("sqs", "AmazonSQS.ReceiveMessage", json!({ "QueueUrl": url }));
    let send = |url: String| {
        ("sqs", "AmazonSQS.SendMessage", json!({ "QueueUrl": url, "MessageBody": "never sent" }))
    };
    let [jobs, launch, reap] =
        [env("JOBS_QUEUE_URL")?, env("LAUNCH_QUEUE_URL")?, env("REAP_QUEUE_URL")?];
    let functions = ["WebhookRole", "ScaleUpRole", "ReaperRole", "RunnerApiRole", "AdminRole"];
    let mut facts = Vec::new();
    let mut fact = |role, call, allowed| facts.push(Fact { role, call, allowed });
    fact("WebhookRole", secret("webhook-secret"), true);
    fact("WebhookRole", secret("app-key"), false);
    fact("WebhookRole", get_item.clone(), false);
    fact("WebhookRole", send(launch.clone()), false);
    fact("WebhookRole", send(reap.clone()), false);
    fact("ScaleUpRole", get_item.clone(), true);
    fact("ScaleUpRole", secret("app-key"), false);
    fact("ScaleUpRole", send(reap.clone()), false);
    fact("ReaperRole", get_item.clone(), true);
    fact("ReaperRole", secret("app-key"), true);
    fact("ReaperRole", secret("webhook-secret"), false);
    fact("ReaperRole", receive(jobs.clone()), false);
    fact("ReaperRole", receive(launch), false);
    fact("RunnerApiRole", get_item.clone(), true);
    fact("RunnerApiRole", secret("webhook-secret"), false);
    fact("RunnerApiRole", receive(reap.clone()), false);
    fact("AdminRole", get_item.clone(), true);
    fact("AdminRole", secret("webhook-secret"), true);
    fact("AdminRole", receive(reap), false);
    fact("InstanceRole", get_item, false);
    fact("InstanceRole", secret("app-key"), false);
    fact("InstanceRole", send(jobs), false);
    for role in functions {
        fact(role, scan.clone(), false);
    }
    Ok(facts)
}

/// The machines' routes take signed calls of the machines' role only.
async fn runner_api_is_closed(test: &Test, stack: &Stack) -> Result<()> {
    let base = stack.env.get("RUNNER_API_URL")?;
    for route in ["runner/register", "runner/events"] {
        let answer = stack.knock_at(&format!("{base}/{route}"), &[], b"{}".to_vec()).await?;
        ensure!(answer.status == 403, "{route} without a signature: {answer:?}");
    }
    test.shows("POST /runner/* without a signature: 403");
    Ok(())
}
