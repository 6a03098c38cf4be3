"""The boot script reaches the machine word for word, and fits into user data."""

import importlib.machinery
import importlib.util
import unittest

from rendered import ROOT, Rendered, rendered

SCRIPT = ROOT / "infra/boot.sh"


def synchronizer():
    loader = importlib.machinery.SourceFileLoader("sync_boot", str(ROOT / "infra/sync-boot"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sync_boot", loader))
    loader.exec_module(module)
    return module


def user_data(**given):
    return Rendered(**given).properties("LaunchTemplate")["LaunchTemplateData"]["UserData"]["plain"]


@unittest.skipUnless(SCRIPT.exists(), "infra/boot.sh is not there yet")
class BootScript(unittest.TestCase):
    def test_the_copy_is_current(self):
        template = (ROOT / "template.yaml").read_text(encoding="utf-8")
        wanted = synchronizer().with_script(template, SCRIPT.read_text(encoding="utf-8"))
        self.assertEqual(template, wanted, "run `make template`")

    def test_user_data_ends_with_the_script_word_for_word(self):
        self.assertTrue(user_data().endswith("\n" + SCRIPT.read_text(encoding="utf-8")))

    def test_user_data_fits(self):
        """16 KB before base64, with the longest values that the parameters allow."""
        longest = user_data(stack="s" * 50, RunnerApiBaseUrl="https://" + "a" * 240, RunnerVersion="2.999.999", RunnerSha256="f" * 64)
        self.assertLessEqual(len(longest.encode()), 16 * 1024)


class Header(unittest.TestCase):
    def test_header(self):
        lines = user_data().splitlines()
        self.assertEqual(lines[0], "#!/bin/bash")
        self.assertEqual(
            lines[1:7],
            [
                "export MUSTER_RUNNER_API='https://api0ours.execute-api.eu-central-1.amazonaws.com'",
                "export MUSTER_REGION='eu-central-1'",
                "export MUSTER_STACK='muster'",
                "export MUSTER_MAX_LIFETIME_SECONDS='43200'",
                "export MUSTER_RUNNER_VERSION=''",
                "export MUSTER_RUNNER_SHA256=''",
            ],
        )

    def test_values_cannot_leave_their_quotes(self):
        """What lands in the header is a number, a name of AWS's, or held to a pattern without quotes."""
        for name in ("RunnerApiBaseUrl", "RunnerVersion", "RunnerSha256"):
            pattern = rendered().template["Parameters"][name]["AllowedPattern"]
            for character in "'\"$`\\;\n ":
                self.assertNotRegex(f"https://a{character}b", f"^(?:{pattern})$")


if __name__ == "__main__":
    unittest.main()
