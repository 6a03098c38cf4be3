//! What is asked of the stack and of AWS, and what comes of their answers.

use muster_cli::failure::Failure;
use muster_cli::xml;
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::{machines, network};
use crate::fake::{Fake, NOW};
use crate::orders;
use crate::recorded;

type Answer = Result<Value, Failure>;

fn denied(action: &str) -> Answer {
    let (action, said) = (action.to_owned(), "no".to_owned());
    Err(Failure::Service { action, code: "AccessDenied".to_owned(), said })
}

/// CloudFormation does not know the stack.
fn missing() -> Answer {
    Err(Failure::Service {
        action: "cloudformation:DescribeStacks".to_owned(),
        code: "ValidationError".to_owned(),
        said: "Stack with id muster does not exist".to_owned(),
    })
}

/// A topic of another account.
fn unknown_topic() -> Answer {
    let (action, said) = ("sns:ListSubscriptionsByTopic".to_owned(), "no".to_owned());
    Err(Failure::Service { action, code: "AuthorizationError".to_owned(), said })
}

fn queue(messages: u32) -> Answer {
    Ok(json!({ "Attributes": { "ApproximateNumberOfMessages": messages.to_string() } }))
}

/// What it answers about the account.
fn account() -> [Answer; 6] {
    let caller = "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>111122223333</Account>
        <Arn>arn:aws:sts::111122223333:assumed-role/Admin/mira</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>";
    let quota = || Ok(json!({ "Quota": { "Value": 64.0 } }));
    let limit = json!({ "ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 900 });
    let role = Failure::Service {
        action: "iam:GetRole".to_owned(),
        code: "NoSuchEntity".to_owned(),
        said: "The role cannot be found.".to_owned(),
    };
    [
        Ok(xml::read(caller).expect("XML")),
        Ok(json!({ "AccountLimit": limit })),
        Err(role),
        quota(),
        quota(),
        Ok(json!({ "accountPlanType": "PAID", "accountPlanStatus": "NOT_STARTED" })),
    ]
}

/// What AWS answers of a stack that is well, in the order in which it is asked.
fn of_aws() -> Vec<Answer> {
    let output =
        |key: &str| json!({ "OutputKey": key, "OutputValue": format!("https://sqs/{key}") });
    let outputs = ["JobsDeadLettersUrl", "LaunchDeadLettersUrl", "ReapDeadLettersUrl"].map(output);
    let outputs: Vec<Value> = outputs
        .into_iter()
        .chain([json!({ "OutputKey": "LaunchTemplateId", "OutputValue": "lt-0a" })])
        .collect();
    let parameter =
        |(key, value): (&str, &str)| json!({ "ParameterKey": key, "ParameterValue": value });
    let parameters = [
        ("VpcId", "vpc-1"),
        ("Subnets", "subnet-0a1b2c3d,subnet-0e1f2a3b"),
        ("SecurityGroupIds", ""),
        ("PublicIp", "subnet"),
    ];
    let parameters = parameters.map(parameter);
    let stack =
        json!({ "StackStatus": "CREATE_COMPLETE", "Outputs": outputs, "Parameters": parameters });
    let function = || Ok(json!({ "State": "Active", "LastUpdateStatus": "Successful" }));
    let mapping = |queue: &str| {
        json!({ "UUID": "u", "State": "Enabled", "LastProcessingResult": "OK", "FunctionArn": "a:muster-x",
            "EventSourceArn": format!("arn:aws:sqs:us-east-1:1:{queue}") })
    };
    let mappings = |all: &[&str]| {
        let all: Vec<Value> = all.iter().map(|queue| mapping(queue)).collect();
        Ok(json!({ "EventSourceMappings": all }))
    };
    let tick = (NOW - Seconds(90)).as_millis() / 1000;
    let alarm = json!({
        "AlarmName": "muster-quota", "StateValue": "OK", "ActionsEnabled": true,
        "AlarmActions": ["arn:aws:sns:us-east-1:1:t"],
        "AlarmDescription": "What quota means. What to do: https://x/docs/alarms/quota.md",
    });
    let confirmed =
        json!({ "Endpoint": "ops@acme.io", "SubscriptionArn": "arn:aws:sns:us-east-1:1:t:s" });
    let mut all = vec![Ok(json!({ "DescribeStacksResult": { "Stacks": [stack] } }))];
    all.extend(account());
    all.extend((0..5).map(|_| function()));
    all.extend((0..5).map(|_| Ok(json!({}))));
    all.push(Ok(json!({ "Rules": [
        { "Name": "muster-ReaperFunctionTick-1A", "State": "ENABLED" },
        { "Name": "muster-MachineEndedRule-1A", "State": "DISABLED" },
        { "Name": "muster-prod-SpotWarningRule-1A", "State": "DISABLED" },
    ] })));
    all.extend([
        mappings(&["muster-JobsQueue-1", "muster-LaunchQueue-2"]),
        mappings(&["muster-ReapQueue-3"]),
        Ok(json!({ "Datapoints": [{ "Timestamp": tick, "Sum": 1.0 }, { "Timestamp": tick - 60, "Sum": 1.0 }] })),
        Ok(json!({ "MetricAlarms": [alarm] })),
        queue(0),
        queue(2),
        queue(0),
        Ok(json!({ "ListSubscriptionsByTopicResult": { "Subscriptions": [confirmed] } })),
    ]);
    all.extend(network::answers().map(Ok));
    all.extend(machines::answers().map(Ok));
    all.extend(machines::images().map(Ok));
    all
}

#[test]
fn everybody_is_asked_once() {
    let stack = |services: Vec<Answer>| Fake {
        answers: [recorded("status_quiet"), recorded("pools")].into(),
        ..Fake::aws(services)
    };
    let none = |stacks: Option<Vec<String>>| {
        let (stack, region) = ("muster".to_owned(), "us-east-1".to_owned());
        let failure = Some(Failure::NoFunction { stack, region, stacks: stacks.clone() });
        let asks = stacks.is_none_or(|all| all.is_empty());
        Fake {
            failure,
            ..Fake::aws(
                asks.then(|| std::iter::once(missing()).chain(account())).into_iter().flatten(),
            )
        }
    };
    let read = |text: &str| Ok(xml::read(text).expect("XML"));
    let mut drifted = of_aws();
    drifted.extend([
        read("<R><DetectStackDriftResult><StackDriftDetectionId>d-1</StackDriftDetectionId></DetectStackDriftResult></R>"),
        read("<R><DescribeStackDriftDetectionStatusResult><DetectionStatus>DETECTION_IN_PROGRESS</DetectionStatus>
            </DescribeStackDriftDetectionStatusResult></R>"),
        read("<R><DescribeStackDriftDetectionStatusResult><DetectionStatus>DETECTION_COMPLETE</DetectionStatus>
            <StackDriftStatus>DRIFTED</StackDriftStatus></DescribeStackDriftDetectionStatusResult></R>"),
        read("<R><DescribeStackResourceDriftsResult><StackResourceDrifts><member>
            <LogicalResourceId>LaunchTemplate</LogicalResourceId><ResourceType>AWS::EC2::LaunchTemplate</ResourceType>
            <PhysicalResourceId>lt-0a</PhysicalResourceId><StackResourceDriftStatus>MODIFIED</StackResourceDriftStatus>
            <PropertyDifferences><member><PropertyPath>/LaunchTemplateData/ImageId</PropertyPath></member></PropertyDifferences>
            </member></StackResourceDrifts></DescribeStackResourceDriftsResult></R>"),
    ]);
    let mut deaf: Vec<Answer> = of_aws();
    deaf[0] = denied("cloudformation:DescribeStacks");
    deaf[21] = denied("cloudwatch:DescribeAlarms");
    deaf.truncate(22);
    let mut unknown = of_aws();
    unknown[0] = missing();
    unknown.truncate(22);
    unknown.push(unknown_topic());
    // A queue that may not be looked at shifts no other answer.
    let mut closed = of_aws();
    closed[22] = denied("sqs:GetQueueAttributes");
    let mut silent = of_aws();
    silent[20] = Ok(json!({ "Datapoints": [] }));
    let mut expired = of_aws();
    expired[9] = Err(Failure::NoCredentials { profile: None, why: Some("expired".to_owned()) });
    expired.truncate(22);
    orders::told(
        "run_doctor",
        [
            (stack(of_aws()), vec!["doctor"]),
            (stack(silent), vec!["doctor"]),
            (Fake { patience: 9, ..stack(drifted) }, vec!["doctor", "--deep"]),
            (stack(closed), vec!["doctor"]),
            (stack(unknown), vec!["doctor"]),
            (Fake { width: None, ..stack(deaf) }, vec!["doctor"]),
            (stack(expired), vec!["doctor"]),
            (none(Some(vec![])), vec!["doctor"]),
            (none(None), vec!["doctor", "--json"]),
            (none(Some(vec!["a".to_owned(), "b".to_owned()])), vec!["doctor"]),
        ],
    );
}
