"""What boots a machine reaches it, and fits into user data."""

import ast
import functools
import hashlib
import http.server
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
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
        self.assertLessEqual(len(longest.encode()), 15 * 1024)

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

    def install(self, commands, fails, unknown="nothing", failing=("nothing", 0)):
        """What is called when the agent's script, and a call of a package manager, fail so often, and the exit code. One
        package is unknown."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "bin").mkdir()
            for folder in ("apt/apt.conf.d", "needrestart/conf.d"):
                (root / "etc" / folder).mkdir(parents=True)
            agent = root / "bin/installdependencies.sh"
            for path in [root / "bin" / command for command in (*commands, "sleep")] + [agent]:
                path.write_text(f'#!/bin/bash\necho "${{0##*/}} $*" >>{root}/calls\n')
                path.chmod(0o755)
            for command in {"apt-get", "dnf"} & set(commands):
                with (root / "bin" / command).open("a") as script:
                    script.write(f'case "{command} $*" in "{failing[0]}"*) [ $(grep -c "^{failing[0]}" {root}/calls) -gt {failing[1]} ] ;; esac\n')
            with agent.open("a") as script:
                script.write(f"[ $(grep -c ^installdependencies {root}/calls) -gt {fails} ]\n")
            if "apt-cache" in commands:
                with (root / "bin/apt-cache").open("a") as script:
                    script.write(f'[ "$2" != {unknown} ]\n')
            parts = "".join(map(function_of, ("quiet_apt", "again", "with_apt", "with_dnf", "install_packages")))
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

    def test_package_managers_that_fail_are_called_again(self):
        """A lock of another program, a mirror, a network that is not up yet: each looks like a command that fails."""
        apt, dnf = ("apt-get", "apt-cache", "systemctl", "dnf"), ("dnf", "systemctl")
        tries = lambda calls, command: len([call for call in calls if call.startswith(command)])
        # commands, the one that fails, how often, its calls, whether all is installed in the end
        for commands, failing, fails, called, is_installed in (
            (apt, "installdependencies", 1, 2, True),
            (apt, "apt-get install", 2, 3, True),
            (apt, "installdependencies", 9, 3, False),
            (dnf, "dnf install -y libicu", 20, 21, True),
            (dnf, "dnf install -y --setopt", 20, 21, True),
            (dnf, "dnf install -y libicu", 99, 24, False),
        ):
            of_script = fails if failing == "installdependencies" else 999 if commands == dnf else 0
            calls, _, code = self.install(commands, of_script, failing=(failing, fails))
            with self.subTest(failing=failing, fails=fails):
                self.assertEqual((tries(calls, failing), code == 0), (called, is_installed))
                self.assertEqual(tries(calls, "dnf") > 0, commands == dnf)

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
        self.archive = self.root / "mirror" / self.NAME
        self.archive.parent.mkdir()
        with tarfile.open(self.archive, "w:gz") as tar:
            tar.add(self.root / "new", ".")
        self.digest = hashlib.sha256(self.archive.read_bytes()).hexdigest()
        handler = functools.partial(Mirror, directory=str(self.archive.parent))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.mirror = f"http://127.0.0.1:{server.server_port}"
        self.url = f"{self.mirror}/{self.NAME}"
        # github.com is a file, where there is one; everything else is curl's own matter.
        (self.root / "curl").write_text(f"""#!/bin/bash
            echo "$*" >>{self.root}/asked
            case "${{!#}}" in
              */releases/latest) echo https://github.com/actions/runner/releases/tag/v2.336.0 ;;
              https://api.github.com/*) cat {self.root}/release ;;
              https://github.com/*) cp {self.archive} "${{@: -2:1}}" ;;
              *) exec {shutil.which("curl")} --retry-delay 1 --retry-max-time 1 "$@" ;;
            esac""")
        (self.root / "curl").chmod(0o755)
        (self.root / "sleep").write_text("")
        (self.root / "sleep").chmod(0o755)

    def publish(self, digest, name=None):
        assets = [{"name": "other.tar.gz", "digest": f"sha256:{self.digest}"}, {"name": name or self.NAME, "digest": digest}]
        (self.root / "release").write_text(json.dumps({"assets": assets}))

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
    NAME = "actions-runner-linux-x64-2.336.0.tar.gz"

    def test_the_archive_that_github_lists_takes_the_place_of_an_old_agent(self):
        old = {"run.sh": "old", "bin/old.dll": "old", "externals/node20": "old", ".env": "MINE=1"}
        files, said, code = self.take(self.url, self.digest, before=old)
        self.assertEqual((files, code), ({**self.NEW, ".env": "MINE=1"}, 0), said)
        self.assertIn(f"taking the runner from {self.url}", said)

    def test_nothing_is_unpacked_whose_digest_github_has_not_published(self):
        """A mirror is somebody else's server, and the archive is unpacked as root."""
        ours, other = f"sha256:{self.digest}", f"sha256:{'0' * 64}"
        refused, unknown, another = "so it is not installed", "so it is not installed", "not the archive that GitHub lists"
        # the address, the digest that Muster names, what github.com publishes, why it is refused
        for url, named, published, why in (
            (self.url, self.digest, None, None),
            (self.url, self.digest, other, None),
            (self.url, None, ours, None),
            (self.url, "0" * 64, ours, another),
            (self.url, "no digest", ours, another),
            (self.url, None, other, another),
            (self.url, None, None, refused),
            (self.url, None, "", unknown),
            (f"{self.mirror}/archive.tar.gz", None, ours, unknown),
            (f"{self.mirror}/moved/{self.NAME}", self.digest, None, ""),
            (f"{self.mirror}/nothing/{self.NAME}", self.digest, None, ""),
            (f"http://mirror.invalid/{self.NAME}", self.digest, None, ""),
            (f"ftp://127.0.0.1/{self.NAME}", self.digest, None, ""),
            (f"file://{self.archive}", self.digest, None, ""),
        ):
            (self.root / "release").unlink(missing_ok=True)
            if published is not None:
                self.publish(published)
            shutil.rmtree(self.root / "agent", ignore_errors=True)
            files, said, code = self.take(url, *filter(None, (named,)), before={"run.sh": "old"})
            with self.subTest(url=url, named=named, published=published):
                self.assertEqual((files, code != 0), ({"run.sh": "old"}, True) if why is not None else (self.NEW, False), said)
                self.assertIn(why or "", said)

    def test_without_an_address_it_is_the_newest_release(self):
        arch = {"x86_64": "x64", "aarch64": "arm64"}[os.uname().machine]
        name = f"actions-runner-linux-{arch}-2.336.0.tar.gz"
        self.publish(f"sha256:{self.digest}", name)
        files, said, code = self.take()
        self.assertEqual((files, code), (self.NEW, 0), said)
        asked = [line.rpartition(" ")[2] for line in (self.root / "asked").read_text().splitlines()]
        releases = "https://github.com/actions/runner/releases"
        self.assertEqual(asked, [f"{releases}/latest", "https://api.github.com/repos/actions/runner/releases/tags/v2.336.0",
                                 f"{releases}/download/v2.336.0/{name}"])

    def test_every_download_of_a_machine_is_known(self):
        """docs/images.md has the same list: what is downloaded, and by what it is verified."""
        used = {}
        for path in sorted((ROOT / "infra/machine").iterdir()):
            text = re.sub(r"^ *#.*", "", path.read_text(encoding="utf-8"), flags=re.M)
            for line in text.splitlines():
                for command in re.findall(r"\b(curl|wget|urlopen|git clone|pip install|apt-get install|dnf install|tar -x|unzip -)", line):
                    used.setdefault(f"{path.name}: {command}", []).append(line)
        counts = {"agent.sh: curl": 2, "agent.sh: apt-get install": 1, "agent.sh: dnf install": 2, "agent.sh: tar -x": 1}
        self.assertEqual({name: len(lines) for name, lines in used.items()}, counts)
        for line in used["agent.sh: curl"]:
            self.assertIn("--proto ", line)
        agent = SCRIPTS[1].read_text(encoding="utf-8")
        self.assertLess(agent.index("sha256sum --check"), agent.index("tar -x"))


class Mirror(http.server.SimpleHTTPRequestHandler):
    """A folder of archives; what is below /moved/ is said to be on another server, in clear text."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        if not self.path.startswith("/moved/"):
            return super().do_GET()
        self.send_response(302)
        self.send_header("location", f"http://127.0.0.1:{self.server.server_port}/{self.path.removeprefix('/moved/')}")
        self.send_header("content-length", "0")
        self.end_headers()


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
