"""The dashboard's body. CloudFormation treats it as text, and the emulator accepts any body, so only these tests find errors."""

import importlib.machinery
import importlib.util
import itertools
import json
import re
import unittest

from rendered import REGION, ROOT, STACK, Rendered, rendered

SEARCH = re.compile(r"""SEARCH\('\{(?P<schema>[\w,]+)\} MetricName="(?P<name>\w+)" Stack="(?P<stack>[\w-]+)"','(?P<stat>\w+)',\d+\)""")


def script():
    loader = importlib.machinery.SourceFileLoader("dashboard", str(ROOT / "infra/dashboard"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("dashboard", loader))
    loader.exec_module(module)
    return module


def widgets(**given):
    return json.loads(Rendered(**given).properties("Dashboard")["DashboardBody"])["widgets"]


def graphs():
    return [widget["properties"] for widget in widgets() if widget["type"] == "metric"]


class Dashboard(unittest.TestCase):
    def test_the_template_has_what_the_script_makes(self):
        text = (ROOT / "template.yaml").read_text(encoding="utf-8")
        self.assertEqual(script().put(text), text, "run infra/dashboard")

    def test_widgets_fit_and_none_lies_on_another(self):
        places = set()
        for widget in widgets():
            x, y, width, height = (widget[key] for key in ("x", "y", "width", "height"))
            self.assertLessEqual(x + width, 24, widget)
            own = set(itertools.product(range(x, x + width), range(y, y + height)))
            self.assertFalse(own & places, widget)
            places |= own
        rows = max(y for _, y in places) + 1
        self.assertEqual(len(places), 24 * rows, "there is a hole")

    def test_each_graph_names_a_metric_and_its_dimensions(self):
        known = script().metrics()
        seen = set()
        for graph in graphs():
            self.assertEqual(graph["region"], REGION)
            for metric in graph["metrics"]:
                if isinstance(metric[0], str):
                    namespace, name, *dimensions, options = metric
                    self.assertIn("stat", options)
                    if namespace == "Muster":
                        self.assertEqual(dimensions, ["Stack", STACK])
                        self.assertIn(("Stack",), known[name])
                        seen.add(name)
                    continue
                (expression,) = metric
                (found,) = SEARCH.finditer(expression["expression"])
                namespace, *names = found["schema"].split(",")
                self.assertEqual((namespace, found["stack"]), ("Muster", STACK))
                self.assertIn(set(names), [set(by) for by in known[found["name"]]], expression)
                seen.add(found["name"])
        self.assertLessEqual({"JobWaitSeconds", "JobsWaiting", "MachinesBusy", "DollarsAnHour", "LaunchUnanswered"}, seen)

    def test_ids_differ_within_a_graph(self):
        for graph in graphs():
            ids = [metric[0]["id"] for metric in graph["metrics"] if isinstance(metric[0], dict)]
            self.assertEqual(len(ids), len(set(ids)), graph["title"])
            self.assertTrue(all(re.fullmatch("[a-z][a-zA-Z0-9_]*", name) for name in ids), ids)

    def test_other_metrics_are_of_what_the_stack_has(self):
        resources = rendered().of_type("AWS::Lambda::Function")
        functions = {rendered().resolve({"Ref": name}) for name in resources}
        shown = {m[3] for g in graphs() for m in g["metrics"] if m[0] == "AWS/Lambda"}
        self.assertEqual(shown, functions)
        queues = {rendered().resolve({"Fn::GetAtt": [name, "QueueName"]}) for name in rendered().of_type("AWS::SQS::Queue")}
        self.assertEqual({m[3] for g in graphs() for m in g["metrics"] if m[0] == "AWS/SQS"}, queues)

    def test_all_alarms_are_on_it(self):
        for given in ({}, {"SpendAlarmDollars": "40"}):
            (red,) = [widget for widget in widgets(**given) if widget["type"] == "alarm"]
            alarms = Rendered(**given).of_type("AWS::CloudWatch::Alarm")
            self.assertEqual(len(red["properties"]["alarms"]), len(alarms), given)
            self.assertEqual(len(set(red["properties"]["alarms"])), len(alarms), given)

    def test_the_limit_of_a_wait_is_drawn(self):
        limits = {
            line["value"]
            for widget in widgets(WaitAlarmSeconds="450")
            for line in widget["properties"].get("annotations", {}).get("horizontal", [])
        }
        self.assertEqual(limits, {450})

    def test_each_graph_is_told_of_on_its_page(self):
        page = (ROOT / "docs/dashboard.md").read_text(encoding="utf-8")
        for graph in graphs():
            self.assertIn(f"**{graph['title']}**", page)
