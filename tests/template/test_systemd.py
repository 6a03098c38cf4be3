"""Runs the user data under a real systemd, in separate namespaces, from its first line to the power-off.

Needs root, a cgroup 2 mount and overlayfs, and uses this system's systemd as the machine's: /usr and /etc are below an
overlay in memory. The network contains only a metadata service and a runner API. The tests are skipped if a requirement is
missing. The OOM killer's test also needs the memory controller of cgroup 2. Both sides share one monotonic clock, and a
duration starts when the machine records its reason to end.
"""

import contextlib
import gzip
import hashlib
import http.server
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEMD = "/lib/systemd/systemd"
# The maximum seconds for an ordered end: below the shortest time-out of the units, which would end the machine anyway.
PROMPT = 25
# Some affect more than the namespaces or wait for hardware; the others only take time.
MASKED = ("systemd-networkd", "systemd-resolved", "systemd-udevd", "systemd-logind", "systemd-random-seed", "systemd-timesyncd",
          "systemd-machine-id-commit", "systemd-sysusers", "systemd-modules-load", "systemd-sysctl")
SAY = "exec >>/out/agent 2>&1\n"
# For a concurrent process: waits until the agent runs and its start is reported.
RUNS = "for try in {1..600}; do ! grep -qs runner-started /out/calls || break; sleep 0.1; done\n"
TELL = "python3 -c 'import time; print(time.monotonic())' >/out/told"
# Acts as a job that writes until the disk is full.
FILL = "fill() { for each; do cat /dev/zero >$each/full 2>/dev/null || true; done; }\n"
ASK_METADATA = "curl -sS --max-time 2 -X PUT http://169.254.169.254/latest/api/token; echo \" metadata: $?\"\n"
# A worker that runs two steps, and ends like GitHub's when its agent is stopped; the agent waits for it.
WORKER = """trap : TERM
( trap 'kill -INT $hook; sleep 1; echo told GitHub; exit' TERM; %s & hook=$!; wait $hook; echo next step ) & wait; wait"""
# An agent whose arguments are the steps of its one job, hooks included. Like GitHub's worker, it reads a step's output from a pipe and
# writes it to the job's log; when the agent is stopped, it interrupts the step and runs no further one (StepsRunner.cs).
STEPS = r"""#!/usr/bin/python3
import os, signal, subprocess, sys, time
if sys.argv[1:] == ["--version"]:
    sys.exit(print("2.336.0"))
if sys.argv[0].endswith("Listener"):
    worker = subprocess.Popen([os.path.dirname(sys.argv[0]) + "/Runner.Worker", *sys.argv[1:]]) if sys.argv[1:] else None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: worker.send_signal(signal.SIGUSR1) if worker else sys.exit())
    sys.exit(worker.wait() if worker else signal.pause())
stopped, step = [], None
def stop(*_):
    stopped.append(True)
    if step:
        step.send_signal(signal.SIGINT)
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, stop)
with open("/out/job", "wb", 0) as log:
    for text in sys.argv[1:]:
        if not stopped:
            step = subprocess.Popen(["bash", "-e", "-c", text], stdout=subprocess.PIPE)
            for line in step.stdout:
                log.write(line)
            step.wait()
with open("/out/at.github", "w") as file:
    file.write(str(time.time()))
"""
HOOK = 'GITHUB_REPOSITORY=acme/app GITHUB_RUN_ID=7 bash -e "$ACTIONS_RUNNER_HOOK_JOB_STARTED"'


# Runs before a machine without an agent boots. Its package manager takes two seconds to download, and six to install.
APT = r"""#!/bin/bash
echo "$*" >>/out/apt
case "$*" in
  *--download-only*) sleep 2; [ ! -e /no-mirror ] ;;
  *install*)
    echo $EPOCHREALTIME >/out/at.install
    if [ -e /fails-with-a-job ]; then until grep -qs job-started /out/calls; do sleep 0.1; done; fi
    [ ! -e /fails ] || exit 100
    sleep 6
    printf '#!/bin/sh\necho "docker: $*"\n' >/usr/bin/docker; chmod 755 /usr/bin/docker
    echo $EPOCHREALTIME >/out/at.installed ;;
esac
"""
BARE = {
    "usr/local/bin/apt-get": APT,
    "usr/local/bin/apt-cache": "#!/bin/sh\n",
    # The pause between two attempts is ten seconds.
    "usr/local/bin/sleep": '#!/bin/sh\n[ "$1" != 10 ] || set -- 1\nexec /usr/bin/sleep "$@"\n',
    "usr/local/sbin/ldconfig": "#!/bin/sh\necho libicuuc.so libssl.so\n",
}
BARE_ROOT = "rm -f usr/bin/docker usr/local/bin/docker usr/bin/jq; mkdir -p etc/apt/apt.conf.d; rm -rf opt/actions-runner; "


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # the machine may have powered off
            self.wfile.write(body if isinstance(body, bytes) else body.encode())

    def date_time_string(self, timestamp=None):
        """Returns the Date header in EC2's time, which can differ from the machine's."""
        return super().date_time_string(time.time() + self.server.plan["spot"].get("shift", 0))

    def notice(self):
        """Returns EC2's notice once the machine has sent the report that the plan names."""
        spot, out = self.server.plan["spot"], self.server.calls
        if not spot or f'"{spot["after"]}"' not in (out.read_text(encoding="utf-8") if out.exists() else ""):
            return None
        stamp = out.with_name("at.deadline")
        if not stamp.exists():
            stamp.write_text(str(int(time.time()) + spot["left"]))
        at = time.gmtime(int(stamp.read_text()) + spot.get("shift", 0))
        return json.dumps({"action": "terminate", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", at)})

    def do_PUT(self):
        if self.path.endswith("/machine.log.gz"):
            log = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
            self.server.calls.with_name("log").write_bytes(log)
        self.answer(200, "TOKEN")

    def do_GET(self):
        keys = {"AccessKeyId": "id", "SecretAccessKey": "key", "Token": "token"}
        known = {"security-credentials/": "role", "instance-id": "i-0abc", "user-data": self.server.plan["files"]["user-data"],
                 "local-hostname": "ip-10-0-0-7.eu-central-1.compute.internal",
                 "instance-life-cycle": "spot" if self.server.plan["spot"] else "on-demand"}
        if self.path.endswith("spot/instance-action"):
            notice = self.notice()
            return self.answer(200 if notice else 404, notice or "")
        if self.path == "/agent.tar.gz":
            return self.answer(200, self.server.calls.with_name("agent.tar.gz").read_bytes())
        self.answer(200, next((text for end, text in known.items() if self.path.endswith(end)), json.dumps(keys)))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        told = {"at": time.monotonic(), "event": body.get("event", "register"),
                **{name: body.get(name) for name in ("code", "log", "stopped_for", "used", "agent", "boot", "why", "disk_bytes")}}
        is_baked = '"baked"' in (self.server.calls.read_text(encoding="utf-8") if self.server.calls.exists() else "")
        with open(self.server.calls, "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")
        if self.path == "/runner/register":
            runners = ("builder",) if is_baked else ("runner_name", "encoded_jit_config")
            given = self.server.plan["configuration"]
            return self.answer(200, json.dumps({k: v for k, v in given.items() if k not in runners or "builder" not in given}))
        answers = {"exited": self.server.plan["after_end"], "job-completed": self.server.plan["job_completed"]}
        answer = json.dumps(answers.get(told["event"], {}))
        return self.answer(self.server.plan["job_started"] if self.path == "/runner/job-started" else 200, answer)


def contain(folder):
    """Runs inside namespaces for mounts, network and cgroups: serves the machine's two services, and boots it."""
    plan = json.loads((folder / "plan").read_text())
    root = folder / "root"
    subprocess.run(["/bin/bash", "-euc", """
        mount --make-rprivate /; ip link set lo up; ip addr add 169.254.169.254/32 dev lo
        mkdir memory root; mount -t tmpfs -o size=$disk tmpfs memory; mkdir memory/{upper,work}
        mount -t overlay overlay -o lowerdir=/,upperdir=memory/upper,workdir=memory/work root; cd root
        rm -rf etc/systemd/system etc/fstab etc/cron* opt/actions-runner; mkdir -p etc/systemd/system opt/actions-runner/bin out
        useradd -R "$PWD" -m runner || true
        mount --bind ../out out; mount -t tmpfs -o mode=755,size=48m tmpfs run; mount -t tmpfs -o size=16m tmpfs tmp
        mount -t sysfs -o ro sysfs sys
        mount -t tmpfs tmpfs sys/fs/cgroup
        mount -t tmpfs -o size=16m tmpfs dev; mkdir -m 1777 dev/shm; ln -s /proc/self/fd dev/fd
        for each in null zero full random urandom tty; do touch dev/$each; mount --bind /dev/$each dev/$each; done
        for each in "$@"; do ln -s /dev/null etc/systemd/system/$each.service; done
        """, "bash", *MASKED], cwd=folder, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "disk": plan["disk"]})
    for path, text in plan["files"].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    subprocess.run(["/bin/bash", "-euc", plan["root"]], cwd=root, check=True)
    for address in (("169.254.169.254", 80), ("127.0.0.1", 8080))[plan["is_silent"] :]:
        server = http.server.ThreadingHTTPServer(address, Api)
        server.plan, server.calls = plan, folder / "out/calls"
        threading.Thread(target=server.serve_forever, daemon=True).start()
    init = f"""mount -t proc proc proc; mount -o bind proc/sys proc/sys; mount -o remount,bind,ro proc/sys
        mount -t cgroup2 cgroup2 sys/fs/cgroup
        mkdir -p old; pivot_root . old; umount -l old; exec env -i container=muster PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
        setpriv --bounding-set=-sys_module,-sys_time,-sys_rawio {SYSTEMD} --unit=test.target --log-target=journal"""
    # A cgroup that enables controllers for its children cannot contain processes, so the waiting process stays outside.
    enter = 'echo 0 >"$0/cgroup.procs"; exec unshare -C /bin/bash -euc "$1"'
    machine = ["unshare", "-mpui", "--fork", "--kill-child", "/bin/bash", "-euc", enter, plan["group"], init]
    for again in range(plan["boots"]):
        if again:  # without user data, and with what is on the disk
            subprocess.run(["/bin/bash", "-euc", """umount run; mount -t tmpfs -o mode=755,size=48m tmpfs run
                rmdir old; rm -f etc/systemd/system/cloud-final.service"""], cwd=root, check=True)
        begun = time.monotonic()
        try:
            code = subprocess.run(machine, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=90, check=False).returncode
        except subprocess.TimeoutExpired:
            code = None
    (folder / "out/end").write_text(json.dumps({"begun": begun, "end": time.monotonic(), "code": code}))


def cgroups():
    """Returns the mount point of cgroup 2, or None."""
    mounts = (line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines())
    return next((pathlib.Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)


def missing():
    """Returns the first missing requirement, or None."""
    if os.geteuid() != 0:
        return "root"
    for tool in (SYSTEMD, "unshare", "setpriv", "ip", "useradd", "dbus-daemon", "curl"):
        if not shutil.which(tool):
            return tool
    if cgroups() is None or not os.access(cgroups(), os.W_OK) or "overlay" not in pathlib.Path("/proc/filesystems").read_text():
        return "cgroup 2 or overlayfs"
    tried = subprocess.run(["unshare", "-mnpC", "--fork", "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True, check=False)
    return "namespaces" if tried.returncode else None


def without_memory():
    """Enables the memory controller at the root of cgroup 2. Returns the reason if that is not possible."""
    root = cgroups()
    with contextlib.suppress(OSError):
        (root / "cgroup.subtree_control").write_text("+memory")
    given = (root / "cgroup.subtree_control").read_text().split()
    return None if "memory" in given else "cgroup 2 has no memory controller here"


WITHOUT = missing()


def pack(archive, run_sh):
    """Writes an agent's archive. Returns its SHA-256."""
    with tempfile.TemporaryDirectory() as name, tarfile.open(archive, "w:gz") as tar:
        for path, text in (("run.sh", run_sh), ("bin/Runner.Listener", "#!/bin/sh\necho 2.336.0\n"), ("bin/installdependencies.sh", "exit 1\n")):
            path = pathlib.Path(name, path)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        tar.add(name, ".")
    return hashlib.sha256(archive.read_bytes()).hexdigest()


class Case(unittest.TestCase):
    def boot(self, agent, beside="", job_started=200, settings="", after_end={}, job_completed={}, disk="4g", unit="", root="", boots=1, files={},
             is_bare=False, spot={}, is_silent=False, **configuration):
        """Boots a machine and waits for its power-off. Returns its events in order, the files in /out, and the times of each
        event, of `told`, of the stamps in /out/at.*, and of the end. `unit` is added to the agent's unit, and `root` runs in
        the machine's root before its first boot. A bare machine downloads its agent and installs packages. A Spot machine gets EC2's
        notice after the report `spot["after"]`, `spot["left"]` seconds ahead; EC2's clock is `spot["shift"]` seconds ahead of its own.
        A builder's later boots get the configuration of a runner. A silent metadata service refuses connections."""
        from test_boot import user_data  # the template is not needed inside

        _, begin, script = user_data().partition("#!/usr/bin/env bash\n")
        header = "#!/bin/bash\nexport MUSTER_RUNNER_API=http://127.0.0.1:8080 MUSTER_REGION=eu-central-1 MUSTER_STACK=muster\n"
        service = "[Unit]\n{unit}\n[Service]\nExecStart=/bin/bash /{name}\nStandardOutput=append:/out/{name}\nStandardError=inherit\n"
        etc = "etc/systemd/system/"
        run_sh = f"#!/bin/bash\n{SAY}{agent}\n"
        given = files
        files = {
            "user-data": f"{header}{settings}\n{begin}{script}",
            "beside": beside,
            "etc/sudoers.d/README": "",
            "opt/actions-runner/run.sh": run_sh,
            "etc/environment": "ImageOS=test\nACTIONS_RUNNER_HOOK_JOB_STARTED=/theirs.sh\n",
            "theirs.sh": "echo the hook of the image, as $(id -un)",
            # As cloud-init's last stage.
            etc + "cloud-final.service": service.format(name="user-data", unit="After=dbus.service") + "Type=oneshot\n",
            etc + "beside.service": service.format(name="beside", unit="Description=Something else"),
            etc + "muster-runner.service.d/test.conf": unit,
            etc + "test.target": "[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=dbus.service cloud-final.service beside.service\n",
            **(BARE if is_bare else {}),
            **given,
        }
        root = (BARE_ROOT if is_bare else "") + root
        configuration = {"runner_name": "r-1", "encoded_jit_config": "SECRET" * 1500, "sudo": False, **configuration}
        with tempfile.TemporaryDirectory() as name:
            folder, group = pathlib.Path(name), cgroups() / f"muster-{os.getpid()}"
            (folder / "out").mkdir()
            (folder / "out").chmod(0o777)
            if is_bare:
                digest = pack(folder / "out/agent.tar.gz", run_sh)
                configuration["agent"] = {"url": "http://127.0.0.1:8080/agent.tar.gz", "sha256": digest}
            plan = {"files": files, "configuration": configuration, "job_started": job_started, "after_end": after_end,
                    "job_completed": job_completed,
                    "root": root, "boots": boots, "spot": spot, "is_silent": is_silent}
            (folder / "plan").write_text(json.dumps({**plan, "group": str(group), "disk": disk}))
            group.mkdir()
            try:
                subprocess.run(["unshare", "-mn", sys.executable, __file__, name], cwd=name, check=True, timeout=200)
            finally:
                (group / "cgroup.kill").write_text("1")
                until = time.monotonic() + 10
                while "populated 1" in (group / "cgroup.events").read_text() and time.monotonic() < until:
                    time.sleep(0.01)
                for path, _, _ in os.walk(group, topdown=False):
                    os.rmdir(path)
            out = {path.name: path.read_text(errors="replace") for path in (folder / "out").iterdir()}
        calls = [json.loads(line) for line in out.get("calls", "").splitlines()]
        end = json.loads(out["end"])
        # In a PID namespace, a power-off is a SIGINT for the process that waits for it.
        self.assertEqual(end["code"], -2, out)
        end["told"] = float(out.get("told", 0))
        offset = time.monotonic() - time.time()
        stamps = {name[3:]: float(text) + offset for name, text in out.items() if name.startswith("at.")}
        return [call["event"] for call in calls], out, {**{call["event"]: call["at"] for call in calls}, **stamps, **end}


@unittest.skipIf(WITHOUT, f"a machine needs {WITHOUT}")
class Machine(Case):
    """Machines of an image with an agent and packages."""

    def test_an_agent_uses_the_proxy_of_its_pool(self):
        password, coded = 'p@ss"w$rd', "p%40ss%22w%24rd"
        proxy = {"https": "http://ada@proxy:3128", "http": None, "no_proxy": [".corp"], "password": password}
        program = (ROOT / "infra/machine-program.py").read_text(encoding="utf-8")
        settings = "export MUSTER_LOGS=http://127.0.0.1:8080/logs/AROA"
        tell = f"mkdir -p _diag; echo ada:{coded}@proxy >_diag/Worker_1.log; grep -l {coded} /proc/[0-9]*/cmdline"
        events, out, _ = self.boot(f"env; {tell}; {ASK_METADATA}", settings=settings, sudo=True, program=program,
                                   network={"ca": None, "proxy": proxy})
        self.assertEqual(sorted(events), ["exited", "register", "runner-started"])
        for line in (f"https_proxy=http://ada:{coded}@proxy:3128", f"HTTPS_PROXY=http://ada:{coded}@proxy:3128"):
            self.assertIn(line + "\n", out["agent"])
        self.assertRegex(out["agent"], r"\nNO_PROXY=\S*169\.254\.169\.254,\S*\.corp\n")
        self.assertIn("TOKEN metadata: 0\n", out["agent"])
        self.assertNotIn("cmdline", out["agent"])
        self.assertIn("ada:[...]@proxy", out["log"])
        for name in ("log", "calls", "user-data"):
            self.assertNotIn(coded, out[name])
            self.assertNotIn(password, out[name])

    def test_a_jobs_log_shows_what_it_used(self):
        """Its disk is in memory here. Other programs of this system use memory and CPU time too."""
        program = (ROOT / "infra/machine-program.py").read_text(encoding="utf-8")
        facts = {"type": "m7i.large", "market": "spot", "zone": "us-east-1a", "pool": "linux-x64", "waited": [48, 42], "seconds": 60,
                 "price": 39100}
        job = """for each in $(seq $(nproc)); do timeout 6 sh -c 'while :; do :; done' & done
            head -c 512M /dev/zero >big; { head -c 1G /dev/zero; sleep 4; } | tail -c 1G >/dev/null; wait"""
        end = f'{HOOK}\n{job}\nbash -e "$ACTIONS_RUNNER_HOOK_JOB_COMPLETED"; echo "hook: $?"'
        for completed in ({"facts": facts}, {}):
            events, out, _ = self.boot(end, program=program, job_completed=completed)
            self.assertEqual(events[-2:], ["job-completed", "exited"], out)
            first, last = [json.loads(line)["used"] for line in out["calls"].splitlines()[-2:]]
            self.assertEqual(first, last)
            self.assertGreater(first["cpu95"], 90)
            self.assertGreater(first["mem"], 1500)
            self.assertGreater(first["disk"], 512)
            found = re.search(r"What this job used \(Muster\)\n(  .*\n){6}hook: 0\n", out["agent"])
            self.assertEqual(bool(found), bool(completed), out["agent"])

    def test_one_job_and_the_power_is_off(self):
        """Without sudo, a job cannot reach the machine's identity."""
        agent = f"env; {ASK_METADATA} grep -l SECRETSECRET /proc/[0-9]*/cmdline; {HOOK}\nsystemctl show -p OOMPolicy muster-runner\nid -un"
        hook = 'echo "hooked $USER for $RUNNER_USER" >/out/hooked; sleep 100 &'
        events, out, times = self.boot(agent, environment={"GREETING": 'it\'s "fine" $HOME\n`x` \\'}, boot_hook=hook)
        self.assertEqual(sorted(events), ["exited", "job-started", "register", "runner-started"])
        self.assertEqual((events[0], events[-1]), ("register", "exited"))
        self.assertLess(times["end"] - times["exited"], PROMPT)
        said = out["agent"]
        self.assertIn(" metadata: 28\n", said)
        self.assertNotIn("TOKEN", said)
        self.assertNotIn("cmdline", said)
        self.assertIn('GREETING=it\'s "fine" $HOME\n`x` \\\n', said)
        self.assertIn("ImageOS=test\n", said)
        self.assertIn("HOME=/home/runner\n", said)
        for absent in ("MUSTER_", "JOURNAL_STREAM", "TERM="):
            self.assertNotIn(absent, said)
        self.assertTrue(said.endswith("the hook of the image, as runner\nOOMPolicy=continue\nrunner\n"), said)
        self.assertEqual(out["hooked"], "hooked root for runner\n")

    def test_users_permissions_and_unit_settings_are_as_intended(self):
        """Read on the booted machine: by root, and as the user of jobs, for pools without and with `sudo`."""
        paths = ["/run/muster", *(f"/run/muster/{name}" for name in ("machine.py", "job-started.sh", "job-completed.sh", "hooks.json",
                 "environment", "settings", "socket")), "/run/systemd/system/muster.service", "/run/systemd/system/muster-runner.service",
                 "/etc/systemd/system/muster-guard.service", "/opt/actions-runner", "/opt/hostedtoolcache", "/etc/sudoers.d/muster"]
        agent = f"""( echo hacked >>/run/muster/job-started.sh; cat /run/muster/environment; kill -USR1 $(systemctl show --value -p MainPID muster)
            systemctl stop muster; rm -f /run/muster/socket; : >/etc/systemd/system/muster-guard.service ) >/dev/null 2>/out/denied || true
            id -un; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status; {HOOK}; until [ -e /out/go ]; do sleep 0.1; done"""
        shown = {"muster": "User RuntimeMaxUSec SuccessAction FailureAction TimeoutStopUSec OOMPolicy KillMode Restart UMask",
                 "muster-runner": "User WorkingDirectory EnvironmentFiles IPAddressDeny OOMPolicy TimeoutStopUSec KillMode Restart LimitNOFILE UMask"}
        show = "; ".join(f"for name in {names}; do echo {unit} $name=$(systemctl show --value -p $name {unit}.service); done" for unit, names in shown.items())
        beside = f"{RUNS}sleep 0.3; stat -c '%A %U %n' {' '.join(paths)} >/out/modes 2>/dev/null; {{ {show}; }} >/out/settings; touch /out/go"
        runners = {"User": "runner", "WorkingDirectory": "/opt/actions-runner", "EnvironmentFiles": "/run/muster/environment (ignore_errors=no)",
                   "OOMPolicy": "continue", "TimeoutStopUSec": "45s", "KillMode": "control-group", "Restart": "no", "LimitNOFILE": "524288", "UMask": "0022"}
        supervisors = {"User": "", "RuntimeMaxUSec": "12h 5min", "SuccessAction": "poweroff", "FailureAction": "poweroff", "TimeoutStopUSec": "30s",
                       "OOMPolicy": "continue", "KillMode": "control-group", "Restart": "no", "UMask": "0022"}
        for sudo in (False, True):
            denied = "" if sudo else "fd00:ec2::254/128 169.254.169.254/32"
            _, out, _ = self.boot(agent, beside=beside, sudo=sudo)
            with self.subTest(sudo=sudo):
                wanted = {**{f"muster {k}": v for k, v in supervisors.items()}, **{f"muster-runner {k}": v for k, v in runners.items()}}
                found = dict(line.partition("=")[::2] for line in out["settings"].splitlines())
                addresses = " ".join(sorted(found.pop("muster-runner IPAddressDeny").split()))
                self.assertEqual((found, addresses), (wanted, " ".join(sorted(denied.split()))))
                modes = [line.split() for line in out["modes"].splitlines()]
                self.assertEqual({path: (mode, user) for mode, user, path in modes}, {
                    **{path: ("-rw-r--r--", "root") for path in paths if path.startswith(("/run", "/etc/systemd"))},
                    "/run/muster": ("drwxr-xr-x", "root"), "/run/muster/environment": ("-rw-------", "root"),
                    "/run/muster/socket": ("srw-rw-rw-", "root"), "/opt/actions-runner": ("drwxr-xr-x", "runner"),
                    "/opt/hostedtoolcache": ("drwxr-xr-x", "runner"), **({"/etc/sudoers.d/muster": ("-r--r-----", "root")} if sudo else {})})
                # `sudo` in a step needs new privileges.
                self.assertEqual(out["agent"].splitlines()[:3], ["runner", "CapEff:\t0000000000000000", "NoNewPrivs:\t0"])
                self.assertIn("the hook of the image, as runner", out["agent"])
                self.assertEqual(out["denied"].count("Permission denied") + out["denied"].count("not permitted"), 5, out["denied"])

    def test_what_it_wrote_is_sent_before_its_end_is_told(self):
        agent = """mkdir _diag; echo traced >_diag/Worker_1.log; echo "$ACTIONS_RUNNER_INPUT_JITCONFIG" >_diag/Runner_1.log
            (echo listens for jobs; sleep 0.4) | systemd-cat; logger noted by sudo"""
        settings = "export MUSTER_LOGS=http://127.0.0.1:8080/AROA"
        events, out, _ = self.boot(agent, settings=settings, boot_hook="echo hooked")
        self.assertEqual(events[-1], "exited")
        said = out["log"]
        self.assertTrue(said.startswith("==> journal <==\n"), said[:500])
        for wanted in ("hooked", "listens for jobs", "muster: the runner ended", "Runner_1.log <==\n[...]", "Worker_1.log <==\ntraced"):
            self.assertIn(wanted, said)
        self.assertNotIn("noted by sudo", said)

    def test_jobs_that_may_become_root_reach_the_metadata_service(self):
        _, out, _ = self.boot(ASK_METADATA, sudo=True)
        self.assertEqual(out["agent"], "TOKEN metadata: 0\n")

    def test_a_refused_job_runs_no_further_step_and_leaves_its_agent_time(self):
        proxy = {"http_proxy": "http://127.0.0.1:9"}  # a pool may configure one
        events, out, times = self.boot(WORKER % HOOK, job_started=409, environment=proxy)
        self.assertIn("::error::This runner is being deleted", out["agent"])
        self.assertIn("told GitHub", out["agent"])
        self.assertNotIn("next step", out["agent"])
        self.assertEqual(events[-1], "exited")

    def test_a_job_that_replaces_its_agent_ends_its_machine(self):
        """Processes that it leaves in any session end with the unit."""
        events, out, _ = self.boot("setsid bash -c 'echo another agent; sleep 600; echo lives on' &\nsleep 0.5; kill -KILL $$")
        self.assertEqual((events[-1], out["agent"]), ("exited", "another agent\n"))

    def test_an_agent_that_is_too_old_says_so(self):
        """systemd must record the program's end before it runs ExecStopPost=."""
        events, out, _ = self.boot('sleep 1; exit "${ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE:+7}"')
        self.assertEqual(events[-1], "exited")
        self.assertIn('"event": "exited", "code": 7', out["calls"])
        _, out, _ = self.boot("sleep 1; exit 143")
        self.assertIn('"event": "exited", "code": 0', out["calls"])

    def test_whatever_ends_the_supervisor_ends_the_machine(self):
        kill = f"{RUNS}{TELL}; systemctl kill --kill-who=main --signal=KILL muster.service"
        events, _, times = self.boot("sleep 600", beside=kill)
        self.assertEqual(events, ["register", "runner-started"])
        self.assertLess(times["end"] - times["told"], PROMPT)

    def test_so_does_its_longest_life(self):
        life = "export MUSTER_MAX_LIFETIME_SECONDS=3 MUSTER_LIFETIME_GRACE_SECONDS=0"
        events, _, times = self.boot("sleep 60", settings=life)
        self.assertEqual(events, ["register", "runner-started", "exited"])
        self.assertLess(times["end"] - times["exited"], PROMPT)

    def test_a_failed_jobs_machine_stays_for_a_look_and_can_be_ended_meanwhile(self):
        events, _, times = self.boot("sleep 0.1", after_end={"stay_seconds": 4})
        self.assertEqual(events[-1], "exited")
        self.assertGreater(times["end"] - times["exited"], 4)
        self.assertLess(times["end"] - times["exited"], 4 + PROMPT)
        ask = f"until grep -qs exited /out/calls; do sleep 0.1; done; sleep 0.5; {TELL}; shutdown -h now"
        _, _, times = self.boot("sleep 0.1", after_end={"stay_seconds": 600}, beside=ask)
        self.assertLess(times["end"] - times["told"], PROMPT)

    def test_so_does_a_second_boot(self):
        """It does not depend on cloud-init, which runs nothing at the second boot. At the first, the guard has no effect."""
        beside = "echo booted >>/out/boots; systemctl start sysinit.target muster-guard.service"
        events, out, times = self.boot(f"{HOOK}; sleep 0.5", beside=beside, boots=2)
        self.assertEqual(sorted(events), ["exited", "job-started", "register", "runner-started"])
        self.assertEqual(out["boots"], "booted\n", "no other service starts")
        self.assertLess(times["end"] - times["begun"], PROMPT)

    def test_a_step_that_is_killed_for_its_memory_fails_alone(self):
        if why := without_memory():
            self.skipTest(why)
        step = "( echo 1000 >/proc/self/oom_score_adj; exec tail /dev/zero )\necho \"step: $?\""
        events, out, _ = self.boot(f"{step}; sleep 1; echo next step", unit="[Service]\nMemoryMax=64M\nMemorySwapMax=0\n")
        self.assertTrue(out["agent"].endswith("step: 137\nnext step\n"), out["agent"])
        self.assertEqual(events[-1], "exited")

    def test_a_job_that_fills_every_disk_ends_its_machine_all_the_same(self):
        agent = f"{FILL}fill /opt/actions-runner $HOME /var/tmp /tmp /dev/shm\n{HOOK}; df --output=avail / /tmp | tail -n 2"
        settings = "export MUSTER_LOGS=http://127.0.0.1:8080/AROA"
        events, out, times = self.boot(agent, disk="64m", settings=settings)
        self.assertEqual(events[-1], "exited")
        self.assertIn("muster: the runner ended", out["log"])
        self.assertEqual(out["agent"].split()[-2:], ["0", "0"], out["agent"])
        self.assertLess(times["end"] - times["exited"], PROMPT)

    def test_so_does_one_that_is_root_and_fills_what_is_systemds(self):
        beside = f"{FILL}{RUNS}fill /run / /tmp; df --output=avail /run | tail -n 1 >/out/left; {TELL}; touch /out/go"
        events, out, times = self.boot("until [ -e /out/go ]; do sleep 0.1; done", beside=beside, disk="64m", sudo=True)
        self.assertEqual((events[-1], out["left"].strip()), ("exited", "0"))
        self.assertLess(times["end"] - times["told"], PROMPT)

    def test_a_disk_that_is_full_before_the_agent_is_a_failed_boot(self):
        events, _, times = self.boot("sleep 600", boot_hook=f"{FILL}fill /", disk="64m", sudo=True)
        self.assertEqual(events, ["register", "boot-failed"])
        self.assertLess(times["end"] - times["boot-failed"], PROMPT)


@unittest.skipIf(WITHOUT, f"a machine needs {WITHOUT}")
class Spot(Case):
    """Machines that EC2 takes back. The agent is stopped 40 seconds before EC2's deadline."""

    BEGINS = 'GITHUB_REPOSITORY=acme/app GITHUB_RUN_ID=7 bash -e "$ACTIONS_RUNNER_HOOK_JOB_STARTED"'
    ENDS = 'bash -e "$ACTIONS_RUNNER_HOOK_JOB_COMPLETED"'
    WORKS = 'echo working; trap "echo interrupted; exit 130" INT; sleep 70 >/dev/null & wait'

    def interrupt(self, *steps, after="job-started", left=46, shift=0):
        """Runs these steps as a job. Returns the events, the job's log, the times, and why the machine said that its agent stopped."""
        quoted = " ".join("'" + step.replace("'", "'\\''") + "'" for step in steps)
        files = dict.fromkeys((f"opt/actions-runner/bin/Runner.{name}" for name in ("Listener", "Worker")), STEPS)
        files["etc/systemd/system/muster.service.d/test.conf"] = "[Service]\nEnvironment=MUSTER_LAST_WAIT_SECONDS=1\n"
        spot = {"after": after, "left": left, "shift": shift}
        events, out, times = self.boot(f"exec /opt/actions-runner/bin/Runner.Listener {quoted}", files=files, spot=spot)
        stopped_for = json.loads(out["calls"].splitlines()[-1])["stopped_for"]
        return events, out, times, stopped_for

    def lines(self, out, shift=0):
        """Returns the two lines for the job's log, as the user reads them on GitHub."""
        clock = lambda seconds: time.strftime("%H:%M:%S", time.gmtime(int(out["at.deadline"]) + shift + seconds))
        return (f"::notice title=Spot interruption notice::EC2 takes this machine back at {clock(0)} UTC. The job can go on until "
                f"{clock(-40)} UTC.", "::error title=EC2 Spot interruption::EC2 took this machine back, so Muster stopped the job. "
                "It does not run again by itself; re-run it on GitHub.")

    def test_a_running_job_is_stopped_in_time_and_its_log_is_complete(self):
        events, out, times, stopped_for = self.interrupt(self.BEGINS, self.WORKS, "echo next step", self.ENDS)
        notice, error = self.lines(out)
        self.assertEqual(out["job"].splitlines()[1:], ["working", "", notice, "", error, "interrupted"])
        self.assertEqual(events[-2:], ["interrupted", "exited"])
        self.assertEqual(stopped_for, "interruption")
        # A header and a notice have whole seconds.
        self.assertAlmostEqual(times["deadline"] - times["github"], 39, delta=3)
        self.assertLess(times["end"], times["deadline"] - 20)

    def test_a_wrong_clock_stops_no_job_early(self):
        """The machine's clock is an hour fast: by that clock, the deadline has passed."""
        _, out, times, stopped_for = self.interrupt(self.BEGINS, self.WORKS, shift=-3600)
        self.assertEqual(out["job"].splitlines()[-2], self.lines(out, shift=-3600)[1])
        self.assertEqual(stopped_for, "interruption")
        self.assertAlmostEqual(times["deadline"] - times["github"], 39, delta=3)

    def test_a_step_that_redirects_its_output_keeps_its_file(self):
        _, out, times, stopped_for = self.interrupt(self.BEGINS, "exec >/out/theirs; " + self.WORKS)
        self.assertEqual(out["theirs"], "working\ninterrupted\n")
        self.assertNotIn("::", out["job"])
        self.assertEqual(stopped_for, "interruption")

    def test_a_job_that_ends_in_time_is_not_stopped(self):
        """Not even if its agent still uploads when the time comes."""
        works = "until [ -e /out/at.deadline ]; do sleep 0.1; done; sleep 2; echo done"
        events, out, times, stopped_for = self.interrupt(self.BEGINS, works, self.ENDS, "sleep 8; echo uploaded")
        self.assertEqual(out["job"].splitlines()[1:], ["", self.lines(out)[0], "done", "uploaded"])
        self.assertEqual(events[-3:], ["interrupted", "job-completed", "exited"])
        self.assertIsNone(stopped_for)
        self.assertLess(times["deadline"] - times["github"], 38)

    def test_a_runner_without_a_job_is_stopped_at_once(self):
        events, _, times, stopped_for = self.interrupt(after="runner-started", left=115)
        self.assertEqual((events[-1], stopped_for), ("exited", "interruption"))
        self.assertIn("interrupted", events)
        self.assertGreater(times["deadline"] - times["end"], 80)


@unittest.skipIf(WITHOUT, f"a machine needs {WITHOUT}")
class Bare(Case):
    """Machines without an agent, which install packages; and images that have the agent in other places."""

    def test_packages_are_installed_while_the_agent_connects_and_takes_its_job(self):
        """Like GitHub's worker, the agent resolves `docker` before the hook runs, and has the groups of its start."""
        agent = f"""echo $EPOCHREALTIME >/out/at.started; docker=$(command -v docker); echo "$docker, groups: $(id -nG)"
            {HOOK}; echo $EPOCHREALTIME >/out/at.step; "$docker" ps; docker run; readlink "$docker"; sudo -n id -u || true"""
        events, out, times = self.boot(agent, is_bare=True, sudo=True)
        self.assertEqual(sorted(events), ["exited", "job-started", "register", "runner-started"])
        self.assertEqual((events[0], events[-1]), ("register", "exited"))
        said = out["agent"].splitlines()
        self.assertRegex(said[0], r"^/usr/local/bin/docker, groups: .*\bdocker\b")
        self.assertIn("Waiting until the packages of this machine are installed.", said)
        at = said.index("docker: ps")
        self.assertEqual(said[at : at + 3], ["docker: ps", "docker: run", "/usr/bin/docker"])
        # One after the other, the agent would start when the installation ends, or later.
        self.assertGreater(times["installed"] - times["started"], 4)
        self.assertLess(times["job-started"] - times["started"], 3)
        self.assertGreater(times["step"], times["installed"])
        self.assertLess(times["step"] - times["installed"], 3)
        update, fetch, install = out["apt"].splitlines()
        self.assertIn("docker.io", install)
        self.assertEqual(fetch.replace(" --download-only", ""), install)

    def test_a_mirror_that_fails_lets_no_agent_connect(self):
        """So GitHub cannot assign a job to a machine that will not be complete."""
        events, out, times = self.boot("touch /out/started", is_bare=True, root="touch no-mirror")
        self.assertEqual(events, ["register", "boot-failed"])
        self.assertNotIn("started", out)
        self.assertIn("apt_fetch failed (attempt 3 of 3)", out["calls"])
        self.assertLess(times["end"] - times["boot-failed"], PROMPT)

    def test_an_installation_that_fails_before_a_job_is_a_failed_boot(self):
        events, out, times = self.boot("exec sleep 600", is_bare=True, root="touch fails")
        self.assertEqual((events[0], events[-1]), ("register", "boot-failed"))
        self.assertNotIn("exited", events)
        self.assertIn("apt_install failed (attempt 3 of 3)", out["calls"])
        self.assertLess(times["end"] - times["boot-failed"], PROMPT)

    def test_an_installation_that_fails_under_a_job_refuses_it(self):
        events, out, _ = self.boot(WORKER % HOOK, is_bare=True, root="touch fails fails-with-a-job")
        why = "::error::The packages of this machine could not be installed (exit code 1), so this job was not started. Please re-run it."
        self.assertIn(why, out["agent"].splitlines())
        self.assertIn("told GitHub", out["agent"])
        self.assertNotIn("next step", out["agent"])
        self.assertIn("job-started", events)
        self.assertEqual(events[-1], "boot-failed")

    def test_a_boot_hook_finds_the_packages(self):
        """It runs before the agent, as it may use the package manager."""
        _, out, times = self.boot(f"echo $EPOCHREALTIME >/out/at.started; {HOOK}", is_bare=True, boot_hook="docker hooks >/out/hooked")
        self.assertEqual(out["hooked"], "docker: hooks\n")
        self.assertGreater(times["started"], times["installed"])

    def test_an_image_with_its_agent_elsewhere_and_a_disabled_docker_installs_nothing(self):
        service = "[Service]\nExecStart=/bin/sleep 60\n[Install]\nWantedBy=multi-user.target\n"
        socket = "[Socket]\nListenStream=/run/docker.sock\n[Install]\nWantedBy=sockets.target\n"
        files = {**BARE, "usr/bin/docker": "#!/bin/sh\necho theirs\n", "etc/systemd/system/docker.service": service,
                 "etc/systemd/system/docker.socket": socket, "home/runner/actions-runner/bin/Runner.Listener": "#!/bin/sh\necho 2.334.0\n"}
        root = """rm -f usr/local/bin/docker; mkdir -p etc/apt/apt.conf.d
            mv opt/actions-runner/run.sh home/runner/actions-runner/; rm -r opt/actions-runner; mkdir opt/actions-runner"""
        agent = f"pwd -P; {HOOK}; docker; systemctl is-active docker.socket; stat -c %U ."
        events, out, _ = self.boot(agent, files=files, root=root)
        self.assertEqual((events[0], events[-1]), ("register", "exited"))
        self.assertEqual(out["agent"].splitlines()[-4:], ["the hook of the image, as runner", "theirs", "active", "runner"])
        self.assertEqual(out["agent"].splitlines()[0], "/home/runner/actions-runner")
        self.assertNotIn("apt", out)


BAKE = (ROOT / "infra/image/bake.sh").read_text(encoding="utf-8")
# Does without cloud-init, and has the boot unit.
BY_UNIT = "rm etc/systemd/system/cloud-final.service; chroot . /bin/bash -euc " + shlex.quote(
    re.search(r"^install_boot_unit\(\) \{\n.*?^\}\n", BAKE, re.M | re.S)[0] + "install_boot_unit")


@unittest.skipIf(WITHOUT, f"a machine needs {WITHOUT}")
class Builder(Case):
    """Machines from whose disk EC2 makes an image, and machines of that image."""

    def test_its_disk_boots_as_a_new_machine_without_cloud_init(self):
        gone = ("etc/ssh/ssh_host_rsa_key", "root/.bash_history", "home/runner/.bash_history", "var/cache/apt/archives/x.deb", "var/tmp/x",
                "tmp/x", "etc/netplan/50-cloud-init.yaml", "var/log/journal/*", "etc/systemd/system/muster-guard.service",
                "usr/local/bin/docker", "opt/actions-runner/_diag")
        networkd = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n[Install]\nWantedBy=test.target\n"
        files = {**dict.fromkeys((*gone[:5], *gone[6:8], "var/lib/apt/lists/x", "etc/cloud/cloud.cfg", "etc/hostname"), "theirs"),
                 "usr/bin/cloud-init": "#!/bin/sh\necho $* >/out/cloud-init\n", "usr/bin/growpart": "#!/bin/sh\n",
                 "lib/systemd/system/apport.service": "[Service]\nExecStart=/bin/touch /out/apport\n"}
        root = f"""cd etc/systemd/system; rm systemd-networkd.service; printf {shlex.quote(networkd)} >systemd-networkd.service
            mkdir test.target.wants; ln -s ../systemd-networkd.service /lib/systemd/system/apport.service test.target.wants/"""
        beside = f"""[ ! -e /out/state ] || exit 0; touch /tmp/x /out/state; until grep -qs baked /out/calls; do sleep 0.1; done; sleep 0.3
            ls -d {' '.join('/' + path for path in gone)} 2>/dev/null >/out/state; ls /var/lib/apt/lists/x; wc -c </etc/machine-id
            rm /out/apport; {TELL}; shutdown -h now"""
        agent = f"id -un; hostname; systemctl is-active cloud-final; cat /etc/systemd/system/muster-guard.service | wc -l; {HOOK}"
        builder = {"script": BAKE, "boot": "unit"}
        events, out, times = self.boot(agent, beside=beside, files=files, root=root, is_bare=True, boots=2, builder=builder)
        first = [json.loads(line) for line in out["calls"].splitlines()]
        self.assertEqual((events[:3], events[-1]), (["register", "baked", "register"], "exited"), out)
        self.assertEqual(sorted(events[3:]), ["exited", "job-started", "runner-started"], out)
        baked, second = first[1:3]
        self.assertEqual([baked[name] for name in ("agent", "boot", "why")], ["2.336.0", "unit", None], out)
        self.assertGreater(baked["disk_bytes"], 0)
        self.assertEqual((out["state"], out["beside"][:23], out["cloud-init"]), ("", "/var/lib/apt/lists/x\n0\n", "clean --logs\n"), out)
        self.assertEqual(second["agent"], "2.336.0")
        self.assertEqual(len(out["apt"].splitlines()), 3, "a machine of the image installs nothing")
        self.assertEqual(out["agent"].splitlines()[:2], ["runner", "ip-10-0-0-7"])
        self.assertNotIn("apport", out)

    def test_an_image_with_a_different_network_service_keeps_cloud_init(self):
        files = {"opt/actions-runner/bin/Runner.Listener": "#!/bin/sh\necho 2.336.0\n", "etc/cloud/cloud.cfg": ""}
        beside = "until grep -qs baked /out/calls; do sleep 0.1; done; ls /etc/cloud /usr/local/lib/muster >/out/state 2>&1; systemctl stop muster"
        events, out, _ = self.boot("", beside=beside, files=files, builder={"script": BAKE, "boot": "unit"})
        self.assertEqual(events, ["register", "baked"], out)
        baked = json.loads(out["calls"].splitlines()[1])
        self.assertEqual((baked["boot"], baked["why"]), ("cloud-init", "The image does not use systemd-networkd."))
        self.assertNotIn("cloud-init.disabled", out["state"])
        self.assertIn("cannot access '/usr/local/lib/muster'", out["state"])

    def test_a_hook_that_fails_is_a_failed_boot(self):
        events, out, times = self.boot("", boot_hook="echo making tools; exit 3", builder={"script": "touch /out/baked", "boot": "unit"})
        self.assertEqual(events, ["register", "boot-failed"])
        self.assertIn("making tools\\nmuster: booting failed (exit code 3)", out["calls"])
        self.assertNotIn("baked", out)
        self.assertLess(times["end"] - times["boot-failed"], PROMPT)

    def test_a_boot_by_the_unit_that_cannot_start_muster_powers_off(self):
        """Within the unit's time-out, here 8 seconds instead of 62."""
        self.assertIn("\nlimit=${MUSTER_METADATA_LIMIT_SECONDS:-60}\n", BAKE)
        for line in ("TimeoutStartSec=62\nTimeoutStopSec=1", "JobTimeoutSec=65"):
            self.assertIn(f"\n{line}\n", BAKE)
        etc = "etc/systemd/system/"
        brief = {etc + "muster-boot.service.d/test.conf": "[Service]\nEnvironment=MUSTER_METADATA_LIMIT_SECONDS=2\nTimeoutStartSec=8\n"}
        waits = {etc + "muster-boot.service.d/waits.conf": "[Unit]\nAfter=slow.service\nWants=slow.service\nJobTimeoutSec=3\n",
                 etc + "slow.service": "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/sleep 600\n"}
        hangs = "#!/bin/bash\ntrap : TERM\nwhile :; do sleep 600; done"
        # the user data, further files, whether the metadata service is silent, the seconds until the end
        for user_data, files, is_silent, seconds in (("", {}, True, 2), (hangs, {}, False, 8), ("#!/bin/bash\nexit 1", {}, False, 0),
                                                     ("no script", {}, False, 0), (hangs, waits, False, 3)):
            events, _, times = self.boot("", root=BY_UNIT, files={**brief, **files, "user-data": user_data}, is_silent=is_silent)
            with self.subTest(user_data=user_data, files=files):
                self.assertEqual(events, [])
                self.assertTrue(seconds - 1 < times["end"] - times["begun"] < seconds + 4, times)  # bash counts whole seconds


if __name__ == "__main__":
    contain(pathlib.Path(sys.argv[1]))
