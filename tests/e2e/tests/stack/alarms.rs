//! Alarms and the dashboard: each must watch and show exactly what the functions report.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_control::metrics::{Metric, NAMESPACE};
use muster_e2e::logs::filed;
use muster_e2e::stack::id;
use muster_e2e::wait::when;
use muster_e2e::{Seen, Stack, Test, wait_for};
use serde_json::{Value, json};

const CLOUDWATCH: &str = "GraniteServiceVersion20100801";

pub(super) async fn alarms(test: Test) -> Result<()> {
    let stack = test.stack(&[("SpendAlarmDollars", "5")]).await?;
    let alarms = describe(&stack).await?;
    ensure!(!alarms.is_empty(), "the stack has no alarms");
    let _sweeps = stack.ticker(Duration::from_secs(3));
    provoke(&stack).await?;
    let reported = until_all_reported(&stack).await?;

    let mut watched = BTreeSet::new();
    for alarm in &alarms {
        let what = filed_as(alarm);
        let metric = id(&alarm["MetricName"]);
        if alarm["Namespace"] == NAMESPACE {
            ensure!(
                reported.contains(&(metric.clone(), what.clone())),
                "{} watches {metric} of {what}, which no function reports: {reported:?}",
                alarm["AlarmName"]
            );
            watched.insert(metric);
        } else {
            check_aws_metric(&stack, alarm, &what)?;
        }
    }
    let (all, shown): (Vec<Metric>, Vec<Metric>) =
        Metric::ALL.iter().partition(|metric| metric.is_watched());
    let all: BTreeSet<String> = all.iter().map(|metric| metric.name().to_owned()).collect();
    ensure!(watched == all, "metrics without an alarm: {:?}", all.symmetric_difference(&watched));
    let dashboard = dashboard(&stack).await?;
    for metric in shown {
        ensure!(dashboard.contains(metric.name()), "no widget shows {}", metric.name());
    }
    test.shows(format!(
        "{} alarms; {} metrics of ours, each seen in a log line with the alarm's own \
        namespace and dimensions",
        alarms.len(),
        all.len()
    ));

    for alarm in &alarms {
        fire(&stack, alarm).await?;
        test.shows(format!(
            "{}: ALARM after {} = {}",
            id(&alarm["AlarmName"]),
            id(&alarm["MetricName"]),
            breaching(alarm)
        ));
    }
    Ok(())
}

async fn describe(stack: &Stack) -> Result<Vec<Value>> {
    let body = json!({ "AlarmNamePrefix": format!("{}-", stack.name), "MaxRecords": 100 });
    let answer =
        stack.aws.json("monitoring", &format!("{CLOUDWATCH}.DescribeAlarms"), &body).await?;
    Ok(answer["MetricAlarms"].as_array().cloned().unwrap_or_default())
}

/// The dashboard's body as CloudWatch keeps it.
async fn dashboard(stack: &Stack) -> Result<String> {
    let body = json!({ "DashboardName": stack.name });
    let answer = stack.aws.json("monitoring", &format!("{CLOUDWATCH}.GetDashboard"), &body).await?;
    let text = answer["DashboardBody"].as_str().context("the stack has no dashboard")?;
    let body: Value = serde_json::from_str(text).context("the dashboard's body")?;
    ensure!(body["widgets"].as_array().is_some_and(|all| all.len() > 10), "few widgets: {text}");
    ensure!(!text.contains("${AWS"), "not filled in: {text}");
    Ok(text.to_owned())
}

/// Causes what a function counts only when it happens: an event and a message that cannot be read, a
/// refused launch, machines that are lost with a job and without one, and a job that its runner's
/// pool does not serve.
async fn provoke(stack: &Stack) -> Result<()> {
    let unreadable = json!({ "action": "queued", "workflow_job": null });
    let answer = stack.deliver("workflow_job", &unreadable).await?;
    ensure!(answer.status == 400, "an event without a job is answered {}", answer.status);
    let poison =
        json!({ "QueueUrl": stack.env.get("JOBS_QUEUE_URL")?, "MessageBody": "not a message" });
    stack.aws.json("sqs", "AmazonSQS.SendMessage", &poison).await?;
    stack
        .fault(&json!({
            "door": "ec2", "operation": "CreateFleet", "times": 1,
            "answer": { "error": { "status": 400, "code": "VcpuLimitExceeded", "message": "simulated" } },
        }))
        .await?;
    let job = stack.queue_job(&json!({ "duration_ms": 1500 })).await?;
    stack.until_served(&job, 90).await?;
    lose_machines(stack).await?;
    refuse_a_job(stack).await
}

/// Somebody ends a machine under its job, and another one that still boots for its job.
async fn lose_machines(stack: &Stack) -> Result<()> {
    let job = stack.queue_job(&json!({ "duration_ms": 60_000 })).await?;
    let begun = stack.until_begun(&job, 90).await?;
    let end = async |machine: &str| {
        let path = format!("instances/{machine}/terminate");
        stack.world.post(&path, &json!({})).await.map(drop)
    };
    end(&id(&begun["runner"]["machine"])).await?;
    stack.next_machines(1, &json!({ "never_boots": true })).await?;
    let before = stack.machines().await?.len();
    let job = stack.queue_job(&json!({ "duration_ms": 500 })).await?;
    let machine = stack.until_launched(before + 1, 60).await?.remove(before);
    stack.until_bound(&machine, 30).await?;
    end(&machine).await?;
    stack.until_served(&job, 120).await.map(drop)
}

/// The older job is of a repository that the pool does not list, and GitHub gives it the machine.
async fn refuse_a_job(stack: &Stack) -> Result<()> {
    let (owner, label) = (&stack.owner, &stack.name);
    let file = format!(
        "
defaults:
  subnets: [subnet-00000001, subnet-00000002]
  instances: {{ types: [m7i.large, m7a.large] }}
pools:
  - name: default
    entity: {owner}
    labels: [{label}]
    repositories: [{owner}/app]
    limits: {{ max: 5 }}
"
    );
    let request = json!({ "action": "pools", "file": file, "reason": "end-to-end test" });
    let answer = stack.admin(&request).await?;
    let lines = answer["lines"].to_string();
    ensure!(lines.contains("! pool default lists repositories"), "not warned: {answer}");
    let foreign = stack.queue_job(&json!({ "repo": "other", "duration_ms": 1500 })).await?;
    let own = stack.queue_job(&json!({ "duration_ms": 1500 })).await?;
    stack.until_served(&own, 120).await?;
    let foreign = stack.until_over(&foreign, 60).await?;
    ensure!(
        foreign["conclusion"] == "failure" && foreign["began_at"].is_null(),
        "a foreign job ran: {foreign}"
    );
    Ok(())
}

/// Metric and where it is filed, for everything in the logs, once each metric was filed in all its
/// ways.
async fn until_all_reported(stack: &Stack) -> Result<BTreeSet<(String, String)>> {
    wait_for("every metric to be reported", 30, async || {
        let measured = stack.measured().await?;
        let seen: BTreeSet<(String, String)> =
            measured.into_iter().map(|one| (one.metric, one.filed)).collect();
        // The simulated GitHub of the local stack cannot re-run jobs. The stories show that metric.
        let all = Metric::ALL
            .iter()
            .filter(|metric| **metric != Metric::JobsRerun)
            .flat_map(|metric| metric.dimensions().iter().map(|by| (metric.name(), by.names())));
        let missing: Vec<(&str, &[&str])> = all
            .filter(|(name, by)| {
                !seen.iter().any(|(metric, filed)| metric == name && is_filed_by(filed, by))
            })
            .collect();
        Ok(Seen::from(missing.is_empty().then(|| seen.clone()), || format!("missing: {missing:?}")))
    })
    .await
}

/// Whether these are the names of its dimensions.
fn is_filed_by(filed: &str, names: &[&str]) -> bool {
    let inside = filed.trim_end_matches('}').split_once('{').map_or("", |(_, inside)| inside);
    let found = inside.split(',').filter_map(|one| one.split('=').next());
    found.collect::<BTreeSet<&str>>() == names.iter().copied().collect()
}

fn filed_as(alarm: &Value) -> String {
    let dimensions = alarm["Dimensions"].as_array().cloned().unwrap_or_default();
    let dimensions: Vec<(String, String)> =
        dimensions.iter().map(|one| (id(&one["Name"]), id(&one["Value"]))).collect();
    let dimensions: Vec<(&str, &str)> =
        dimensions.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    filed(&id(&alarm["Namespace"]), &dimensions)
}

/// AWS's own metrics: the dimension must name something of this stack.
fn check_aws_metric(stack: &Stack, alarm: &Value, what: &str) -> Result<()> {
    let last = |name: &str| -> Result<String> {
        let url = stack.env.get(name)?;
        Ok(url.trim_end_matches("/webhook").rsplit('/').next().unwrap_or_default().to_owned())
    };
    let known = [
        filed("AWS/SQS", &[("QueueName", &last("JOBS_QUEUE_URL")?)]),
        filed("AWS/SQS", &[("QueueName", &last("JOBS_DLQ_URL")?)]),
        filed("AWS/ApiGateway", &[("ApiId", &last("WEBHOOK_URL")?)]),
        filed("AWS/Lambda", &[("FunctionName", &format!("{}-scale-up", stack.name))]),
        filed("AWS/Lambda", &[("FunctionName", &format!("{}-reaper", stack.name))]),
    ];
    ensure!(
        known.iter().any(|one| one == what),
        "{} watches {what}, which is not of this stack",
        alarm["AlarmName"]
    );
    Ok(())
}

/// A value on the wrong side of the threshold.
fn breaching(alarm: &Value) -> f64 {
    let threshold = alarm["Threshold"].as_f64().unwrap_or_default();
    if id(&alarm["ComparisonOperator"]).starts_with("Less") {
        threshold - 1.0
    } else {
        threshold + 1.0
    }
}

async fn fire(stack: &Stack, alarm: &Value) -> Result<()> {
    let data = json!([{
        "MetricName": alarm["MetricName"],
        "Dimensions": alarm["Dimensions"],
        "Value": breaching(alarm),
    }]);
    let body = json!({ "Namespace": alarm["Namespace"], "MetricData": data });
    stack.aws.json("monitoring", &format!("{CLOUDWATCH}.PutMetricData"), &body).await?;
    let name = id(&alarm["AlarmName"]);
    wait_for(&format!("alarm {name} to fire"), 10, async || {
        let alarms = describe(stack).await?;
        let alarm = alarms.iter().find(|one| one["AlarmName"] == name.as_str());
        let state = id(&alarm.context("the alarm is gone")?["StateValue"]);
        Ok(when(state == "ALARM", || state.clone()))
    })
    .await
}
