"""Renders a template as CloudFormation sees it: SAM's resources expanded, functions resolved.

Runs in the emulator's environment (.local/ministack), for PyYAML and the SAM translator.
"""

import functools
import json
import logging
import os
import pathlib
import re

import yaml
from samtranslator.translator.transform import transform

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACCOUNT, REGION, STACK = "123456789012", "eu-central-1", "muster"
GIVEN = {
    "Subnets": "subnet-0aa,subnet-0bb",
    "VpcId": "vpc-0cc",
}
PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::StackName": STACK,
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/1a2b3c4d-5e6f-7081-92a3-b4c5d6e7f809",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}
NO_VALUE = object()
# The translator warns about telemetry, which is not collected here.
logging.getLogger("samtranslator").setLevel(logging.ERROR)


class _Loader(yaml.SafeLoader):
    """A YAML loader for CloudFormation's short forms."""


def _short_form(loader, suffix, node):
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    return {name: value}


_Loader.add_multi_constructor("!", _short_form)


class _NoManagedPolicies:
    def load(self):
        return {}


@functools.cache
def source(name="template.yaml"):
    """Returns the template as written."""
    return yaml.load((ROOT / name).read_text(encoding="utf-8"), Loader=_Loader)


class Rendered:
    """All resources of one deployment, with every function resolved. Imports come from the stack with all defaults."""

    def __init__(self, stack=STACK, template="template.yaml", **given):
        os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
        # The translator requires code in S3; the location does not matter here.
        template = json.loads(json.dumps(source(template)))
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::Serverless::Function":
                resource["Properties"]["CodeUri"] = "s3://bucket/key.zip"
        self.template = transform(template, {}, _NoManagedPolicies())
        self.pseudo = {**PSEUDO, "AWS::StackName": stack}
        self.parameters = {}
        for name, definition in self.template["Parameters"].items():
            value = {**GIVEN, **given}.get(name, definition.get("Default"))
            if value is None:
                raise ValueError(f"parameter {name} needs a value")
            is_list = definition["Type"] == "CommaDelimitedList" or definition["Type"].startswith("List<")
            self.parameters[name] = [v.strip() for v in str(value).split(",")] if is_list else str(value)
        self.resources = {
            name: {**resource, "Properties": self.resolve(resource.get("Properties", {}))}
            for name, resource in self.template["Resources"].items()
            if self.condition(resource.get("Condition"))
        }

    def of_type(self, wanted):
        return {n: r["Properties"] for n, r in self.resources.items() if r["Type"] == wanted}

    def properties(self, name):
        return self.resources[name]["Properties"]

    # --- conditions and functions ---------------------------------------------------------------

    def condition(self, name):
        return name is None or self._truth(self.template["Conditions"][name])

    def _truth(self, node):
        ((function, argument),) = node.items()
        match function:
            case "Condition":
                return self.condition(argument)
            case "Fn::Not":
                return not self._truth(argument[0])
            case "Fn::And":
                return all(self._truth(a) for a in argument)
            case "Fn::Or":
                return any(self._truth(a) for a in argument)
            case "Fn::Equals":
                left, right = (self.resolve(a) for a in argument)
                return str(left) == str(right)
        raise ValueError(f"unknown condition function {function}")

    def resolve(self, node):
        if isinstance(node, list):
            return [v for v in (self.resolve(n) for n in node) if v is not NO_VALUE]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((function, argument),) = node.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._call(function, argument)
        resolved = {k: self.resolve(v) for k, v in node.items()}
        return {k: v for k, v in resolved.items() if v is not NO_VALUE}

    def _call(self, function, argument):
        match function:
            case "Ref":
                return self._ref(argument)
            case "Fn::GetAtt":
                name, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
                return self._attribute(name, attribute)
            case "Fn::Sub":
                return self._sub(argument)
            case "Fn::Join":
                return argument[0].join(str(v) for v in self.resolve(argument[1]))
            case "Fn::Split":
                return self.resolve(argument[1]).split(argument[0])
            case "Fn::Select":
                return self.resolve(argument[1])[int(argument[0])]
            case "Fn::FindInMap":
                mapping, *keys = (self.resolve(key) for key in argument)
                return functools.reduce(dict.__getitem__, keys, self.template["Mappings"][mapping])
            case "Fn::If":
                return self.resolve(argument[1] if self.condition(argument[0]) else argument[2])
            case "Fn::ImportValue":
                return exports()[self.resolve(argument)]
            case "Fn::Base64":
                return {"plain": self.resolve(argument)}
        raise ValueError(f"unknown function {function}")

    def _sub(self, argument):
        text, names = argument if isinstance(argument, list) else (argument, {})

        def value(match):
            name = match.group(1)
            if name in names:
                return str(self.resolve(names[name]))
            if "." in name:
                return str(self._attribute(*name.split(".", 1)))
            return str(self._ref(name))

        # `${!…}` is resolved by IAM.
        return re.sub(r"\$\{([A-Za-z0-9:.]+)\}", value, text).replace("${!", "${")

    def _ref(self, name):
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self.pseudo:
            return self.pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        kind = self.template["Resources"][name]["Type"]
        service = {
            "AWS::SQS::Queue": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{self._own(name)}",
            "AWS::EC2::LaunchTemplate": "lt-0ours",
            "AWS::EC2::SecurityGroup": "sg-0ours",
            "AWS::ApiGatewayV2::Api": "api0ours",
            "AWS::IAM::ManagedPolicy": f"arn:aws:iam::{ACCOUNT}:policy/{self._own(name)}",
            "AWS::SNS::Topic": f"arn:aws:sns:{REGION}:{ACCOUNT}:{self._own(name)}",
            "AWS::SecretsManager::Secret": self._secret_arn(name),
        }
        return service.get(kind, self._own(name))

    def _own(self, name):
        """Returns a physical ID like CloudFormation's, or the name that the template gives."""
        properties = self.template["Resources"][name].get("Properties", {})
        for key in ("FunctionName", "LogGroupName", "AlarmName"):
            if key in properties:
                return self.resolve(properties[key])
        return f"{self.pseudo['AWS::StackName']}-{name}-1ABC"

    def _secret_arn(self, name):
        given = self.template["Resources"][name].get("Properties", {}).get("Name", "")
        return f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{self.resolve(given)}-a1B2c3"

    def _attribute(self, name, attribute):
        kind = self.template["Resources"][name]["Type"]
        own = self._own(name)
        here = f"{REGION}:{ACCOUNT}"
        known = {
            ("AWS::SQS::Queue", "Arn"): f"arn:aws:sqs:{here}:{own}",
            ("AWS::SQS::Queue", "QueueName"): own,
            ("AWS::S3::Bucket", "Arn"): f"arn:aws:s3:::{own}",
            ("AWS::S3::Bucket", "RegionalDomainName"): f"{own}.s3.{REGION}.amazonaws.com",
            ("AWS::DynamoDB::Table", "Arn"): f"arn:aws:dynamodb:{here}:table/{own}",
            ("AWS::IAM::Role", "Arn"): f"arn:aws:iam::{ACCOUNT}:role/{own}",
            ("AWS::IAM::Role", "RoleId"): "AROAOURS",
            ("AWS::IAM::InstanceProfile", "Arn"): f"arn:aws:iam::{ACCOUNT}:instance-profile/{own}",
            ("AWS::Lambda::Function", "Arn"): f"arn:aws:lambda:{here}:function:{own}",
            ("AWS::Events::Rule", "Arn"): f"arn:aws:events:{here}:rule/{own}",
            ("AWS::EC2::SecurityGroup", "GroupId"): "sg-0ours",
            ("AWS::EC2::LaunchTemplate", "LatestVersionNumber"): "3",
            ("AWS::CloudWatch::Alarm", "Arn"): f"arn:aws:cloudwatch:{here}:alarm:{own}",
            ("AWS::Logs::LogGroup", "Arn"): f"arn:aws:logs:{here}:log-group:{own}:*",
        }
        return known[kind, attribute]


@functools.cache
def exports():
    """Returns the stack's exports by name."""
    outputs = [output for output in source()["Outputs"].values() if "Export" in output]
    return {rendered().resolve(output["Export"]["Name"]): rendered().resolve(output["Value"]) for output in outputs}


@functools.cache
def rendered():
    """Returns the deployment with all defaults."""
    return Rendered()
