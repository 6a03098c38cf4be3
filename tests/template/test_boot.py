"""The boot script reaches the machine, and fits into user data."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import tempfile
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

    def test_user_data_ends_with_the_script_and_no_comment(self):
        script = SCRIPT.read_text(encoding="utf-8")
        shipped = synchronizer().without_comments(script)
        self.assertTrue(user_data().endswith("\n" + shipped))
        checked = subprocess.run(["bash", "-n"], input=shipped, text=True, check=False)
        self.assertEqual(checked.returncode, 0)
        # The first lines of the script and of its two hooks stay.
        kept = re.findall("^ *#.*", shipped, re.M)
        self.assertEqual(kept, ["#!/usr/bin/env bash"] * 3)
        self.assertEqual(re.sub("^ *#(?!!).*\n", "", script, flags=re.M), shipped)

    def test_user_data_fits(self):
        """16 KB before base64, with the longest values that the parameters allow."""
        longest = user_data(stack="s" * 128)
        self.assertLessEqual(len(longest.encode()), 16 * 1024)


def function_of(name):
    """One function of the script, as it stands there: a line, or up to the bracket that closes it."""
    body = r"(?: [^\n]*}\n|\n.*?^}\n)"
    found = re.search(rf"^{name}\(\) {{{body}", SCRIPT.read_text(encoding="utf-8"), re.M | re.S)
    if not found:
        raise AssertionError(f"{SCRIPT} has no function {name}")
    return found[0]


class Packages(unittest.TestCase):
    """The agent's own packages, on a machine whose commands only tell that they were called."""

    def install(self, commands, fails, unknown="nothing"):
        """What is called when the agent's script fails so many times, and the exit code. One package is unknown."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "bin").mkdir()
            (root / "etc/apt/apt.conf.d").mkdir(parents=True)
            agent = root / "bin/installdependencies.sh"
            for path in [root / "bin" / command for command in (*commands, "sleep")] + [agent]:
                path.write_text(f'#!/bin/bash\necho "${{0##*/}} $*" >>{root}/calls\n')
                path.chmod(0o755)
            with agent.open("a") as script:
                script.write(f"[ $(grep -c ^installdependencies {root}/calls) -gt {fails} ]\n")
            if "apt-cache" in commands:
                with (root / "bin/apt-cache").open("a") as script:
                    script.write(f'[ "$2" != {unknown} ]\n')
            parts = "".join(map(function_of, ("quiet_apt", "install_packages")))
            script = f"set -euo pipefail\nrunner_dir={root}\nsay() {{ :; }}\n{parts}"
            script += "! command -v apt-get >/dev/null || quiet_apt\ninstall_packages\n"
            script = script.replace("/etc/apt/", f"{root}/etc/apt/")
            tools = [f"ln -s $(command -v {tool}) {root}/bin/" for tool in ("bash", "grep", "env")]
            subprocess.run("\n".join(tools), shell=True, check=True)
            path = {"PATH": f"{root}/bin"}
            done = subprocess.run(["/bin/bash", "-c", script], env=path, capture_output=True, text=True, check=False)
            calls = (root / "calls").read_text().splitlines()
            conf = "".join(path.read_text() for path in (root / "etc/apt/apt.conf.d").iterdir())
            return calls, conf, done.returncode

    def test_ubuntus_own_updates_are_kept_out_and_waited_for(self):
        calls, conf, code = self.install(("apt-get", "apt-cache", "systemctl"), fails=0)
        self.assertIn("installdependencies.sh ", calls)
        self.assertEqual(code, 0)
        masked = " ".join(call for call in calls if call.startswith("systemctl mask"))
        for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "unattended-upgrades.service"):
            self.assertIn(unit, masked)
        # Cut off, they would leave half a package.
        stopped = [call for call in calls if "--now" in call and "upgrade.service" in call]
        self.assertEqual(stopped, [])
        self.assertRegex(conf, r'DPkg::Lock::Timeout "\d{3}";')

    def test_everyday_workflows_find_their_tools(self):
        calls, _, code = self.install(("apt-get", "apt-cache", "systemctl"), fails=0)
        self.assertEqual(code, 0)
        self.assertEqual(calls[-1], "apt-get install -y --no-install-recommends docker.io docker-buildx git unzip zip jq build-essential")
        # Debian 12 has no docker-buildx.
        calls, _, code = self.install(("apt-get", "apt-cache", "systemctl"), fails=0, unknown="docker-buildx")
        self.assertEqual(code, 0)
        self.assertEqual(calls[-1], "apt-get install -y --no-install-recommends docker.io git unzip zip jq build-essential")

    def test_a_flaky_mirror_is_asked_again_and_dnf_never(self):
        commands = ("apt-get", "apt-cache", "systemctl", "dnf")
        calls, _, code = self.install(commands, fails=1)
        tries = [call for call in calls if call.startswith("installdependencies")]
        self.assertEqual((len(tries), code), (2, 0))
        calls, _, code = self.install(commands, fails=9)
        self.assertNotEqual(code, 0)
        self.assertEqual([call for call in calls if call.startswith("dnf")], [])

    def test_what_the_agents_script_does_not_know_gets_its_library_by_dnf(self):
        calls, conf, code = self.install(("dnf", "systemctl"), fails=9)
        self.assertEqual(calls[:2], ["installdependencies.sh ", "dnf install -y libicu"])
        self.assertIn("docker git ", calls[2])
        self.assertEqual(calls[-1], "systemctl enable --now docker")
        self.assertEqual((conf, code), ("", 0))


class End(unittest.TestCase):
    """The one way out, on a machine where neither the network nor `shutdown` answers."""

    SHUTDOWN = "shutdown() { echo shutdown; return 1; }"
    REPORT = "muster_report() { echo report $2; }"

    def ended(self, signal_after):
        """The script's way out while its agent runs: what it called in four seconds, and whether it ended."""
        # What the script itself does with both functions: at its top level, in this order.
        settings = re.findall(r"^(?:tries=|trap ).*\n", SCRIPT.read_text(encoding="utf-8"), re.M)
        way_out = function_of("power_off") + function_of("finish") + "".join(settings)
        given = "set -euo pipefail\nrunner_name=r\nsay() { :; }"
        end = "stage=running\nsleep 1000 >/dev/null &\nagent=$!\necho up\n"
        end += "wait $agent\n" if signal_after else "kill $agent\n"
        script = "\n".join((given, self.SHUTDOWN, self.REPORT, way_out, end))
        with subprocess.Popen(["/bin/bash", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True) as bash:
            self.assertEqual(bash.stdout.readline(), "up\n")
            if signal_after:
                bash.terminate()
            try:
                bash.wait(4)
                ended = True
            except subprocess.TimeoutExpired:
                ended = False
            os.killpg(bash.pid, signal.SIGKILL)
            return bash.stdout.read().split("\n")[:2], ended

    def test_a_script_that_is_told_to_end_holds_no_shutdown_up(self):
        self.assertEqual(self.ended(signal_after=True), (["report 1", "shutdown"], True))

    def test_whatever_else_happens_it_goes_on_until_there_is_no_power(self):
        self.assertEqual(self.ended(signal_after=False), (["report 5", "shutdown"], False))


class RefusedJob(unittest.TestCase):
    """The hook of a job that must not run, below a worker that would go on to the next step."""

    def outcome(self, listener):
        """What the listener, by the name given and deaf to SIGTERM, tells of its worker."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            hook = f"sleep() {{ :; }}\n{function_of('muster_end_agent')}muster_end_agent\n"
            (root / "hook").write_text(hook)
            (root / "worker").write_text(f"#!/bin/bash\nbash -e {root}/hook\necho next step\n")
            (root / listener).write_text(f"#!/bin/bash\ntrap 'echo told' TERM\n{root}/worker\necho worker $?\n")
            for script in ("worker", listener):
                (root / script).chmod(0o755)
            done = subprocess.run([root / listener], capture_output=True, text=True, timeout=60, check=False)
            return done.stdout.splitlines()

    def test_an_agent_that_does_not_end_loses_its_worker(self):
        self.assertEqual(self.outcome("Runner.Listener"), ["told", f"worker {128 + signal.SIGKILL}"])

    def test_so_does_one_that_is_not_found(self):
        self.assertEqual(self.outcome("listener"), [f"worker {128 + signal.SIGKILL}"])


class Surroundings(unittest.TestCase):
    """What an image or a pool brings along and Muster's own part must not see."""

    def test_certificates_of_jobs_are_not_the_hooks(self):
        given = {"CURL_CA_BUNDLE": "x", "SSL_CERT_FILE": "x", "SSL_CERT_DIR": "x", "SSLKEYLOGFILE": "x", "KEPT": "y"}
        with tempfile.TemporaryDirectory() as name:
            curl = pathlib.Path(name) / "curl"
            curl.write_text("#!/bin/bash\nenv\n")
            curl.chmod(0o755)
            script = f"set -euo pipefail\n{function_of('muster_curl')}muster_curl -fsS x"
            given["PATH"] = f"{name}:{os.environ['PATH']}"
            done = subprocess.run(["/bin/bash", "-c", script], env=given, capture_output=True, text=True, check=True)
        names = {line.partition("=")[0] for line in done.stdout.splitlines()}
        self.assertEqual(names & given.keys(), {"KEPT", "PATH"})

    def test_hooks_of_another_image_are_dropped(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / ".env"
            script = f"set -euo pipefail\nrunner_dir={name}\n{function_of('drop_other_hooks')}drop_other_hooks"
            subprocess.run(["/bin/bash", "-c", script], check=True)
            self.assertFalse(path.exists())
            kept = "LANG=C.UTF-8\nMY_ACTIONS_RUNNER_HOOK_JOB_STARTED=/x\n"
            path.write_text(f"ACTIONS_RUNNER_HOOK_JOB_STARTED=/a\n{kept}ACTIONS_RUNNER_HOOK_JOB_COMPLETED=/b\n")
            subprocess.run(["/bin/bash", "-c", script], check=True)
            self.assertEqual(path.read_text(), kept)


class Private(unittest.TestCase):
    """What the hook says of a job's repository."""

    def said(self, event):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "event.json"
            if event is not None:
                path.write_text(event)
            script = f"set -euo pipefail\n{function_of('muster_private')}muster_private"
            given = {"PATH": os.environ["PATH"], "GITHUB_EVENT_PATH": str(path)}
            return subprocess.run(["/bin/bash", "-c", script], env=given, capture_output=True, text=True, check=True).stdout

    def test_it_is_githubs_word_or_unknown(self):
        self.assertEqual(self.said('{"repository": {"private": true}}'), "true\n")
        self.assertEqual(self.said('{"repository": {"private": false}}'), "false\n")
        for event in (None, "", "no json", "{}", '{"repository": {}}', '{"schedule": "0 0 * * *"}'):
            self.assertEqual(self.said(event), "null\n", event)


class Privileges(unittest.TestCase):
    """What lets jobs become root, where the image has it."""

    def grant(self, commands, group):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "bin").mkdir()
            (root / "etc/sudoers.d").mkdir(parents=True)
            for command in commands:
                path = root / "bin" / command
                path.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >>{root}/calls\n')
                path.chmod(0o755)
            (root / "bin/getent").write_text(f"#!/bin/sh\nexit {0 if group else 2}\n")
            (root / "bin/getent").chmod(0o755)
            script = f"set -euo pipefail\nrunner_user=runner\n{function_of('let_jobs_be_root')}let_jobs_be_root\n"
            script = script.replace("/etc/", f"{root}/etc/")
            subprocess.run(["/bin/bash", "-c", script], env={"PATH": f"{root}/bin"}, check=True)
            rules = [(path.read_text(), path.stat().st_mode & 0o777) for path in (root / "etc/sudoers.d").iterdir()]
            calls = root / "calls"
            return rules, calls.read_text() if calls.exists() else ""

    def test_sudo_and_docker(self):
        rules, calls = self.grant(("sudo", "usermod"), group=True)
        # sudo ignores a file that others may write.
        self.assertEqual(rules, [("runner ALL=(ALL) NOPASSWD: ALL\n", 0o440)])
        self.assertEqual(calls, "usermod -aG docker runner\n")

    def test_an_image_without_them_boots_all_the_same(self):
        self.assertEqual(self.grant(("usermod",), group=False), ([], ""))


class Header(unittest.TestCase):
    def test_header(self):
        lines = user_data().splitlines()
        self.assertEqual(lines[0], "#!/bin/bash")
        self.assertEqual(
            lines[1:4],
            [
                "export MUSTER_RUNNER_API='https://api0ours.execute-api.eu-central-1.amazonaws.com'",
                "export MUSTER_REGION='eu-central-1'",
                "export MUSTER_STACK='muster'",
            ],
        )


if __name__ == "__main__":
    unittest.main()
