"""The pool file's schema, as editors read it."""

import json
import unittest

import jsonschema
import yaml

from rendered import ROOT

SCHEMA = json.loads((ROOT / "infra/pools.schema.json").read_text(encoding="utf-8"))
EXAMPLE = yaml.safe_load((ROOT / "infra/pools.example.yaml").read_text(encoding="utf-8"))


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
