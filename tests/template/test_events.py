"""The sample events, and EventBridge's patterns against EC2's real envelopes."""

import base64
import hashlib
import hmac
import importlib.machinery
import importlib.util
import json
import unittest

from rendered import ROOT, rendered

EVENTS = ROOT / "events"


def load(path):
    return json.loads((EVENTS / path).read_text(encoding="utf-8"))


def maker():
    loader = importlib.machinery.SourceFileLoader("make_events", str(EVENTS / "make"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_events", loader))
    loader.exec_module(module)
    return module


def matches(pattern, event):
    """Returns whether EventBridge matches, for the features that our patterns use: fields present, values listed."""
    for key, wanted in pattern.items():
        if key not in event:
            return False
        if isinstance(wanted, dict):
            if not isinstance(event[key], dict) or not matches(wanted, event[key]):
                return False
            continue
        if any(isinstance(value, dict) for value in wanted):
            raise NotImplementedError(f"content filter in {key}")
        found = event[key] if isinstance(event[key], list) else [event[key]]
        if not set(found) & set(wanted):
            return False
    return True


class Patterns(unittest.TestCase):
    def matching(self, event):
        rules = rendered().of_type("AWS::Events::Rule")
        return {n for n, r in rules.items() if "EventPattern" in r and matches(r["EventPattern"], event)}

    def test_a_machine_that_ends(self):
        event = load("envelopes/ec2-state-change.json")
        for state in ("shutting-down", "terminated", "stopping", "stopped"):
            event["detail"]["state"] = state
            self.assertEqual(self.matching(event), {"MachineEndedRule"}, state)

    def test_a_machine_that_starts_wakes_nobody(self):
        event = load("envelopes/ec2-state-change.json")
        for state in ("pending", "running"):
            event["detail"]["state"] = state
            self.assertEqual(self.matching(event), set(), state)

    def test_spot_warning(self):
        self.assertEqual(self.matching(load("envelopes/spot-warning.json")), {"SpotWarningRule"})

    def test_other_senders_do_not_match(self):
        event = load("envelopes/ec2-state-change.json")
        self.assertEqual(self.matching({**event, "source": "my.app"}), set())
        self.assertEqual(self.matching({**event, "detail-type": "EC2 Fleet State Change"}), set())
        self.assertEqual(self.matching(load("reaper-tick.json")), set())

    def test_targets(self):
        reap = rendered().resolve({"Fn::GetAtt": ["ReapQueue", "Arn"]})
        for name in ("MachineEndedRule", "SpotWarningRule"):
            (target,) = rendered().properties(name)["Targets"]
            self.assertEqual(target["Arn"], reap)
            # No transformer: the envelope arrives unchanged.
            self.assertFalse({"InputTransformer", "InputPath", "Input"} & set(target))

    def test_the_sweep_runs_every_minute(self):
        (tick,) = [r for r in rendered().of_type("AWS::Events::Rule").values() if "ScheduleExpression" in r]
        self.assertEqual(tick["ScheduleExpression"], "rate(1 minute)")


class Samples(unittest.TestCase):
    def test_made_files_are_current(self):
        make = maker()
        for name, value in make.events().items():
            self.assertEqual((EVENTS / name).read_text(encoding="utf-8"), make.text(value), f"run events/make ({name})")

    def test_signatures_verify_over_the_raw_bytes(self):
        secret = maker().TEST_SECRET.encode()
        names = sorted(p.name for p in EVENTS.glob("webhook-*.json"))
        self.assertGreaterEqual(len(names), 4)
        for name in names:
            event = load(name)
            raw = base64.b64decode(event["body"]) if event["isBase64Encoded"] else event["body"].encode()
            expected = "sha256=" + hmac.new(secret, raw, hashlib.sha256).hexdigest()
            self.assertEqual(event["headers"]["x-hub-signature-256"], expected, name)

    def test_both_encodings_carry_the_same_bytes(self):
        plain, encoded = load("webhook-queued.json"), load("webhook-queued-base64.json")
        self.assertEqual(base64.b64decode(encoded["body"]), plain["body"].encode())

    def test_queue_bodies_are_the_recorded_envelopes(self):
        for name in ("ec2-state-change", "spot-warning"):
            (record,) = load(f"reaper-{name}.json")["Records"]
            self.assertEqual(json.loads(record["body"]), load(f"envelopes/{name}.json"))

    def test_every_sample_is_listed(self):
        readme = (EVENTS / "README.md").read_text(encoding="utf-8")
        for path in EVENTS.glob("*.json"):
            # In full, or shortened to the part that differs from the row's first file.
            tails = {path.stem.removeprefix(f) for f in ("webhook", "runner-api")}
            listed = {f"`{path.name}`", *(f"`{t}`" for t in tails)}
            self.assertTrue(path.name.startswith("admin-") or any(n in readme for n in listed), path.name)

    def test_every_function_has_a_sample(self):
        for function in ("webhook", "scale-up", "reaper", "runner-api", "admin"):
            self.assertTrue(list(EVENTS.glob(f"{function}-*.json")), function)


if __name__ == "__main__":
    unittest.main()
