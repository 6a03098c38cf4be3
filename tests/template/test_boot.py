"""The boot scripts are packed completely into user data, and fit."""

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

AGENT = ROOT / "infra/machine/agent.sh"


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
        """Only the docstrings differ."""
        source = (ROOT / "infra/machine/machine.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
                del node.body[0]
        self.assertEqual(ast.dump(ast.parse(synchronizer().shipped()["machine.py"])), ast.dump(tree))
        ast.parse(source, feature_version=(3, 9))

    def test_what_follows_the_header_is_found_by_its_first_line(self):
        """Two templates are compared from that line on; the headers differ per template."""
        (first,) = re.findall(r'BOOT: &str = "(.*)\\n";', (ROOT / "shared/domain/src/pool_file/names.rs").read_text(encoding="utf-8"))
        self.assertEqual((ROOT / "infra/boot.sh").read_text(encoding="utf-8").splitlines()[0], first)
        self.assertEqual(user_data().count(first), 1)

    def test_user_data_has_room_to_spare(self):
        """EC2 accepts 16 KB before base64; this has the longest values that the parameters allow."""
        longest = user_data(stack="s" * 128)
        self.assertLessEqual(len(longest.encode()), 15 * 1024)

    def test_a_start_that_fails_powers_off(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for command, code in (("systemctl", 1), ("shutdown", 0)):
                path = root / command
                path.write_text(f'#!/bin/sh\necho "{command} $*" >>{root}/calls\nexit {code}\n')
                path.chmod(0o755)
            given = {"PATH": f"{name}:{os.environ['PATH']}", "MUSTER_HOME": f"{name}/home", "MUSTER_UNITS": f"{name}/units"}
            done = subprocess.run(["/bin/bash"], input=user_data(), env=given, text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual((root / "calls").read_text(), "systemctl start --no-block muster.service\nshutdown -h now\n")
            # By then the units are in place, and a second boot powers off.
            unit = (root / "units/muster.service").read_text()
            self.assertIn(f"EnvironmentFile={name}/home/settings\n", unit)
            self.assertIn("RuntimeMaxSec=43500\n", unit)
            guard = root / "units/muster-guard.service"
            self.assertIn(f"\nConditionPathExists=!{name}/home\nSuccessAction=poweroff\nFailureAction=poweroff\n", guard.read_text())
            self.assertEqual((root / "units/sysinit.target.wants/muster-guard.service").resolve(), guard)
            # An image that runs user data at every boot gets no further.
            (root / "calls").unlink()
            shutil.rmtree(root / "home")
            done = subprocess.run(["/bin/bash"], input=user_data(), env=given, text=True, check=False)
            self.assertEqual((done.returncode, (root / "calls").read_text()), (1, "shutdown -h now\n"))
            self.assertFalse((root / "home").exists())


class Packages(unittest.TestCase):
    """packages.sh, and what prepare.sh does before, on a machine whose commands only record their calls."""

    APT, DNF = ("apt-get", "apt-cache", "systemctl", "dnf", "getent", "groupadd"), ("dnf", "systemctl", "getent", "groupadd")

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ("bin", "run", "stand-in", "runner/bin", "etc/apt/apt.conf.d", "etc/needrestart/conf.d", "etc/systemd/system"):
            (self.root / folder).mkdir(parents=True)
        for tool in ("bash", "grep", "env", "sort", "cat", "chmod", "chown", "ln", "mv", "rm", "rmdir", "mkdir", "id", "dirname", "readlink"):
            (self.root / "bin" / tool).symlink_to(shutil.which(tool))
        self.libraries = ("libicuuc.so.74", "libssl.so.3")

    def command(self, path, text=""):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/bash\necho "${{0##*/}} $*" >>{self.root}/calls\n{text}\n')
        path.chmod(0o755)

    def machine(self, commands, fails=0, unknown="nothing", failing=("nothing", 0)):
        """Creates the commands. The agent's script and the calls that begin with `failing` fail the given number of times."""
        tells = "\n".join(f"echo {library}" for library in self.libraries)
        counted = lambda what, times: f"[ $(grep -c '^{what}' {self.root}/calls) -gt {times} ]"
        for command in (*commands, "sleep", "ldconfig"):
            says = f'case "{command} $*" in "{failing[0]}"*) {counted(*failing)} ;; esac' if command in ("apt-get", "dnf") else ""
            says = {"ldconfig": tells, "apt-cache": f"[ $2 != {unknown} ]", "getent": "exit 2"}.get(command, says)
            self.command(f"bin/{command}", says)
        self.command("runner/bin/installdependencies.sh", counted("installdependencies", fails))

    def script(self, name, *arguments, **given):
        """Runs a script with this machine's paths. Returns the new calls and the exit code."""
        text = (ROOT / "infra/machine" / name).read_text(encoding="utf-8")
        text = re.sub("/etc/(apt|needrestart|systemd)/", rf"{self.root}/etc/\1/", text).replace("/usr/local/bin/docker", f"{self.root}/stand-in/docker")
        text = text.replace("/usr/bin/docker", f"{self.root}/bin/docker").replace("/home/runner", f"{self.root}/home")
        for folder in ("/opt/actions-runner", "/opt/hostedtoolcache"):
            text = text.replace(folder, str(self.root / "runner") if "runner" in folder else f"{self.root}/tools")
        (self.root / "run" / name).write_text(text)
        calls = self.root / "calls"
        before = len(calls.read_text().splitlines()) if calls.exists() else 0
        path = {"PATH": f"{self.root}/stand-in:{self.root}/bin", "MUSTER_RUNNER_USER": pwd.getpwuid(os.getuid()).pw_name, **given}
        done = subprocess.run([shutil.which("bash"), self.root / "run" / name, *arguments], env=path, capture_output=True, text=True, check=False)
        self.said = done.stdout + done.stderr
        calls = calls.read_text().splitlines()[before:] if calls.exists() else []
        return [call for call in calls if not call.startswith(("sleep", "ldconfig", "apt-cache"))], done.returncode

    INSTALL = "apt-get -o Dpkg::Options::=--force-unsafe-io install -y --no-install-recommends"
    UPDATE = "apt-get -o APT::Update::Error-Mode=any update"

    def test_ubuntus_own_updates_are_kept_out_and_waited_for(self):
        self.machine(self.APT)
        calls, code = self.script("prepare.sh")
        self.assertEqual(code, 0, self.said)
        units = self.root / "etc/systemd/system"
        for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "apt-daily.service", "apt-daily-upgrade.service", "unattended-upgrades.service"):
            self.assertEqual(os.readlink(units / unit), "/dev/null")
        self.assertIn("systemctl stop apt-daily.timer apt-daily-upgrade.timer apt-daily.service", calls)
        # An interrupted update would leave half a package. One that is still queued does not start.
        for state, stopped in (("activating", False), ("inactive", True)):
            self.command("bin/systemctl", f"[ $1 != is-active ] || echo {state}")
            calls, _ = self.script("prepare.sh")
            self.assertEqual("systemctl stop apt-daily-upgrade.service" in calls, stopped, state)
        # None of these calls reloads systemd, which takes longer than the rest of the boot script.
        self.assertEqual([call for call in calls if "mask" in call or "daemon-reload" in call], [])
        conf = "".join(path.read_text() for path in sorted(self.root.glob("etc/*/*.d/*")))
        self.assertRegex(conf, r'DPkg::Lock::Timeout "\d{3}";')
        # A job's installation must not restart the services under it.
        self.assertTrue(conf.endswith("$nrconf{restart} = 'l';\n"), conf)

    def test_what_is_missing_is_installed_by_command(self):
        everything = ("build-essential", "docker-buildx", "docker.io", "git", "jq", "unzip", "zip")
        amazons = ("docker", "gcc", "gcc-c++", "git", "gzip", "jq", "make", "tar", "unzip", "zip")
        # the distribution's commands, the image's commands, the package that the distribution does not have, what is installed
        for commands, has, unknown, installed in (
            (self.APT, (), "nothing", everything),
            (self.APT, (), "docker-buildx", everything[:1] + everything[2:]),  # Debian 12
            (self.APT, ("git", "zip"), "nothing", ("build-essential", "docker-buildx", "docker.io", "jq", "unzip")),
            (self.APT, ("git", "zip", "cc", "make", "docker"), "nothing", ("build-essential", "jq", "unzip")),
            (self.APT, ("git", "zip", "cc", "c++", "make", "docker", "jq", "unzip"), "nothing", ()),
            (self.DNF, (), "nothing", amazons),
            (self.DNF, ("tar", "gzip", "cc", "docker"), "nothing", ("gcc-c++", "git", "jq", "make", "unzip", "zip")),
        ):
            for separate in (True, False):
                with self.subTest(commands=commands, has=has, separate=separate):
                    self.setUp()
                    self.machine(commands, unknown=unknown)
                    for command in has:
                        self.command(f"bin/{command}")
                    steps = [self.script("packages.sh", *part) for part in ((("fetch",), ("libraries",), ("install",)) if separate else ((),))]
                    self.assertEqual([code for _, code in steps], [0] * len(steps), self.said)
                    calls = [call for calls, _ in steps for call in calls if call.startswith(("apt-get", "dnf"))]
                    names = " ".join(installed)
                    apt = [self.UPDATE, f"{self.INSTALL} --download-only {names}", f"{self.INSTALL} {names}"]
                    dnf = [f"dnf install -y --setopt=strict=0 {more}{names}" for more in ("--downloadonly ", "")]
                    self.assertEqual(calls, (apt if commands == self.APT else dnf) if installed else [])

    def test_nothing_is_installed_before_everything_is_downloaded(self):
        self.machine(self.APT)
        calls, _ = self.script("packages.sh", "fetch")
        self.assertEqual([call for call in calls if " install " in call and "--download-only" not in call], [])
        calls, _ = self.script("packages.sh", "install")
        self.assertEqual([call for call in calls if call.startswith("apt")], [calls[0]])

    def test_the_command_docker_exists_before_its_package(self):
        """The agent resolves it before the job-started hook runs, and keeps the groups of its start."""
        self.machine(self.APT)
        calls, _ = self.script("packages.sh", "fetch")
        stand_in = self.root / "stand-in/docker"
        self.assertTrue(os.access(stand_in, os.X_OK))
        self.assertIn("groupadd --system docker", calls)
        # A call waits for the package.
        self.command("bin/docker", "echo ran $*")
        with subprocess.Popen([stand_in, "ps"], stdout=subprocess.PIPE, text=True) as call:
            with self.assertRaises(subprocess.TimeoutExpired):
                call.wait(0.5)
            calls, code = self.script("packages.sh", "install")
            self.assertEqual((code, call.communicate(timeout=60)[0]), (0, "ran ps\n"))
        self.assertIn("docker.io", calls[0], "the stand-in is not taken for Docker")
        self.assertEqual(stand_in.resolve(), self.root / "bin/docker")
        self.assertFalse((self.root / "run/packages").exists())

    def test_a_docker_that_a_distribution_does_not_have_leaves_no_stand_in(self):
        self.machine(self.APT, unknown="docker.io")
        self.script("packages.sh", "fetch")
        self.script("packages.sh", "install")
        self.assertFalse(os.path.lexists(self.root / "stand-in/docker"))

    def test_a_docker_of_the_image_stays_as_it_is(self):
        """A static one, for example, is in the folder of the stand-in."""
        self.machine(self.APT)
        self.command("stand-in/docker", "echo theirs")
        before = (self.root / "stand-in/docker").read_text()
        for part in ("fetch", "install"):
            calls, code = self.script("packages.sh", part)
            self.assertEqual((code, [call for call in calls if "docker.io" in call]), (0, []))
        self.assertEqual((self.root / "stand-in/docker").read_text(), before)

    def test_package_managers_that_fail_are_called_again(self):
        """A locked package manager, a mirror's failure, a network that is not up yet: each makes a command fail."""
        tries = lambda calls, command: len([call for call in calls if call.startswith(command)])
        self.libraries = ()
        # the commands, the failing one, its failures, its calls, whether the installation succeeds
        for commands, failing, fails, called, is_installed in (
            (self.APT, "installdependencies", 1, 2, True),
            (self.APT, self.UPDATE, 2, 3, True),
            (self.APT, f"{self.INSTALL} --download-only", 2, 3, True),
            (self.APT, f"{self.INSTALL} build", 2, 3, True),
            (self.APT, "installdependencies", 9, 3, False),
            (self.APT, self.UPDATE, 9, 3, False),
            (self.APT, f"{self.INSTALL} build", 9, 3, False),
            (self.DNF, "dnf install -y libicu", 20, 21, True),
            (self.DNF, "dnf install -y --setopt=strict=0 --downloadonly", 20, 21, True),
            (self.DNF, "dnf install -y --setopt=strict=0 docker", 20, 21, True),
            (self.DNF, "dnf install -y libicu", 99, 24, False),
        ):
            with self.subTest(failing=failing, fails=fails):
                self.setUp()
                self.libraries = ()
                of_script = fails if failing == "installdependencies" else 999 if commands == self.DNF else 0
                self.machine(commands, of_script, failing=(failing, fails))
                calls, code = self.script("packages.sh")
                self.assertEqual((tries(calls, failing), code == 0), (called, is_installed), self.said)
                self.assertEqual(tries(calls, "dnf") > 0, commands == self.DNF)

    def test_the_agents_script_runs_only_for_a_missing_library(self):
        for libraries, runs in ((("libicuuc.so.74", "libssl.so.3"), 0), (("libssl.so.3",), 1), (("libicuuc.so.72",), 1), ((), 1)):
            self.setUp()
            self.libraries = libraries
            self.machine(self.APT)
            calls, code = self.script("packages.sh", "libraries")
            self.assertEqual((calls, code), (["installdependencies.sh "] * runs, 0), libraries)
        self.setUp()
        self.libraries = ()
        self.machine(self.DNF, fails=9)
        calls, code = self.script("packages.sh", "libraries")
        self.assertEqual((calls, code), (["installdependencies.sh ", "dnf install -y libicu"], 0))

    def test_amazons_docker_is_started(self):
        self.machine(self.DNF)
        self.script("packages.sh", "fetch")
        calls, _ = self.script("packages.sh", "install")
        self.assertEqual(calls[-1], "systemctl enable --now docker")

    def test_an_agent_elsewhere_is_used(self):
        shutil.rmtree(self.root / "runner")
        at = self.root / "home/actions-runner"
        # what is in the place of the agent's folder, and whether a link replaces it
        for there, is_linked in ((None, True), ("empty", True), ("run.sh", False), ("other", False)):
            for path in (self.root / "runner", self.root / "home"):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            for name in ("run.sh", "bin/Runner.Listener"):
                self.command(at.relative_to(self.root) / name)
            if there:
                (self.root / "runner").mkdir()
            if there in ("run.sh", "other"):
                self.command(f"runner/{there}")
            self.machine_commands()
            _, code = self.script("prepare.sh")
            self.assertEqual((code, (self.root / "runner").resolve() == at), (0, is_linked), (there, self.said))
        # A folder with half an agent is not one.
        shutil.rmtree(self.root / "runner")
        (at / "run.sh").unlink()
        self.script("prepare.sh")
        self.assertFalse((self.root / "runner").is_symlink())

    def machine_commands(self):
        for command in ("systemctl", "getent", "groupadd"):
            self.command(f"bin/{command}")

    def test_a_disabled_docker_is_enabled_and_an_enabled_one_left_alone(self):
        enable = "systemctl enable --no-reload --now docker.socket"
        # the image's commands, the enabled unit, the units that exist, whether its Docker is enabled
        for has, enabled, exists, wanted in (
            (("docker",), "none", True, True), (("docker",), "docker.service", True, False), (("docker",), "docker.socket", True, False),
            (("docker",), "none", False, False), ((), "none", True, False),
        ):
            self.setUp()
            self.machine_commands()
            self.command("bin/systemctl", f'case "$*" in is-enabled*{enabled}) ;; is-enabled*) exit 1 ;; cat*) {str(exists).lower()} ;; esac')
            for command in has:
                self.command(f"bin/{command}")
            calls, code = self.script("prepare.sh")
            self.assertEqual((code, enable in calls), (0, wanted), (has, enabled, exists))


class BootUnit(unittest.TestCase):
    """What bake.sh writes into an image. tests/template/test_systemd.py boots it."""

    def script(self, name):
        text = (ROOT / "infra/image/bake.sh").read_text(encoding="utf-8")
        return text.partition(f"""cat >"$files/{name}" <<'END'\n""")[2].partition("\nEND\n")[0]

    def test_the_scripts_are_complete(self):
        for name in ("boot", "grow"):
            self.assertTrue(self.script(name).startswith("#!/bin/bash\n"), name)
            checked = subprocess.run(["bash", "-n"], input=self.script(name), text=True, check=False)
            self.assertEqual(checked.returncode, 0, name)

    def test_the_root_file_system_grows_with_its_partition(self):
        # the device of the root, its file system, the calls; growpart fails if the partition has its size already
        for device, kind, calls in (("nvme0n1/nvme0n1p1", "ext4", ["growpart /dev/nvme0n1 1", "resize2fs /dev/nvme0n1p1"]),
                                    ("nvme0n1/nvme0n1p1", "xfs", ["growpart /dev/nvme0n1 1", "xfs_growfs /"]),
                                    ("nvme0n1/nvme0n1p1", "btrfs", ["growpart /dev/nvme0n1 1"]),
                                    ("xvda", "ext4", ["resize2fs /dev/xvda"])):
            with tempfile.TemporaryDirectory() as name, self.subTest(device=device, kind=kind):
                root = pathlib.Path(name)
                (root / "devices" / device).mkdir(parents=True)
                if "/" in device:
                    (root / "devices" / device / "partition").write_text("1\n")
                (root / "259:1").symlink_to(root / "devices" / device)
                for command in ("growpart", "resize2fs", "xfs_growfs"):
                    (root / command).write_text(f'#!/bin/sh\necho "{command} $*" >>{root}/calls\nexit 1\n')
                (root / "findmnt").write_text(f'#!/bin/sh\ncase "$*" in *MAJ:MIN*) echo 259:1 ;; *) echo {kind} ;; esac\n')
                for path in root.glob("[a-z]*"):
                    path.chmod(0o755)
                script = self.script("grow").replace("/sys/dev/block", name)
                subprocess.run(["bash", "-c", script], env={"PATH": f"{name}:{os.environ['PATH']}"}, check=False)
                self.assertEqual((root / "calls").read_text().splitlines(), calls)


class Agent(unittest.TestCase):
    """agent.sh, with a folder as its server."""

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
        # Calls to github.com are answered from files; all others use the real curl.
        (self.root / "curl").write_text(f"""#!/bin/bash
            echo "$*" >>{self.root}/asked
            case "${{!#}}" in
              */releases/latest) echo https://github.com/actions/runner/releases/tag/v2.336.0 ;;
              https://api.github.com/*) cat {self.root}/release ;;
              https://github.com/*) cat {self.archive} ;;
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
        """Runs agent.sh. Returns the files of the agent's folder, the output and the exit code."""
        home = self.root / "agent"
        for path, text in (before or {}).items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
            (home / path).chmod(0o755)
        user = pwd.getpwuid(os.getuid()).pw_name
        given = {"PATH": f"{self.root}:{os.environ['PATH']}", "MUSTER_RUNNER_DIR": str(home), "MUSTER_RUNNER_USER": user}
        done = subprocess.run(["/bin/bash", AGENT, *arguments], env=given, stdout=subprocess.PIPE,
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

    def test_a_download_that_fails_leaves_the_old_agent_whole(self):
        old = {"run.sh": "old", "bin/old.dll": "old", ".env": "MINE=1"}
        whole = self.archive.read_bytes()
        # the server's answers, and whether the last attempt succeeds
        for name, answers, is_taken in (
            ("cut once", [whole[:-9], whole], True), ("cut always", [whole[:-9]], False), ("nothing", [b""], False),
            ("no archive", [b"<html>"], False), ("longer", [whole + b"x"], False),
        ):
            shutil.rmtree(self.root / "agent", ignore_errors=True)
            for at, answer in enumerate(answers):
                (self.root / f"answer-{at}").write_bytes(answer)
            (self.root / "curl").write_text(f"""#!/bin/bash
                at=$(cat {self.root}/at); [ ! -e {self.root}/answer-$((at + 1)) ] || echo $((at + 1)) >{self.root}/at
                cat {self.root}/answer-$at; [ {name.split()[0]} != cut ] || [ $at = {len(answers) - 1} ] && {str(is_taken).lower()} || exit 18""")
            (self.root / "at").write_text("0")
            files, said, code = self.take(self.url, self.digest, before=old)
            wanted = {**self.NEW, ".env": "MINE=1"} if is_taken else old
            self.assertEqual((files, code == 0), (wanted, is_taken), (name, said))
            for path in self.root.glob("answer-*"):
                path.unlink()

    def test_nothing_is_used_whose_digest_github_has_not_published(self):
        """A mirror is a third party's server, and root runs what was in the archive."""
        ours, other = f"sha256:{self.digest}", f"sha256:{'0' * 64}"
        refused, unknown, another = "so it is not installed", "so it is not installed", "not the archive that GitHub lists"
        # the URL, the digest that Muster names, the one that github.com publishes, the reason for the refusal
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
        """docs/images.md has this list too: each download, and how it is verified."""
        used = {}
        for path in sorted((ROOT / "infra/machine").iterdir()):
            text = re.sub(r"^ *#.*", "", path.read_text(encoding="utf-8"), flags=re.M)
            for line in text.splitlines():
                for command in re.findall(r"\b(curl|wget|urlopen|git clone|pip install|apt-get -o|dnf install|tar -x|unzip -)", line):
                    used.setdefault(f"{path.name}: {command}", []).append(line)
        counts = {"agent.sh: curl": 2, "packages.sh: apt-get -o": 2, "packages.sh: dnf install": 2, "agent.sh: tar -x": 1}
        self.assertEqual({name: len(lines) for name, lines in used.items()}, counts)
        for line in used["agent.sh: curl"]:
            self.assertIn("--proto ", line)
        (line,) = used["agent.sh: tar -x"]
        self.assertIn('"${as_user[@]}" tar -x', line, "the archive is unpacked before it is verified")


class Mirror(http.server.SimpleHTTPRequestHandler):
    """Serves a folder of archives; paths below /moved/ redirect to a different server without TLS."""

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
