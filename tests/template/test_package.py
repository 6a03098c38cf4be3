"""The contents of a release: infra/package and infra/components.py."""

import hashlib
import importlib.util
import io
import json
import os
import pathlib
import re
import sys
import tarfile
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from unittest import mock

import yaml

from rendered import ROOT, _Loader

sys.path.insert(0, str(ROOT / "infra"))
import components  # noqa: E402

VERSION, MOMENT = "0.3.0", 1_700_000_000
CRATES = [{"name": "serde", "version": "1.0.1", "license": "MIT/Apache-2.0", "manifest_path": str(ROOT / "Cargo.toml")}]


def load():
    loader = SourceFileLoader("package", str(ROOT / "infra/package"))
    spec = importlib.util.spec_from_loader("package", loader)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


class Package(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        self.package = load()
        self.package.resolve = lambda programs, triple: CRATES
        self.package.DIST = self.folder
        for function in self.package.FUNCTIONS:
            (self.folder / function).mkdir()
            (self.folder / function / "bootstrap").write_bytes(function.encode())
        self.mark = self.folder / "architecture"
        self.mark.write_text("arm64\n")

    def stack(self):
        name, content = self.package.stack(VERSION, MOMENT)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            return name, content, {member.name: (member.mode, archive.extractfile(member).read()) for member in archive}

    def template(self):
        _, _, files = self.stack()
        return files[f"muster-{VERSION}/template.yaml"][1].decode()

    def refusal(self):
        with self.assertRaises(SystemExit) as refused:
            self.package.stack(VERSION, MOMENT)
        return str(refused.exception)

    def test_what_is_in_it(self):
        name, _, files = self.stack()
        self.assertEqual(name, f"muster-{VERSION}-arm64.tar.gz")
        self.assertEqual({path.split("/")[0] for path in files}, {f"muster-{VERSION}"})
        files = {path.partition("/")[2]: content for path, content in files.items()}
        for function in self.package.FUNCTIONS:
            self.assertEqual(files[f"dist/{function}/bootstrap"], (0o755, function.encode()))
        for path in ("LICENCES.txt", "COMPONENTS.cdx.json", "samconfig.toml", "infra/README.md", "infra/pools.example.yaml", "infra/machine.yaml", "infra/terraform/main.tf"):
            self.assertEqual(files[path][0], 0o644)
        # The paths that `sam deploy` reads relative to the template's folder.
        taken = set(re.findall(r"CodeUri: (\S+)/\n", files["template.yaml"][1].decode()))
        self.assertEqual(taken, {f"dist/{function}" for function in self.package.FUNCTIONS})

    def test_its_pages_lead_nowhere_outside(self):
        _, _, files = self.stack()
        files = {path.partition("/")[2]: content for path, (_, content) in files.items()}
        pages = [path for path in files if path.endswith("README.md") or path.startswith("docs/alarms/")]
        self.assertIn("docs/alarms/quota.md", pages)
        for page in pages:
            for link in re.findall(r"\]\(([^)#:]+)", files[page].decode()):
                with self.subTest(f"{page} → {link}"):
                    wanted = os.path.normpath(os.path.join(os.path.dirname(page), link))
                    self.assertTrue(any(path == wanted or path.startswith(f"{wanted}/") for path in files))

    def test_the_same_bytes_twice(self):
        _, first, _ = self.stack()
        for path in self.folder.rglob("*"):
            os.utime(path, (1, 1))
        with mock.patch("time.time", lambda: 2e9):
            _, second, _ = self.stack()
        self.assertEqual(hashlib.sha256(first).hexdigest(), hashlib.sha256(second).hexdigest())

    def test_the_template_says_what_it_is_for(self):
        for architecture in ("arm64", "x86_64"):
            self.mark.write_text(architecture)
            template = yaml.load(self.template(), _Loader)
            self.assertTrue(template["Description"].startswith(f"Muster {VERSION}: "))
            stamped = template["Parameters"]["Architecture"]
            self.assertEqual((stamped["Default"], stamped["AllowedValues"]), (architecture, [architecture]))
            self.assertIn(architecture, stamped["ConstraintDescription"])

    def test_nothing_else_of_the_template_changes(self):
        before = (ROOT / "template.yaml").read_text(encoding="utf-8").splitlines()
        after = self.template().splitlines()
        changed = set(after) - set(before)
        self.assertEqual(len(changed), 4, changed)

    def test_what_is_missing_is_told_in_one_sentence(self):
        (self.folder / "reaper/bootstrap").unlink()
        self.assertRegex(self.refusal(), r"^package: .*/reaper/bootstrap is missing\. `make build` makes it\.$")
        self.mark.write_text("riscv64\n")
        self.assertIn("'riscv64'", self.refusal())
        self.mark.unlink()
        self.assertRegex(self.refusal(), r"^package: dist/architecture is missing,.*\. `make build` makes it\.$")

    def test_the_operators_command(self):
        self.package.TARGET = self.folder
        with self.assertRaisesRegex(SystemExit, "release/muster is missing"):
            self.package.cli(VERSION, MOMENT)
        (self.folder / "release").mkdir()
        (self.folder / "release/muster").write_bytes(b"program")
        self.package.said = lambda *_: "rustc 1.95.0\nhost: aarch64-apple-darwin\nrelease: 1.95.0"
        name, content = self.package.cli(VERSION, MOMENT)
        self.assertEqual(name, f"muster-cli-{VERSION}-aarch64-apple-darwin.tar.gz")
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            self.assertEqual(archive.getmember(f"muster-cli-{VERSION}/muster").mode, 0o755)
            self.assertEqual(len(archive.getnames()), 4)


class Components(unittest.TestCase):
    def test_only_what_is_linked_is_listed(self):
        names = {}
        for program in ("muster-webhook", "muster-scale-up"):
            names[program] = {crate["name"] for crate in components.resolve([program], "x86_64-unknown-linux-gnu")}
        self.assertIn("ring", names["muster-webhook"])
        # The first belongs to a different function, the second runs in the compiler, the third is only for tests.
        self.assertFalse(names["muster-webhook"] & {"aws-sdk-ec2", "serde_derive", "proptest"})
        self.assertIn("aws-sdk-ec2", names["muster-scale-up"])

    def test_the_list_is_cyclonedx(self):
        told = json.loads(components.bill(CRATES, VERSION))
        self.assertEqual((told["bomFormat"], told["specVersion"]), ("CycloneDX", "1.5"))
        self.assertEqual(told["metadata"]["component"]["version"], VERSION)
        (only,) = told["components"]
        self.assertEqual(only["purl"], "pkg:cargo/serde@1.0.1")
        self.assertEqual(only["licenses"], [{"expression": "MIT OR Apache-2.0"}])

    def test_a_licence_text_is_told_once(self):
        twice = [*CRATES, {**CRATES[0], "name": "serde_json"}]
        text = components.licences(twice).decode()
        self.assertEqual(text.count("Apache License\n"), 1)
        self.assertIn("serde 1.0.1, serde_json 1.0.1\n", text)


if __name__ == "__main__":
    unittest.main()
