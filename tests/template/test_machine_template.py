"""infra/machine.yaml: its machines differ from the stack's only where they should."""

import unittest

from ministack.services.cloudformation import engine as cloudformation
from rendered import ACCOUNT, REGION, Rendered, exports, rendered, source
from test_boot import user_data
from test_iam import (
    BORN_OURS,
    BORN_THEIRS,
    EC2,
    INSTANCE,
    OTHER_ROLE,
    OTHER_TEMPLATE,
    TO_EC2,
    TO_LAMBDA,
    allowed,
    listed,
    policies,
)
import authorization

TEMPLATE = "infra/machine.yaml"
OWN_TEMPLATE = f"{EC2}:launch-template/lt-0ours"
FROM_OWN = {"ec2:LaunchTemplate": OWN_TEMPLATE}
OWN_ROLE = f"arn:aws:iam::{ACCOUNT}:role/release-InstanceRole-1ABC"
GROUP = f"arn:aws:resource-groups:{REGION}:{ACCOUNT}:group/builds"
RESERVATION = f"{EC2}:capacity-reservation/cr-0123"


def release(**given):
    return Rendered(stack="release", template=TEMPLATE, **given)


def launch(**given):
    return release(**given).properties("LaunchTemplate")["LaunchTemplateData"]


class Machines(unittest.TestCase):
    def test_they_differ_from_the_stacks_in_role_and_group_alone(self):
        own, stacks = launch(), rendered().properties("LaunchTemplate")["LaunchTemplateData"]
        # The name contains the stack that created it.
        self.assertNotEqual(own["IamInstanceProfile"], stacks["IamInstanceProfile"])
        own = {**own, "IamInstanceProfile": stacks["IamInstanceProfile"]}
        own["MetadataOptions"]["HttpPutResponseHopLimit"] = int(own["MetadataOptions"]["HttpPutResponseHopLimit"])
        self.assertEqual(own, stacks)

    def test_they_boot_what_the_stacks_machines_boot(self):
        self.assertEqual(launch()["UserData"]["plain"], user_data())

    def test_what_can_be_said_of_them_is_said(self):
        data = launch(SecurityGroupIds="sg-1,sg-2", PublicIp="no", HopLimit="2")
        (interface,) = data["NetworkInterfaces"]
        self.assertEqual((interface["Groups"], interface["AssociatePublicIpAddress"]), (["sg-1", "sg-2"], False))
        self.assertNotIn("SecurityGroupIds", data)
        self.assertEqual(data["MetadataOptions"]["HttpPutResponseHopLimit"], "2")
        self.assertEqual(data["MetadataOptions"]["HttpTokens"], "required")
        self.assertNotIn("CapacityReservationSpecification", data)
        for given, target in (
            ({"CapacityReservationId": "cr-0123"}, {"CapacityReservationId": "cr-0123"}),
            ({"CapacityReservationGroup": "builds"}, {"CapacityReservationResourceGroupArn": GROUP}),
        ):
            self.assertEqual(launch(**given)["CapacityReservationSpecification"], {"CapacityReservationTarget": target})

    def test_two_targets_are_refused_before_anything_is_made(self):
        def refusal(**given):
            values = {name: about.get("Default", "vpc-0cc") for name, about in source(TEMPLATE)["Parameters"].items()}
            parameters = {name: {"Value": value} for name, value in {**values, **given}.items()}
            try:
                cloudformation._check_rules_section(source(TEMPLATE))
                cloudformation._evaluate_rules(source(TEMPLATE), parameters, {})
            except ValueError as error:
                return str(error)
            return None

        self.assertIsNone(refusal())
        self.assertIsNone(refusal(CapacityReservationId="cr-0123"))
        self.assertIn("not both", refusal(CapacityReservationId="cr-0123", CapacityReservationGroup="builds"))

    def test_the_template_says_whose_machines_it_makes_and_how_they_sign(self):
        (tagged,) = release(Stack="muster").properties("LaunchTemplate")["TagSpecifications"]
        self.assertEqual(tagged["ResourceType"], "launch-template")
        self.assertEqual({tag["Key"]: tag["Value"] for tag in tagged["Tags"]}, {"muster:stack": "muster", "muster:role": "AROAOURS"})

    def test_a_group_of_its_own_has_no_way_in(self):
        self.assertNotIn("SecurityGroupIngress", release().properties("SecurityGroup"))
        self.assertNotIn("SecurityGroup", release(SecurityGroupIds="sg-1").resources)


class Role(unittest.TestCase):
    def test_it_may_what_every_machine_may_and_what_it_was_given(self):
        every = exports()["muster-MachineAccess"]
        self.assertEqual(release().properties("InstanceRole")["ManagedPolicyArns"], [every])
        own = ["arn:aws:iam::aws:policy/One", "arn:aws:iam::aws:policy/Two"]
        role = release(ManagedPolicyArns=",".join(own)).properties("InstanceRole")
        self.assertEqual(role["ManagedPolicyArns"], [every, *own])
        self.assertNotIn("Policies", role)

    def test_only_ec2_hands_it_out(self):
        role = release().properties("InstanceRole")
        self.assertEqual(role["AssumeRolePolicyDocument"], rendered().properties("InstanceRole")["AssumeRolePolicyDocument"])

    def test_boundary_and_path_are_the_accounts(self):
        boundary = f"arn:aws:iam::{ACCOUNT}:policy/ci-boundary"
        stack = release(PermissionsBoundary=boundary, RolePath="/ci/")
        self.assertEqual(stack.properties("InstanceRole")["PermissionsBoundary"], boundary)
        for name in ("InstanceRole", "InstanceProfile", "Launch"):
            self.assertEqual(stack.properties(name)["Path"], "/ci/")


def documents(**given):
    """Returns scale-up's policies with the stack and one of these templates."""
    return [*policies("ScaleUp"), release(**given).properties("Launch")["PolicyDocument"]]


# In addition to the stack's own facts. Outside of these tests the templates' IDs differ.
FACTS = [
    ("Allow", "ec2:CreateFleet", OWN_TEMPLATE, {}),
    ("Allow", "ec2:RunInstances", OWN_TEMPLATE, {}),
    ("Allow", "ec2:RunInstances", f"{EC2}:security-group/sg-0ours", {}),
    ("Allow", "ec2:RunInstances", INSTANCE, {**BORN_OURS, **FROM_OWN}),
    ("Allow", "iam:PassRole", OWN_ROLE, TO_EC2),
    ("Deny", "ec2:CreateFleet", OTHER_TEMPLATE, {}),
    ("Deny", "ec2:RunInstances", f"{EC2}:security-group/sg-0other", {}),
    ("Deny", "ec2:RunInstances", INSTANCE, {**BORN_THEIRS, **FROM_OWN}),
    ("Deny", "ec2:RunInstances", INSTANCE, {**BORN_OURS, "ec2:LaunchTemplate": OTHER_TEMPLATE}),
    ("Deny", "ec2:RunInstances", RESERVATION, {}),
    ("Deny", "iam:PassRole", OWN_ROLE, TO_LAMBDA),
    ("Deny", "iam:PassRole", OTHER_ROLE, TO_EC2),
    ("Deny", "ec2:RunInstances", f"{EC2}:subnet/subnet-0other", {}),
]


class Launch(unittest.TestCase):
    def alone(self, **given):
        return [release(**given).properties("Launch")["PolicyDocument"]]

    def broken(self, found):
        return [fact for fact in FACTS if allowed(found, *fact[1:]) != (fact[0] == "Allow")]

    def test_scale_up_gets_what_such_a_machine_takes_and_nothing_else(self):
        self.assertEqual(self.broken(self.alone()), [])
        self.assertEqual(release().properties("Launch")["Roles"], [exports()["muster-ScaleUpRole"]])

    def test_no_statement_is_spare(self):
        (document,) = self.alone()
        for statement in document["Statement"]:
            rest = [one for one in document["Statement"] if one is not statement]
            self.assertNotEqual(self.broken([{**document, "Statement": rest}]), [], statement["Sid"])

    def test_with_the_stacks_own_rights_a_whole_launch_is_allowed(self):
        found = documents(SecurityGroupIds="sg-1,sg-2")
        tags = {**BORN_OURS, **FROM_OWN}
        for action, resource, keys in (
            ("ec2:CreateFleet", OWN_TEMPLATE, {}),
            ("ec2:RunInstances", f"{EC2}:security-group/sg-1", {}),
            ("ec2:RunInstances", f"{EC2}:security-group/sg-2", {}),
            ("ec2:RunInstances", f"{EC2}:subnet/subnet-0aa", {}),
            ("ec2:RunInstances", f"{EC2}:network-interface/eni-0123", {"ec2:Subnet": f"{EC2}:subnet/subnet-0aa"}),
            ("ec2:RunInstances", f"{EC2}:volume/vol-0123456789abcdef0", tags),
            ("ec2:RunInstances", INSTANCE, tags),
            ("iam:PassRole", OWN_ROLE, TO_EC2),
        ):
            self.assertTrue(allowed(found, action, resource, keys), f"{action} on {resource}")
        self.assertFalse(allowed(policies("ScaleUp"), "iam:PassRole", OWN_ROLE, TO_EC2), "without it")

    def test_a_named_reservation_may_be_used(self):
        self.assertTrue(allowed(self.alone(CapacityReservationId="cr-0123"), "ec2:RunInstances", RESERVATION, {}))
        self.assertFalse(allowed(self.alone(CapacityReservationId="cr-0124"), "ec2:RunInstances", RESERVATION, {}))
        self.assertTrue(allowed(self.alone(CapacityReservationGroup="builds"), "ec2:RunInstances", GROUP, {}))

    def test_every_condition_is_on_a_key_that_aws_sets_and_no_grant_is_dead(self):
        for given in ({}, {"CapacityReservationId": "cr-0123"}, {"CapacityReservationGroup": "builds"}):
            (document,) = self.alone(**given)
            for statement in document["Statement"]:
                keys = [key for condition in statement.get("Condition", {}).values() for key in condition]
                for action in listed(statement["Action"]):
                    for resource in listed(statement["Resource"]):
                        with self.subTest(f"{action} on {resource}"):
                            self.assertIsNotNone(authorization.kind_of(action, resource))
                            self.assertEqual([key for key in keys if not authorization.sets(action, resource, key)], [])


class Console(unittest.TestCase):
    def test_every_parameter_is_in_a_group(self):
        groups = source(TEMPLATE)["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        self.assertEqual(sorted(p for g in groups for p in g["Parameters"]), sorted(source(TEMPLATE)["Parameters"]))

    def test_what_it_imports_is_exported(self):
        self.assertEqual(set(exports()), {f"muster-{name}" for name in ("RunnerApiUrl", "MachineAccess", "ScaleUpRole", "MachineLogsDomain")})


if __name__ == "__main__":
    unittest.main()
