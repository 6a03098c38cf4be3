"""infra/image.yaml: images are built by the scripts that prepare machines, with the necessary permissions only."""

import itertools
import re
import unittest

import authorization
import yaml
from rendered import ACCOUNT, REGION, ROOT, Rendered, rendered, source
from test_boot import synchronizer
from test_iam import allowed, listed, policies

TEMPLATE = "infra/image.yaml"
PARAMETERS = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter"


def images(**given):
    return Rendered(stack="images", template=TEMPLATE, SubnetId="subnet-0aa", **given)


def own_rights(role):
    return [policy["PolicyDocument"] for policy in images().properties(role).get("Policies", [])]


class Component(unittest.TestCase):
    def data(self):
        return images().properties("Component")["Data"]

    def test_the_copy_is_current(self):
        sync = synchronizer()
        text = (ROOT / TEMPLATE).read_text(encoding="utf-8")
        self.assertEqual(text, sync.with_component(text, sync.component(sync.shipped())), "run `make template`")

    def test_it_runs_what_a_bare_machine_runs(self):
        document = yaml.safe_load(self.data())
        self.assertEqual((document["schemaVersion"], [phase["name"] for phase in document["phases"]]), (1.0, ["build", "test"]))
        build, test = (phase["steps"] for phase in document["phases"])
        scripts = [command for step in build for command in step["inputs"]["commands"]]
        sync = synchronizer()
        self.assertEqual(scripts, [sync.shipped()[name] for name in sync.BAKED])
        for step in (*build, *test):
            self.assertEqual(step["action"], "ExecuteBash")
        # Image Builder would substitute these.
        self.assertNotIn("{{", self.data())

    def test_it_fits(self):
        self.assertLessEqual(len(self.data()), 16_000)

    def test_what_never_changes_has_a_name_of_its_text(self):
        """Image Builder does not create a second component or recipe with one name and version."""
        sync = synchronizer()
        other = sync.with_component((ROOT / TEMPLATE).read_text(encoding="utf-8"), sync.component(dict.fromkeys(sync.BAKED, "true\n")))
        digests = {re.search(r"Digest: (\w+)", text)[1] for text in (other, (ROOT / TEMPLATE).read_text(encoding="utf-8"))}
        self.assertEqual(len(digests), 2)
        digest = source(TEMPLATE)["Mappings"]["Prepare"]["Script"]["Digest"]
        for name in ("Component", "RecipeX64", "RecipeArm64"):
            self.assertTrue(images().properties(name)["Name"].endswith(f"-{digest}"), name)


class Images(unittest.TestCase):
    def test_each_processor_has_one_unless_it_is_left_out(self):
        def made(processors):
            return {name for name, about in images(Processors=processors).resources.items() if about["Type"] == "AWS::ImageBuilder::ImagePipeline"}

        self.assertEqual(made("both"), {"PipelineX64", "PipelineArm64"})
        self.assertEqual((made("x64"), made("arm64")), ({"PipelineX64"}, {"PipelineArm64"}))

    def test_both_are_made_alike(self):
        for kind in ("Recipe", "Build", "Image", "Pipeline", "Old"):
            one, other = (images().properties(kind + arch) for arch in ("X64", "Arm64"))
            text = str(one).replace("x64", "arm64").replace("X64", "Arm64").replace("amd64", "arm64")
            text = text.replace("['m7i-flex.large', 'm7i.large', 'm6i.large']", "['m7g.large', 'm6g.large']")
            self.assertEqual(text, str(other), kind)

    def test_types_are_of_their_processor(self):
        for arch, graviton in (("X64", False), ("Arm64", True)):
            for name in images().properties(f"Build{arch}")["InstanceTypes"]:
                self.assertEqual("g" in name.partition(".")[0].lstrip("m0123456789"), graviton, name)

    def test_they_are_made_each_week_whatever_has_changed_and_old_ones_go(self):
        for arch in ("X64", "Arm64"):
            pipeline, old = (images().properties(kind + arch) for kind in ("Pipeline", "Old"))
            self.assertEqual(pipeline["Schedule"], {"ScheduleExpression": "cron(0 4 ? * sun *)", "PipelineExecutionStartCondition": "EXPRESSION_MATCH_ONLY"})
            self.assertEqual(old["ResourceSelection"]["TagMap"], pipeline["ImageTags"])
            (detail,) = old["PolicyDetails"]
            self.assertEqual(detail["Action"], {"Type": "DELETE", "IncludeResources": {"Amis": True, "Snapshots": True}})
            self.assertGreaterEqual(detail["Filter"]["RetainAtLeast"], 2)

    def test_disks_are_encrypted_and_no_larger_than_the_machines(self):
        (own,) = rendered().properties("LaunchTemplate")["LaunchTemplateData"]["BlockDeviceMappings"]
        self.assertLessEqual(source(TEMPLATE)["Parameters"]["VolumeGib"]["MaxValue"], own["Ebs"]["VolumeSize"])
        for arch in ("X64", "Arm64"):
            (disk,) = images().properties(f"Recipe{arch}")["BlockDeviceMappings"]
            self.assertEqual((disk["DeviceName"], disk["Ebs"]["Encrypted"]), (own["DeviceName"], True))

    def test_the_parents_are_the_launch_templates_ubuntu(self):
        own = rendered().properties("LaunchTemplate")["LaunchTemplateData"]["ImageId"].removeprefix("resolve:")
        self.assertEqual(images().properties("RecipeX64")["ParentImage"], own)
        self.assertEqual(images().properties("RecipeArm64")["ParentImage"], own.replace("amd64", "arm64"))

    def test_the_newest_is_where_a_pool_and_scale_up_read_it(self):
        example = yaml.safe_load((ROOT / "infra/pools.example.yaml").read_text(encoding="utf-8"))
        named = {pool["image"]["ssm"] for pool in example["pools"] if "ssm" in pool.get("image", {})}
        told = set()
        for arch in ("X64", "Arm64"):
            (distribution,) = images().properties(f"Image{arch}")["Distributions"]
            (parameter,) = distribution["SsmParameterConfigurations"]
            name = parameter["ParameterName"]
            told.add(name)
            self.assertTrue(allowed(policies("ScaleUp"), "ssm:GetParameters", PARAMETERS + name, {}), name)
            self.assertTrue(allowed(own_rights("PipelineRole"), "ssm:PutParameter", PARAMETERS + name, {}), name)
            self.assertEqual(images().resolve(source(TEMPLATE)["Outputs"][f"Image{arch}"]["Value"]), name)
        self.assertLessEqual(named, told)
        self.assertTrue(named)


class Rights(unittest.TestCase):
    def test_image_builder_writes_no_other_parameter_and_reads_public_ones(self):
        rights = own_rights("PipelineRole")
        for verdict, action, resource in (
            (False, "ssm:PutParameter", f"{PARAMETERS}/another/images/x64"),
            (False, "ssm:PutParameter", f"{PARAMETERS}/muster/secret"),
            (False, "ssm:DeleteParameter", f"{PARAMETERS}/muster/images/x64"),
            (True, "ssm:GetParameter", f"arn:aws:ssm:{REGION}::parameter/aws/service/canonical/x"),
            (False, "ssm:GetParameter", f"{PARAMETERS}/muster/images/x64"),
            (True, "ec2:DescribeImages", "*"),
        ):
            self.assertEqual(allowed(rights, action, resource, {}), verdict, f"{action} on {resource}")

    def test_no_grant_is_dead(self):
        for document in own_rights("PipelineRole"):
            for statement in document["Statement"]:
                for action, resource in itertools.product(listed(statement["Action"]), listed(statement["Resource"])):
                    self.assertIsNotNone(authorization.kind_of(action, resource), f"{action} on {resource}")

    def test_each_role_is_for_its_service_and_this_account(self):
        for name, service in (("BuildRole", "ec2"), ("PipelineRole", "imagebuilder"), ("CleanRole", "imagebuilder")):
            (trust,) = images().properties(name)["AssumeRolePolicyDocument"]["Statement"]
            self.assertEqual(trust["Principal"], {"Service": f"{service}.amazonaws.com"})
            condition = {"StringEquals": {"aws:SourceAccount": ACCOUNT}} if service == "imagebuilder" else None
            self.assertEqual(trust.get("Condition"), condition)

    def test_what_aws_grants_is_what_image_builder_asks_for(self):
        granted = {name: [arn.rpartition("/")[2] for arn in role["ManagedPolicyArns"]] for name, role in images().of_type("AWS::IAM::Role").items()}
        self.assertEqual(
            granted,
            {
                "BuildRole": ["AmazonSSMManagedInstanceCore", "EC2InstanceProfileForImageBuilder"],
                "PipelineRole": ["EC2ImageBuilderExecutionPolicy"],
                "CleanRole": ["EC2ImageBuilderLifecycleExecutionPolicy"],
            },
        )

    def test_a_build_has_no_way_in_and_is_not_the_stacks_machine(self):
        self.assertNotIn("SecurityGroupIngress", images().properties("SecurityGroup"))
        for arch in ("X64", "Arm64"):
            self.assertNotIn("ResourceTags", images().properties(f"Build{arch}"))
        self.assertNotIn("muster:stack", (ROOT / TEMPLATE).read_text(encoding="utf-8"))


class Console(unittest.TestCase):
    def test_every_parameter_is_in_a_group(self):
        groups = source(TEMPLATE)["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        self.assertEqual(sorted(p for g in groups for p in g["Parameters"]), sorted(source(TEMPLATE)["Parameters"]))


if __name__ == "__main__":
    unittest.main()
