"""What each role can and cannot do, evaluated on the rendered policies.

The emulator does not see EC2 calls, so the IAM promises are kept by this table: one line, one fact. Dropping any
statement of any policy must break a fact. The emulator's evaluator takes any key of a condition for set; what AWS
sets for an action on a resource is read in its own reference (authorization.py).
"""

import itertools
import json
import unittest

import authorization
from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document
from rendered import ACCOUNT, REGION, STACK, Rendered, rendered

HERE = f"{REGION}:{ACCOUNT}"
EC2 = f"arn:aws:ec2:{HERE}"
INSTANCE, VOLUME = f"{EC2}:instance/i-0123456789abcdef0", f"{EC2}:volume/vol-0123456789abcdef0"
FLEET, ENI = f"{EC2}:fleet/fleet-0123", f"{EC2}:network-interface/eni-0123"
PLACEMENT = f"{EC2}:placement-group/acme-release"
SPOT = f"{EC2}:spot-instances-request/sir-0123"
IMAGE, SNAPSHOT = f"arn:aws:ec2:{REGION}::image/ami-0dd", f"arn:aws:ec2:{REGION}::snapshot/snap-0dd"
OUR_TEMPLATE, OTHER_TEMPLATE = f"{EC2}:launch-template/lt-0ours", f"{EC2}:launch-template/lt-0other"
QUEUES = f"arn:aws:sqs:{HERE}:{STACK}-"
JOBS, LAUNCH, REAP = (f"{QUEUES}{queue}Queue-1ABC" for queue in ("Jobs", "Launch", "Reap"))
JOBS_DLQ, LAUNCH_DLQ, REAP_DLQ = (f"{QUEUES}{queue}DeadLetters-1ABC" for queue in ("Jobs", "Launch", "Reap"))
SECRETS = f"arn:aws:secretsmanager:{HERE}:secret:{STACK}/"
WEBHOOK_SECRET, APP_KEY, NOTICES, PROXY = (
    f"{SECRETS}{secret}-a1B2c3" for secret in ("webhook-secret", "app-key", "notices", "proxy/office")
)
TABLES = f"arn:aws:dynamodb:{HERE}:table/{STACK}-"
INSTANCES, JOBS_TABLE, CONTROL, USAGE = (f"{TABLES}{t}Table-1ABC" for t in ("Instances", "Jobs", "Control", "Usage"))
INSTANCE_ROLE = f"arn:aws:iam::{ACCOUNT}:role/{STACK}-InstanceRole-1ABC"
OTHER_ROLE = f"arn:aws:iam::{ACCOUNT}:role/admin"
API = f"arn:aws:execute-api:{HERE}:api0ours/$default"
MACHINE = {"aws:userid": "AROAOURS:i-0123456789abcdef0"}
MACHINE_LOGS = f"arn:aws:s3:::{STACK}-MachineLogs-1ABC/AROAOURS:i-0123456789abcdef"
LOGS = f"arn:aws:logs:{HERE}:log-group:/aws/lambda/{STACK}-"

OURS = {"ec2:ResourceTag/muster:stack": STACK, "ec2:ResourceTag/muster:launch": "default-4kq7v2-0"}
THEIRS = {**OURS, "ec2:ResourceTag/muster:stack": "another"}
TAGGED = {"ec2:ResourceTag/muster:stack": STACK}
BORN_OURS = {"aws:RequestTag/muster:stack": STACK, "aws:TagKeys": ["muster:stack", "muster:launch", "muster:pool", "Name"]}
BORN_THEIRS = {**BORN_OURS, "aws:RequestTag/muster:stack": "another"}
FROM_OURS = {"ec2:LaunchTemplate": OUR_TEMPLATE}
FROM_OTHER = {"ec2:LaunchTemplate": OTHER_TEMPLATE}
TO_EC2, TO_LAMBDA = {"iam:PassedToService": "ec2.amazonaws.com"}, {"iam:PassedToService": "lambda.amazonaws.com"}
SPOT_ROLE = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
FOR_SPOT, FOR_SCALING = ({"iam:AWSServiceName": f"{service}.amazonaws.com"} for service in ("spot", "autoscaling"))
CREATIONS = ("CreateFleet", "RunInstances", "CreateImage", "CreateTags")
AT_FLEET, AT_RUN, AT_IMAGE, LATER = ({"ec2:CreateAction": action} for action in CREATIONS)
AUDIT = {"dynamodb:LeadingKeys": ["audit#2026-11-21#1"]}
POOL = {"dynamodb:LeadingKeys": ["pool#default"]}

FACTS = [
    # --- webhook: one queue and one secret
    ("Webhook", "Allow", "sqs:SendMessage", JOBS, {}),
    ("Webhook", "Allow", "secretsmanager:GetSecretValue", WEBHOOK_SECRET, {}),
    ("Webhook", "Allow", "logs:PutLogEvents", f"{LOGS}webhook:log-stream:x", {}),
    ("Webhook", "Deny", "secretsmanager:GetSecretValue", APP_KEY, {}),
    ("Webhook", "Deny", "secretsmanager:PutSecretValue", WEBHOOK_SECRET, {}),
    ("Webhook", "Deny", "sqs:SendMessage", LAUNCH, {}),
    ("Webhook", "Deny", "sqs:SendMessage", REAP, {}),
    ("Webhook", "Deny", "sqs:ReceiveMessage", JOBS, {}),
    ("Webhook", "Deny", "sqs:DeleteMessage", JOBS, {}),
    ("Webhook", "Deny", "dynamodb:GetItem", JOBS_TABLE, {}),
    ("Webhook", "Deny", "dynamodb:PutItem", CONTROL, {}),
    ("Webhook", "Deny", "ec2:DescribeInstances", "*", {}),
    ("Webhook", "Deny", "ec2:RunInstances", INSTANCE, {**BORN_OURS, **FROM_OURS}),
    ("Webhook", "Deny", "logs:PutLogEvents", f"{LOGS}admin:log-stream:x", {}),
    ("Webhook", "Deny", "lambda:InvokeFunction", f"arn:aws:lambda:{HERE}:function:{STACK}-admin", {}),
    # --- scale-up: its queues, the tables, launches only from our template
    ("ScaleUp", "Allow", "logs:PutLogEvents", f"{LOGS}scale-up:log-stream:x", {}),
    ("ScaleUp", "Allow", "sqs:ReceiveMessage", JOBS, {}),
    ("ScaleUp", "Allow", "sqs:ChangeMessageVisibility", JOBS, {}),
    ("ScaleUp", "Allow", "sqs:DeleteMessage", JOBS, {}),
    ("ScaleUp", "Allow", "sqs:GetQueueAttributes", JOBS, {}),
    ("ScaleUp", "Allow", "sqs:ReceiveMessage", LAUNCH, {}),
    ("ScaleUp", "Allow", "sqs:ChangeMessageVisibility", LAUNCH, {}),
    ("ScaleUp", "Allow", "sqs:DeleteMessage", LAUNCH, {}),
    ("ScaleUp", "Allow", "sqs:GetQueueAttributes", LAUNCH, {}),
    ("ScaleUp", "Allow", "sqs:SendMessage", LAUNCH, {}),
    ("ScaleUp", "Deny", "sqs:SendMessage", JOBS, {}),
    ("ScaleUp", "Allow", "dynamodb:UpdateItem", JOBS_TABLE, {}),
    ("ScaleUp", "Allow", "dynamodb:PutItem", USAGE, {}),
    ("ScaleUp", "Deny", "dynamodb:DeleteItem", USAGE, {}),
    ("ScaleUp", "Deny", "dynamodb:Query", USAGE, {}),
    ("ScaleUp", "Allow", "dynamodb:PutItem", INSTANCES, {}),
    ("ScaleUp", "Allow", "dynamodb:Query", f"{JOBS_TABLE}/index/pool", {}),
    ("ScaleUp", "Allow", "ec2:DescribeInstances", "*", {}),
    ("ScaleUp", "Allow", "ec2:CreateFleet", FLEET, {}),
    ("ScaleUp", "Allow", "ec2:CreateFleet", OUR_TEMPLATE, {}),
    ("ScaleUp", "Allow", "ec2:CreateFleet", IMAGE, {}),
    ("ScaleUp", "Allow", "ec2:CreateFleet", f"{EC2}:subnet/subnet-0aa", {}),
    ("ScaleUp", "Allow", "ec2:CreateFleet", INSTANCE, BORN_OURS),
    ("ScaleUp", "Allow", "ec2:CreateFleet", VOLUME, BORN_OURS),
    ("ScaleUp", "Allow", "ec2:RunInstances", OUR_TEMPLATE, {}),
    ("ScaleUp", "Allow", "ec2:RunInstances", f"{EC2}:subnet/subnet-0bb", {}),
    ("ScaleUp", "Allow", "ec2:RunInstances", f"{EC2}:security-group/sg-0ours", {}),
    ("ScaleUp", "Allow", "ec2:RunInstances", IMAGE, {}),
    ("ScaleUp", "Allow", "ec2:RunInstances", ENI, {"ec2:Subnet": f"{EC2}:subnet/subnet-0aa"}),
    ("ScaleUp", "Allow", "ec2:RunInstances", ENI, {"ec2:Subnet": f"{EC2}:subnet/subnet-0bb"}),
    ("ScaleUp", "Deny", "ec2:RunInstances", ENI, {"ec2:Subnet": f"{EC2}:subnet/subnet-0other"}),
    ("ScaleUp", "Deny", "ec2:RunInstances", ENI, {}),
    ("ScaleUp", "Allow", "ec2:CreateFleet", PLACEMENT, TAGGED),
    ("ScaleUp", "Allow", "ec2:RunInstances", PLACEMENT, TAGGED),
    ("ScaleUp", "Deny", "ec2:RunInstances", PLACEMENT, {}),
    ("ScaleUp", "Deny", "ec2:RunInstances", PLACEMENT, {"ec2:ResourceTag/muster:stack": "another"}),
    ("ScaleUp", "Allow", "ec2:RunInstances", INSTANCE, {**BORN_OURS, **FROM_OURS}),
    ("ScaleUp", "Allow", "ec2:RunInstances", VOLUME, BORN_OURS),
    ("ScaleUp", "Allow", "ec2:CreateTags", INSTANCE, {**BORN_OURS, **AT_FLEET}),
    ("ScaleUp", "Allow", "ec2:CreateTags", INSTANCE, {**BORN_OURS, **AT_RUN}),
    ("ScaleUp", "Allow", "ec2:CreateTags", VOLUME, {**BORN_OURS, **AT_RUN}),
    ("ScaleUp", "Allow", "iam:PassRole", INSTANCE_ROLE, TO_EC2),
    ("ScaleUp", "Allow", "iam:CreateServiceLinkedRole", SPOT_ROLE, FOR_SPOT),
    ("ScaleUp", "Deny", "iam:CreateServiceLinkedRole", SPOT_ROLE, FOR_SCALING),
    ("ScaleUp", "Deny", "iam:CreateServiceLinkedRole", SPOT_ROLE, {}),
    ("ScaleUp", "Deny", "iam:CreateServiceLinkedRole", OTHER_ROLE, FOR_SPOT),
    ("ScaleUp", "Allow", "ssm:GetParameters", f"arn:aws:ssm:{REGION}::parameter/aws/service/canonical/ubuntu/x", {}),
    ("ScaleUp", "Allow", "ssm:GetParameter", f"arn:aws:ssm:{REGION}::parameter/aws/service/canonical/ubuntu/x", {}),
    ("ScaleUp", "Allow", "ssm:GetParameters", f"arn:aws:ssm:{HERE}:parameter/{STACK}/images/linux", {}),
    ("ScaleUp", "Allow", "ssm:GetParameter", f"arn:aws:ssm:{HERE}:parameter/{STACK}/images/linux", {}),
    ("ScaleUp", "Deny", "ssm:GetParameters", f"arn:aws:ssm:{HERE}:parameter/{STACK}/secret", {}),
    ("ScaleUp", "Deny", "ssm:GetParameter", f"arn:aws:ssm:{HERE}:parameter/{STACK}/secret", {}),
    ("ScaleUp", "Deny", "ssm:GetParameters", f"arn:aws:ssm:{HERE}:parameter/prod/images/linux", {}),
    ("ScaleUp", "Deny", "ssm:GetParameter", f"arn:aws:ssm:{HERE}:parameter/prod/images/linux", {}),
    ("ScaleUp", "Deny", "ssm:PutParameter", f"arn:aws:ssm:{HERE}:parameter/{STACK}/images/linux", {}),
    ("ScaleUp", "Deny", "sqs:SendMessage", REAP, {}),
    ("ScaleUp", "Deny", "sqs:ReceiveMessage", REAP, {}),
    ("ScaleUp", "Deny", "secretsmanager:GetSecretValue", APP_KEY, {}),
    ("ScaleUp", "Deny", "secretsmanager:GetSecretValue", WEBHOOK_SECRET, {}),
    ("ScaleUp", "Deny", "ec2:CreateFleet", OTHER_TEMPLATE, {}),
    ("ScaleUp", "Deny", "ec2:CreateFleet", f"{EC2}:subnet/subnet-0other", {}),
    ("ScaleUp", "Deny", "ec2:CreateFleet", INSTANCE, BORN_THEIRS),
    ("ScaleUp", "Deny", "ec2:CreateFleet", INSTANCE, {}),
    ("ScaleUp", "Deny", "ec2:RunInstances", OTHER_TEMPLATE, FROM_OTHER),
    ("ScaleUp", "Deny", "ec2:RunInstances", INSTANCE, {**BORN_OURS, **FROM_OTHER}),
    ("ScaleUp", "Deny", "ec2:RunInstances", INSTANCE, BORN_OURS),
    ("ScaleUp", "Deny", "ec2:RunInstances", INSTANCE, FROM_OURS),
    ("ScaleUp", "Deny", "ec2:RunInstances", INSTANCE, {**BORN_THEIRS, **FROM_OURS}),
    ("ScaleUp", "Deny", "ec2:RunInstances", VOLUME, FROM_OURS),
    # EC2 authorizes it only if the request tags it, which ours does not.
    ("ScaleUp", "Deny", "ec2:RunInstances", SPOT, {}),
    ("ScaleUp", "Deny", "ec2:RunInstances", f"{EC2}:subnet/subnet-0other", FROM_OURS),
    ("ScaleUp", "Deny", "ec2:RunInstances", f"{EC2}:security-group/sg-0other", FROM_OURS),
    ("ScaleUp", "Deny", "ec2:RunInstances", f"{EC2}:key-pair/mine", FROM_OURS),
    ("ScaleUp", "Deny", "ec2:CreateTags", INSTANCE, {**BORN_OURS, **LATER}),
    ("ScaleUp", "Deny", "ec2:CreateTags", INSTANCE, BORN_OURS),
    ("ScaleUp", "Deny", "ec2:CreateTags", INSTANCE, {**BORN_THEIRS, **AT_FLEET}),
    ("ScaleUp", "Deny", "ec2:CreateTags", INSTANCE, {**BORN_OURS, **AT_RUN, "aws:TagKeys": ["muster:stack", "cost"]}),
    ("ScaleUp", "Deny", "ec2:CreateTags", f"{EC2}:vpc/vpc-0cc", {**BORN_OURS, **AT_RUN}),
    ("ScaleUp", "Deny", "ec2:CreateImage", INSTANCE, OURS),
    ("ScaleUp", "Deny", "ec2:DeregisterImage", IMAGE, TAGGED),
    ("ScaleUp", "Deny", "ec2:DeleteTags", INSTANCE, OURS),
    ("ScaleUp", "Deny", "ec2:TerminateInstances", INSTANCE, OURS),
    ("ScaleUp", "Deny", "ec2:ModifyInstanceAttribute", INSTANCE, OURS),
    ("ScaleUp", "Deny", "ec2:CreateLaunchTemplateVersion", OUR_TEMPLATE, {}),
    ("ScaleUp", "Deny", "iam:PassRole", INSTANCE_ROLE, TO_LAMBDA),
    ("ScaleUp", "Deny", "iam:PassRole", INSTANCE_ROLE, {}),
    ("ScaleUp", "Deny", "iam:PassRole", OTHER_ROLE, TO_EC2),
    ("ScaleUp", "Deny", "dynamodb:Scan", INSTANCES, {}),
    ("ScaleUp", "Deny", "dynamodb:DeleteTable", INSTANCES, {}),
    # --- reaper: terminates only our machines
    ("Reaper", "Allow", "logs:PutLogEvents", f"{LOGS}reaper:log-stream:x", {}),
    ("Reaper", "Allow", "ec2:TerminateInstances", INSTANCE, OURS),
    ("Reaper", "Allow", "ec2:GetConsoleOutput", INSTANCE, OURS),
    ("Reaper", "Allow", "ec2:DescribeInstances", "*", {}),
    ("Reaper", "Allow", "ec2:DescribeSpotPriceHistory", "*", {}),
    ("Reaper", "Allow", "pricing:GetProducts", "*", {}),
    ("Reaper", "Allow", "sqs:ChangeMessageVisibility", REAP, {}),
    ("Reaper", "Allow", "sqs:ReceiveMessage", REAP, {}),
    ("Reaper", "Allow", "sqs:SendMessage", REAP, {}),
    ("Reaper", "Allow", "sqs:SendMessage", LAUNCH, {}),
    ("Reaper", "Deny", "sqs:SendMessage", JOBS, {}),
    ("Reaper", "Allow", "secretsmanager:GetSecretValue", APP_KEY, {}),
    ("Reaper", "Allow", "secretsmanager:GetSecretValue", NOTICES, {}),
    ("Reaper", "Allow", "secretsmanager:GetSecretValue", f"{SECRETS}notices", {}),
    ("Reaper", "Allow", "dynamodb:Query", f"{INSTANCES}/index/due", {}),
    ("Reaper", "Allow", "dynamodb:PutItem", CONTROL, AUDIT),
    ("Reaper", "Allow", "dynamodb:PutItem", USAGE, {}),
    ("Reaper", "Allow", "dynamodb:Query", USAGE, {}),
    ("Reaper", "Deny", "dynamodb:DeleteItem", USAGE, {}),
    ("Reaper", "Deny", "ec2:TerminateInstances", INSTANCE, THEIRS),
    ("Reaper", "Deny", "ec2:TerminateInstances", INSTANCE, TAGGED),
    ("Reaper", "Deny", "ec2:TerminateInstances", INSTANCE, {}),
    ("Reaper", "Deny", "ec2:GetConsoleOutput", INSTANCE, THEIRS),
    ("Reaper", "Deny", "ec2:GetConsoleOutput", INSTANCE, {}),
    ("Reaper", "Deny", "ec2:StopInstances", INSTANCE, OURS),
    ("Reaper", "Deny", "ec2:CreateTags", INSTANCE, {**BORN_OURS, **AT_RUN}),
    ("Reaper", "Deny", "ec2:RunInstances", INSTANCE, {**BORN_OURS, **FROM_OURS}),
    ("Reaper", "Deny", "ec2:CreateFleet", OUR_TEMPLATE, {}),
    ("Reaper", "Deny", "iam:PassRole", INSTANCE_ROLE, TO_EC2),
    ("Reaper", "Deny", "sqs:ReceiveMessage", JOBS, {}),
    ("Reaper", "Deny", "sqs:ReceiveMessage", LAUNCH, {}),
    ("Reaper", "Deny", "sqs:PurgeQueue", REAP, {}),
    ("Reaper", "Deny", "sqs:SendMessage", REAP_DLQ, {}),
    ("Reaper", "Deny", "secretsmanager:GetSecretValue", WEBHOOK_SECRET, {}),
    ("Reaper", "Deny", "dynamodb:UpdateItem", CONTROL, AUDIT),
    ("Reaper", "Deny", "dynamodb:DeleteItem", CONTROL, AUDIT),
    ("Reaper", "Allow", "dynamodb:UpdateItem", CONTROL, POOL),
    # It images our machines, tags the images when it creates them, and deletes only those.
    ("Reaper", "Allow", "ec2:DescribeImages", "*", {}),
    ("Reaper", "Allow", "ec2:CreateImage", INSTANCE, OURS),
    ("Reaper", "Allow", "ec2:CreateImage", IMAGE, BORN_OURS),
    ("Reaper", "Allow", "ec2:CreateImage", SNAPSHOT, BORN_OURS),
    ("Reaper", "Allow", "ec2:CreateTags", IMAGE, {**BORN_OURS, **AT_IMAGE}),
    ("Reaper", "Allow", "ec2:CreateTags", SNAPSHOT, {**BORN_OURS, **AT_IMAGE}),
    ("Reaper", "Allow", "ec2:DeregisterImage", IMAGE, TAGGED),
    ("Reaper", "Allow", "ec2:DeleteSnapshot", SNAPSHOT, TAGGED),
    ("Reaper", "Deny", "ec2:CreateImage", INSTANCE, THEIRS),
    ("Reaper", "Deny", "ec2:CreateImage", INSTANCE, TAGGED),
    ("Reaper", "Deny", "ec2:CreateImage", INSTANCE, {}),
    ("Reaper", "Deny", "ec2:CreateImage", IMAGE, BORN_THEIRS),
    ("Reaper", "Deny", "ec2:CreateImage", IMAGE, {}),
    ("Reaper", "Deny", "ec2:CreateImage", SNAPSHOT, BORN_THEIRS),
    ("Reaper", "Deny", "ec2:CreateImage", SNAPSHOT, {}),
    ("Reaper", "Deny", "ec2:CreateTags", IMAGE, {**BORN_OURS, **LATER}),
    ("Reaper", "Deny", "ec2:CreateTags", IMAGE, BORN_OURS),
    ("Reaper", "Deny", "ec2:CreateTags", IMAGE, {**BORN_THEIRS, **AT_IMAGE}),
    ("Reaper", "Deny", "ec2:CreateTags", SNAPSHOT, {**BORN_OURS, **LATER}),
    ("Reaper", "Deny", "ec2:CreateTags", SNAPSHOT, {**BORN_THEIRS, **AT_IMAGE}),
    ("Reaper", "Deny", "ec2:CreateTags", INSTANCE, {**BORN_OURS, **AT_IMAGE}),
    ("Reaper", "Deny", "ec2:DeregisterImage", IMAGE, {"ec2:ResourceTag/muster:stack": "another"}),
    ("Reaper", "Deny", "ec2:DeregisterImage", IMAGE, {}),
    ("Reaper", "Deny", "ec2:DeleteSnapshot", SNAPSHOT, {"ec2:ResourceTag/muster:stack": "another"}),
    ("Reaper", "Deny", "ec2:DeleteSnapshot", SNAPSHOT, {}),
    ("Reaper", "Deny", "ec2:ModifyImageAttribute", IMAGE, TAGGED),
    # --- runner-api: answers machines, and does not call EC2
    ("RunnerApi", "Allow", "logs:PutLogEvents", f"{LOGS}runner-api:log-stream:x", {}),
    ("RunnerApi", "Allow", "secretsmanager:GetSecretValue", APP_KEY, {}),
    ("RunnerApi", "Allow", "secretsmanager:GetSecretValue", PROXY, {}),
    ("RunnerApi", "Deny", "secretsmanager:PutSecretValue", PROXY, {}),
    ("Admin", "Deny", "secretsmanager:GetSecretValue", PROXY, {}),
    ("RunnerApi", "Deny", "ec2:DescribeInstances", "*", {}),
    ("RunnerApi", "Allow", "sqs:SendMessage", REAP, {}),
    ("RunnerApi", "Deny", "sqs:SendMessage", JOBS, {}),
    ("RunnerApi", "Deny", "sqs:SendMessage", LAUNCH, {}),
    ("RunnerApi", "Allow", "dynamodb:UpdateItem", INSTANCES, {}),
    ("RunnerApi", "Deny", "dynamodb:PutItem", USAGE, {}),
    ("RunnerApi", "Deny", "ec2:TerminateInstances", INSTANCE, OURS),
    ("RunnerApi", "Deny", "ec2:GetConsoleOutput", INSTANCE, OURS),
    ("RunnerApi", "Deny", "ec2:RunInstances", INSTANCE, {**BORN_OURS, **FROM_OURS}),
    ("RunnerApi", "Deny", "sqs:ReceiveMessage", REAP, {}),
    ("RunnerApi", "Deny", "secretsmanager:GetSecretValue", WEBHOOK_SECRET, {}),
    ("RunnerApi", "Deny", "secretsmanager:GetSecretValue", NOTICES, {}),
    ("RunnerApi", "Deny", "dynamodb:DeleteItem", CONTROL, AUDIT),
    ("RunnerApi", "Allow", "dynamodb:PutItem", CONTROL, AUDIT),
    ("RunnerApi", "Allow", "dynamodb:PutItem", CONTROL, {"dynamodb:LeadingKeys": ["cooldowns"]}),
    ("RunnerApi", "Allow", "dynamodb:GetItem", CONTROL, {"dynamodb:LeadingKeys": ["pools"]}),
    ("RunnerApi", "Deny", "dynamodb:PutItem", CONTROL, {"dynamodb:LeadingKeys": ["pools"]}),
    ("RunnerApi", "Deny", "dynamodb:DeleteItem", CONTROL, {"dynamodb:LeadingKeys": ["pools#7"]}),
    ("RunnerApi", "Deny", "dynamodb:UpdateItem", CONTROL, {"dynamodb:LeadingKeys": ["switches"]}),
    ("Admin", "Allow", "dynamodb:PutItem", CONTROL, {"dynamodb:LeadingKeys": ["pools"]}),
    # --- admin: marks and wakes; the reaper acts
    ("Admin", "Allow", "logs:PutLogEvents", f"{LOGS}admin:log-stream:x", {}),
    ("Admin", "Allow", "secretsmanager:GetSecretValue", APP_KEY, {}),
    ("Admin", "Allow", "sqs:SendMessage", REAP, {}),
    ("Admin", "Allow", "sqs:SendMessage", LAUNCH, {}),
    ("Admin", "Deny", "sqs:SendMessage", JOBS, {}),
    ("Admin", "Allow", "dynamodb:Query", f"{INSTANCES}/index/pool", {}),
    ("Admin", "Allow", "dynamodb:Query", USAGE, {}),
    ("Admin", "Deny", "dynamodb:PutItem", USAGE, {}),
    ("Admin", "Allow", "dynamodb:PutItem", CONTROL, AUDIT),
    ("Admin", "Allow", "ec2:DescribeImages", "*", {}),
    ("Admin", "Allow", "ec2:DescribeLaunchTemplates", "*", {}),
    ("Admin", "Allow", "ec2:DescribeLaunchTemplateVersions", "*", {}),
    ("Admin", "Allow", "ec2:DescribePlacementGroups", "*", {}),
    # An operator deletes images by name, and all of them with the stack.
    ("Admin", "Allow", "ec2:DeregisterImage", IMAGE, TAGGED),
    ("Admin", "Allow", "ec2:DeleteSnapshot", SNAPSHOT, TAGGED),
    ("Admin", "Deny", "ec2:DeregisterImage", IMAGE, {"ec2:ResourceTag/muster:stack": "another"}),
    ("Admin", "Deny", "ec2:DeregisterImage", IMAGE, {}),
    ("Admin", "Deny", "ec2:DeleteSnapshot", SNAPSHOT, {"ec2:ResourceTag/muster:stack": "another"}),
    ("Admin", "Deny", "ec2:DeleteSnapshot", SNAPSHOT, {}),
    ("Admin", "Deny", "ec2:CreateImage", INSTANCE, OURS),
    ("Admin", "Deny", "ec2:DescribeInstances", "*", {}),
    ("Admin", "Deny", "ec2:TerminateInstances", INSTANCE, OURS),
    ("Admin", "Deny", "dynamodb:UpdateItem", CONTROL, AUDIT),
    # It sets up the GitHub App: only this role ever writes a secret.
    ("Admin", "Allow", "secretsmanager:GetSecretValue", WEBHOOK_SECRET, {}),
    ("Admin", "Allow", "secretsmanager:PutSecretValue", WEBHOOK_SECRET, {}),
    ("Admin", "Allow", "secretsmanager:PutSecretValue", APP_KEY, {}),
    ("Admin", "Deny", "secretsmanager:PutSecretValue", f"{SECRETS}more-a1B2c3", {}),
    ("Admin", "Deny", "secretsmanager:DeleteSecret", APP_KEY, {}),
    ("Reaper", "Deny", "secretsmanager:PutSecretValue", APP_KEY, {}),
    ("RunnerApi", "Deny", "secretsmanager:PutSecretValue", APP_KEY, {}),
    ("Admin", "Deny", "sqs:ReceiveMessage", JOBS_DLQ, {}),
    ("Admin", "Deny", "sqs:ReceiveMessage", LAUNCH_DLQ, {}),
    # --- the machines' role, which every job can use: three calls
    ("Instance", "Allow", "execute-api:Invoke", f"{API}/POST/runner/register", {}),
    ("Instance", "Allow", "execute-api:Invoke", f"{API}/POST/runner/events", {}),
    ("Instance", "Allow", "execute-api:Invoke", f"{API}/POST/runner/job-started", {}),
    ("Instance", "Deny", "execute-api:Invoke", f"{API}/POST/webhook", {}),
    ("Instance", "Deny", "execute-api:Invoke", f"{API}/GET/runner/register", {}),
    ("Instance", "Deny", "execute-api:Invoke", f"{API}/POST/runner/register/more", {}),
    ("Instance", "Deny", "execute-api:Invoke", f"arn:aws:execute-api:{HERE}:other/$default/POST/runner/events", {}),
    ("Instance", "Deny", "execute-api:ManageConnections", f"{API}/POST/runner/events", {}),
    # A role that can invoke runner-api can impersonate any machine, and one that can invoke admin is an operator.
    ("Instance", "Deny", "lambda:InvokeFunction", f"arn:aws:lambda:{HERE}:function:{STACK}-runner-api", {}),
    ("Instance", "Deny", "lambda:InvokeFunction", f"arn:aws:lambda:{HERE}:function:{STACK}-admin", {}),
    ("RunnerApi", "Deny", "lambda:InvokeFunction", f"arn:aws:lambda:{HERE}:function:{STACK}-admin", {}),
    ("Instance", "Deny", "ec2:DescribeInstances", "*", {}),
    ("Instance", "Deny", "ec2:TerminateInstances", INSTANCE, OURS),
    ("Instance", "Deny", "ec2:CreateTags", INSTANCE, {**BORN_OURS, **AT_RUN}),
    ("Instance", "Deny", "ec2:CreateImage", INSTANCE, OURS),
    ("Instance", "Deny", "ec2:DeregisterImage", IMAGE, TAGGED),
    ("Instance", "Deny", "ec2:RunInstances", INSTANCE, {**BORN_OURS, **FROM_OURS}),
    ("Instance", "Deny", "secretsmanager:GetSecretValue", APP_KEY, {}),
    ("Instance", "Deny", "ssm:GetParameter", f"arn:aws:ssm:{HERE}:parameter/x", {}),
    ("Instance", "Deny", "dynamodb:GetItem", INSTANCES, {}),
    ("Instance", "Deny", "sqs:SendMessage", REAP, {}),
    ("Instance", "Deny", "iam:PassRole", INSTANCE_ROLE, TO_EC2),
    ("Instance", "Deny", "sts:AssumeRole", OTHER_ROLE, {}),
    # Jobs can write there too, so one machine must not be able to write another machine's log.
    ("Instance", "Allow", "s3:PutObject", f"{MACHINE_LOGS}0/machine.log.gz", MACHINE),
    ("Instance", "Deny", "s3:PutObject", f"{MACHINE_LOGS}1/machine.log.gz", MACHINE),
    ("Instance", "Deny", "s3:PutObject", f"{MACHINE_LOGS}0", MACHINE),
    # Only one object per machine: an unlimited number would cost without bound.
    ("Instance", "Deny", "s3:PutObject", f"{MACHINE_LOGS}0/", MACHINE),
    ("Instance", "Deny", "s3:PutObject", f"{MACHINE_LOGS}0/2", MACHINE),
    ("Instance", "Deny", "s3:PutObject", f"{MACHINE_LOGS}0/machine.log.gz.2", MACHINE),
    ("Instance", "Deny", "s3:PutObject", f"{MACHINE_LOGS}0/machine.log.gz/2", MACHINE),
    ("Instance", "Deny", "s3:PutObject", f"{MACHINE_LOGS}0/x/machine.log.gz", MACHINE),
    ("Instance", "Deny", "s3:PutObject", MACHINE_LOGS.partition("/")[0] + "/machine.log.gz", MACHINE),
    ("Instance", "Deny", "s3:PutObjectTagging", f"{MACHINE_LOGS}0/machine.log.gz", MACHINE),
    ("Instance", "Deny", "s3:PutObjectAcl", f"{MACHINE_LOGS}0/machine.log.gz", MACHINE),
    ("Instance", "Deny", "s3:PutObject", f"arn:aws:s3:::other/{MACHINE['aws:userid']}/machine.log.gz", MACHINE),
    ("Instance", "Deny", "s3:GetObject", f"{MACHINE_LOGS}0/machine.log.gz", MACHINE),
    ("Instance", "Deny", "s3:DeleteObject", f"{MACHINE_LOGS}0/machine.log.gz", MACHINE),
    ("Instance", "Deny", "s3:ListBucket", MACHINE_LOGS.partition("/")[0], MACHINE),
]


def policies(role, stack=None):
    """Returns all policy documents of a role: inline ones and the stack's own managed ones."""
    stack = stack or rendered()
    properties = stack.properties(f"{role}Role")
    found = [p["PolicyDocument"] for p in properties.get("Policies", [])]
    managed = {stack.resolve({"Ref": n}): p for n, p in stack.of_type("AWS::IAM::ManagedPolicy").items()}
    # An AWS managed policy would be a KeyError: no role uses one.
    return found + [managed[arn]["PolicyDocument"] for arn in properties.get("ManagedPolicyArns", [])]


def allowed(documents, action, resource, keys):
    context = EvalContext(
        principal_arn=f"arn:aws:sts::{ACCOUNT}:assumed-role/role/session",
        principal_type="AssumedRole",
        principal_account=ACCOUNT,
        action=action,
        resource_arn=resource,
        region=REGION,
        service_context={k.lower(): v for k, v in keys.items() if authorization.sets(action, resource, k)},
    )
    return evaluate(context, [parse_policy_document(filled(d, keys)) for d in documents]).decision == "Allow"


def filled(document, keys):
    """Replaces a policy's variables by the request's values, as IAM does; the evaluator does not."""
    text = json.dumps(document)
    for key, value in keys.items():
        text = text.replace(f"${{{key}}}", str(value))
    return json.loads(text)


def listed(value):
    return value if isinstance(value, list) else [value]


def broken(role, documents):
    """Returns the facts of a role that these documents violate."""
    return [
        f"{role} should be {'allowed' if verdict == 'Allow' else 'refused'}: {action} on {resource} with {keys}"
        for fact_role, verdict, action, resource, keys in FACTS
        if fact_role == role and allowed(documents, action, resource, keys) != (verdict == "Allow")
    ]


class Facts(unittest.TestCase):
    def test_every_fact_holds(self):
        self.assertGreaterEqual(len(FACTS), 40)
        for role in sorted({fact[0] for fact in FACTS}):
            with self.subTest(role=role):
                self.assertEqual(broken(role, policies(role)), [])

    def test_machines_get_the_tag_keys_that_the_operator_names_and_no_others(self):
        documents = policies("ScaleUp", Rendered(MachineTagKeys="cost,team"))
        for key, expected in (("cost", True), ("team", True), ("Admin", False)):
            tags = {**BORN_OURS, **AT_FLEET, "aws:TagKeys": ["muster:stack", key]}
            self.assertEqual(allowed(documents, "ec2:CreateTags", INSTANCE, tags), expected, key)

    def test_sessions_let_the_machines_agent_speak_and_do_nothing_else(self):
        channels = [f"ssmmessages:{verb}{kind}Channel" for verb in ("Create", "Open") for kind in ("Control", "Data")]
        for choice, expected in (("no", False), ("yes", True)):
            documents = policies("Instance", Rendered(Sessions=choice))
            self.assertEqual(allowed(documents, "ssm:UpdateInstanceInformation", INSTANCE, {}), expected)
            self.assertEqual([allowed(documents, action, "*", {}) for action in channels], [expected] * 4)
            for action, resource in (
                ("ssm:GetParameter", f"arn:aws:ssm:{HERE}:parameter/x"),
                ("ssm:SendCommand", INSTANCE),
                ("ssm:StartSession", INSTANCE),
                ("ec2:DescribeInstances", "*"),
            ):
                self.assertFalse(allowed(documents, action, resource, {}), action)

    def test_a_ca_bundle_is_readable_by_the_functions_that_call_github(self):
        parameter, object_ = "/github/ca", "s3://corp-certificates/github/ca.pem"
        for given, action, resource in (
            (parameter, "ssm:GetParameter", f"arn:aws:ssm:{HERE}:parameter/github/ca"),
            (object_, "s3:GetObject", "arn:aws:s3:::corp-certificates/github/ca.pem"),
        ):
            for role in ("Webhook", "ScaleUp", "Reaper", "RunnerApi", "Admin", "Instance"):
                expected = role in ("Reaper", "RunnerApi", "Admin")
                self.assertEqual(allowed(policies(role, Rendered(GitHubCaBundle=given)), action, resource, {}), expected, role)
                self.assertFalse(allowed(policies(role), action, resource, {}), role)

    def test_lambda_connects_functions_to_a_network_and_their_code_cannot(self):
        for role in ("Webhook", "ScaleUp", "Reaper", "RunnerApi", "Admin"):
            documents = policies(role, Rendered(FunctionSubnets="subnet-0f1,subnet-0f2"))
            expected = role in ("Reaper", "RunnerApi", "Admin")
            by_code = {"lambda:SourceFunctionArn": f"arn:aws:lambda:{HERE}:function:{STACK}-admin"}
            for action in ("CreateNetworkInterface", "DeleteNetworkInterface", "AssignPrivateIpAddresses"):
                self.assertEqual(allowed(documents, f"ec2:{action}", ENI, {}), expected, (role, action))
                self.assertFalse(allowed(documents, f"ec2:{action}", ENI, by_code), (role, action))
                self.assertFalse(allowed(policies(role), f"ec2:{action}", ENI, {}), (role, action))

    def test_every_role_has_facts(self):
        roles = {name.removesuffix("Role") for name in rendered().of_type("AWS::IAM::Role")}
        self.assertEqual(roles, {fact[0] for fact in FACTS})

    def test_no_statement_is_spare(self):
        """If any statement is removed, a fact breaks: the table covers the policies."""
        managed_seen = {}
        for role in sorted({fact[0] for fact in FACTS}):
            documents = policies(role)
            for number, document in enumerate(documents):
                for statement in document["Statement"]:
                    rest = [s for s in document["Statement"] if s is not statement]
                    without = [*documents[:number], {**document, "Statement": rest}, *documents[number + 1 :]]
                    key = json.dumps(statement, sort_keys=True)
                    # Only one role needs to notice a missing statement of the shared policy.
                    managed_seen[key] = managed_seen.get(key, False) or bool(broken(role, without))
        spare = [key for key, noticed in managed_seen.items() if not noticed]
        self.assertEqual(spare, [])


class Shape(unittest.TestCase):
    def statements(self):
        stack = Rendered(Sessions="yes")
        for role in stack.of_type("AWS::IAM::Role"):
            for document in policies(role.removesuffix("Role"), stack):
                for statement in document["Statement"]:
                    yield role, statement

    def test_no_wildcard_that_aws_does_not_force(self):
        for role, statement in self.statements():
            actions, resources = listed(statement["Action"]), listed(statement["Resource"])
            with self.subTest(role=role, sid=statement["Sid"]):
                self.assertFalse([a for a in actions if "*" in a])
                if "*" in resources:
                    forced = ("ssmmessages:", "ec2:Describe", "pricing:GetProducts")
                    self.assertTrue(all(action.startswith(forced) for action in actions), actions)

    def test_every_condition_is_on_a_key_that_aws_sets(self):
        """A condition on any other key is never true, so its action would always be refused."""
        for role, statement in self.statements():
            keys = [key for condition in statement.get("Condition", {}).values() for key in condition]
            for action, resource in itertools.product(listed(statement["Action"]), listed(statement["Resource"])):
                if authorization.kind_of(action, resource) is not None:
                    dead = [key for key in keys if not authorization.sets(action, resource, key)]
                    self.assertEqual(dead, [], f"{role} {statement['Sid']}: {action} on {resource}")

    def test_no_resource_is_named_that_an_action_is_not_judged_on(self):
        """Such a grant allows nothing, and readers would believe that it is needed."""
        dead = [
            f"{role} {statement['Sid']}: {action} on {resource}"
            for role, statement in self.statements()
            for action, resource in itertools.product(listed(statement["Action"]), listed(statement["Resource"]))
            if authorization.kind_of(action, resource) is None
        ]
        self.assertEqual(dead, [])

    def test_each_function_has_a_role_of_its_own(self):
        roles = [f["Role"] for f in rendered().of_type("AWS::Lambda::Function").values()]
        self.assertEqual(len(set(roles)), len(roles))

    def test_a_boundary_and_a_path_are_on_everything_that_the_account_judges(self):
        boundary = f"arn:aws:iam::{ACCOUNT}:policy/ci-boundary"
        for given, path, expected in (({}, "/", None), ({"PermissionsBoundary": boundary, "RolePath": "/ci/"}, "/ci/", boundary)):
            stack = Rendered(**given)
            for name, role in stack.of_type("AWS::IAM::Role").items():
                self.assertEqual((role.get("PermissionsBoundary"), role["Path"]), (expected, path), name)
            others = {**stack.of_type("AWS::IAM::InstanceProfile"), **stack.of_type("AWS::IAM::ManagedPolicy")}
            self.assertEqual({name: other["Path"] for name, other in others.items()}, dict.fromkeys(others, path))

    def test_only_ec2_hands_out_the_machines_role(self):
        trust = rendered().properties("InstanceRole")["AssumeRolePolicyDocument"]["Statement"]
        self.assertEqual(
            trust, [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]
        )

    def test_only_lambda_hands_out_the_functions_roles(self):
        for name, role in rendered().of_type("AWS::IAM::Role").items():
            if name != "InstanceRole":
                principals = [s["Principal"] for s in role["AssumeRolePolicyDocument"]["Statement"]]
                self.assertEqual(principals, [{"Service": "lambda.amazonaws.com"}], name)


if __name__ == "__main__":
    unittest.main()
