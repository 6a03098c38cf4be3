"""Files that GitHub reads: workflows (a job that can write runs no third-party code), forms, and the users' example."""

import re
import subprocess
import tomllib
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

    def test_a_release_is_built_from_what_is_pinned(self):
        """The lock file, container images, rustup and the toolchain are pinned; a person approves the publication."""
        text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
        jobs = yaml.safe_load(text)["jobs"]
        images = {name: job["container"] for name, job in jobs.items() if "container" in job}
        self.assertEqual(set(images), {"stack", "smoke"})
        for name, image in images.items():
            self.assertRegex(image, r"^[a-z]+:[0-9]+@sha256:[0-9a-f]{64}$", name)
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        builds = re.findall(r"^.*cargo build .*--release.*$|^(?:FUNCTIONS|WEBHOOK)_BUILD := .*$", makefile + text, re.M)
        self.assertGreaterEqual(len(builds), 5)
        for line in builds:
            self.assertTrue("--locked" in line or "_BUILD)" in line, line)
        self.assertNotRegex(text, r"\| *(ba)?sh\b")
        wanted = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["rust-version"]
        self.assertIn(f"--default-toolchain {wanted}\n", text)
        self.assertEqual(jobs["publish"]["environment"], "release")

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


class Forms(unittest.TestCase):
    def test_a_report_has_what_explains_it(self):
        form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8"))
        fields = {field["id"]: field for field in form["body"] if "id" in field}
        required = {name for name, field in fields.items() if field.get("validations", {}).get("required")}
        self.assertLessEqual({"explain", "release"}, required)
        self.assertIn("muster explain", fields["explain"]["attributes"]["label"])


class Example(unittest.TestCase):
    def test_a_pool_serves_each_job(self):
        config = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
        served = [[config["default"]["deploy"]["parameters"]["stack_name"]]]
        pools = yaml.safe_load((ROOT / "infra/pools.example.yaml").read_text(encoding="utf-8"))["pools"]
        for pool in pools:
            rows = pool.get("labels", [])
            served += rows if rows and isinstance(rows[0], list) else [rows]
        example = yaml.safe_load((ROOT / "examples/workflow.yml").read_text(encoding="utf-8"))
        for name, job in example["jobs"].items():
            wanted = set(job["runs-on"]) - {"self-hosted"}
            self.assertTrue(any(wanted <= set(row) for row in served), name)


if __name__ == "__main__":
    unittest.main()
