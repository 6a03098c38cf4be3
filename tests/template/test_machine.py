"""infra/machine/machine.py: the supervisor's calls, the answers that hooks get, and the environment of a job."""

import contextlib
import datetime
import email.utils
import gzip
import http.client
import http.server
import importlib.util
import io
import itertools
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import urllib.error

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rendered import ROOT

KEYS = {"AccessKeyId": "AKID", "SecretAccessKey": "secret", "Token": "tok+en/="}
EVENT = {"event": "job-started", "repository": "acme/app"}


class Api(http.server.BaseHTTPRequestHandler):
    """Metadata service and runner API in one. Each call gets the next answer for its path; the last one repeats."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        body = body.encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_late(self):
        """Refuses a signature with a wrong time as AWS does: 403, with its own time in the Date header."""
        signed_at = datetime.datetime.strptime(self.headers["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z")
        is_late = abs(datetime.datetime.now(datetime.timezone.utc) - signed_at).total_seconds() > 300
        if is_late:
            self.server.refused.append(self.path)
            self.answer(403, '{"message":"Signature not yet current"}')
        return is_late

    def do_PUT(self):
        if self.path != "/latest/api/token":
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.is_late():
                return
            self.server.objects.append((self.path, self.headers, body))
            self.server.slow.wait(10)
        with contextlib.suppress(BrokenPipeError):  # the client may have disconnected
            self.answer(200, "token")

    def do_GET(self):
        known = {"security-credentials/": "role\n", "instance-id": "i-0abc"}
        self.answer(200, next((text for end, text in known.items() if self.path.endswith(end)), json.dumps(KEYS)))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.is_late():
            return
        self.server.calls.append((self.path, body))
        answers = self.server.answers.get(self.path, [(200, {})])
        status, answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.answer(status, answer if isinstance(answer, str) else json.dumps(answer))


class Case(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext_(tempfile.TemporaryDirectory()))
        for path in (ROOT / "infra/machine").iterdir():
            shutil.copy(path, self.root)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        self.api = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
        self.api.calls, self.api.answers, self.api.objects, self.api.refused = [], {}, [], []
        self.api.slow = threading.Event()
        self.api.slow.set()
        threading.Thread(target=self.api.serve_forever, args=(0.02,), daemon=True).start()
        self.addCleanup(self.api.server_close)
        self.addCleanup(self.api.shutdown)
        url = f"http://127.0.0.1:{self.api.server_port}"
        self.user = pwd.getpwuid(os.getuid()).pw_name
        given = {"MUSTER_RUNNER_API": url, "MUSTER_REGION": "eu-central-1", "MUSTER_START_LIMIT_SECONDS": "1",
                 "MUSTER_REGISTER_LIMIT_SECONDS": "1", "AWS_EC2_METADATA_SERVICE_ENDPOINT": url, "MUSTER_RUNNER_USER": self.user,
                 "MUSTER_RUNNER_DIR": str(self.root), "MUSTER_ENVIRONMENT": str(self.root / "image"), "MUSTER_TOOL_CACHE": "/tools",
                 "MUSTER_UNITS": str(self.root / "units"), "PATH": f"{self.root}:{os.environ['PATH']}"}
        # A pool or an image may configure a proxy: the supervisor must not use it.
        self.enterContext_(unittest.mock.patch.dict(os.environ, {**given, "http_proxy": "http://127.0.0.1:9"}))
        spec = importlib.util.spec_from_file_location("machine", self.root / "machine.py")
        self.machine = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.machine)
        self.enterContext_(unittest.mock.patch.object(self.machine.random, "random", lambda: 0))
        self.said = self.enterContext_(contextlib.redirect_stdout(io.StringIO()))

    def enterContext_(self, manager):  # `enterContext` came with Python 3.11
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def command(self, name, text=""):
        (self.root / name).write_text(f'#!/bin/bash\necho "{name} $*" >>{self.root}/commands\n{text}\n')
        (self.root / name).chmod(0o755)

    def commands(self):
        path = self.root / "commands"
        return path.read_text().splitlines() if path.exists() else []


class Calls(Case):
    def test_the_signature_is_amazons_own(self):
        now = datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc)
        url = "https://api.execute-api.eu-central-1.amazonaws.com/runner/register"
        bucket = "https://logs.s3.eu-central-1.amazonaws.com/AROA%3Ai-0abc/machine.log.gz"
        for method, url, service, kind in (("POST", url, "execute-api", SigV4Auth), ("PUT", bucket, "s3", S3SigV4Auth)):
            ours = self.machine.signed(method, url, b'{"a":1}', KEYS, now, service)
            request = AWSRequest(method, url, data=b'{"a":1}', headers={"host": ours["host"]})
            request.context["payload_signing_enabled"] = True
            with unittest.mock.patch("botocore.auth.get_current_datetime", lambda: now.replace(tzinfo=None), create=True), \
                    unittest.mock.patch("botocore.auth.datetime") as clock:
                clock.datetime.utcnow.return_value = clock.datetime.now.return_value = now
                kind(Credentials(*KEYS.values()), service, "eu-central-1").add_auth(request)
            self.assertEqual(ours["authorization"], request.headers["Authorization"], service)

    def test_the_images_agent_is_told_before_it_is_configured(self):
        arch = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine)
        listener = self.root / "bin/Runner.Listener"
        listener.parent.mkdir()
        for text, version in (("echo 2.336.0", "2.336.0"), ("echo An error occurred: 1.2.3; exit 1", None), ("exec /nothing", None)):
            listener.write_text(f'#!/bin/bash\n[ "$*" = --version ] || exit 1\n{text}\n')
            listener.chmod(0o755)
            self.machine.register()
            told = self.api.calls[-1][1]
            self.assertEqual((told["arch"], told["agent"]), (arch, version), text)
        listener.unlink()
        self.machine.register()
        told = self.api.calls[-1][1]
        self.assertEqual((told["arch"], told["agent"]), (arch, None))

    def test_another_agent_is_taken_by_its_address_and_its_digest(self):
        (self.root / "agent.sh").write_text('echo "taken: $# $*"')
        for agent, said in (({"version": "2.336.0", "url": "https://a/b", "sha256": "ab"}, "taken: 2 https://a/b ab"),
                            ({"version": "2.336.0", "url": "https://a/b", "sha256": None}, "taken: 1 https://a/b"), ({}, "taken: 0 ")):
            self.machine.take_agent(agent)
            self.assertEqual(self.said.getvalue().splitlines()[-1], said)
        (self.root / "agent.sh").write_text("exit 3")
        with self.assertRaises(SystemExit):
            self.machine.take_agent({})

    def test_the_agents_end_is_told_where_it_was_too_old(self):
        for status, code in (("7", 7), ("0", 0), ("143", 0), ("", 0)):
            self.command("systemctl", f"echo {status}")
            self.assertEqual(self.machine.agents_end(), code)
        self.assertEqual(self.commands()[-1], "systemctl show --property=ExecMainStatus --value muster-runner.service")

    def test_a_configuration_is_asked_for_until_it_comes(self):
        self.api.answers["/runner/register"] = [(503, "no json"), (403, {"retry_after_seconds": 0}), (200, {"runner_name": "r-1"})]
        os.environ["MUSTER_REGISTER_LIMIT_SECONDS"] = "5"
        self.assertEqual(self.machine.register(), {"runner_name": "r-1"})
        ages = [body["ages"] for _, body in self.api.calls]
        self.assertEqual(set(ages[0]), {"kernel", "supervisor"})
        for name in ages[0]:
            self.assertTrue(0 <= ages[0][name] <= ages[1][name] <= ages[2][name], ages)
        self.assertEqual(len(self.api.calls), 3)

    def test_a_wrong_clock_costs_one_call_and_is_named(self):
        seconds = (("slow", -86400 * 400), ("slow", -3600), ("slow", -305), ("fast", 305), ("fast", 7200), ("fast", 86400 * 9))
        for direction, off in seconds:
            self.machine.SKEW = datetime.timedelta(seconds=off)
            del self.api.refused[:], self.api.calls[:]
            self.assertEqual(self.machine.ask("/runner/events", {}), (200, {}), off)
            self.assertEqual((len(self.api.refused), len(self.api.calls)), (1, 1), off)
            (found, told), = re.findall(r"clock of this machine is (\d+) s (slow|fast)", self.said.getvalue().splitlines()[-1])
            self.assertEqual(told, direction)
            self.assertAlmostEqual(int(found), abs(off), delta=5)
            self.assertEqual(self.machine.ask("/runner/events", {}), (200, {}))
            self.assertEqual(len(self.api.refused), 1, "what was learned is used")
        self.machine.SKEW = datetime.timedelta(seconds=-3600)
        os.environ["MUSTER_LOGS"] = f"{os.environ['MUSTER_RUNNER_API']}/logs/AROA"
        self.command("journalctl")
        self.machine.send_logs(None)
        self.assertEqual(len(self.api.objects), 1)

    def test_other_refusals_are_not_taken_for_the_clocks(self):
        refusal = lambda date: types.SimpleNamespace(headers={"date": date})
        for date in (None, "", "yesterday", "Fri, 27 Nov 2026 12:00:00 -0000", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())):
            self.assertFalse(self.machine.corrects_clock(refusal(date)), date)
        self.api.answers["/runner/events"] = [(403, {})]
        self.assertEqual(self.machine.ask("/runner/events", {})[0], 403)
        self.assertEqual(len(self.api.calls), 1)
        self.assertEqual(self.said.getvalue(), "")

    def test_a_machine_that_is_not_wanted_says_nothing_more(self):
        self.api.answers["/runner/register"] = [(409, {"action": "shutdown", "error": {"code": "ended"}})]
        (self.root / "prepare.sh").write_text("")
        self.assertEqual(self.machine.main(), 0)
        ((path, body),) = self.api.calls
        self.assertEqual(path, "/runner/register")
        self.assertLessEqual(body["ages"]["agent"], body["ages"]["supervisor"])

    def test_a_failed_boot_leaves_its_last_lines_without_secrets(self):
        (self.root / "prepare.sh").write_text("echo preparing\necho ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=\nfalse || exit 7\n")
        self.assertEqual(self.machine.main(), 1)
        [(path, event)] = self.api.calls
        self.assertEqual((path, event["event"]), ("/runner/events", "boot-failed"))
        self.assertEqual(event["log"], "preparing\n[...]\nmuster: booting failed (exit code 7)")

    def test_a_report_is_repeated_and_a_refused_one_not(self):
        for statuses, tries, waits in (((500, 200), 3, [1]), ((409,), 3, []), ((200,), 3, []), ((0, 500, 503, 200), 3, [1, 2]),
                                       ((403,), 1, [])):
            asks, clock = unittest.mock.Mock(side_effect=[(status, {}) for status in statuses]), unittest.mock.Mock()
            with unittest.mock.patch.multiple(self.machine, ask=asks, time=clock, random=unittest.mock.Mock(random=lambda: 0.25)):
                self.machine.report({"event": "exited"}, tries)
            self.assertEqual([call.args[0] for call in clock.sleep.mock_calls], [wait + 0.25 for wait in waits], statuses)
            self.assertEqual(asks.call_count, len(waits) + 1, statuses)

    def test_calls_are_repeated_after_growing_and_random_delays(self):
        rows = ((429, 0, 12, 0.5), (429, 9, 32, 0.5), (0, 0, 12, 1), (503, 3, 12, 8), (503, 4, 12, 12), (500, 9, 32, 32))
        with unittest.mock.patch.object(self.machine.random, "random", lambda: 0.25):
            for status, attempt, longest, seconds in rows:
                self.assertEqual(self.machine.pause(status, attempt, longest), seconds + 0.25, (status, attempt))

    def test_a_machine_calls_again_a_random_moment_after_the_time_that_it_is_told(self):
        asks = unittest.mock.Mock(side_effect=[(503, {"retry_after_seconds": 7}), (403, {"retry_after_seconds": 0}), (200, {})])
        clock = unittest.mock.Mock(monotonic=lambda: 0.0)
        chance = unittest.mock.Mock(random=lambda: 0.25)
        os.environ["MUSTER_REGISTER_LIMIT_SECONDS"] = "60"
        with unittest.mock.patch.multiple(self.machine, ask=asks, time=clock, random=chance, agents_version=lambda: None):
            self.machine.register()
        self.assertEqual([call.args[0] for call in clock.sleep.mock_calls], [7.25, 0.25])

    def test_a_machine_stops_asking_at_its_limit_and_says_each_reason_once(self):
        now = [0.0]
        clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
        asks = lambda *_: (503, {"message": "early" if now[0] < 15 else "late", "retry_after_seconds": 7})
        os.environ["MUSTER_REGISTER_LIMIT_SECONDS"] = "60"
        with unittest.mock.patch.multiple(self.machine, time=clock, ask=asks, agents_version=lambda: None):
            with self.assertRaisesRegex(SystemExit, "giving up after 9 attempts"):
                self.machine.register()
        self.assertEqual(now[0], 8 * 7, "the next call would come too late")
        told = [f"muster: not registered (status 503): {why}" for why in ("early", "late")]
        self.assertEqual(self.said.getvalue().splitlines(), told)

    def test_a_clock_that_is_a_minute_off_needs_no_correction(self):
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        for seconds, corrected in ((60, False), (-60, False), (61, True), (-61, True)):
            date = email.utils.format_datetime(now + datetime.timedelta(seconds=seconds))
            with unittest.mock.patch.object(self.machine, "utc_now", lambda: now):
                refusal = types.SimpleNamespace(headers={"date": date})
                self.assertEqual(self.machine.corrects_clock(refusal), corrected, seconds)
        # Only a 403 can be the clock's fault.
        self.machine.SKEW = datetime.timedelta()
        with unittest.mock.patch.object(self.machine, "corrects_clock", lambda _: True):
            for status, calls in ((403, 2), (400, 1), (429, 1), (500, 1)):
                del self.api.calls[:]
                self.api.answers["/runner/events"] = [(status, {})]
                self.assertEqual(self.machine.ask("/runner/events", {})[0], status)
                self.assertEqual(len(self.api.calls), calls, status)

    def test_the_last_lines_have_no_credentials_and_a_maximum_length(self):
        for line, left in (("a" * 31, "a" * 31), ("a" * 32, "[...]"), ("A1+/=_-z" * 4, "[...]"), ("ü\x1b[2J\tx", "[2J\tx"),
                           ("é a" * 3000, "a" * 3)):
            self.machine.LINES.clear()
            self.machine.LINES.append(line)
            self.assertTrue(self.machine.last_lines().replace(" ", "").endswith(left), line[:40])
            self.assertLessEqual(len(self.machine.last_lines()), 3500)


class Leaving(Case):
    def leave(self, *answers):
        self.api.answers["/runner/events"] = [(200, answer) for answer in answers]
        return self.machine.leave("r-1", 0, 1)

    def test_a_machine_stays_as_long_as_it_is_told_once_it_is_known_how_its_job_did(self):
        self.assertEqual(self.leave({"ask_again_seconds": 0}, {"ask_again_seconds": 0}, {"stay_seconds": 900}), 900)
        self.assertEqual([event["event"] for _, event in self.api.calls], ["exited"] * 3)
        self.assertEqual(self.leave({"version": 1}), 0)
        self.assertEqual(self.leave({"stay_seconds": 10**9}), 4 * 3600)

    def test_it_does_not_ask_for_ever(self):
        self.machine.ASK_LIMIT = 1
        self.assertEqual(self.leave({"ask_again_seconds": 0.3}), 0)
        self.assertLessEqual(len(self.api.calls), 4)


class Hooks(Case):
    def setUp(self):
        super().setUp()
        self.command("systemctl")
        (self.root / "hooks.json").write_text("{}")
        self.packages = self.machine.concurrent.futures.Future()
        self.packages.set_result(None)
        server = self.server = self.machine.Machine("r-1", self.packages)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def hook(self, name, **given):
        """Runs the hook as the agent does. Returns its exit code and output. A hook that waits is ended as the worker does."""
        script = str(self.root / f"{name}.sh")
        given = {"PATH": os.environ["PATH"], "GITHUB_REPOSITORY": "acme/app", "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "2",
                 "GITHUB_JOB": "build", "GITHUB_REF": "refs/pull/9/merge", **given}
        hook = subprocess.Popen(["bash", "-e", script], env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        for line in hook.stdout:
            said += line
            if line.startswith("::error::"):
                hook.terminate()
                time.sleep(0.2)
                self.assertIsNone(hook.poll(), "the agent's end begins with a SIGTERM to all of its processes")
                hook.send_signal(signal.SIGINT)
        hook.stdout.close()
        return hook.wait(), said

    def test_a_job_that_muster_knows_begins(self):
        (self.root / "event").write_text('{"repository": {"private": true}}')
        self.assertEqual(self.hook("job-started", GITHUB_EVENT_PATH=str(self.root / "event")), (0, ""))
        self.assertEqual(self.api.calls, [("/runner/job-started", {
            "event": "job-started", "runner_name": "r-1", "repository": "acme/app", "run_id": 7, "run_attempt": 2,
            "job_name": "build", "ref": "refs/pull/9/merge", "private": True})])

    def test_whether_a_repository_is_private_is_githubs_word_or_unknown(self):
        for text in ("", "no json", "{}", '{"repository": {}}', '{"repository": 1}', "[]"):
            (self.root / "event").write_text(text)
            asked = unittest.mock.Mock(return_value={"go": True})
            with unittest.mock.patch.object(self.machine, "asked", asked), \
                    unittest.mock.patch.dict(os.environ, {"GITHUB_EVENT_PATH": str(self.root / "event")}):
                self.assertEqual(self.machine.hook("job-started"), 0)
            self.assertIsNone(asked.call_args.args[0]["private"], text)

    def test_an_interrupted_machine_starts_no_job(self):
        """Neither one that comes later, nor one that Muster accepted meanwhile."""
        for when in ("before", "meanwhile"):
            self.server.shut, self.server.verdict = "EC2 takes it." if when == "before" else "", None
            accepts = unittest.mock.Mock(side_effect=lambda *_: setattr(self.server, "shut", "EC2 takes it.") or (200, {}))
            with unittest.mock.patch.object(self.machine, "ask", accepts):
                self.assertEqual(self.hook("job-started"), (-signal.SIGINT, "::error::EC2 takes it.\n"), when)
            self.assertEqual(accepts.call_count, 0 if when == "before" else 1)
            # Or Muster would take the job's end for its own, and not re-run it.
            self.assertEqual(self.machine.STOPPED.pop("stopped_for", None), "interruption", when)

    def test_the_last_hook_of_a_job_is_known_while_it_is_reported(self):
        self.assertEqual(self.server.reached, "")
        self.hook("job-started")
        self.assertEqual(self.server.reached, "job-started")
        at_report = []
        with unittest.mock.patch.object(self.machine, "report", lambda *_: at_report.append(self.server.reached)):
            self.hook("job-completed")
        self.hook("job-started")
        self.assertEqual((at_report, self.server.reached), (["job-completed"], "job-completed"))

    def test_a_refused_job_ends_the_agent_and_none_of_its_steps_runs(self):
        self.api.answers["/runner/job-started"] = [(409, {"error": {"code": "draining"}})]
        code, said = self.hook("job-started")
        self.assertEqual(said, "::error::This runner is being deleted and takes no more jobs. Please re-run this job.\n")
        self.assertEqual(code, -signal.SIGINT)
        end = time.monotonic() + 30
        while not self.commands() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.commands(), ["systemctl stop muster-runner.service"])

    def test_a_job_of_another_repository_hears_why(self):
        self.api.answers["/runner/job-started"] = [(409, {"error": {"code": "foreign_job"}})]
        self.assertIn("does not serve acme/app", self.hook("job-started")[1])

    def test_a_job_waits_while_muster_cannot_be_told(self):
        os.environ["MUSTER_START_LIMIT_SECONDS"] = "9"
        self.api.answers["/runner/job-started"] = [(429, {}), (500, "x"), (200, {})]
        self.assertEqual(self.hook("job-started"), (0, "Muster does not answer yet (status 429). Retrying.\n"))

    def test_two_minutes_without_the_runner_api_cost_two_minutes(self):
        """At most one pause longer, both for a job's start and for a machine's registration."""
        now = [0.0]
        clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
        answers = lambda *_: (200, {}) if now[0] >= 120 else (503, {})
        for limit in ("START", "REGISTER"):
            del os.environ[f"MUSTER_{limit}_LIMIT_SECONDS"]
        with unittest.mock.patch.multiple(self.machine, time=clock, ask=answers, agents_version=lambda: None):
            hook = unittest.mock.Mock()
            self.assertEqual(self.machine.Hook.may_start(hook, EVENT), "")
            self.assertTrue(120 <= now[0] <= 120 + 12, now)
            hook.tell.assert_called_once()  # the message is in the job's log once
            now[0] = 0.0
            self.assertEqual(self.machine.register(), {})
            self.assertTrue(120 <= now[0] <= 120 + 32, now)

    # The flood's calls a second, the refill of the route's bucket a second, the maximum per cent of machines or jobs that fail,
    # and the maximum median wait in seconds. docs/design/capacity.md has these rows.
    FLOODS = {
        "START": ((100, 20, 0, 6), (1000, 20, 0, 60), (2000, 20, 0, 120), (5000, 20, 0, 240), (5000, 500, 0, 12)),
        "REGISTER": ((100, 20, 0, 6), (1000, 20, 1, 60), (2000, 20, 4, 120), (5000, 20, 24, 240), (5000, 500, 0, 12)),
    }

    def test_a_job_that_calls_without_end_delays_others_and_fails_none(self):
        """A route's bucket does not distinguish callers: each attempt succeeds by chance, and a refused call uses no token."""
        now, draws = [0.0], random.Random(7)
        clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
        chance = types.SimpleNamespace(random=draws.random)
        for limit in ("START", "REGISTER"):
            del os.environ[f"MUSTER_{limit}_LIMIT_SECONDS"]
        for limit, rows in self.FLOODS.items():
            for flood, rate, shut_out, longest in rows:
                asks = lambda *_: (200, {}) if draws.random() < rate / (flood + rate) else (429, {})
                waits = []
                with unittest.mock.patch.multiple(self.machine, time=clock, ask=asks, random=chance, agents_version=lambda: None):
                    for _ in range(400):
                        now[0] = 0.0
                        with contextlib.suppress(SystemExit):
                            if limit == "REGISTER":
                                self.machine.register()
                                waits.append(now[0])
                            elif not self.machine.Hook.may_start(unittest.mock.Mock(), EVENT):
                                waits.append(now[0])
                with self.subTest(limit=limit, flood=flood, rate=rate):
                    self.assertLessEqual(400 - len(waits), shut_out * 4)
                    self.assertLessEqual(sorted(waits)[len(waits) // 2], longest)

    def test_lasting_silence_is_a_no(self):
        self.api.answers["/runner/job-started"] = [(500, {})]
        self.assertIn("could not be reported to Muster for 1 seconds (status 500)", self.hook("job-started")[1])

    def test_what_a_job_says_later_is_not_told_again(self):
        for _ in range(3):
            self.assertEqual(self.hook("job-started")[0], 0)
            self.assertEqual(self.hook("job-completed")[0], 0)
        self.assertEqual([path for path, _ in self.api.calls], ["/runner/job-started", "/runner/events"])

    def test_the_images_own_hooks_run_too(self):
        ended, reported = self.root / "ended", []
        (self.root / "theirs.sh").write_text(f'touch {ended}; echo "theirs for $GITHUB_JOB"; false; echo not reached')
        (self.root / "hooks.json").write_text(json.dumps(dict.fromkeys(("job-started", "job-completed"), f"{self.root}/theirs.sh")))
        self.assertEqual(self.hook("job-started"), (1, "theirs for build\n"))
        ended.unlink()
        # Our report comes last, because the machine ends soon after it.
        with unittest.mock.patch.object(self.machine, "report", lambda event, _: reported.append((event["event"], ended.exists()))):
            self.assertEqual(self.hook("job-completed"), (1, "theirs for build\n"))
        self.assertEqual(reported, [("job-completed", True)])

    def test_the_images_own_hook_can_be_ended(self):
        """Ours ignores SIGTERM while it waits for the answer, and a child would inherit that."""
        (self.root / "theirs.sh").write_text("kill $$; echo ignored")
        (self.root / "hooks.json").write_text(json.dumps({"job-started": f"{self.root}/theirs.sh"}))
        self.assertEqual(self.hook("job-started")[1], "")

    def test_a_refused_job_does_not_reach_the_images_hook(self):
        self.api.answers["/runner/job-started"] = [(409, {})]
        (self.root / "theirs.sh").write_text("echo theirs")
        (self.root / "hooks.json").write_text(json.dumps({"job-started": f"{self.root}/theirs.sh"}))
        self.assertNotIn("theirs", self.hook("job-started")[1])

    def test_a_job_waits_for_the_packages_and_is_refused_without_them(self):
        self.machine.PACKAGES_LIMIT = 0
        for error, done, why in ((None, True, ""), (SystemExit("exit code 100"), True, "(exit code 100)"),
                                 (None, False, "(more than 0 seconds)")):
            hook = types.SimpleNamespace(server=self.server, tell=unittest.mock.Mock())
            self.server.packages = self.machine.concurrent.futures.Future()
            if done:
                self.server.packages.set_exception(error) if error else self.server.packages.set_result(None)
            said = self.machine.Hook.await_packages(hook)
            self.assertEqual((bool(said), why in said, hook.tell.called), (bool(why), True, not done), why)

    def test_an_agent_is_stopped_only_if_its_packages_failed_before_a_job(self):
        failed = self.machine.concurrent.futures.Future()
        failed.set_exception(SystemExit("exit code 100"))
        # The packages, the verdict on a job (None without a job), and whether the agent is stopped and later jobs are refused.
        for packages, verdict, stopped, refused in ((self.packages, None, False, False), (failed, None, True, True),
                                                    (failed, "", False, True), (failed, "no", False, True)):
            self.server.verdict, before = verdict, len(self.commands())
            self.server.refuse_without_packages(packages)
            self.assertEqual((len(self.commands()) > before, bool(self.server.verdict)), (stopped, refused), verdict)

    def test_without_a_supervisor_no_job_begins(self):
        (self.root / "socket").unlink()
        # Without a supervisor the machine is powered off, which ends the agent.
        code, said = self.hook("job-started")
        self.assertIn("::error::Muster's supervisor does not answer", said)
        self.assertEqual(code, -signal.SIGINT)
        self.assertEqual(self.hook("job-completed"), (0, ""))


class Spot(Case):
    def test_the_time_left_is_by_the_clock_of_the_metadata_service(self):
        """The machine's own clock is not used: it may be wrong, and would stop a job early."""
        at, header = "2026-11-28T14:36:42Z", "Sat, 28 Nov 2026 14:%s GMT"
        rows = ((header % "34:42", 120), (header % "35:42", 60), (header % "36:41", 1), (header % "40:00", 0), (header % "00:00", 120),
                (None, 120), ("", 120), ("yesterday", 120), ("Sat, 28 Nov 2026 14:36:00 -0000", 120))
        for (date, left), name in itertools.product(rows, ("Date", "date")):
            def read(path, answered=None):
                if path == "spot/instance-action":
                    answered.append(http.client.HTTPMessage())
                    if date is not None:
                        answered[0][name] = date
                return "spot" if path == "instance-life-cycle" else json.dumps({"action": "terminate", "time": at})
            with unittest.mock.patch.object(self.machine, "metadata", lambda: read):
                found = self.machine.await_notice()
            self.assertEqual((found[0], f"{found[1]:%H:%M:%S}"), (left, "14:36:42"), date)

    def test_the_notice_is_awaited_with_one_token_and_only_on_spot(self):
        """A 404 means that there is no notice. After any other failure, the token may be the reason."""
        notice = json.dumps({"action": "terminate", "time": "2026-11-28T14:36:42Z"})
        refused = lambda status: urllib.error.HTTPError("url", status, "", {}, None)
        for answers, tokens, waits in ((["spot", refused(404), refused(404), notice], 1, 2), (["spot", refused(401), "spot", notice], 2, 1),
                                       ([OSError("no route"), "spot", "no json", "spot", notice], 3, 2)):
            given, clock = unittest.mock.Mock(side_effect=answers), unittest.mock.Mock()

            def read(path, answered=None):
                if answered is not None:
                    answered.append({"date": None})
                return given(path)
            metadata = unittest.mock.Mock(return_value=read)
            with unittest.mock.patch.multiple(self.machine, metadata=metadata, time=clock):
                self.assertEqual(self.machine.await_notice()[0], 120)
            self.assertEqual((metadata.call_count, [call.args for call in clock.sleep.mock_calls]), (tokens, [(5,)] * waits), answers)
        for kind in ("on-demand", "scheduled", json.dumps(KEYS)):
            with unittest.mock.patch.object(self.machine, "metadata", lambda kind=kind: lambda _: kind), self.assertRaises(SystemExit):
                self.machine.await_notice()

    def worker(self, redirect=""):
        """Starts a worker with a step that writes "working" and waits. Returns the pipe that the worker reads."""
        (self.root / "bin").mkdir(exist_ok=True)
        (self.root / "bin/Runner.Worker").write_text(f"""#!/usr/bin/python3
import subprocess, sys
step = subprocess.Popen(["bash", "-c", "echo working {redirect}; exec sleep 60 {redirect}"], stdout=subprocess.PIPE)
print(step.stdout.fileno(), flush=True)
sys.stdin.read()
step.kill()
""")
        (self.root / "bin/Runner.Worker").chmod(0o755)
        worker = subprocess.Popen([str(self.root / "bin/Runner.Worker")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(worker.wait)
        for file in (worker.stdin, worker.stdout):
            self.addCleanup(file.close)
        output = open(f"/proc/{worker.pid}/fd/{worker.stdout.readline().strip()}", "rb", 0)
        self.addCleanup(output.close)
        os.set_blocking(output.fileno(), False)
        return worker, output

    def awaited(self, seen, wanted):
        end = time.monotonic() + 10
        while seen() != wanted and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(seen(), wanted)

    def test_a_line_reaches_the_log_of_a_silent_step(self):
        worker, output = self.worker()
        self.assertEqual(self.machine.processes("Runner.Worker"), [str(worker.pid)])
        self.assertEqual(self.machine.processes("Runner.Listener"), [])
        said = b""
        end = time.monotonic() + 10
        while said != b"working\n" and time.monotonic() < end:
            said += output.read(100) or b""
        self.machine.write_to_log("::notice title=a::b")
        self.assertEqual(output.read(100), b"\n::notice title=a::b\n")
        # A step that writes more than the worker reads gets no line, and nothing waits for it.
        step = next(path[:-4] for path in map(str, pathlib.Path("/proc").glob("[0-9]*/stat"))
                    if self.machine.content(path).rpartition(")")[2].split()[1:2] == [str(worker.pid)])
        with open(os.open(step + "fd/1", os.O_WRONLY | os.O_NONBLOCK), "wb", 0) as full:
            while full.write(b"x" * 4096):
                pass
        self.machine.write_to_log("::notice title=a::b")
        said = b"".join(iter(lambda: output.read(1 << 20) or b"", b""))
        self.assertEqual(said.strip(b"x"), b"")

    def test_a_step_that_redirects_its_output_keeps_its_file(self):
        """It is not even opened. If the step redirects its output while the line is written, the open file is checked again."""
        theirs = self.root / "theirs"
        worker, output = self.worker(f">>{theirs}")
        self.awaited(lambda: theirs.exists() and theirs.read_text(), "working\n")
        opened, pipe = unittest.mock.Mock(side_effect=os.open), self.machine.pipe
        with unittest.mock.patch.object(self.machine.os, "open", opened):
            self.machine.write_to_log("::notice title=a::b")
        self.assertEqual([call.args[0] for call in opened.mock_calls if "/fd/1" in str(call.args[0])], [])
        was = pipe(f"/proc/{worker.pid}/fd/{output.name.rpartition('/')[2]}")
        late = lambda path: was if path.endswith("/fd/1") else pipe(path)
        with unittest.mock.patch.object(self.machine, "pipe", late):
            self.machine.write_to_log("::notice title=a::b")
        self.assertEqual((theirs.read_text(), output.read(100)), ("working\n", b""))

    def test_what_reads_its_own_pipe_is_not_written_to(self):
        """`exec > >(tee log)` gives the step a different pipe than the worker's."""
        theirs = self.root / "theirs"
        self.worker(f"> >(cat >>{theirs})")
        self.awaited(lambda: theirs.exists() and theirs.read_text(), "working\n")
        self.machine.write_to_log("::notice title=a::b")
        time.sleep(0.2)
        self.assertEqual(theirs.read_text(), "working\n")

    def test_each_moment_of_an_interruption(self):
        """What is done when the notice comes, and what later: a job that reaches its job-completed hook is left alone."""
        at = datetime.datetime(2026, 11, 28, 14, 36, 42, tzinfo=datetime.timezone.utc)
        stop = f"stop {self.machine.AGENT}"
        # The hook that is reached before the notice, the seconds after it at which the job reaches its end, and what is done when.
        rows = (("", None, [(0, stop)]), ("job-completed", None, []), ("job-started", None, [(0, "notice"), (75, "error"), (76, "SIGINT"), (101, stop)]),
                ("job-started", 74, [(0, "notice")]), ("job-started", 75.5, [(0, "notice"), (75, "error")]),
                ("job-started", 90, [(0, "notice"), (75, "error"), (76, "SIGINT")]))
        for reached, ends, wanted in rows:
            now, done, reported = [0.0], [], []
            hooks = types.SimpleNamespace(reached=reached, shut="", runner="r-1")
            self.machine.STOPPED.clear()

            def sleep(seconds):
                now[0] += seconds
                if ends is not None and now[0] >= ends:
                    hooks.reached = "job-completed"
            clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
            fakes = {"await_notice": lambda: (115, at), "time": clock, "report": lambda event, tries: reported.append(event),
                     "processes": lambda name: ["7"] if name == "Runner.Listener" else [],
                     "write_to_log": lambda line: done.append((now[0], re.match("::([a-z]+)", line)[1])),
                     "systemctl": lambda *words: done.append((now[0], " ".join(words)))}
            with unittest.mock.patch.multiple(self.machine, **fakes), \
                    unittest.mock.patch.object(self.machine.os, "kill", lambda _, number: done.append((now[0], signal.Signals(number).name))):
                self.machine.stop_in_time(hooks)
            stopped = "interruption" if any(what in ("SIGINT", stop) for _, what in wanted) else None
            self.assertEqual((done, self.machine.STOPPED.get("stopped_for")), (wanted, stopped), (reached, ends))
            self.assertEqual(reported, [] if reached == "job-completed" else [{"event": "interrupted", "runner_name": "r-1"}])
            self.assertEqual(bool(hooks.shut), reached != "job-completed")

    def test_the_reason_for_the_stop_is_reported_with_the_agents_end(self):
        self.machine.STOPPED["stopped_for"] = "interruption"
        self.machine.leave("r-1", 0, 1)
        self.assertEqual(self.api.calls[-1][1], {"event": "exited", "runner_name": "r-1", "code": 0, "stopped_for": "interruption"})


class Surroundings(Case):
    def test_a_job_sees_what_image_and_pool_say(self):
        (self.root / "image").write_text('PATH="/image:/bin"\n# no\nexport ImageOS=ubuntu24\nJAVA_HOME=\'/j\'\nbroken line\n')
        environment, images = self.machine.environments({"environment": {"LANG": "de", "ImageOS": "mine", "no-name": "x"}})
        self.assertEqual(environment, {
            "PATH": "/image:/bin", "ImageOS": "mine", "JAVA_HOME": "/j", "LANG": "de", "RUNNER_TOOL_CACHE": "/tools",
            "AGENT_TOOLSDIRECTORY": "/tools"})
        self.assertEqual(images, {})

    def test_an_image_cannot_take_the_hooks_away_and_keeps_its_own(self):
        (self.root / "image").write_text("ACTIONS_RUNNER_HOOK_JOB_STARTED=/a.sh\nACTIONS_RUNNER_HOOK_JOB_COMPLETED=/c.sh\n")
        kept = "LANG=C.UTF-8\nMY_ACTIONS_RUNNER_HOOK_JOB_STARTED=/x\n"
        (self.root / ".env").write_text(f"ACTIONS_RUNNER_HOOK_JOB_STARTED=/b.sh\n{kept}ACTIONS_RUNNER_HOOK_JOB_COMPLETED=\n")
        environment, images = self.machine.environments({})
        self.assertFalse([name for name in environment if name.startswith("ACTIONS_RUNNER_HOOK")])
        self.assertEqual((self.root / ".env").read_text(), kept)
        # The agent would have used the hooks in .env.
        self.assertEqual(images, {"job-started": "/b.sh"})

    def test_a_builder_leaves_the_hooks_of_its_parent_image_to_its_image(self):
        (self.root / ".env").write_text("ACTIONS_RUNNER_HOOK_JOB_STARTED=/b.sh\nA=1\n")
        environment, _ = self.machine.environments({"builder": {"script": "", "boot": "unit"}})
        self.assertFalse([name for name in environment if name.startswith("ACTIONS_RUNNER_HOOK")])
        self.assertEqual((self.root / ".env").read_text(), "ACTIONS_RUNNER_HOOK_JOB_STARTED=/b.sh\nA=1\n")

    def test_jobs_become_root_where_the_image_has_the_means(self):
        (self.root / "sudoers.d").mkdir()
        for command in ("getent", "usermod"):
            self.command(command)
        self.machine.let_jobs_be_root(f"{self.root}/sudoers.d/muster")
        rule = self.root / "sudoers.d/muster"
        self.assertEqual(rule.read_text(), f"{self.user} ALL=(ALL) NOPASSWD: ALL\n")
        self.assertEqual(stat.S_IMODE(rule.stat().st_mode), 0o440)  # sudo ignores a file that others can write
        self.assertEqual(self.commands(), ["getent group docker", f"usermod -aG docker {self.user}"])
        opened = (self.root / "units/muster-runner.service.d/metadata.conf").read_text()
        self.assertEqual(opened, "[Service]\nIPAddressDeny=\n")

    def test_an_image_without_them_boots_all_the_same(self):
        self.command("getent", "exit 2")
        self.machine.let_jobs_be_root(f"{self.root}/sudoers.d/muster")
        self.assertEqual(self.commands(), ["getent group docker"])

    def test_the_configuration_is_gone_once_the_agent_has_it(self):
        self.command("systemctl", f"cp -p {self.root}/environment {self.root}/given")
        self.machine.start_agent({"encoded_jit_config": "JIT"}, {"A": 'it\'s "$x" `y` \\\n'})
        given = (self.root / "given").read_text()
        self.assertIn('ACTIONS_RUNNER_INPUT_JITCONFIG="JIT"\n', given)
        self.assertIn('A="it\'s \\"\\$x\\" \\`y\\` \\\\\n"\n', given)
        self.assertIn(f'ACTIONS_RUNNER_HOOK_JOB_STARTED="{self.root}/job-started.sh"\n', given)
        self.assertEqual(stat.S_IMODE((self.root / "given").stat().st_mode), 0o600)
        self.assertEqual((self.root / "environment").read_text(), "")
        self.assertEqual(self.commands(), ["systemctl start muster-runner.service"])


class Lives(Case):
    """A machine's life from its configuration to its end, without systemd."""

    def live(self, config, code=0, user="somebody", started=lambda: os.kill(os.getpid(), signal.SIGUSR1), reached="", parts=iter(())):
        done = self.machine.concurrent.futures.Future()
        done.set_result(None)
        self.ran, self.rooted = unittest.mock.Mock(), unittest.mock.Mock()
        for command in ("systemctl", "usermod"):
            self.command(command)
        fakes = {"register": lambda: {"runner_name": "r-1", "encoded_jit_config": "x", **config}, "run": self.ran, "USER": user,
                 "beside": lambda *_: next(parts, done), "start_agent": lambda *_: started(), "agents_end": lambda: code,
                 "Machine": unittest.mock.Mock(return_value=unittest.mock.Mock(reached=reached)), "let_jobs_be_root": self.rooted, "write": unittest.mock.Mock()}
        with unittest.mock.patch.multiple(self.machine, **fakes):
            return self.machine.main()

    def test_only_a_pool_with_sudo_gives_root_to_a_user_who_is_not_root(self):
        closed = ["usermod --expiredate 1 somebody"]
        for sudo, user, rooted, commands in ((True, "somebody", 1, []), (False, "somebody", 0, closed), (None, "somebody", 0, closed),
                                             (True, self.user, 0, []), (False, self.user, 0, [])):
            (self.root / "commands").unlink(missing_ok=True)
            self.assertEqual(self.live({"sudo": sudo}, user=user), 0)
            self.assertEqual((self.rooted.call_count, self.commands()), (rooted, commands), (sudo, user))

    def test_the_agent_and_the_boot_hook_of_the_configuration_are_used(self):
        for config, programs in (({}, ["prepare.sh"]), ({"agent": {}}, ["prepare.sh", "agent.sh"]),
                                 ({"boot_hook": "true"}, ["prepare.sh", "-euo"]), ({"boot_hook": ""}, ["prepare.sh"])):
            self.live(config)
            ran = [os.path.basename(call.args[0][1]) for call in self.ran.mock_calls]
            self.assertEqual(ran, programs, config)

    def test_what_cannot_be_installed_fails_the_boot_before_anything_needs_it(self):
        """The parts are fetched, then the libraries are installed, then the rest."""
        done, failed = (self.machine.concurrent.futures.Future() for _ in range(2))
        done.set_result(None)
        failed.set_exception(SystemExit("exit code 100"))
        for number, hook, starts, hooked in ((0, "true", 0, 0), (1, "true", 0, 0), (2, "true", 0, 0), (2, None, 1, 0), (3, "true", 1, 1)):
            del self.api.calls[:]
            started = unittest.mock.Mock(side_effect=lambda: os.kill(os.getpid(), signal.SIGUSR1))
            parts = iter([failed if part == number else done for part in range(4)])
            code = self.live({"boot_hook": hook}, started=started, parts=parts)
            ran = [os.path.basename(call.args[0][1]) for call in self.ran.mock_calls]
            self.assertEqual((started.call_count, ran.count("-euo"), code), (starts, hooked, int(number < 3)), (number, hook))
            last = [body["event"] for _, body in self.api.calls if body["event"] != "runner-started"][-1]
            self.assertEqual(last, "boot-failed" if number < 3 else "exited", (number, hook))

    def test_the_end_is_reported_and_only_an_ordered_one_waits_for_an_inspection(self):
        def fails():
            raise SystemExit("the runner does not start")
        ends = lambda: signal.raise_signal(signal.SIGTERM)
        begun = lambda: os.kill(os.getpid(), signal.SIGUSR1)
        self.api.answers["/runner/events"] = [(200, {"stay_seconds": 1})]
        for started, code, exit_code, event, stays in ((begun, 0, 0, "exited", True), (begun, 7, 0, "exited", True),
                                                       (fails, 0, 1, "boot-failed", False), (ends, 0, 1, "boot-failed", False)):
            del self.api.calls[:]
            before = len(self.said.getvalue())
            self.assertEqual(self.live({}, code, started=started), exit_code)
            last = [body for _, body in self.api.calls if body["event"] != "runner-started"][-1]
            self.assertEqual((last["event"], last.get("code", code)), (event, code))
            self.assertEqual("the machine stays for 1 seconds" in self.said.getvalue()[before:], stays, event)

    def test_a_machine_whose_job_was_stopped_for_an_interruption_waits_for_its_end_by_ec2(self):
        self.api.answers["/runner/events"] = [(200, {})]
        for stopped, reached, stays in ((True, "job-started", True), (True, "", False), (False, "job-started", False)):
            before = len(self.said.getvalue())

            def started():
                self.machine.STOPPED.update({"stopped_for": "interruption"} if stopped else {})
                os.kill(os.getpid(), signal.SIGUSR1)
            with unittest.mock.patch.dict(os.environ, {"MUSTER_LAST_WAIT_SECONDS": "1"}):
                self.assertEqual(self.live({"rerun": "Yes."}, reached=reached, started=started), 0)
            self.assertEqual("the machine stays for 1 seconds" in self.said.getvalue()[before:], stays, (stopped, reached))
            self.assertEqual(self.machine.RERUN, "Yes.")
            self.machine.STOPPED.clear()


class Network(Case):
    """The program that comes with the configuration of a stack with a CA bundle, or a pool with a proxy."""

    PROXY = {"https": "http://ada@proxy:3128", "http": "http://proxy:3128", "no_proxy": [".corp"], "password": "p@ss/wörd$"}
    CODED = "p%40ss%2Fw%C3%B6rd%24"
    CERTIFICATES = [f"-----BEGIN CERTIFICATE-----\n{letter}\n-----END CERTIFICATE-----" for letter in "ab"]

    def setUp(self):
        super().setUp()
        exec((ROOT / "infra/machine-program.py").read_text(encoding="utf-8"), vars(self.machine))
        self.store = self.root / "store"
        for command in ("systemctl", "update-certificates"):
            self.command(command)
        home = types.SimpleNamespace(pw_name=self.user, pw_dir=str(self.root), pw_uid=os.getuid(), pw_gid=os.getgid())
        given = {"STORES": {str(self.store): (".crt", ["update-certificates"])}, "keep_in_sudo": unittest.mock.Mock(),
                 "pwd": unittest.mock.Mock(getpwnam=lambda _: home, getpwuid=lambda _: home)}
        self.enterContext_(unittest.mock.patch.multiple(self.machine, **given))
        self.enterContext_(unittest.mock.patch.dict(os.environ, {"MUSTER_LOGS": "https://logs.s3.eu-central-1.amazonaws.com/AROA"}))
        del os.environ["http_proxy"]

    def apply(self, **network):
        config = {"network": network, "environment": {"NO_PROXY": "mine"}}
        self.assertTrue(self.machine.network(config))
        return config["environment"]

    def test_without_settings_nothing_changes(self):
        before, config = dict(os.environ), {"environment": None}
        self.assertFalse(self.machine.network(config))
        self.assertEqual((dict(os.environ), config, self.commands()), (before, {"environment": None}, []))

    def test_the_agent_its_jobs_and_the_parts_of_the_boot_use_the_proxy(self):
        given = self.apply(proxy=self.PROXY)
        direct = "localhost,127.0.0.1,::1,169.254.169.254,fd00:ec2::254,169.254.170.2,127.0.0.1,logs.s3.eu-central-1.amazonaws.com,.corp"
        wanted = {"https_proxy": f"http://ada:{self.CODED}@proxy:3128", "http_proxy": "http://proxy:3128", "no_proxy": direct}
        wanted.update({name.upper(): value for name, value in wanted.items()})
        self.assertEqual({name: os.environ.get(name) for name in wanted}, wanted)
        self.assertEqual(given, {**wanted, "NO_PROXY": "mine"}, "the pool's own variables take precedence")
        docker = json.loads((self.root / ".docker/config.json").read_text())
        self.assertEqual(docker["proxies"]["default"], {"httpProxy": wanted["http_proxy"], "httpsProxy": wanted["https_proxy"],
                                                        "noProxy": direct})
        self.assertEqual(stat.S_IMODE((self.root / ".docker/config.json").stat().st_mode), 0o600)
        unit = (self.root / "units/docker.service.d/muster-proxy.conf").read_text()
        self.assertEqual(unit, f"[Service]\nEnvironmentFile={self.root}/proxy\n")
        self.assertIn(f'https_proxy="{wanted["https_proxy"]}"\n', (self.root / "proxy").read_text())
        self.assertEqual(stat.S_IMODE((self.root / "proxy").stat().st_mode), 0o600)
        self.assertEqual(self.commands(), ["systemctl daemon-reload", "systemctl try-restart docker.service"])

    def test_the_runner_api_and_the_metadata_service_are_called_directly(self):
        self.apply(proxy={"https": "http://127.0.0.1:9", "http": "http://127.0.0.1:9"})
        self.api.answers["/runner/events"] = [(200, {})]
        self.machine.report({"event": "runner-started"}, 1)
        self.assertEqual(len(self.api.calls), 1)

    def test_the_password_is_in_no_output_no_report_and_no_log(self):
        self.apply(proxy=self.PROXY)
        self.machine.run(["echo", f"curl: proxy ada:{self.CODED}@proxy and {self.PROXY['password']}"])
        os.environ["MUSTER_LOGS"] = f"{os.environ['MUSTER_RUNNER_API']}/logs/AROA"
        self.command("journalctl", f"echo 'a job prints ada:{self.CODED}@ and {self.PROXY['password']}'")
        self.machine.send_logs("JITCONFIG")
        ((_, _, body),) = self.api.objects
        for text in (self.said.getvalue(), self.machine.last_lines(), gzip.decompress(body).decode()):
            self.assertIn("ada:[...]@", text)
            self.assertNotIn(self.PROXY["password"], text)
            self.assertNotIn(self.CODED, text)

    def test_certificates_are_in_the_store_and_in_what_node_reads(self):
        pem = "# ours\n" + "\n".join(self.CERTIFICATES) + "\n"
        self.assertEqual(self.apply(ca=pem)["NODE_EXTRA_CA_CERTS"], f"{self.root}/ca.pem")
        self.assertEqual((self.root / "ca.pem").read_text(), pem)
        files = {path.name: path.read_text() for path in self.store.iterdir()}
        self.assertEqual(files, {f"muster-{number}.crt": text + "\n" for number, text in enumerate(self.CERTIFICATES)})
        self.assertEqual(self.commands()[0], "update-certificates ")
        # An image does not keep them.
        with unittest.mock.patch.object(self.machine, "bake_as_is") as baked:
            self.machine.bake({"script": "true"})
        self.assertEqual(([*self.store.iterdir()], self.commands()[-1], baked.call_count), ([], "update-certificates ", 1))

    def test_an_image_without_a_store_boots_all_the_same(self):
        with unittest.mock.patch.object(self.machine, "STORES", {}):
            self.assertIn("NODE_EXTRA_CA_CERTS", self.apply(ca=self.CERTIFICATES[0]))
        self.assertIn("no tool to add certificates", self.said.getvalue())

    def test_a_download_that_waits_is_ended_and_begun_again(self):
        """Without the proxy, nothing answers: the first attempt would last for minutes."""
        stuck = self.machine.beside("bash", "-c", f"sleep 300 & touch {self.root}/begun; wait")
        while not (self.root / "begun").exists():
            time.sleep(0.01)
        self.apply(proxy=self.PROXY)
        with self.assertRaises(SystemExit):
            stuck.result(timeout=10)

    def test_the_program_of_the_configuration_runs_before_the_agent_is_downloaded(self):
        begun, agent = lambda: os.kill(os.getpid(), signal.SIGUSR1), {"url": "u"}
        # `true` stands for packages.sh, because the test has an agent.
        for program, expected in (("", ["true", agent]), ("network = lambda config: order.append('network') or True",
                                                           ["true", "network", "true", agent])):
            order, done = [], unittest.mock.Mock()
            config = {"runner_name": "r-1", "encoded_jit_config": "x", "agent": agent, "program": program}
            fakes = {"register": lambda: config, "run": unittest.mock.Mock(), "Machine": unittest.mock.Mock(), "order": order,
                     "take_agent": order.append, "network": lambda _: False, "write": unittest.mock.Mock(),
                     "beside": lambda *words: order.append(words[-1]) or done, "start_agent": lambda *_: begun(), "agents_end": lambda: 0}
            with unittest.mock.patch.multiple(self.machine, create=True, **fakes):
                self.assertEqual(self.machine.main(), 0)
            self.assertEqual(order[: len(expected)], expected)


class Builder(Case):
    """A machine that is told to become an image. test_systemd.py runs the script."""

    SCRIPT = """echo "$MUSTER_BAKE for $MUSTER_HOME"; echo '{"agent": "2.336.0", "boot": "cloud-init", "why": "No.", "disk_bytes": 7}' >$MUSTER_HOME/baked"""

    def build(self, script=SCRIPT, **given):
        """Runs a builder until its end. Returns the exit code and the last report."""
        # A bare machine installs packages, and MUSTER_RUNNER_DIR is for callers that provide them.
        del os.environ["MUSTER_RUNNER_DIR"]
        self.addCleanup(os.environ.__setitem__, "MUSTER_RUNNER_DIR", str(self.root))
        for name in ("prepare.sh", "agent.sh", "packages.sh"):
            (self.root / name).write_text(f'echo "{name} $*" >>{self.root}/commands\n')
        for command in ("systemctl", "usermod", "journalctl"):
            self.command(command)
        self.api.answers["/runner/register"] = [(200, {"agent": {"url": "https://a/b", "sha256": "ab"}, "sudo": True, **given,
                                                       "builder": {"script": script, "boot": "unit"}})]
        with unittest.mock.patch.object(self.machine, "RUNNER_DIR", str(self.root / "agent")), \
                unittest.mock.patch.multiple(self.machine, signal=self.signals(), let_jobs_be_root=unittest.mock.Mock(side_effect=AssertionError)):
            (self.root / "agent").mkdir()
            code = self.machine.main()
        return code, self.api.calls[-1][1]

    def signals(self):
        """Returns the signal module, whose `pause` is the wait for the end."""
        self.waits = unittest.mock.Mock(side_effect=SystemExit("ended"))
        return unittest.mock.Mock(wraps=signal, pause=self.waits, SIGTERM=signal.SIGTERM, SIGUSR1=signal.SIGUSR1)

    def test_it_installs_everything_bakes_and_waits(self):
        self.api.answers["/runner/events"] = [(503, {}), (424, {}), (200, {})]
        self.build(boot_hook='echo "the hook" >>"$HOOKED"', environment={"HOOKED": str(self.root / "commands")})
        ran = self.commands()
        self.assertEqual([line.split()[0] for line in ran[:2]], ["prepare.sh", "packages.sh"])
        self.assertEqual(sorted(ran[1:5]), ["agent.sh https://a/b ab", "packages.sh fetch", "packages.sh install", "packages.sh libraries"])
        self.assertEqual(ran[5:], ["the hook"], "no agent starts, and the machine keeps its users")
        self.assertIn(f"unit for {self.root}\n", self.said.getvalue())
        reports = [body for path, body in self.api.calls if path == "/runner/events"]
        self.assertEqual(reports[:3], [{"event": "baked", "agent": "2.336.0", "boot": "cloud-init", "why": "No.", "disk_bytes": 7}] * 3)
        self.assertEqual(self.waits.call_count, 1)

    def test_what_fails_before_the_report_is_a_failed_boot(self):
        for script, hook in (("echo no; exit 4", None), (self.SCRIPT, "echo no; exit 4")):
            shutil.rmtree(self.root / "agent", ignore_errors=True)
            os.environ["MUSTER_RUNNER_DIR"] = str(self.root)
            code, last = self.build(script, boot_hook=hook)
            self.assertEqual((code, last["event"], self.waits.call_count), (1, "boot-failed", 0))
            self.assertTrue(last["log"].endswith("no\nmuster: booting failed (exit code 4)"), last)


class Logs(Case):
    def setUp(self):
        super().setUp()
        os.environ["MUSTER_LOGS"] = f"{os.environ['MUSTER_RUNNER_API']}/logs/AROA"
        self.command("journalctl", "echo the kernel says no")
        (self.root / "_diag").mkdir()

    def sent(self):
        [(path, headers, body)] = self.api.objects
        self.assertEqual((path, headers["content-type"]), ("/logs/AROA%3Ai-0abc/machine.log.gz", "application/gzip"))
        return gzip.decompress(body).decode()

    def test_what_people_want_of_a_machine_that_is_gone_is_sent_without_the_configuration(self):
        (self.root / "_diag/Runner_2.log").write_text("listens with JITCONFIG\n")
        (self.root / "_diag/Worker_1.log").write_text("runs\n")
        (self.root / "_diag/other.txt").write_text("other")
        self.machine.send_logs("JITCONFIG")
        text = "==> journal <==\nthe kernel says no\n\n==> Runner_2.log <==\nlistens with [...]\n\n==> Worker_1.log <==\nruns\n\n"
        self.assertEqual(self.sent(), text)
        # A job's syslog entries are excluded: sudo logs command lines.
        self.assertIn(" _SYSTEMD_UNIT=muster-runner.service _TRANSPORT=stdout + ", self.commands()[0])

    def test_a_job_cannot_have_other_files_sent_or_hold_the_end_up(self):
        (self.root / "secret").write_text("root's")
        (self.root / "_diag/Worker_1.log").symlink_to(self.root / "secret")
        os.mkfifo(self.root / "_diag/Worker_2.log")
        (self.root / "_diag/Worker_3.log").mkdir()
        (self.root / "_diag/Worker_4.log").write_text("x" * 10 + "yyyy")
        self.machine.MAX_LOG = 4
        self.machine.send_logs(None)
        text = self.sent()
        self.assertNotIn("root's", text)
        self.assertTrue(text.endswith("==> Worker_4.log <==\nyyyy\n"), text)
        # A hard link to a file of a different user.
        stranger = types.SimpleNamespace(pw_uid=os.getuid() + 1)
        with unittest.mock.patch.object(self.machine.pwd, "getpwnam", lambda _: stranger):
            self.assertEqual(self.machine.end_of(self.root / "_diag/Worker_4.log"), b"")

    def test_the_newest_twenty_logs_are_sent(self):
        for number in range(10, 32):
            (self.root / f"_diag/Worker_{number}.log").write_text("x")
        self.machine.send_logs(None)
        self.assertEqual(re.findall(r"Worker_(\d+)", self.sent()), [str(number) for number in range(12, 32)])

    def test_the_end_is_told_after_the_logs_and_waits_for_them_no_longer_than_it_may(self):
        (self.root / "prepare.sh").write_text("exit 7\n")
        self.machine.main()
        self.assertIn("==> journal <==", self.sent())
        self.api.slow.clear()
        self.addCleanup(self.api.slow.set)
        self.machine.SEND_LIMIT, begun = 1, time.monotonic()
        self.machine.main()
        self.assertLess(time.monotonic() - begun, 3)
        log = self.api.calls[-1][1]["log"]
        self.assertTrue(log.endswith("(exit code 7)\nmuster: the logs could not be sent within 1 seconds"), log)

    def test_a_bucket_that_cannot_be_reached_is_said(self):
        os.environ["MUSTER_LOGS"] = "http://127.0.0.1:9/AROA"
        self.machine.send_logs(None)
        self.assertIn("muster: the logs could not be sent (<urlopen error", self.said.getvalue())


if __name__ == "__main__":
    unittest.main()
