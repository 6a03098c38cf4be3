"""The pool file's schema, as editors read it, and the command that applies one."""

import importlib.machinery
import importlib.util
import io
import json
import types
import unittest
from contextlib import redirect_stderr, redirect_stdout

import jsonschema
import yaml

from rendered import ROOT

SCHEMA = json.loads((ROOT / "infra/pools.schema.json").read_text(encoding="utf-8"))
EXAMPLE = yaml.safe_load((ROOT / "infra/pools.example.yaml").read_text(encoding="utf-8"))


def command():
    loader = importlib.machinery.SourceFileLoader("pools", str(ROOT / "infra/pools"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pools", loader))
    loader.exec_module(module)
    return module


class Schema(unittest.TestCase):
    def test_it_is_one(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_the_example_fits(self):
        jsonschema.validate(EXAMPLE, SCHEMA)

    def test_the_sample_event_fits(self):
        event = json.loads((ROOT / "events/admin-pools-apply.json").read_text(encoding="utf-8"))
        jsonschema.validate(yaml.safe_load(event["file"]), SCHEMA)

    def test_what_the_reader_refuses_is_underlined(self):
        for field, wrong in {
            "lables": ["x"],
            "labels": [],
            "market": "cheap",
            "instances": {"types": ["m7i.large"], "vcpus": {"min": 1}, "memory_mib": {"min": 1}},
            "subnets": ["vpc-1"],
            "tags": {"muster:x": "y"},
            "limits": {"max": 0},
            "entity": {"organization": 1, "repository": 2},
            "runner_group": "",
            "image": {"id": "ami-0a1b2c3d", "ssm": "/x"},
            "disk": {"size_gib": 0},
            "environment": {"A B": "x"},
            "repositories": ["web"],
        }.items():
            pools = [EXAMPLE["pools"][0] | {field: wrong}]
            with self.assertRaises(jsonschema.ValidationError, msg=field):
                jsonschema.validate({"pools": pools}, SCHEMA)

    def test_names_are_as_good_as_what_is_behind_them(self):
        for names in (
            {"entity": {"organization": 9919}, "runner_group": "linux builders"},
            {"entity": {"repository": 1296269}, "image": {"filter": {"name": "acme-runner-*"}}},
            {"entity": {"enterprise": 42}, "image": {"filter": {"name": "acme-*", "owner": "123456789012"}}},
        ):
            jsonschema.validate({"pools": [EXAMPLE["pools"][0] | names]}, SCHEMA)

    def test_filters_are_checked(self):
        for wrong in ({}, {"name": "a,b"}, {"name": "acme-*", "owner": "me"}, {"name": "acme-*", "id": "ami-0a1b2c3d"}):
            with self.assertRaises(jsonschema.ValidationError, msg=wrong):
                jsonschema.validate({"pools": [EXAMPLE["pools"][0] | {"image": {"filter": wrong}}]}, SCHEMA)


class Command(unittest.TestCase):
    def shown(self, answer):
        asked = types.SimpleNamespace(file="pools.yaml")
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                command().show(answer, asked)
            except SystemExit as end:
                return end.code, out.getvalue() + err.getvalue()
        return 0, out.getvalue() + err.getvalue()

    def test_a_diff_is_shown_line_by_line(self):
        answer = {"ok": True, "applied": True, "dry_run": False, "pools_version": 3, "lines": ["~ pool a changes", "    x: 1"]}
        self.assertEqual(self.shown(answer), (0, "~ pool a changes\n    x: 1\n\napplied as version 3\n"))
        self.assertIn("dry run", self.shown(answer | {"applied": False, "dry_run": True})[1])

    def test_what_was_resolved_stands_before_the_diff(self):
        found = "pools[0].image: ami-0a1b2c3d (acme-runner-2026-11-01)"
        answer = {"ok": True, "applied": False, "dry_run": True, "pools_version": 3, "resolved": [found], "lines": ["nothing changes"]}
        self.assertTrue(self.shown(answer)[1].startswith(f"{found}\nnothing changes\n"))

    def test_mistakes_are_shown_with_their_places(self):
        errors = [{"path": "pools[0].limits.max", "error": "no"}, {"path": "", "error": "not valid YAML"}]
        code, told = self.shown({"ok": False, "error": {"code": "bad_pool_file", "message": "2 mistakes", "errors": errors}})
        self.assertEqual(code, 1)
        self.assertIn("pools[0].limits.max: no\n", told)
        self.assertIn("pools.yaml: not valid YAML", told)
