"""Properties of template.yaml that reviewers should not have to check by reading."""

import json
import re
import tomllib
import unittest
import unittest.mock
import urllib.parse

import authorization
from ministack.services import ec2
from ministack.services.cloudformation import engine as cloudformation
from rendered import REGION, ROOT, Rendered, rendered, source
from test_iam import allowed, policies

DOMAIN = ROOT / "shared/domain/src"
# The names of the functions' metrics, from their source.
METRICS = set(
    re.findall(
        r"^    (\w+),$",
        (ROOT / "shared/control/src/metrics.rs").read_text(encoding="utf-8").split("pub enum Metric {")[1].split("\n}")[0],
        re.MULTILINE,
    )
)
# The names of the durations, from their source.
TIMINGS = re.findall(r"^    (\w+_seconds) = [0-9_]+,", (DOMAIN / "timings.rs").read_text(encoding="utf-8"), re.MULTILINE)
POOL = {"MUSTER_LAUNCH_TEMPLATE", "MUSTER_LAUNCH_TEMPLATE_VERSION", "MUSTER_SUBNETS", "MUSTER_MAX_MACHINES"}
SHARED = {"MUSTER_STACK", "MUSTER_TIMINGS", "MUSTER_MEASURES"} | POOL
TABLES = {f"MUSTER_{table}_TABLE" for table in ("INSTANCES", "JOBS", "CONTROL", "USAGE")}
APP = {"MUSTER_APP_KEY", "MUSTER_CA_BUNDLE"}
WAKES = {"MUSTER_LAUNCH_QUEUE_URL", "MUSTER_REAP_QUEUE_URL"}
ENVIRONMENT = {
    "WebhookFunction": SHARED | {"MUSTER_JOBS_QUEUE_URL", "MUSTER_WEBHOOK_SECRET", "MUSTER_USAGE_ACTORS"},
    "ScaleUpFunction": SHARED | TABLES | {"MUSTER_JOBS_QUEUE_URL", "MUSTER_LAUNCH_QUEUE_URL"},
    "ReaperFunction": SHARED | TABLES | WAKES | APP | {"MUSTER_WEBHOOK_URL"},
    "RunnerApiFunction": SHARED | TABLES | APP | {"MUSTER_REAP_QUEUE_URL", "MUSTER_INSTANCE_ROLE_ID"},
    "AdminFunction": SHARED | TABLES | WAKES | APP | {"MUSTER_WEBHOOK_SECRET", "MUSTER_WEBHOOK_URL", "MUSTER_MACHINE_TAGS"},
}


def environment(name):
    return rendered().properties(name)["Environment"]["Variables"]


class GitHubApp(unittest.TestCase):
    def test_a_click_makes_an_app_that_lacks_nothing(self):
        """Parameters as GitHub documents them; the permissions are those that shared/domain/src/app.rs asks for."""
        value = {name: rendered().resolve(output["Value"]) for name, output in source()["Outputs"].items() if "Value" in output}
        known = set(re.findall(r'^const \w+: &str =\s+"(\w+)";', (DOMAIN / "app.rs").read_text(encoding="utf-8"), re.MULTILINE))
        for output, path, runners in (
            ("NewAppUrl", "/organizations/ORG/settings/apps/new", "organization_self_hosted_runners"),
            ("NewPersonalAppUrl", "/settings/apps/new", "administration"),
        ):
            url = urllib.parse.urlsplit(value[output])
            self.assertEqual((url.scheme, url.netloc, url.path), ("https", "github.com", path))
            given = dict(urllib.parse.parse_qsl(url.query, strict_parsing=True))
            self.assertEqual(
                {name: given.pop(name) for name in ("public", "webhook_active", "webhook_url", "events[]")},
                {"public": "false", "webhook_active": "true", "webhook_url": value["WebhookUrl"], "events[]": "workflow_job"},
            )
            # The App's name or homepage must not reveal the API's address.
            self.assertEqual(given.pop("name"), "muster-1a2b3c4d")
            self.assertEqual(given.pop("url"), "https://github.com/muster-runners/muster")
            self.assertEqual(given, {"actions": "read", runners: "write"}, output)
            self.assertLessEqual({"workflow_job", *given}, known)


class Functions(unittest.TestCase):
    def test_runtime_and_code(self):
        for name, function in source()["Resources"].items():
            if function["Type"] == "AWS::Serverless::Function":
                folder = ROOT / function["Properties"]["CodeUri"]
                self.assertTrue((ROOT / "functions" / folder.name).is_dir(), f"{name}: no such function")
        for name, function in rendered().of_type("AWS::Lambda::Function").items():
            self.assertEqual((function["Runtime"], function["Handler"]), ("provided.al2023", "bootstrap"), name)

    def test_environment_is_what_the_functions_read(self):
        self.assertEqual({n: set(environment(n)) for n in ENVIRONMENT}, ENVIRONMENT)
        self.assertEqual(set(rendered().of_type("AWS::Lambda::Function")), set(ENVIRONMENT))

    def test_environment_fits(self):
        """Lambda allows 4 KB; leave room for many subnets and durations."""
        for name in ENVIRONMENT:
            self.assertLess(sum(len(k) + len(v) for k, v in environment(name).items()), 2000, name)

    def test_what_the_built_in_pool_is_made_of(self):
        variables = environment("ScaleUpFunction")
        found = [variables[f"MUSTER_{name}"] for name in ("LAUNCH_TEMPLATE", "LAUNCH_TEMPLATE_VERSION", "SUBNETS", "MAX_MACHINES")]
        self.assertEqual(found, ["lt-0ours", "3", "subnet-0aa,subnet-0bb", "20"])

    def test_the_built_in_pool_knows_the_templates_disk_and_fits_its_image(self):
        """A pool with a disk on a different device omits the template's disk; its types are for the default image."""
        pool = (DOMAIN / "pool/built_in.rs").read_text(encoding="utf-8")
        (device,) = re.findall(r'TEMPLATE_DEVICE: &str = "(.*)"', pool)
        data = rendered().properties("LaunchTemplate")["LaunchTemplateData"]
        self.assertEqual([m["DeviceName"] for m in data["BlockDeviceMappings"]], [device])

    def test_timings_reach_the_functions_word_for_word(self):
        self.assertEqual(environment("ReaperFunction")["MUSTER_TIMINGS"], "{}")
        given = json.dumps({field: 7 for field in TIMINGS})
        variables = Rendered(Timings=given).properties("ReaperFunction")["Environment"]["Variables"]
        self.assertEqual(variables["MUSTER_TIMINGS"], given)

    def test_timings_that_are_no_json_are_refused_before_anything_is_deployed(self):
        pattern = re.compile(source()["Parameters"]["Timings"]["AllowedPattern"])
        self.assertGreaterEqual(len(TIMINGS), 25)
        one = '{"idle_limit_seconds":120}'
        for right in ("{}", "{ }", one, one.replace(":", " : "), json.dumps(dict.fromkeys(TIMINGS, 604800))):
            self.assertEqual(type(json.loads(right)), dict)
            self.assertIsNotNone(pattern.fullmatch(right), right)
        wrong = ("", "{", "[]", "idle_limit_seconds=120", one.replace('"', "'"), one.replace("120", '"120"'), one.replace("}", ",}"))
        for value in (*wrong, one.replace("120", "0"), one.replace("120", "1.5"), one.replace("120", "12345678901"), one + one, '{"idle_limit":120}'):
            self.assertIsNone(pattern.fullmatch(value), value)

    def test_webhook_concurrency_is_reserved_only_on_demand(self):
        self.assertNotIn("ReservedConcurrentExecutions", rendered().properties("WebhookFunction"))
        function = Rendered(WebhookReservedConcurrency="50").properties("WebhookFunction")
        self.assertEqual(function["ReservedConcurrentExecutions"], "50")

    def test_functions_that_call_github_are_in_the_network_that_is_given(self):
        callers, groups = {"ReaperFunction", "RunnerApiFunction", "AdminFunction"}, "sg-0ab"
        for given, expected in (
            ({}, None),
            ({"FunctionSecurityGroups": groups}, None),
            ({"FunctionSubnets": "subnet-0f1,subnet-0f2"}, ["sg-0ours"]),
            ({"FunctionSubnets": "subnet-0f1,subnet-0f2", "SecurityGroupIds": "sg-0theirs"}, ["sg-0theirs"]),
            ({"FunctionSubnets": "subnet-0f1,subnet-0f2", "FunctionSecurityGroups": groups}, [groups]),
        ):
            for name, function in Rendered(**given).of_type("AWS::Lambda::Function").items():
                network = {"SubnetIds": ["subnet-0f1", "subnet-0f2"], "SecurityGroupIds": expected}
                self.assertEqual(function.get("VpcConfig"), network if expected and name in callers else None, (given, name))

    def test_logs_expire_and_each_function_writes_its_own(self):
        groups = rendered().of_type("AWS::Logs::LogGroup")
        for name, group in groups.items():
            self.assertIn("RetentionInDays", group, name)
        written = [f["LoggingConfig"]["LogGroup"] for f in rendered().of_type("AWS::Lambda::Function").values()]
        self.assertEqual(len(set(written)), 5)
        self.assertLessEqual(set(written), {g["LogGroupName"] for g in groups.values()})

    def test_only_scale_up_may_feed_itself(self):
        allowed = {n for n, f in rendered().of_type("AWS::Lambda::Function").items() if f["RecursiveLoop"] != "Terminate"}
        self.assertEqual(allowed, {"ScaleUpFunction"})

    def test_ticks_are_not_retried(self):
        (config,) = rendered().of_type("AWS::Lambda::EventInvokeConfig").values()
        self.assertEqual((config["MaximumRetryAttempts"], config["MaximumEventAgeInSeconds"]), (0, 60))


class Queues(unittest.TestCase):
    def test_visibility_is_six_times_the_timeout(self):
        mappings = rendered().of_type("AWS::Lambda::EventSourceMapping")
        self.assertEqual(len(mappings), 3)
        for name, mapping in mappings.items():
            function = rendered().properties(self.function_of(mapping))
            queue = self.queue_of(mapping["EventSourceArn"])
            window = int(mapping["MaximumBatchingWindowInSeconds"])
            self.assertGreaterEqual(int(queue["VisibilityTimeout"]), 6 * int(function["Timeout"]), name)
            self.assertEqual(mapping["FunctionResponseTypes"], ["ReportBatchItemFailures"])
            # Lambda refuses batches larger than ten without a window, and a launch must not wait for a window.
            self.assertEqual((window, mapping["BatchSize"] > 10), (1, True) if "Reap" in name else (0, False))
            self.assertTrue(2 <= mapping["ScalingConfig"]["MaximumConcurrency"] <= 10)
            # Lambda would delete the messages that a filter excludes.
            self.assertNotIn("FilterCriteria", mapping)

    def function_of(self, mapping):
        return next(n for n, f in rendered().of_type("AWS::Lambda::Function").items() if f["FunctionName"] == mapping["FunctionName"])

    def queue_of(self, arn):
        return next(
            q
            for n, q in rendered().of_type("AWS::SQS::Queue").items()
            if rendered().resolve({"Fn::GetAtt": [n, "Arn"]}) == arn
        )

    def test_every_queue_has_a_dead_letter_queue_that_keeps_longer(self):
        queues = rendered().of_type("AWS::SQS::Queue")
        receives = {}
        for name, queue in queues.items():
            if name.endswith("DeadLetters"):
                self.assertNotIn("RedrivePolicy", queue)
                continue
            dead = self.queue_of(queue["RedrivePolicy"]["deadLetterTargetArn"])
            self.assertGreater(dead["MessageRetentionPeriod"], queue["MessageRetentionPeriod"], name)
            receives[name] = queue["RedrivePolicy"]["maxReceiveCount"]
        self.assertEqual(receives, {"JobsQueue": 500, "LaunchQueue": 100, "ReapQueue": 100})

    def test_every_queue_is_encrypted_and_takes_tls_only(self):
        covered = set()
        for policy in rendered().of_type("AWS::SQS::QueuePolicy").values():
            for statement in policy["PolicyDocument"]["Statement"]:
                if statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}:
                    self.assertEqual((statement["Effect"], statement["Principal"], statement["Action"]), ("Deny", "*", "sqs:*"))
                    arns = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
                    covered.update(arns)
        for name, queue in rendered().of_type("AWS::SQS::Queue").items():
            self.assertIs(queue["SqsManagedSseEnabled"], True, name)
            self.assertIn(rendered().resolve({"Fn::GetAtt": [name, "Arn"]}), covered, name)

    def test_a_queue_has_one_policy(self):
        """A second policy for a queue would replace the first."""
        named = [q for p in rendered().of_type("AWS::SQS::QueuePolicy").values() for q in p["Queues"]]
        self.assertEqual(len(set(named)), len(named))

    def test_only_our_two_rules_may_send_from_outside(self):
        allows = [
            s
            for p in rendered().of_type("AWS::SQS::QueuePolicy").values()
            for s in p["PolicyDocument"]["Statement"]
            if s["Effect"] == "Allow"
        ]
        (allow,) = allows
        rules = {rendered().resolve({"Fn::GetAtt": [n, "Arn"]}) for n in ("MachineEndedRule", "SpotWarningRule")}
        self.assertEqual(allow["Principal"], {"Service": "events.amazonaws.com"})
        self.assertEqual(allow["Action"], "sqs:SendMessage")
        self.assertEqual(set(allow["Condition"]["ArnEquals"]["aws:SourceArn"]), rules)


class Tables(unittest.TestCase):
    KEYS = {
        "InstancesTable": (("name",), {"due": ("due_shard", "due_at"), "pool": ("live_pool", "live_order")}),
        "JobsTable": (("job",), {"pool": ("waiting_pool", "waiting_order")}),
        "ControlTable": (("id",), {"kind": ("kind", "sort")}),
        "UsageTable": (("day", "at"), {}),
    }

    def test_protection(self):
        tables = rendered().of_type("AWS::DynamoDB::Table")
        self.assertEqual(set(tables), set(self.KEYS))
        for name, table in tables.items():
            self.assertEqual(table["BillingMode"], "PAY_PER_REQUEST", name)
            self.assertIs(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], True, name)
            self.assertEqual(table["TimeToLiveSpecification"], {"AttributeName": "expires_at", "Enabled": True}, name)
            self.assertIn("DeletionPolicy", rendered().resources[name])

    def test_keys_and_indexes(self):
        for name, (key, indexes) in self.KEYS.items():
            table = rendered().properties(name)
            self.assertEqual(tuple(k["AttributeName"] for k in table["KeySchema"]), key)
            there = table.get("GlobalSecondaryIndexes", [])
            found = {i["IndexName"]: tuple(k["AttributeName"] for k in i["KeySchema"]) for i in there}
            self.assertEqual(found, indexes)
            self.assertTrue(all(i["Projection"]["ProjectionType"] == "ALL" for i in there))
            used = {*key, *(a for pair in indexes.values() for a in pair)}
            self.assertEqual({a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]}, dict.fromkeys(used, "S"))


class MachineLogs(unittest.TestCase):
    def test_the_bucket_is_closed_and_forgets(self):
        bucket = rendered().properties("MachineLogs")
        self.assertEqual(set(bucket["PublicAccessBlockConfiguration"].values()), {True})
        self.assertEqual(len(bucket["PublicAccessBlockConfiguration"]), 4)
        (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        self.assertEqual(encryption, {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}})
        (rule,) = Rendered(LogRetentionDays=7).properties("MachineLogs")["LifecycleConfiguration"]["Rules"]
        self.assertEqual((rule["Status"], rule["ExpirationInDays"]), ("Enabled", "7"))
        self.assertEqual(rule["AbortIncompleteMultipartUpload"], {"DaysAfterInitiation": 1})
        # Without versioning, a replaced object costs nothing more.
        self.assertNotIn("VersioningConfiguration", bucket)

    def test_it_takes_tls_only_and_is_left_behind_with_its_policy(self):
        """CloudFormation does not delete a bucket with objects, so a stack with machine logs could never be deleted."""
        tls, parts = rendered().properties("MachineLogsOverTlsOnly")["PolicyDocument"]["Statement"]
        self.assertEqual((tls["Effect"], tls["Principal"], tls["Action"]), ("Deny", "*", "s3:*"))
        # Without it, one object of a job could have 5 TB or more. The key must be one that S3 sets for this action.
        self.assertEqual((parts["Effect"], parts["Principal"], parts["Action"]), ("Deny", "*", "s3:PutObject"))
        self.assertEqual(parts["Condition"], {"Bool": {"s3:ObjectCreationOperation": "false"}})
        self.assertTrue(authorization.sets("s3:PutObject", parts["Resource"], "s3:ObjectCreationOperation"))
        self.assertEqual(tls["Condition"], {"Bool": {"aws:SecureTransport": "false"}})
        for name in ("MachineLogs", "MachineLogsOverTlsOnly"):
            self.assertEqual(rendered().resources[name]["DeletionPolicy"], "RetainExceptOnCreate")

    def test_a_machine_is_told_the_one_place_where_it_may_write(self):
        (document,) = policies("Instance")
        (resource,) = [s["Resource"] for s in document["Statement"] if s["Sid"] == "SendOwnLogs"]
        self.assertEqual(resource, "arn:aws:s3:::muster-MachineLogs-1ABC/${aws:userid}/machine.log.gz")
        # For a machine, `aws:userid` is the role's ID, a colon and the instance ID.
        prefix = rendered().resolve(source()["Outputs"]["MachineLogsPrefix"]["Value"])
        self.assertEqual(prefix, "s3://muster-MachineLogs-1ABC/AROAOURS:")


class Secrets(unittest.TestCase):
    def test_no_secret_is_a_parameter(self):
        suspicious = re.compile(r"secret|token|password|private|pem|credential", re.IGNORECASE)
        for name, definition in source()["Parameters"].items():
            self.assertIsNone(suspicious.search(name), name)
            self.assertNotIn("NoEcho", definition)

    def test_no_secret_is_in_an_environment(self):
        """Environments contain only the names of secrets, and no value is resolved at deployment."""
        secrets = {rendered().resolve({"Ref": n}) for n in rendered().of_type("AWS::SecretsManager::Secret")}
        for name in ENVIRONMENT:
            for key, value in environment(name).items():
                self.assertNotIn("{{resolve:", value)
                if re.search(r"SECRET|KEY", key):
                    self.assertIn(value, secrets, f"{name} {key}")

    def test_secret_values_are_generated(self):
        for name, secret in rendered().of_type("AWS::SecretsManager::Secret").items():
            self.assertNotIn("SecretString", secret, name)
        generated = rendered().properties("WebhookSecret")["GenerateSecretString"]
        self.assertEqual(generated, {"PasswordLength": 64, "ExcludePunctuation": True})

    def test_no_output_shows_a_secret(self):
        self.assertNotIn("{{resolve:", json.dumps(source()["Outputs"]))


class Machines(unittest.TestCase):
    def launch(self, **given):
        return Rendered(**given).properties("LaunchTemplate")["LaunchTemplateData"]

    def test_hardening(self):
        data = self.launch()
        self.assertEqual(data["MetadataOptions"]["HttpTokens"], "required")
        self.assertEqual(data["MetadataOptions"]["HttpPutResponseHopLimit"], 1)
        self.assertEqual(data["InstanceInitiatedShutdownBehavior"], "terminate")
        for mapping in data["BlockDeviceMappings"]:
            self.assertEqual((mapping["Ebs"]["Encrypted"], mapping["Ebs"]["VolumeType"]), (True, "gp3"))
        self.assertNotIn("KeyName", data)

    def test_no_way_in(self):
        group = rendered().properties("SecurityGroup")
        self.assertNotIn("SecurityGroupIngress", group)
        self.assertEqual(rendered().of_type("AWS::EC2::SecurityGroupIngress"), {})

    def test_given_groups_win(self):
        self.assertEqual(self.launch()["SecurityGroupIds"], ["sg-0ours"])
        self.assertEqual(self.launch(SecurityGroupIds="sg-1,sg-2")["SecurityGroupIds"], ["sg-1", "sg-2"])
        self.assertNotIn("SecurityGroup", Rendered(SecurityGroupIds="sg-1").resources)

    def test_the_image_is_read_at_each_launch_and_scale_up_may_read_it(self):
        parameter = self.launch()["ImageId"].removeprefix("resolve:ssm:")
        arn = f"arn:aws:ssm:{REGION}::parameter{parameter}"
        self.assertTrue(allowed(policies("ScaleUp"), "ssm:GetParameters", arn, {}), arn)

    def test_the_public_address_is_the_subnets_matter_unless_it_is_chosen(self):
        self.assertNotIn("NetworkInterfaces", self.launch())
        for choice, public in (("yes", True), ("no", False)):
            data = self.launch(PublicIp=choice, SecurityGroupIds="sg-1,sg-2")
            # EC2 refuses security groups in both fields.
            self.assertNotIn("SecurityGroupIds", data)
            (interface,) = data["NetworkInterfaces"]
            self.assertIs(interface["AssociatePublicIpAddress"], public)
            self.assertEqual((interface["DeviceIndex"], interface["DeleteOnTermination"]), (0, True))
            self.assertEqual(interface["Groups"], ["sg-1", "sg-2"])
            # Each launch chooses the subnet.
            self.assertNotIn("SubnetId", interface)
        self.assertEqual(self.launch(PublicIp="yes")["NetworkInterfaces"][0]["Groups"], ["sg-0ours"])

    def test_no_role_is_made_that_an_account_may_have_already(self):
        self.assertEqual(Rendered().of_type("AWS::IAM::ServiceLinkedRole"), {})


# The maximum seconds of a refused call: two DynamoDB reads and no GitHub call. AWS's share is an estimate.
LONGEST_REFUSAL = 0.05


def taken(rate, burst, arrivals):
    """Returns how many of these calls a full token bucket accepts, by API Gateway's algorithm."""
    tokens, last, count = burst, 0, 0
    for now in sorted(arrivals):
        tokens, last = min(burst, tokens + (now - last) * rate), now
        if tokens >= 1:
            tokens, count = tokens - 1, count + 1
    return count


class Network(unittest.TestCase):
    """CloudFormation checks the Rules before it creates resources; these tests use the emulator's implementation."""

    VPCS = {"subnet-0aa": "vpc-0cc", "subnet-0bb": "vpc-0cc", "subnet-0dd": "vpc-0ee"}

    def refusal(self, **given):
        values = {"Subnets": "subnet-0aa,subnet-0bb", "SecurityGroupIds": "", **given}
        known = {name: {"VpcId": vpc} for name, vpc in self.VPCS.items()}
        parameters = {name: {"Value": value} for name, value in values.items()}
        with unittest.mock.patch.object(ec2, "_subnets", known):
            try:
                cloudformation._check_rules_section(source())
                cloudformation._evaluate_rules(source(), parameters, {})
            except ValueError as error:
                return str(error)
        return None

    def test_what_fits_is_deployed(self):
        self.assertIsNone(self.refusal(VpcId="vpc-0cc"))
        self.assertIsNone(self.refusal(SecurityGroupIds="sg-1", VpcId="vpc-0cc"))

    def test_subnets_of_another_vpc_are_refused(self):
        self.assertIn("Subnets", self.refusal(VpcId="vpc-0ee"))
        self.assertIn("Subnets", self.refusal(VpcId="vpc-0cc", Subnets="subnet-0aa,subnet-0dd"))
        self.assertIn("Subnets", self.refusal(VpcId="vpc-0cc", Subnets="subnet-0unknown"))


class Deployment(unittest.TestCase):
    def test_a_first_deployment_that_fails_can_be_repeated(self):
        config = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
        self.assertEqual(config["default"]["deploy"]["parameters"]["on_failure"], "DELETE")

    def test_one_line_deploys_and_changes_no_file(self):
        """The page's line has every parameter without a default, and SAM does not write answers into a tracked file."""
        page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
        line = re.findall(r"^ +sam deploy (.*)$", page, re.MULTILINE)[0]
        given = set(re.findall(r"(\w+)=", line))
        parameters = source()["Parameters"]
        self.assertLessEqual(given, set(parameters))
        self.assertLessEqual({name for name, definition in parameters.items() if "Default" not in definition}, given)
        self.assertNotIn("guided", page)

    def test_few_questions_are_left(self):
        names = set(source()["Parameters"])
        self.assertLessEqual(len(names), 22, "what nobody has to choose is no parameter; see docs/configuration.md for durations")


class Api(unittest.TestCase):
    def test_routes_and_their_callers(self):
        routes = {r["RouteKey"]: r["AuthorizationType"] for r in rendered().of_type("AWS::ApiGatewayV2::Route").values()}
        self.assertEqual(
            routes,
            {
                "POST /webhook": "NONE",
                "POST /webhook/{app}": "NONE",
                "POST /runner/register": "AWS_IAM",
                "POST /runner/events": "AWS_IAM",
                "POST /runner/job-started": "AWS_IAM",
            },
        )

    def limits(self, **given):
        """Returns each route's bucket: its refill a second, and its size."""
        (stage,) = Rendered(**given).of_type("AWS::ApiGatewayV2::Stage").values()
        settings = stage["RouteSettings"]
        return {key: (one["ThrottlingRateLimit"], one["ThrottlingBurstLimit"]) for key, one in settings.items()}

    def test_every_route_has_limits_of_its_own(self):
        routes = {route["RouteKey"] for route in rendered().of_type("AWS::ApiGatewayV2::Route").values()}
        for given in ({}, {"WebhookReservedConcurrency": "50"}):
            limits = self.limits(**given)
            self.assertEqual(set(limits), routes)
            # In some regions an account's bucket is 1,250.
            self.assertTrue(all(0 < rate < burst <= 1250 for rate, burst in limits.values()), limits)

    def test_a_thousand_deliveries_within_five_seconds_are_all_taken(self):
        rate, burst = self.limits()["POST /webhook"]
        at_once, evenly = [0] * 1000, [second / 200 for second in range(1000)]
        bunches = [second for second in (0, 2, 4) for _ in range(334)][:1000]
        for arrivals in (at_once, evenly, bunches, [4.9] * 1000):
            self.assertEqual(taken(rate, burst, arrivals), 1000)

    def test_a_thousand_machines_register_and_report_within_a_minute(self):
        arrivals = [second * 60 / 1000 for second in range(1000)]
        for route, (rate, burst) in self.limits().items():
            self.assertEqual(taken(rate, burst, arrivals), 1000, route)

    def test_calls_without_end_leave_an_account_of_ten_invocations_its_room(self):
        """Lambda accepts ten calls a second for each of an account's concurrent invocations."""
        limits = self.limits()
        machines = sum(rate for route, (rate, _) in limits.items() if route.startswith("POST /runner/"))
        everybody = machines + limits["POST /webhook"][0]
        self.assertLessEqual(machines, 10 * 10 * 0.5)
        self.assertLessEqual(everybody, 10 * 10 * 0.9)
        self.assertLessEqual(everybody * LONGEST_REFUSAL, 10 * 0.5)

    def test_calls_without_end_leave_an_account_with_a_reserve_its_room(self):
        limits = self.limits(WebhookReservedConcurrency="50")
        rates = {route: rate for route, (rate, _) in limits.items() if route.startswith("POST /runner/")}
        # Lambda keeps a hundred unreserved, which the machines' routes share with scale-up and the reaper.
        self.assertLessEqual(sum(rates.values()) * LONGEST_REFUSAL, 100 * 0.8)
        # During a flood of a thousand calls a second, every second attempt of the others succeeds.
        self.assertTrue(all(rate >= 1000 / 2 for rate in rates.values()), rates)

    def test_an_alarm_rings_where_a_route_refuses_as_many_calls_as_it_takes(self):
        (alarm,) = [a for a in rendered().of_type("AWS::CloudWatch::Alarm").values() if a["MetricName"] == "4xx"]
        refused = alarm["Threshold"] / alarm["Period"]
        for route, (rate, _) in self.limits().items():
            self.assertLessEqual(refused, rate, route)

    def test_gateway_invokes_two_functions_from_its_own_routes(self):
        found = {
            (p["FunctionName"], p["SourceArn"].split("/", 1)[1])
            for p in rendered().of_type("AWS::Lambda::Permission").values()
            if p["Principal"] == "apigateway.amazonaws.com"
        }
        self.assertEqual(found, {("muster-webhook", "*/POST/webhook*"), ("muster-runner-api", "*/POST/runner/*")})

class Alarms(unittest.TestCase):
    def alarms(self):
        """Returns all alarms; one of them exists only if its limit is set."""
        return Rendered(SpendAlarmDollars="40").of_type("AWS::CloudWatch::Alarm")

    def test_metrics_and_dimensions(self):
        for name, alarm in self.alarms().items():
            dimensions = {d["Name"]: d["Value"] for d in alarm["Dimensions"]}
            with self.subTest(alarm=name):
                match alarm["Namespace"]:
                    case "Muster":
                        self.assertIn(alarm["MetricName"], METRICS)
                        self.assertEqual(dimensions, {"Stack": "muster"})
                    case "AWS/SQS":
                        self.assertEqual(set(dimensions), {"QueueName"})
                        dead = "DeadLetters" in dimensions["QueueName"]
                        metric = "ApproximateNumberOfMessagesVisible" if dead else "ApproximateAgeOfOldestMessage"
                        self.assertEqual(alarm["MetricName"], metric)
                    case "AWS/ApiGateway":
                        self.assertIn(alarm["MetricName"], ("4xx", "5xx"))
                        self.assertEqual(set(dimensions), {"ApiId"})
                    case "AWS/Lambda":
                        self.assertIn(alarm["MetricName"], ("Errors", "Throttles"))
                        self.assertEqual(set(dimensions), {"FunctionName"})
                    case other:
                        self.fail(f"unknown namespace {other}")

    def test_every_metric_has_an_alarm_or_a_widget(self):
        """The alarms use the metrics that the code calls watched, which every setting of `Measures` keeps."""
        self.assertGreaterEqual(len(METRICS), 10)
        watched = {a["MetricName"] for a in self.alarms().values() if a["Namespace"] == "Muster"}
        page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
        before, after = page.split("## What is shown")
        listed = [set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE)) for part in (before, after)]
        self.assertEqual(listed, [watched, METRICS - watched])
        body = rendered().properties("Dashboard")["DashboardBody"]
        self.assertEqual({metric for metric in METRICS - watched if metric not in body}, set())

    def test_the_alarm_on_money_is_there_where_somebody_asks(self):
        self.assertNotIn("SpendAlarm", rendered().resources)
        given = Rendered(SpendAlarmDollars="12.5", WaitAlarmSeconds="600")
        self.assertEqual(float(given.properties("SpendAlarm")["Threshold"]), 12.5)
        self.assertEqual(given.properties("WaitLongAlarm")["Threshold"], "600")

    def test_the_queue_of_jobs_has_alarms_and_the_queues_of_wake_ups_have_none(self):
        watched = {d["Value"] for a in self.alarms().values() for d in a["Dimensions"] if d["Name"] == "QueueName"}
        names = ("JobsQueue", "JobsDeadLetters")
        self.assertEqual(watched, {rendered().resolve({"Fn::GetAtt": [n, "QueueName"]}) for n in names})

    def test_only_the_heartbeat_breaches_when_it_is_missing(self):
        breaching = {n for n, a in self.alarms().items() if a["TreatMissingData"] == "breaching"}
        self.assertEqual(breaching, {"ReaperSilentAlarm"})

    def test_every_alarm_says_what_to_do(self):
        ((folder, *others),) = {tuple(a.values()) for m in source()["Mappings"].values() for a in m.values()}
        self.assertRegex(folder, r"^https://github\.com/[\w-]+/[\w-]+/blob/main/docs/alarms$")
        self.assertEqual(others, [])
        index = (ROOT / "docs/alarms/README.md").read_text(encoding="utf-8")
        for alarm in self.alarms().values():
            name = alarm["AlarmName"].removeprefix("muster-")
            # A link, because an operator on call may not have the checkout.
            self.assertEqual(alarm["AlarmDescription"].rpartition(" ")[2], f"{folder}/{name}.md")
            self.assertTrue((ROOT / f"docs/alarms/{name}.md").is_file(), name)
            self.assertIn(f"]({name}.md)", index)
        pages = {path.stem for path in (ROOT / "docs/alarms").glob("*.md")} - {"README"}
        self.assertEqual(pages, {alarm["AlarmName"].removeprefix("muster-") for alarm in self.alarms().values()})

    def test_the_heartbeat_does_not_ring_before_it_can_beat(self):
        alarm = rendered().resources["ReaperSilentAlarm"]
        self.assertEqual(rendered().resources[alarm["DependsOn"]]["Type"], "AWS::Events::Rule")
        self.assertEqual((alarm["Properties"]["Period"], alarm["Properties"]["DatapointsToAlarm"]), (60, 5))

    def test_every_kind_of_failure_of_every_function_has_an_alarm(self):
        """The alarm for each kind of failure of each function. "caller" is the operator, whose command fails.

        tests/sim/tests/fleet/alarms/cells.rs reads this table and runs the failures: each alarm must ring."""
        kinds = ("no table", "no queue", "no EC2 or GitHub", "throttled", "no start", "time-out", "poison", "unread")
        api, failing, entity = "Api5xxAlarm", "MessagesFailingAlarm", "EntityUnhealthyAlarm"
        errors, throttled, swept = "ScaleUpErrorsAlarm", "ScaleUpThrottledAlarm", "ReaperSilentAlarm"
        shown = {
            "Webhook": (None, api, None, api, api, api, "WebhooksUnreadableAlarm", "WebhooksFailingAlarm"),
            "ScaleUp": (failing, failing, "PoolRefusedAlarm", throttled, errors, errors, failing, "JobsUnreadAlarm"),
            "Reaper": ("ReaperErrorsAlarm", swept, "DeleteStuckAlarm", swept, "ReaperErrorsAlarm", "ReaperErrorsAlarm", failing, "DeleteStuckAlarm"),
            "RunnerApi": (api, None, entity, api, api, api, "ApiRefusedAlarm", None),
            "Admin": ("caller", "caller", "caller", "caller", "caller", "caller", "caller", None),
        }  # fmt: skip
        functions = {name.removesuffix("Function") for name in rendered().of_type("AWS::Lambda::Function")}
        self.assertEqual(functions, set(shown))
        for function, row in shown.items():
            for kind, alarm in zip(kinds, row, strict=True):
                with self.subTest(function=function, kind=kind):
                    self.assertIn(alarm, {None, "caller", *self.alarms()})
        # Alarms on Lambda's metrics are on the function that the table names.
        for name, (function, metric) in {
            errors: ("muster-scale-up", "Errors"),
            throttled: ("muster-scale-up", "Throttles"),
            "ReaperErrorsAlarm": ("muster-reaper", "Errors"),
        }.items():
            alarm = self.alarms()[name]
            self.assertEqual((alarm["Dimensions"][0]["Value"], alarm["MetricName"]), (function, metric))

    def test_an_alarm_on_failures_rings_within_two_minutes_and_stays(self):
        visibility = {rendered().properties(f"{name}Queue")["VisibilityTimeout"] for name in ("Jobs", "Launch", "Reap")}
        (longest,) = visibility
        for name in ("MessagesFailingAlarm", "ScaleUpErrorsAlarm", "ScaleUpThrottledAlarm"):
            alarm = self.alarms()[name]
            with self.subTest(alarm=name):
                self.assertLessEqual(alarm["Period"] * alarm["DatapointsToAlarm"], 120)
                # An unhandled message is received again after that time, so the window always has enough datapoints.
                self.assertGreater(alarm["Period"] * (alarm["EvaluationPeriods"] - 1), longest * alarm["DatapointsToAlarm"])
        alarm = self.alarms()["JobsUnreadAlarm"]
        self.assertLessEqual(alarm["Threshold"] + alarm["Period"] * alarm["DatapointsToAlarm"], 120)

    def test_the_projects_address_stands_in_one_place(self):
        self.assertEqual((ROOT / "template.yaml").read_text(encoding="utf-8").count("https://github.com/muster-runners"), 1)

    def test_actions_follow_the_topic(self):
        def actions(**given):
            found = Rendered(**given)
            return {tuple(a["AlarmActions"]) for a in found.of_type("AWS::CloudWatch::Alarm").values()}

        topic = "arn:aws:sns:eu-central-1:123456789012:pager"
        self.assertEqual(actions(), {()})
        self.assertEqual(actions(AlarmTopicArn=topic), {(topic,)})
        self.assertEqual(actions(AlarmTopicArn=topic, AlarmEmail="a@example.com"), {(topic,)})
        ((own,),) = actions(AlarmEmail="a@example.com")
        self.assertIn("AlarmTopic", own)

    def test_outputs_name_them_all(self):
        joined = Rendered(SpendAlarmDollars="40").resolve(source()["Outputs"]["AlarmNames"]["Value"])
        self.assertEqual(set(joined.split(",")), {a["AlarmName"] for a in self.alarms().values()})


class Console(unittest.TestCase):
    def test_every_parameter_is_in_a_group(self):
        groups = source()["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        listed = [p for g in groups for p in g["Parameters"]]
        self.assertEqual(sorted(listed), sorted(source()["Parameters"]))


if __name__ == "__main__":
    unittest.main()

