"""The user data under a real systemd, in namespaces of its own, from its first line to the power-off.

It takes root, a cgroup 2 mount, overlayfs, and this system's own systemd as the machine's: /usr and /etc are below an
overlay in memory. The network has nothing but a metadata service and a runner API. What is not there skips the tests.
The OOM killer's test needs the memory controller of cgroup 2 as well. Both sides have one monotonic
clock, and a time begins where the machine notes its reason to end.
"""

import contextlib

import gzip
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SYSTEMD = "/lib/systemd/systemd"
# Seconds within which a machine ends that is told to: fewer than the least time-out of its units, which would end it all the same.
PROMPT = 25
# Some reach beyond the namespaces or wait for hardware; the others are not worth their time.
MASKED = ("systemd-networkd", "systemd-resolved", "systemd-udevd", "systemd-logind", "systemd-random-seed", "systemd-timesyncd",
          "systemd-machine-id-commit", "systemd-sysusers", "systemd-modules-load", "systemd-sysctl")
SAY = "exec >>/out/agent 2>&1\n"
# For a process beside: until the agent runs and its start is told.
RUNS = "for try in {1..600}; do ! grep -qs runner-started /out/calls || break; sleep 0.1; done\n"
TELL = "python3 -c 'import time; print(time.monotonic())' >/out/told"
# As a job that writes until there is no room.
FILL = "fill() { for each; do cat /dev/zero >$each/full 2>/dev/null || true; done; }\n"
ASK_METADATA = "curl -sS --max-time 2 -X PUT http://169.254.169.254/latest/api/token; echo \" metadata: $?\"\n"
HOOK = 'GITHUB_REPOSITORY=acme/app GITHUB_RUN_ID=7 bash -e "$ACTIONS_RUNNER_HOOK_JOB_STARTED"'


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self):
        if self.path.endswith("/machine.log.gz"):
            log = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
            self.server.calls.with_name("log").write_bytes(log)
        self.answer(200, "TOKEN")

    def do_GET(self):
        keys = {"AccessKeyId": "id", "SecretAccessKey": "key", "Token": "token"}
        known = {"security-credentials/": "role", "instance-id": "i-0abc"}
        self.answer(200, next((text for end, text in known.items() if self.path.endswith(end)), json.dumps(keys)))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        told = {"at": time.monotonic(), "event": body.get("event", "register"), "code": body.get("code")}
        with open(self.server.calls, "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")
        if self.path == "/runner/register":
            return self.answer(200, json.dumps(self.server.plan["configuration"]))
        ended = json.dumps(self.server.plan["after_end"]) if told["event"] == "exited" else "{}"
        return self.answer(self.server.plan["job_started"] if self.path == "/runner/job-started" else 200, ended)


def contain(folder):
    """In namespaces for mounts, network and cgroups: serves the machine's two services, and boots it."""
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
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    for address in (("169.254.169.254", 80), ("127.0.0.1", 8080)):
        server = http.server.ThreadingHTTPServer(address, Api)
        server.plan, server.calls = plan, folder / "out/calls"
        threading.Thread(target=server.serve_forever, daemon=True).start()
    init = f"""mount -t proc proc proc; mount -o bind proc/sys proc/sys; mount -o remount,bind,ro proc/sys
        mount -t cgroup2 cgroup2 sys/fs/cgroup
        mkdir -p old; pivot_root . old; umount -l old; exec env -i container=muster PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
        setpriv --bounding-set=-sys_module,-sys_time,-sys_rawio {SYSTEMD} --unit=test.target --log-target=journal"""
    # A group that hands controllers to its children has no process of its own: who waits outside stays out of it.
    enter = 'echo 0 >"$0/cgroup.procs"; exec unshare -C /bin/bash -euc "$1"'
    machine = ["unshare", "-mpui", "--fork", "--kill-child", "/bin/bash", "-euc", enter, plan["group"], init]
    begun = time.monotonic()
    try:
        code = subprocess.run(machine, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=90, check=False).returncode
    except subprocess.TimeoutExpired:
        code = None
    (folder / "out/end").write_text(json.dumps({"begun": begun, "end": time.monotonic(), "code": code}))


def cgroups():
    """Where cgroup 2 is mounted."""
    mounts = (line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines())
    return next((pathlib.Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)


def missing():
    """What there is not."""
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
    """Why a machine of these tests has no memory controller, if so. The root of cgroup 2 hands it out where it may."""
    root = cgroups()
    with contextlib.suppress(OSError):
        (root / "cgroup.subtree_control").write_text("+memory")
    given = (root / "cgroup.subtree_control").read_text().split()
    return None if "memory" in given else "cgroup 2 has no memory controller here"


WITHOUT = missing()


@unittest.skipIf(WITHOUT, f"a machine needs {WITHOUT}")
class Machine(unittest.TestCase):
    def boot(self, agent, beside="", job_started=200, settings="", after_end={}, disk="4g", unit="", **configuration):
        """What a machine did, until it had no power: events in their order, what it left in /out, and its times: of each
        event, of what is in `told`, and of the power's end. `unit` is added to the agent's."""
        from test_boot import user_data  # the template is not needed inside

        _, begin, script = user_data().partition("#!/usr/bin/env bash\n")
        header = "#!/bin/bash\nexport MUSTER_RUNNER_API=http://127.0.0.1:8080 MUSTER_REGION=eu-central-1 MUSTER_STACK=muster\n"
        service = "[Unit]\n{unit}\n[Service]\nExecStart=/bin/bash /{name}\nStandardOutput=append:/out/{name}\nStandardError=inherit\n"
        etc = "etc/systemd/system/"
        files = {
            "user-data": f"{header}{settings}\n{begin}{script}",
            "beside": beside,
            "etc/sudoers.d/README": "",
            "opt/actions-runner/run.sh": f"#!/bin/bash\n{SAY}{agent}\n",
            "etc/environment": "ImageOS=test\nACTIONS_RUNNER_HOOK_JOB_STARTED=/theirs.sh\n",
            "theirs.sh": "echo the hook of the image, as $(id -un)",
            # As cloud-init's last stage.
            etc + "cloud-final.service": service.format(name="user-data", unit="After=dbus.service") + "Type=oneshot\n",
            etc + "beside.service": service.format(name="beside", unit="Description=Something else"),
            etc + "muster-runner.service.d/test.conf": unit,
            etc + "test.target": "[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=dbus.service cloud-final.service beside.service\n",
        }
        configuration = {"runner_name": "r-1", "encoded_jit_config": "SECRET" * 1500, "sudo": False, **configuration}
        with tempfile.TemporaryDirectory() as name:
            folder, group = pathlib.Path(name), cgroups() / f"muster-{os.getpid()}"
            (folder / "out").mkdir()
            (folder / "out").chmod(0o777)
            plan = {"files": files, "configuration": configuration, "job_started": job_started, "after_end": after_end}
            (folder / "plan").write_text(json.dumps({**plan, "group": str(group), "disk": disk}))
            group.mkdir()
            try:
                subprocess.run(["unshare", "-mn", sys.executable, __file__, name], cwd=name, check=True, timeout=120)
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
        # What a power-off is, in a namespace of processes: SIGINT for whoever waits for it.
        self.assertEqual(end["code"], -2, out)
        end["told"] = float(out.get("told", 0))
        return [call["event"] for call in calls], out, {**{call["event"]: call["at"] for call in calls}, **end}

    def test_one_job_and_the_power_is_off(self):
        """Without sudo, the machine's identity is out of a job's reach."""
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
        worker = f"trap 'kill -INT $hook; sleep 1; echo told GitHub; exit' TERM; {HOOK} & hook=$!; wait $hook; echo next step"
        proxy = {"http_proxy": "http://127.0.0.1:9"}  # as a pool may name one
        events, out, times = self.boot(f"trap : TERM\n( {worker} ) & wait; wait", job_started=409, environment=proxy)
        self.assertIn("::error::This runner is being deleted", out["agent"])
        self.assertIn("told GitHub", out["agent"])
        self.assertNotIn("next step", out["agent"])
        self.assertEqual(events[-1], "exited")

    def test_a_job_that_replaces_its_agent_ends_its_machine(self):
        """What it leaves behind, in whatever session, ends with the unit."""
        events, out, _ = self.boot("setsid bash -c 'echo another agent; sleep 600; echo lives on' &\nsleep 0.5; kill -KILL $$")
        self.assertEqual((events[-1], out["agent"]), ("exited", "another agent\n"))

    def test_an_agent_that_is_too_old_says_so(self):
        """That systemd knows the end of its program before it runs what follows on it."""
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
        events, _, times = self.boot("sleep 600", beside=f"{RUNS}{TELL}; /var/lib/cloud/scripts/per-boot/muster")
        self.assertEqual(events[:2], ["register", "runner-started"])
        self.assertLess(times["end"] - times["told"], PROMPT)

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


if __name__ == "__main__":
    contain(pathlib.Path(sys.argv[1]))
