"""The version that infra/version prints for a checkout."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from rendered import ROOT


class Version(unittest.TestCase):
    def git(self, *arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=self.root, check=True, capture_output=True)

    def version(self):
        # A checkout that contains the temporary folder must not count.
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.root.parent)}
        told = subprocess.run([self.root / "infra/version"], env=environment, check=True, capture_output=True, text=True)
        return told.stdout.strip()

    def test_the_version_of_a_checkout(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.root = pathlib.Path(made.name).resolve()
        (self.root / "infra").mkdir()
        shutil.copy(ROOT / "infra/version", self.root / "infra")
        (self.root / "Cargo.toml").write_text('[workspace.package]\nversion = "0.3.0"\nedition = "2024"\n')
        self.assertEqual(self.version(), "0.3.0")
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "one")
        self.assertRegex(self.version(), r"^0\.3\.0-g[0-9a-f]{7,}$")
        self.git("tag", "nightly")
        self.git("tag", "v0.3.1")
        self.assertEqual(self.version(), "0.3.1")
        (self.root / "Cargo.toml").write_text("changed\n")
        self.assertEqual(self.version(), "0.3.1-dirty")
        self.git("commit", "--quiet", "--all", "--message", "two")
        self.assertRegex(self.version(), r"^0\.3\.1-1-g[0-9a-f]{7,}$")


if __name__ == "__main__":
    unittest.main()
