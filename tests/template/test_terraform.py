"""infra/terraform deploys the packaged template, and reads the template's parameters out of it."""

import json
import re
import unittest

import hcl2
import yaml

from rendered import ROOT, source

MODULE = ROOT / "infra/terraform"


def blocks(kind, *labels):
    """The blocks of a kind in main.tf, without the parser's quotes and marks."""

    def plain(value):
        if isinstance(value, dict):
            return {k.strip('"'): plain(v) for k, v in value.items() if not k.startswith("__")}
        if isinstance(value, list):
            return [plain(v) for v in value]
        return value.strip('"') if isinstance(value, str) else value

    parsed = plain(hcl2.loads((MODULE / "main.tf").read_text(encoding="utf-8")))[kind]
    for label in labels:
        parsed = [block[label] for block in parsed if label in block]
    return parsed


class Terraform(unittest.TestCase):
    def setUp(self):
        (self.locals,) = blocks("locals")

    def test_the_functions_are_the_templates(self):
        functions = set(re.findall(r'"([a-z-]+)"', self.locals["functions"]))
        text = (ROOT / "template.yaml").read_text(encoding="utf-8")
        self.assertEqual(functions, set(re.findall(r"CodeUri: dist/(.*)/\n", text)))

    def test_it_finds_the_templates_parameters(self):
        pattern = json.loads(re.search(r'regex\((".*?[^\\]"), local\.source\)', self.locals["declared"])[1])
        text = (ROOT / "template.yaml").read_text(encoding="utf-8")
        self.assertEqual(yaml.safe_load(re.search(pattern, text)[1]), source()["Parameters"])

    def test_the_example_gives_what_the_template_needs(self):
        text = (MODULE / "README.md").read_text(encoding="utf-8")
        given = set(re.findall(r"(\w+) = ", re.search(r"parameters = \{(.*)\}", text)[1]))
        declared = source()["Parameters"]
        self.assertLessEqual(given, set(declared))
        self.assertLessEqual({name for name, about in declared.items() if "Default" not in about}, given)

    def test_cloudformation_may_do_what_the_template_asks_for(self):
        (stack,) = blocks("resource", "aws_cloudformation_stack", "muster")
        self.assertIn("Transform", source())
        self.assertEqual(set(stack["capabilities"]), {"CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"})

    def test_a_rollback_finds_the_old_functions(self):
        for name in ("code", "template"):
            (uploaded,) = blocks("resource", "aws_s3_object", name)
            self.assertEqual(uploaded["lifecycle"], [{"create_before_destroy": True}])


if __name__ == "__main__":
    unittest.main()
