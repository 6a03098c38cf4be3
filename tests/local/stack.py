"""Deploys template.yaml into the running emulator and writes the stack's env file.

Runs in the emulator's environment (.local/ministack), for boto3. Both ways to deploy use the real
template: `sam deploy`, as users do, and CreateStack directly, for tests with many stacks. The
direct way only uploads the zips to the emulator's S3 first.
"""

import hashlib
import io
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
import zipfile
from secrets import token_hex

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from local import CREDENTIALS, DIST, FUNCTIONS, LOCAL, ROOT, RUN, SAM, STACKS, TEMPLATE
from local import Failed, digest, load_state, run, step, write_env

BUCKET = "muster-local"
APP_KEY, APP_PUBLIC_KEY = LOCAL / "app-key.pem", LOCAL / "app-key.pub.pem"
# The account's default network, which exists both in the emulator's CloudFormation and in the simulated EC2.
PARAMETERS = {
    "VpcId": "vpc-00000001",
    "SecurityGroupIds": "sg-00000001",
    "Subnets": "subnet-00000001,subnet-00000002",
}
# A public image parameter that the emulator knows, and its image.
IMAGE_PARAMETER = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
IMAGE = {"id": "ami-0c2023a1b2c3d4e5f", "name": "al2023-ami-kernel-default-x86_64", "owner": "amazon"}
# The times are short, because people and tests wait for them. A lower-case argument changes one.
TIMINGS = {
    "boot_deadline_seconds": 60,
    "creating_lease_seconds": 10,
    "deleting_lease_seconds": 10,
    "launch_lookup_seconds": 20,
    "launch_retry_seconds": 3,
    "claim_idle_seconds": 10,
    "busy_reads_apart_seconds": 5,
    "busy_poll_seconds": 5,
    "absence_confirm_seconds": 5,
    "absence_limit_seconds": 15,
    "orphan_age_seconds": 30,
    "idle_limit_seconds": 20,
    "shutdown_grace_seconds": 10,
    "completed_grace_seconds": 15,
    "unauthorized_retry_seconds": 5,
    "force_give_up_seconds": 20,
    "register_lease_seconds": 5,
    "pool_lease_seconds": 10,
    "sweep_slack_seconds": 5,
    "retry_cap_seconds": 10,
    "throttle_wait_seconds": 1,
    "place_wait_seconds": 3,
    "quota_wait_seconds": 3,
    "pool_pause_seconds": 3,
    "settling_seconds": 5,
    "job_expiry_seconds": 600,
}


# SAM CLI includes `cryptography`.
KEY_MAKER = """
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric import rsa
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
private = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.TraditionalOpenSSL, s.NoEncryption())
public = key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
print(private.decode(), public.decode(), sep="\\0", end="")
"""


class Emulator:
    """The running emulator, with the account's root credentials."""

    def __init__(self):
        state = load_state()
        if "emulator_url" not in state:
            raise Failed("the local stack is not running; `make up` starts it")
        self.url = state["emulator_url"]
        self.control_url = state.get("control_url", "")
        self.ec2_url = state.get("ec2_url", "")
        self.github_url = state.get("github_url", "")
        self.session = boto3.Session(
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            region_name=CREDENTIALS["AWS_REGION"],
        )

    def client(self, service):
        config = Config(retries={"max_attempts": 2}, read_timeout=60)
        return self.session.client(service, endpoint_url=self.url, config=config)

    def prepare(self):
        """Creates the bucket for the zips, which all stacks share."""
        self.client("s3").create_bucket(Bucket=BUCKET)


# --- parameters ---------------------------------------------------------------------------------


def api_id(name):
    """Returns the API's ID, which the emulator reads from a tag."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def api_base(emulator, name):
    return f"{emulator.url}/_aws/execute-api/{api_id(name)}"


def parameters(overrides):
    timings = {**TIMINGS, **{key: int(value) for key, value in overrides.items() if key.islower()}}
    overrides = {key: value for key, value in overrides.items() if not key.islower()}
    known = set(re.findall(r"^  ([A-Za-z]\w+):", TEMPLATE.read_text().split("\nConditions:")[0], re.M))
    unknown = sorted(set(overrides) - known)
    if unknown:
        raise Failed(f"template.yaml has no parameter {', '.join(unknown)}")
    return {
        **PARAMETERS,
        "Timings": json.dumps(timings),
        **overrides,
    }


# --- the template --------------------------------------------------------------------------------

# Fixed values of the template that must differ here: a pattern, its replacement, and the number of occurrences.
REWRITTEN = (
    # The API that machines call.
    (r"https://\$\{Api\}\.execute-api\.\$\{AWS::Region\}\.\$\{AWS::URLSuffix\}", "{url}/_aws/execute-api/${{Api}}", 7),
    # The bucket to which machines upload their logs.
    (r"https://\$\{MachineLogs\.RegionalDomainName\}", "{url}/${{MachineLogs}}", 1),
    # A stopped worker's messages are redelivered soon.
    (r"(?<=      )Timeout: 60(?=\n      LoggingConfig: .*!Ref (?:ScaleUp|Reaper)Logs)", "Timeout: 10", 2),
    (r"VisibilityTimeout: 360", "VisibilityTimeout: 60", 3),
    # The emulator knows only Amazon's public parameters.
    (r"resolve:ssm:/aws/service/canonical/[\w/.-]+", f"resolve:ssm:{IMAGE_PARAMETER}", 1),
)


def local_template(url):
    """Returns the text of template.yaml for the emulator at this address."""
    text = TEMPLATE.read_text(encoding="utf-8")
    for pattern, place, times in REWRITTEN:
        text, found = re.subn(pattern, lambda _: place.format(url=url), text)
        if found != times:
            raise Failed(f"template.yaml has {pattern} {found} times, and not {times}")
    return text


# --- two ways to deploy -------------------------------------------------------------------------


def deploy_with_sam(emulator, name, values):
    # The template's paths are relative to its own folder, so it is placed next to the local stack's functions.
    template = DIST.parent / "local.yaml"
    template.write_text(local_template(emulator.url), encoding="utf-8")
    with step(f"sam deploy --stack-name {name}"):
        arguments = [SAM, "deploy", "--template-file", template, "--stack-name", name]
        arguments += ["--config-file", TEMPLATE.parent / "samconfig.toml", "--config-env", "local", "--resolve-s3", "--capabilities", "CAPABILITY_IAM"]
        arguments += ["--no-confirm-changeset", "--no-fail-on-empty-changeset", "--no-progressbar"]
        arguments += ["--tags", f"ms-custom-id={api_id(name)}", "--parameter-overrides"]
        # JSON needs its own quotes.
        arguments += [f"{key}='{value}'" for key, value in values.items() if value != ""]
        environment = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL": emulator.url, "SAM_CLI_TELEMETRY": "0"}
        environment.pop("AWS_PROFILE", None)
        run(arguments, log=RUN / f"sam-{name}.log", env=environment, cwd=ROOT)


def deploy_directly(emulator, name, values):
    with step(f"deploying {name}"):
        cloudformation = emulator.client("cloudformation")
        request = {
            "StackName": name,
            "TemplateURL": f"{emulator.url}/{BUCKET}/{upload(emulator)}",
            "Parameters": [{"ParameterKey": k, "ParameterValue": v} for k, v in values.items()],
            "Tags": [{"Key": "ms-custom-id", "Value": api_id(name)}],
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        }
        try:
            cloudformation.create_stack(**request)
        except cloudformation.exceptions.AlreadyExistsException:
            try:
                cloudformation.update_stack(**request)
            except ClientError as error:
                if "No updates are to be performed" not in str(error):
                    raise
        wait(cloudformation, name)


def upload(emulator):
    """Uploads the zips and the template that names them to S3, once per content. Returns the template's key."""
    s3 = emulator.client("s3")
    present = {o["Key"] for o in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])}
    text = local_template(emulator.url)
    for function in FUNCTIONS:
        bootstrap = DIST / function / "bootstrap"
        if not bootstrap.is_file():
            raise Failed(f"{bootstrap} is missing; `make up` makes it")
        key = f"{function}-{digest(bootstrap)}.zip"
        if key not in present:
            s3.put_object(Bucket=BUCKET, Key=key, Body=zipped(bootstrap))
        text = text.replace(f"CodeUri: dist/{function}/", f"CodeUri: s3://{BUCKET}/{key}")
    key = f"template-{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
    if key not in present:
        s3.put_object(Bucket=BUCKET, Key=key, Body=text.encode())
    return key


def zipped(bootstrap):
    data = io.BytesIO()
    # Not compressed, because it never leaves this machine.
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        entry = zipfile.ZipInfo("bootstrap")
        entry.external_attr = 0o100755 << 16
        archive.writestr(entry, bootstrap.read_bytes())
    return data.getvalue()


def wait(cloudformation, name):
    until = time.monotonic() + 120
    while time.monotonic() < until:
        status = cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return
        if not status.endswith("_IN_PROGRESS") or "ROLLBACK" in status:
            events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
            reasons = [
                f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason', '')}"
                for e in events
                if e["ResourceStatus"].endswith("_FAILED")
            ]
            raise Failed(f"{name} is {status}\n" + "\n".join(reasons[-10:]))
        time.sleep(0.1)
    raise Failed(f"{name} is still not deployed after two minutes")


# --- after the deployment -----------------------------------------------------------------------


def finish(emulator, name):
    """Does what the emulator's CloudFormation omits, sets the secrets, registers the stack; then writes the env file."""
    stack = emulator.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    outputs = {o["OutputKey"]: o["OutputValue"] for o in stack["Outputs"]}
    enable_ttl(emulator, outputs)
    if load_state().get("auth"):
        drop_tls_rule(emulator, outputs)
        allow_batches(emulator, name)
    secrets = emulator.client("secretsmanager")
    secrets.put_secret_value(SecretId=outputs["AppKeySecretName"], SecretString=app(emulator, name))
    webhook_secret = secrets.get_secret_value(SecretId=outputs["WebhookSecretName"])["SecretString"]
    if not webhook_secret.isalnum():
        # The emulator ignores ExcludePunctuation, and an env file cannot contain the resulting secret.
        webhook_secret = token_hex(32)
        secrets.put_secret_value(SecretId=outputs["WebhookSecretName"], SecretString=webhook_secret)
    values = env_values(emulator, name, outputs, webhook_secret)
    register(emulator, values)
    note_owner(emulator, values)
    path = STACKS / f"{name}.env"
    write_env(path, values)
    return path


def enable_ttl(emulator, outputs):
    dynamodb = emulator.client("dynamodb")
    for table in ("InstancesTableName", "JobsTableName", "ControlTableName"):
        try:
            dynamodb.update_time_to_live(
                TableName=outputs[table],
                TimeToLiveSpecification={"AttributeName": "expires_at", "Enabled": True},
            )
        except ClientError as error:
            if "already enabled" not in str(error):
                raise


def drop_tls_rule(emulator, outputs):
    """Removes our TLS-only rule: the emulator uses plain HTTP and, with AUTH, would enforce it."""
    sqs = emulator.client("sqs")
    # The rule applies to this call too; the header claims that TLS was terminated before the emulator.
    sqs.meta.events.register(
        "before-call.sqs", lambda params, **_: params["headers"].update({"x-forwarded-proto": "https"})
    )
    for queue in [f"{queue}{part}Url" for queue in ("Jobs", "Launch", "Reap") for part in ("Queue", "DeadLetters")]:
        shown = sqs.get_queue_attributes(QueueUrl=outputs[queue], AttributeNames=["Policy"])
        policy = json.loads(shown.get("Attributes", {}).get("Policy") or "{}")
        kept = [s for s in policy.get("Statement", []) if s.get("Sid") != "TlsOnly"]
        text = json.dumps({**policy, "Statement": kept}) if kept else ""
        sqs.set_queue_attributes(QueueUrl=outputs[queue], Attributes={"Policy": text})


def allow_batches(emulator, name):
    """Adds batch permissions: AWS authorizes a batch call by its single action, but the emulator requires a separate one."""
    iam = emulator.client("iam")
    batched = ("sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
    pages = emulator.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=name)
    roles = [
        r["PhysicalResourceId"]
        for page in pages
        for r in page["StackResourceSummaries"]
        if r["ResourceType"] == "AWS::IAM::Role"
    ]
    for role in roles:
        for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
            document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
            changed = False
            for statement in document["Statement"]:
                actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
                more = [f"{a}Batch" for a in actions if a in batched and f"{a}Batch" not in actions]
                statement["Action"] = actions + more
                changed = changed or bool(more)
            if changed:
                iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(document))


def app_id(name):
    """Returns the ID of the stack's App. The App's owner is the account whose jobs the stack serves."""
    return str(int(api_id(name), 16))


def app(emulator, name):
    """Returns the content of the App's secret, as an operator would enter it."""
    url = emulator.github_url or "http://127.0.0.1:9"
    return json.dumps({"app_id": app_id(name), "api_url": url, "private_key": app_key()})


def app_key():
    """Returns the simulated App's private key; the key pair is created once."""
    if not (APP_KEY.exists() and APP_PUBLIC_KEY.exists()):
        made = subprocess.run(
            [SAM.parent / "python", "-c", KEY_MAKER], capture_output=True, text=True, check=True
        ).stdout
        private, public = made.split("\0")
        APP_KEY.touch(mode=0o600)
        APP_KEY.write_text(private)
        APP_PUBLIC_KEY.write_text(public)
    return APP_KEY.read_text()


def env_values(emulator, name, outputs, webhook_secret):
    base = api_base(emulator, name)
    return {
        "STACK_NAME": name,
        **CREDENTIALS,
        "AWS_ENDPOINT_URL": emulator.url,
        "AWS_ENDPOINT_URL_EC2": emulator.ec2_url,
        "GITHUB_API_URL": emulator.github_url,
        "WORLD_CONTROL_URL": emulator.control_url,
        "GITHUB_OWNER": f"{name}-org",
        "WEBHOOK_URL": f"{base}/webhook",
        "WEBHOOK_SECRET": webhook_secret,
        "RUNNER_API_URL": base,
        "ADMIN_FUNCTION": outputs["AdminFunctionName"],
        "REAPER_FUNCTION": outputs["ReaperFunctionName"],
        "INSTANCES_TABLE": outputs["InstancesTableName"],
        "JOBS_TABLE": outputs["JobsTableName"],
        "CONTROL_TABLE": outputs["ControlTableName"],
        "JOBS_QUEUE_URL": outputs["JobsQueueUrl"],
        "JOBS_DLQ_URL": outputs["JobsDeadLettersUrl"],
        "LAUNCH_QUEUE_URL": outputs["LaunchQueueUrl"],
        "LAUNCH_DLQ_URL": outputs["LaunchDeadLettersUrl"],
        "REAP_QUEUE_URL": outputs["ReapQueueUrl"],
        "REAP_DLQ_URL": outputs["ReapDeadLettersUrl"],
        "LAUNCH_TEMPLATE_ID": outputs["LaunchTemplateId"],
        "INSTANCE_ROLE_ARN": outputs["InstanceRoleArn"],
    }


def note_owner(emulator, values):
    """Makes the stack query GitHub for the App's owner, as an operator does first; it serves no jobs until it knows the owner."""
    if not emulator.control_url:
        return
    request = json.dumps({"version": 1, "action": "status", "github": True})
    answer = emulator.client("lambda").invoke(FunctionName=values["ADMIN_FUNCTION"], Payload=request)
    told = json.loads(answer["Payload"].read())
    if not told.get("ok"):
        raise Failed(f"status of {values['STACK_NAME']}: {told}")


def register(emulator, values):
    """Registers the stack with the simulated world, and an organization that has its webhook."""
    if not emulator.control_url:
        return
    control(emulator, "images", IMAGE)
    control(
        emulator,
        "stacks",
        {
            "stack": values["STACK_NAME"],
            "reap_queue_url": values["REAP_QUEUE_URL"],
            "role_arn": values["INSTANCE_ROLE_ARN"],
            "launch_templates": [values["LAUNCH_TEMPLATE_ID"]],
        },
    )
    control(
        emulator,
        "owners",
        {
            "owner": values["GITHUB_OWNER"],
            "kind": "organization",
            "installation_id": int(api_id(values["STACK_NAME"]), 16),
            "app_id": app_id(values["STACK_NAME"]),
            "app_public_key": APP_PUBLIC_KEY.read_text(),
            "webhook_url": values["WEBHOOK_URL"],
            "webhook_secret": values["WEBHOOK_SECRET"],
            "stack": values["STACK_NAME"],
        },
    )
    # The user logged in to GitHub's pages owns that organization, and the webhook is on this machine.
    pages = {"owns": {values["GITHUB_OWNER"]: True}, "address": emulator.github_url, "local_hooks_allowed": True}
    control(emulator, "pages", pages)


def control(emulator, path, body=None):
    """Returns the world's answer to a GET or, with a body, to a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{emulator.control_url}/{path}", data=data, headers={"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise Failed(f"the world refused {path}: {error.code} {error.read().decode()}") from error


def delete(emulator, name):
    """Deletes a stack with its tables and queues, if it exists."""
    cloudformation = emulator.client("cloudformation")
    try:
        cloudformation.describe_stacks(StackName=name)
    except ClientError:
        return
    with step(f"deleting the old {name}"):
        cloudformation.delete_stack(StackName=name)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig={"Delay": 1})


def deploy(name, overrides, with_sam=False, fresh=False):
    """Deploys (or updates) one stack and returns the path of its env file."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name):
        raise Failed(f"{name!r} is no stack name: a lower-case letter, then letters, digits, hyphens")
    emulator = Emulator()
    emulator.prepare()
    values = parameters(overrides)
    if fresh:
        delete(emulator, name)
    (deploy_with_sam if with_sam else deploy_directly)(emulator, name, values)
    return finish(emulator, name)
