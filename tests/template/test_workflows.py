"""GitHub's workflows here: what may write runs no code of others, and what runs elsewhere cannot change."""

import re
import subprocess
import unittest

import yaml

from rendered import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


class Workflows(unittest.TestCase):
    def jobs(self):
        for path in WORKFLOWS:
            workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
            for name, job in workflow["jobs"].items():
                yield f"{path.name}, {name}", workflow, job

    def test_an_action_is_a_commit(self):
        for path in WORKFLOWS:
            used = re.findall(r"uses: ([^.\s]\S*)(.*)", path.read_text(encoding="utf-8"))
            self.assertTrue(used)
            for action, comment in used:
                with self.subTest(f"{path.name}: {action}"):
                    self.assertRegex(action, r"^actions/[a-z-]+@[0-9a-f]{40}$")
                    self.assertRegex(comment, r"^ # v\d+\.\d+\.\d+$")

    def test_what_may_write_runs_no_code_of_others(self):
        writers = {}
        for where, workflow, job in self.jobs():
            allowed = job.get("permissions", workflow["permissions"])
            self.assertIsInstance(allowed, dict, where)
            if "write" in allowed.values():
                writers[where] = {scope for scope, right in allowed.items() if right == "write"}
                said = str(job["steps"])
                self.assertFalse(re.search(r"checkout|cargo|make |infra/|tests/", said), where)
        wanted = {"release.yml, gather": {"id-token", "attestations"}, "release.yml, publish": {"contents"}}
        self.assertEqual(writers, wanted)

    def test_a_job_ends(self):
        for where, _, job in self.jobs():
            self.assertTrue("timeout-minutes" in job or "uses" in job, where)

    def test_a_checkout_leaves_no_token_behind(self):
        for where, _, job in self.jobs():
            for step in job.get("steps", []):
                if "actions/checkout" in step.get("uses", ""):
                    self.assertIs(step["with"]["persist-credentials"], False, where)

    def test_the_scripts_are_bash_without_expressions(self):
        for where, _, job in self.jobs():
            for step in job.get("steps", []):
                script = step.get("run", "")
                self.assertNotIn("${{", script, where)
                done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
                self.assertEqual(done.stderr, "", where)


if __name__ == "__main__":
    unittest.main()
