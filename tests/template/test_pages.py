"""The pages: their links work, and the commands and goals that they name exist."""

import json
import os
import re
import subprocess
import textwrap
import unittest

import jsonschema
import yaml

from rendered import ROOT, source


def tracked():
    """Yields path and text of each file of the project, new files of a checkout included."""
    told = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    for path in told.stdout.splitlines():
        try:
            yield path, (ROOT / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            pass


TEXTS = dict(tracked())
PAGES = {path: text for path, text in TEXTS.items() if path.endswith(".md")}


def anchors(path):
    """Returns the anchors that GitHub gives a page's headings."""
    heads = re.findall(r"(?m)^#+ (.*)$", PAGES[path])
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


class Links(unittest.TestCase):
    def test_each_link_leads_to_a_page_and_its_heading(self):
        seen = 0
        for page, text in PAGES.items():
            for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
                with self.subTest(f"{page} → {target}#{anchor}"):
                    seen += 1
                    wanted = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
                    self.assertTrue((ROOT / wanted).exists())
                    if anchor:
                        self.assertIn(anchor, anchors(wanted))
        self.assertGreater(seen, 50)

    def test_each_page_that_a_sentence_names_exists(self):
        """Messages, comments and the template name pages by path."""
        for path, text in TEXTS.items():
            for page, anchor in re.findall(r"(?<![\w./-])((?:docs|infra|events|examples)/[\w/-]+\.md)(?:#([\w-]+))?", text):
                with self.subTest(f"{path}: {page}"):
                    self.assertIn(page, PAGES)
                    if anchor:
                        self.assertIn(anchor, anchors(page))


def codes(text):
    """Returns the code in a text: between backticks, and in indented blocks."""
    return re.findall(r"`([^`]+)`", text) + re.findall(r"(?m)^ {4,}(\S.*)$", text)


class Names(unittest.TestCase):
    """Every command that a page shows exists."""

    def test_each_command_of_the_pages_is_one_of_the_operators_command(self):
        text = (ROOT / "cli/tests/cli/pages/help.txt").read_text(encoding="utf-8")
        known = set(re.findall(r"(?m)^  ([a-z-]+)  ", text.partition("Usage: muster")[2].partition("Global options:")[0]))
        self.assertIn("watch", known)
        named = 0
        for page in PAGES:
            for code in codes(PAGES[page]):
                for command in re.findall(r"(?:^|[|&;$] *|\$\()muster ([a-z][a-z-]*)", code):
                    with self.subTest(f"{page}: {code}"):
                        named += 1
                        self.assertIn(command, known)
        self.assertGreater(named, 50)

    def test_each_goal_of_make_is_in_the_makefile(self):
        known = set(re.findall(r"(?m)^([a-z0-9-]+):", TEXTS["Makefile"]))
        for page in PAGES:
            for code in codes(PAGES[page]):
                for goal in re.findall(r"^make ([a-z-]+)", code):
                    with self.subTest(f"{page}: {code}"):
                        self.assertIn(goal, known)


class FrontPage(unittest.TestCase):
    TEXT = PAGES["README.md"]

    def test_it_is_read_in_five_minutes(self):
        lines = self.TEXT.splitlines()
        self.assertLessEqual(len(lines), 120)
        self.assertLessEqual(max(map(len, lines)), 142)

    def test_it_says_first_what_was_not_done(self):
        self.assertIn("not yet run on AWS with GitHub", " ".join(self.TEXT.splitlines()[:8]))

    def test_parameters_and_outputs_are_the_templates(self):
        known = {*source()["Parameters"], *source()["Outputs"]}
        for name in re.findall(r"['`]([A-Z][a-z]+(?:[A-Z][a-z]+)+)[`'=]", self.TEXT):
            self.assertIn(name, known)

    def test_its_pool_file_fits(self):
        (block,) = re.findall(r"(?m)^    pools:\n(?:    .+\n)+", self.TEXT)
        schema = json.loads((ROOT / "infra/pools.schema.json").read_text(encoding="utf-8"))
        jsonschema.validate(yaml.safe_load(textwrap.dedent(block)), schema)


class Costs(unittest.TestCase):
    TEXT = PAGES["docs/costs.md"]

    def test_what_stands_still_is_counted_from_the_template(self):
        resources = source()["Resources"].values()
        for what, kind in (("alarms", "AWS::CloudWatch::Alarm"), ("secrets", "AWS::SecretsManager::Secret")):
            (count,) = re.findall(rf"(?m)^\| {what} \| (\d+)", self.TEXT)
            self.assertEqual(int(count), sum(resource["Type"] == kind for resource in resources), what)

    def test_the_sums_are_right_and_the_front_page_tells_them(self):
        still, job, *_ = re.findall(r"(?ms)^(\|.*?)\n\n", self.TEXT)
        for table, places in ((still, 2), (job, 5)):
            *parts, total = [float(cell) for cell in re.findall(r"(?m)\| \**([0-9.]+)\** \|$", table)]
            self.assertGreater(len(parts), 5)
            self.assertAlmostEqual(sum(parts), total, places=places)
        (stated,) = set(re.findall(r"about \$(\d+) a month when idle", PAGES["README.md"]))
        self.assertAlmostEqual(float(stated), float(re.findall(r"\*\*([0-9.]+)\*\* \|$", still)[0]), delta=0.5)


if __name__ == "__main__":
    unittest.main()
