"""The template as the local stack deploys it: what is fixed for AWS and rewritten for the emulator."""

import pathlib
import re
import sys
import unittest

import yaml

from rendered import ROOT, _Loader, source

sys.path.insert(0, str(pathlib.Path(ROOT) / "tests/local"))
import stack  # noqa: E402


class Local(unittest.TestCase):
    def test_what_is_rewritten_is_found_and_the_rest_stays(self):
        text = stack.local_template("http://127.0.0.1:4566")
        found = yaml.load(text, Loader=_Loader)
        timeouts = {
            name: resource["Properties"]["Timeout"]
            for name, resource in found["Resources"].items()
            if resource["Type"] == "AWS::Serverless::Function"
        }
        workers = {"ScaleUpFunction", "ReaperFunction"}
        for name, timeout in timeouts.items():
            self.assertEqual(timeout, 10 if name in workers else source()["Resources"][name]["Properties"]["Timeout"], name)
        visible = [r["Properties"].get("VisibilityTimeout") for r in found["Resources"].values() if r["Type"] == "AWS::SQS::Queue"]
        self.assertEqual([seconds for seconds in visible if seconds], [60, 60, 60])
        self.assertEqual(found["Rules"], source()["Rules"])
        self.assertNotIn(".execute-api.", re.sub(r"arn:\S+", "", text))
        self.assertEqual(text.count("http://127.0.0.1:4566/_aws/execute-api/${Api}"), 7)
        self.assertIn("MUSTER_LOGS='http://127.0.0.1:4566/${MachineLogs}/${InstanceRole.RoleId}'", text)
        self.assertEqual(set(found["Resources"]), set(source()["Resources"]))

    def test_what_has_no_default_is_given(self):
        given = {*stack.PARAMETERS, "Timings"}
        self.assertLessEqual(given, set(source()["Parameters"]))
        needed = {name for name, definition in source()["Parameters"].items() if "Default" not in definition}
        self.assertLessEqual(needed, given)


if __name__ == "__main__":
    unittest.main()
