"""What boots a machine reaches it, and fits into user data."""

import ast
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import pwd
import re
import subprocess
import tarfile
import tempfile
import unittest

from rendered import ROOT, Rendered, rendered

SCRIPTS = [ROOT / "infra/machine" / name for name in ("prepare.sh", "agent.sh")]


def synchronizer():
    loader = importlib.machinery.SourceFileLoader("sync_boot", str(ROOT / "infra/sync-boot"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sync_boot", loader))
    loader.exec_module(module)
    return module


def user_data(**given):
    return Rendered(**given).properties("LaunchTemplate")["LaunchTemplateData"]["UserData"]["plain"]


class UserData(unittest.TestCase):
    def test_the_copy_is_current(self):
        sync = synchronizer()
        script = (ROOT / "infra/boot.sh").read_text(encoding="utf-8")
        for name in sync.TEMPLATES:
            template = (ROOT / name).read_text(encoding="utf-8")
            self.assertEqual(template, sync.with_script(template, script, sync.shipped()), "run `make template`")

    def test_a_machine_unpacks_the_sources_without_their_comments(self):
        sync, text = synchronizer(), user_data()
        with tempfile.TemporaryDirectory() as name:
            begin = "python3 -I -c "
            block = text.partition(begin)[2].partition("\nSOURCES\n")[0]
            script = f"home={name}\n{begin}{block}\nSOURCES\n"
            subprocess.run(["/bin/bash", "-euo", "pipefail", "-c", script], check=True)
            files = {path.name: path.read_text(encoding="utf-8") for path in pathlib.Path(name).iterdir()}
        self.assertEqual(files, sync.shipped())
        self.assertEqual(files.keys(), {path.name for path in (ROOT / "infra/machine").iterdir() if path.is_file()})
        for name, shipped in files.items():
            self.assertEqual(re.findall(r"^ *#(?!!).*", shipped, re.M), [], name)
            if name.endswith(".sh"):
                checked = subprocess.run(["bash", "-n"], input=shipped, text=True, check=False)
                self.assertEqual(checked.returncode, 0, name)

    def test_what_is_shipped_of_python_does_the_same(self):
        """But for what it says of itself."""
        source = (ROOT / "infra/machine/machine.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
                del node.body[0]
        self.assertEqual(ast.dump(ast.parse(synchronizer().shipped()["machine.py"])), ast.dump(tree))
        ast.parse(source, feature_version=(3, 9))

    def test_what_follows_the_header_is_found_by_its_first_line(self):
        """Two templates are compared from there on: their headers name what is each one's own."""
        (first,) = re.findall(r'BOOT: &str = "(.*)\\n";', (ROOT / "shared/domain/src/pool_file/names.rs").read_text(encoding="utf-8"))
        self.assertEqual((ROOT / "infra/boot.sh").read_text(encoding="utf-8").splitlines()[0], first)
        self.assertEqual(user_data().count(first), 1)

    def test_user_data_has_room_to_spare(self):
        """EC2 takes 16 KB before base64; this is with the longest values that the parameters allow."""
        longest = user_data(stack="s" * 128)
        self.assertLessEqual(len(longest.encode()), 12 * 1024)

    def test_a_start_that_fails_powers_off(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for command, code in (("systemctl", 1), ("shutdown", 0)):
                path = root / command
                path.write_text(f'#!/bin/sh\necho "{command} $*" >>{root}/calls\nexit {code}\n')
                path.chmod(0o755)
            given = {"PATH": f"{name}:{os.environ['PATH']}", "MUSTER_HOME": f"{name}/home", "MUSTER_UNITS": f"{name}/units",
                     "MUSTER_PER_BOOT": f"{name}/boot"}
            done = subprocess.run(["/bin/bash"], input=user_data(), env=given, text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual((root / "calls").read_text(), "systemctl daemon-reload\nshutdown -h now\n")
            # What it had done by then: the units are in place, and a second boot powers off.
            unit = (root / "units/muster.service").read_text()
            self.assertIn(f"EnvironmentFile={name}/home/settings\n", unit)
            self.assertIn("RuntimeMaxSec=43500\n", unit)
            self.assertEqual((root / "boot/muster").read_text(), "#!/bin/sh\nshutdown -h now\n")
            self.assertTrue(os.access(root / "boot/muster", os.X_OK))


def function_of(name):
    """One function of the scripts, as it stands there: a line, or up to the bracket that closes it."""
    body = r"(?: [^\n]*}\n|\n.*?^}\n)"
    text = "".join(script.read_text(encoding="utf-8") for script in SCRIPTS)
    found = re.search(rf"^{name}\(\) {{{body}", text, re.M | re.S)
    if not found:
        raise AssertionError(f"no script has a function {name}")
    return found[0]


class Packages(unittest.TestCase):
    """The agent's own packages, on a machine whose commands only tell that they were called."""

    def install(self, commands, fails, unknown="nothing"):
        """What is called when the agent's script fails so many times, and the exit code. One package is unknown."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "bin").mkdir()
            for folder in ("apt/apt.conf.d", "needrestart/conf.d"):
                (root / "etc" / folder).mkdir(parents=True)
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
            script = re.sub("/etc/(apt|needrestart)/", rf"{root}/etc/\1/", script)
            tools = [f"ln -s $(command -v {tool}) {root}/bin/" for tool in ("bash", "grep", "env")]
            subprocess.run("\n".join(tools), shell=True, check=True)
            path = {"PATH": f"{root}/bin"}
            done = subprocess.run(["/bin/bash", "-c", script], env=path, capture_output=True, text=True, check=False)
            calls = (root / "calls").read_text().splitlines()
            conf = "".join(path.read_text() for path in sorted(root.glob("etc/*/*.d/*")))
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
        # What a job installs restarts no service below it.
        self.assertTrue(conf.endswith("$nrconf{restart} = 'l';\n"), conf)

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


class Agent(unittest.TestCase):
    """agent.sh, with a folder for a server."""

    def setUp(self):
        self.root = pathlib.Path(self.enterContext_(tempfile.TemporaryDirectory()))
        (self.root / "new/bin").mkdir(parents=True)
        (self.root / "new/run.sh").write_text("new")
        (self.root / "new/bin/Runner.Listener").write_text("new")
        self.archive = self.root / "archive.tar.gz"
        with tarfile.open(self.archive, "w:gz") as tar:
            tar.add(self.root / "new", ".")
        self.digest = hashlib.sha256(self.archive.read_bytes()).hexdigest()

    def enterContext_(self, manager):  # `enterContext` came with Python 3.11
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def take(self, *arguments, before=None):
        """What is in the agent's folder, what was said, and the exit code."""
        home = self.root / "agent"
        for path, text in (before or {}).items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
            (home / path).chmod(0o755)
        user = pwd.getpwuid(os.getuid()).pw_name
        given = {"PATH": f"{self.root}:{os.environ['PATH']}", "MUSTER_RUNNER_DIR": str(home), "MUSTER_RUNNER_USER": user}
        done = subprocess.run(["/bin/bash", SCRIPTS[1], *arguments], env=given, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        files = {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}
        return files, done.stdout, done.returncode

    NEW = {"run.sh": "new", "bin/Runner.Listener": "new"}

    def test_the_archive_that_github_lists_takes_the_place_of_an_old_agent(self):
        old = {"run.sh": "old", "bin/old.dll": "old", "externals/node20": "old", ".env": "MINE=1"}
        files, said, code = self.take(f"file://{self.archive}", self.digest, before=old)
        self.assertEqual((files, code), ({**self.NEW, ".env": "MINE=1"}, 0), said)
        self.assertIn(f"taking the runner from file://{self.archive}", said)
        self.assertNotIn("not checked", said)

    def test_another_archive_changes_nothing(self):
        files, said, code = self.take(f"file://{self.archive}", "0" * 64, before={"run.sh": "old"})
        self.assertEqual((files, code), ({"run.sh": "old"}, 1))
        self.assertIn("not the archive that GitHub lists", said)

    def test_one_without_a_digest_is_taken_and_told_of(self):
        files, said, code = self.take(f"file://{self.archive}")
        self.assertEqual((files, code), (self.NEW, 0), said)
        self.assertIn("it is not checked", said)

    def test_without_an_address_it_is_the_newest_release(self):
        (self.root / "curl").write_text(f"""#!/bin/bash
            echo "$*" >>{self.root}/asked
            case "$*" in */latest) echo https://github.com/actions/runner/releases/tag/v2.336.0 ;; *) cp {self.archive} "${{6}}" ;; esac""")
        (self.root / "curl").chmod(0o755)
        files, said, code = self.take()
        self.assertEqual((files, code), (self.NEW, 0), said)
        self.assertRegex((self.root / "asked").read_text(), r"releases/download/v2.336.0/actions-runner-linux-(x64|arm64)-2.336.0.tar.gz\n$")

    def test_no_answer_is_no_agent(self):
        files, _, code = self.take(f"file://{self.root}/nothing", self.digest)
        self.assertEqual((files, code != 0), ({}, True))


class Header(unittest.TestCase):
    def test_header(self):
        lines = user_data().splitlines()
        self.assertEqual(lines[0], "#!/bin/bash")
        self.assertEqual(
            lines[1:5],
            [
                "export MUSTER_RUNNER_API='https://api0ours.execute-api.eu-central-1.amazonaws.com'",
                "export MUSTER_REGION='eu-central-1'",
                "export MUSTER_STACK='muster'",
                "export MUSTER_LOGS='https://muster-MachineLogs-1ABC.s3.eu-central-1.amazonaws.com/AROAOURS'",
            ],
        )


if __name__ == "__main__":
    unittest.main()
