"""The pages: their links lead somewhere, and what they name exists."""

import os
import re
import subprocess
import unittest

from rendered import ROOT


def tracked():
    """The texts of the project, by path; new ones of a checkout as well."""
    told = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    for path in told.stdout.splitlines():
        try:
            yield path, (ROOT / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            pass


TEXTS = dict(tracked())
PAGES = {path: text for path, text in TEXTS.items() if path.endswith(".md")}


def anchors(path):
    """The headings of a page as GitHub addresses them."""
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
        """Messages, comments and the template name pages by their path."""
        for path, text in TEXTS.items():
            for page, anchor in re.findall(r"(?<![\w./-])((?:docs|infra|events|examples)/[\w/-]+\.md)(?:#([\w-]+))?", text):
                with self.subTest(f"{path}: {page}"):
                    self.assertIn(page, PAGES)
                    if anchor:
                        self.assertIn(anchor, anchors(page))


if __name__ == "__main__":
    unittest.main()
