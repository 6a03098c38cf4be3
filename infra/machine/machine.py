#!/usr/bin/python3 -I
"""Muster's supervisor on a machine: prepares it, gets a runner's configuration, runs one job, and ends.

`muster.service` runs it as root; when it ends for any reason, systemd powers the machine off. Only the supervisor calls
the runner API, signed with the machine's role. The agent's hooks are this program too (`machine.py job-started`): they run
as the runner's user, have no state, and query the supervisor through a socket.

It uses only Python 3.9 (Amazon Linux 2023) and the standard library, which cloud-init requires too.
Settings, with defaults for all but the first two: MUSTER_RUNNER_API, MUSTER_REGION, MUSTER_LOGS (if unset, logs stay here),
MUSTER_RUNNER_DIR, MUSTER_RUNNER_USER, MUSTER_TOOL_CACHE, MUSTER_ENVIRONMENT, MUSTER_UNITS, MUSTER_REGISTER_LIMIT_SECONDS,
MUSTER_START_LIMIT_SECONDS, AWS_EC2_METADATA_SERVICE_ENDPOINT.
"""
import collections, concurrent.futures, datetime, email.utils, functools, glob, gzip, hashlib, hmac, json, os, pwd, queue, random, re, signal
import socket, socketserver, stat, subprocess, sys, threading, time, urllib.error, urllib.request

HOME = os.path.dirname(os.path.abspath(__file__))
SOCKET = os.path.join(HOME, "socket")
AGENT = "muster-runner.service"
ARCHES = {"x86_64": "x64", "aarch64": "arm64"}
# The agent's exit code when GitHub rejects it as too old, since 2.333.0 (Constants.cs, `RunnerVersionDeprecated`).
TOO_OLD = 7
HOOKS = {"job-started": "ACTIONS_RUNNER_HOOK_JOB_STARTED", "job-completed": "ACTIONS_RUNNER_HOOK_JOB_COMPLETED"}
# A proxy would receive the machine's credentials.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
LINES = collections.deque(maxlen=40)
# The journal entries to upload: the output of the units and the kernel. Entries that a job's processes log in other ways
# are excluded: sudo logs whole command lines, and some contain secrets.
JOURNAL = ("_SYSTEMD_UNIT=cloud-final.service + _SYSTEMD_UNIT=muster-boot.service + _SYSTEMD_UNIT=muster.service + UNIT=muster.service"
           " + UNIT=muster-runner.service + _SYSTEMD_UNIT=muster-runner.service _TRANSPORT=stdout + _TRANSPORT=kernel").split()
# The maximum bytes uploaded from the end of each log, and the maximum seconds that the upload may delay the machine's end.
MAX_LOG, SEND_LIMIT = 4 << 20, 10
# How long a machine asks whether it should stay, and the longest stay, in seconds.
ASK_LIMIT, MAX_STAY = 90, 4 * 3600
# A job waits this many times longer for its start when API Gateway throttles the route (429): see `pause`.
PATIENCE = 6
# The maximum seconds that a job waits for the machine's packages.
PACKAGES_LIMIT = 600
# Spot interruptions: EC2 announces one this many seconds ahead, and the agent is stopped this many seconds before the end. The
# agent needs them: it kills a step within 10 seconds, then uploads the log and reports the job. AWS recommends to poll every 5.
NOTICE, STOP_BEFORE, POLL = 120, 40, 5
# What happens to a job that was stopped for an interruption, unless the configuration says otherwise.
RERUN = "It does not run again by itself; re-run it on GitHub."
# Added to the report of the agent's end: why the supervisor stopped the agent, if EC2 takes the machine.
STOPPED = {}
# Further secrets that the uploaded log must not contain.
SECRETS = []
# The correction that `utc_now` adds to the machine's clock, and its lower limit: AWS accepts five minutes.
SKEW, MAX_SKEW = datetime.timedelta(), datetime.timedelta(seconds=60)
# When this program started, and when the agent was installed. `ages` reports how long ago that was.
MOMENTS = {"supervisor": time.monotonic()}


def setting(name, default):
    return os.environ.get(name) or default


RUNNER_DIR = setting("MUSTER_RUNNER_DIR", "/opt/actions-runner")
USER = setting("MUSTER_RUNNER_USER", "runner")


def say(text):
    LINES.append(text)
    print(text, flush=True)


# --- The runner API ---------------------------------------------------------------------------------------------------


def fetch(url, data=None, timeout=5, method=None, headers=None, answered=None):
    """Returns the text of an answer. The answer's headers are added to the list `answered`, if there is one."""
    request = urllib.request.Request(url, data, headers or {}, method=method)
    with DIRECT.open(request, timeout=timeout) as answer:
        if answered is not None:
            answered.append(answer.headers)
        return answer.read().decode()


def metadata():
    """Returns a function that reads the machine's metadata service, for six hours."""
    base = setting("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/") + "/latest/"
    life = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
    token = {"x-aws-ec2-metadata-token": fetch(base + "api/token", method="PUT", headers=life)}
    return lambda path, answered=None: fetch(base + "meta-data/" + path, headers=token, answered=answered)


def credentials(read):
    """Returns the credentials of the machine's role, which change every few hours."""
    roles = "iam/security-credentials/"
    return json.loads(read(roles + read(roles).split()[0]))


def signed(method, url, body, keys, now, service="execute-api"):
    """Returns the headers of a request with Signature Version 4."""
    host, _, path = url.split("://", 1)[1].partition("/")
    stamp, digest = now.strftime("%Y%m%dT%H%M%SZ"), hashlib.sha256(body).hexdigest()
    scope = f"{stamp[:8]}/{os.environ['MUSTER_REGION']}/{service}/aws4_request"
    of_s3 = {"x-amz-content-sha256": digest} if service == "s3" else {}
    heads = {"host": host, **of_s3, "x-amz-date": stamp, "x-amz-security-token": keys["Token"]}
    names = ";".join(heads)
    lines = [f"{name}:{value}" for name, value in heads.items()]
    text = "\n".join([method, "/" + path, "", *lines, "", names, digest])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(text.encode()).hexdigest()])
    key = b"AWS4" + keys["SecretAccessKey"].encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), "sha256").digest()
    who = f"Credential={keys['AccessKeyId']}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return {**heads, "authorization": "AWS4-HMAC-SHA256 " + who}


def utc_now():
    return datetime.datetime.now(datetime.timezone.utc) + SKEW


def corrects_clock(refusal):
    """Returns whether the Date header of a refused call shows that the clock is wrong; later signatures are corrected."""
    global SKEW
    try:
        off = email.utils.parsedate_to_datetime(refusal.headers["date"]) - utc_now()
    except (TypeError, ValueError):
        return False
    if abs(off) <= MAX_SKEW:
        return False
    SKEW += off
    seconds = round(off.total_seconds())
    say(f"muster: the clock of this machine is {abs(seconds)} s {'slow' if seconds > 0 else 'fast'}; signing calls with AWS's time")
    return True


def call(method, url, data, read, timeout, service="execute-api", kind="application/json"):
    """Returns the answer of a signed call. If AWS refuses the signature's time (403), the call is repeated once."""
    for is_last in (False, True):
        headers = {**signed(method, url, data, credentials(read), utc_now(), service), "content-type": kind}
        try:
            return fetch(url, data, timeout, method, headers)
        except urllib.error.HTTPError as error:
            if is_last or error.code != 403 or not corrects_clock(error):
                raise


def ask(path, body, timeout=10):
    """Returns one call's status, 0 if there was no answer, and the answer."""
    url, data = os.environ["MUSTER_RUNNER_API"] + path, json.dumps(body).encode()
    try:
        status, text = 200, call("POST", url, data, metadata(), timeout)
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode(errors="replace")
    except Exception as error:  # whatever there is between here and an answer
        status, text = 0, json.dumps({"error": {"code": str(error)}})
    try:
        answer = json.loads(text)
        return status, answer if isinstance(answer, dict) else {}
    except ValueError:
        return status, {}


def error_of(answer):
    error = answer.get("error")
    return error if isinstance(error, dict) else {}


def code_of(answer):
    return error_of(answer).get("code")


def pause(status, attempt, longest):
    """Returns the seconds until the next attempt. All machines share a route's token bucket, and one job can empty it by
    calling without end. A refused call uses no tokens, so frequent attempts help and harm no one: about one a second."""
    return (0.5 if status == 429 else min(2**attempt, longest)) + random.random()


def report(body, tries):
    """Reports an event and returns the answer. A lost report only causes delay: the control plane also checks by itself."""
    for attempt in range(1, tries + 1):
        status, answer = ask("/runner/events", body)
        if status in (200, 409):
            return answer
        if attempt < tries:
            time.sleep(attempt + random.random())
    say(f"muster: {body['event']} could not be reported (status {status})")
    return {}


def leave(name, code, tries):
    """Reports the agent's end. Returns how many seconds the machine should stay for inspection, which a pool can configure
    for failed jobs. GitHub reports the job's conclusion to the control plane a little later, so the call is repeated."""
    end = time.monotonic() + ASK_LIMIT
    while True:
        answer = report({"event": "exited", "runner_name": name, "code": code, **STOPPED}, tries)
        again = answer.get("ask_again_seconds")
        if again is None or time.monotonic() + again > end:
            return min(answer.get("stay_seconds", 0), MAX_STAY)
        time.sleep(again)


def ages():
    """Returns how long ago the machine reached each phase. Durations need no correct clock."""
    told = {name: round(time.monotonic() - at, 2) for name, at in MOMENTS.items()}
    try:
        with open("/proc/uptime") as file:
            told["kernel"] = float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        pass
    return told


def register():
    """Returns the configuration, or None if the machine must shut down without a report."""
    end = time.monotonic() + int(setting("MUSTER_REGISTER_LIMIT_SECONDS", "480"))
    attempt, said, told = 0, None, {"arch": ARCHES.get(os.uname().machine), "agent": agents_version()}
    while True:
        status, answer = ask("/runner/register", {**told, "ages": ages()}, 30)
        if status == 200:
            return answer
        action, last, error = answer.get("action"), said, error_of(answer)
        why = error.get("message") or answer.get("message") or error.get("code") or "no answer"
        said = f"muster: not registered (status {status}): {str(why)[:300]}"
        if said != last:
            say(said)
        if action == "shutdown":
            return None
        # A 403 is retried too: a new role takes a while to propagate.
        wanted = answer.get("retry_after_seconds")
        wait = pause(status, min(attempt, 5), 32) if wanted is None else wanted + random.random()
        attempt += 1
        if time.monotonic() + wait > end:
            raise SystemExit(f"giving up after {attempt} attempts")
        time.sleep(wait)


# --- The hooks --------------------------------------------------------------------------------------------------------


class Machine(socketserver.ThreadingUnixStreamServer):
    """The server for the hooks. Each line of an answer is a JSON object; the last one has `go`."""

    daemon_threads = True

    def __init__(self, runner, packages):
        super().__init__(SOCKET, Hook)
        os.chmod(SOCKET, 0o666)
        self.runner, self.lock, self.verdict, self.completed = runner, threading.Lock(), None, False
        # The last hook that the job has reached, and why no job may start any more. Neither needs the lock, which a hook holds
        # while it waits: a job sets the first before it reads the second, and an interruption does the reverse.
        self.reached = self.shut = ""
        self.packages = packages
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()

    def refuse_without_packages(self, packages):
        """Stops an agent without a job if the packages could not be installed. If it has a job, the hook refuses that."""
        if packages.exception():
            with self.lock:
                has_job, self.verdict = self.verdict is not None, self.verdict or without_packages(packages)
            if not has_job:
                systemctl("stop", AGENT)


class Hook(socketserver.StreamRequestHandler):
    timeout = 30

    def tell(self, **line):
        try:
            self.wfile.write(json.dumps(line).encode() + b"\n")
        except OSError:  # a hook that was ended
            pass

    def handle(self):
        event, server = json.loads(self.rfile.readline(65536)), self.server
        event["runner_name"] = server.runner
        if server.reached != "job-completed":
            server.reached = event["event"]
        with server.lock:  # each event is reported once; a job that calls the hooks again changes nothing
            if event["event"] == "job-completed":
                server.completed = server.completed or report(event, 2) or True
            elif server.verdict is None:
                asks = {**event, "event": "job-started"}
                server.verdict = server.shut or self.may_start(asks) or self.await_packages() or server.shut
            no = event["event"] == "job-started" and server.verdict
        if no and no == server.shut:
            STOPPED["stopped_for"] = "interruption"
        self.tell(**({"say": "::error::" + no, "go": False} if no else {"go": True}))
        if no:
            time.sleep(1)  # until the worker has read the message
            # To the agent a hook is a step: if it fails, steps with `if: always()` run. The agent skips them all only while
            # it shuts down (StepsRunner.cs, `RunnerShutdownToken`). So the agent is stopped, and its worker with it.
            systemctl("stop", AGENT)

    def may_start(self, event):
        """Returns an empty string if the job may start, otherwise the reason against it. Muster may delete a runner without
        a job, so a job must not start before Muster has recorded it. If Muster stays silent, the job is refused: a refusal
        costs a re-run, a machine deleted during its job costs the work. Waiting costs only time, and most failures are
        short. A throttled route alone does not fail a job: Muster is available, so the job waits longer for its turn."""
        limit = int(setting("MUSTER_START_LIMIT_SECONDS", "600"))
        begun, attempt = time.monotonic(), 0
        while True:
            status, answer = ask("/runner/job-started", event)
            if status == 200:
                return ""
            if status == 409 and code_of(answer) == "foreign_job":
                return (f"The pool of this runner does not serve {event.get('repository')}, so this job was not started. "
                        "Ask who operates Muster which labels this repository may use.")
            if status == 409:
                return "This runner is being deleted and takes no more jobs. Please re-run this job."
            longest = limit * (PATIENCE if status == 429 else 1)
            if time.monotonic() - begun > longest:
                return (f"This job could not be reported to Muster for {longest} seconds (status {status}). Muster might delete "
                        "the machine of a job that it does not know, so the job was not started. Please re-run it.")
            if attempt == 0:
                self.tell(say=f"Muster does not answer yet (status {status}). Retrying.")
            time.sleep(pause(status, min(attempt, 4), 12))
            attempt += 1

    def await_packages(self):
        """Returns an empty string once the machine's packages are installed, otherwise the reason against the job. By then
        Muster has recorded the job, so it does not delete the machine meanwhile."""
        packages = self.server.packages
        if not packages.done():
            self.tell(say="Waiting until the packages of this machine are installed.")
            concurrent.futures.wait([packages], PACKAGES_LIMIT)
        return without_packages(packages)


def without_packages(packages):
    """Returns why a job cannot start without the packages, or an empty string if they are installed."""
    why = packages.exception() if packages.done() else f"more than {PACKAGES_LIMIT} seconds"
    if not why:
        return ""
    return f"The packages of this machine could not be installed ({why}), so this job was not started. Please re-run it."


def asked(event):
    """Called by a hook: returns the supervisor's answer. Messages that precede it go to the job's log."""
    with socket.socket(socket.AF_UNIX) as machine:
        machine.connect(SOCKET)
        machine.sendall(json.dumps(event).encode() + b"\n")
        for line in machine.makefile():
            answer = json.loads(line)
            if "say" in answer:
                print(answer["say"], flush=True)
            if "go" in answer:
                return answer
    raise OSError("no answer")


def theirs(name):
    """Runs the hook that the image configures, as the agent would (ScriptHandlerHelpers.cs). Returns its exit code."""
    with open(HOME + "/hooks.json") as file:
        path = json.load(file).get(name)
    if not path:
        return 0
    shell = ["pwsh", "-File"] if path.endswith(".ps1") else ["bash", "--noprofile", "--norc", "-eo", "pipefail"]
    return subprocess.run([*shell, path], check=False).returncode


def hook(name):
    env = os.environ.get
    event = {"event": name, "repository": env("GITHUB_REPOSITORY", ""), "job_name": env("GITHUB_JOB", ""),
             "run_id": int(env("GITHUB_RUN_ID") or 0), "run_attempt": int(env("GITHUB_RUN_ATTEMPT") or 0),
             "ref": env("GITHUB_REF", "")}
    if name == "job-completed":
        code = theirs(name)
        try:  # the last word, since the machine ends soon after it; it never changes a job's result
            asked(event)
        except (OSError, ValueError):
            pass
        return code
    try:  # the agent writes this file before its first hook (JobHookProvider.cs)
        with open(env("GITHUB_EVENT_PATH", "")) as file:
            event["private"] = json.load(file)["repository"]["private"]
    except (OSError, ValueError, KeyError, TypeError):
        event["private"] = None
    # After a refusal the agent is stopped, with a SIGTERM to all of its processes. If that ended this hook, it would be a
    # failed step, and the next step would run. So it ignores SIGTERM until the worker, which shuts down, interrupts it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        go = asked(event)["go"]
    except (OSError, ValueError) as error:
        print(f"::error::Muster's supervisor does not answer ({error}), so this job was not started. Please re-run it.",
              flush=True)
        go = False
    if not go:
        time.sleep(60)
        return 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return theirs(name)


# --- Spot interruptions -----------------------------------------------------------------------------------------------


def await_notice():
    """Waits until EC2 announces that it ends this machine. Returns the seconds until then and the time that EC2 gives. Ends the
    thread of a machine that is not Spot. The time is compared with the Date header of that answer: the machine's clock may be
    wrong, and that must not stop a job early. Without the header, the notice counts as new."""
    read = None
    while True:
        try:
            if not read:
                read = metadata()
                if read("instance-life-cycle") != "spot":
                    sys.exit()
            answered = []
            at = json.loads(read("spot/instance-action", answered))["time"]
            at = datetime.datetime.strptime(at + "+0000", "%Y-%m-%dT%H:%M:%SZ%z")
            try:
                left = (at - email.utils.parsedate_to_datetime(answered[0]["date"])).total_seconds()
            except (TypeError, ValueError):
                left = NOTICE
            return min(max(left, 0), NOTICE), at
        except Exception as error:  # whatever there is between here and a notice; 404: no notice yet
            read = read if getattr(error, "code", 0) == 404 else None
        time.sleep(POLL)


def content(path):
    """Returns a file of /proc. Empty if its process has ended."""
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def processes(name):
    """Returns the IDs of the processes that run this program of the agent. An update moves the programs to `bin.VERSION`."""
    path = re.escape(os.path.realpath(RUNNER_DIR)) + r"/bin[^/\0]*/" + name + r"\0"
    return [file.split("/")[2] for file in glob.glob("/proc/[0-9]*/cmdline") if re.match(r"([^\0]*\0)?" + path, content(file))]


def pipe(path):
    """Returns the number of the pipe that a path of /proc leads to, or 0."""
    try:
        about = os.stat(path)
    except OSError:
        return 0
    return stat.S_ISFIFO(about.st_mode) and about.st_ino


def write_to_log(line):
    """Writes a line to the running step's log: into the pipe from which the worker reads the step's output. A step that
    redirects its output has no such pipe, and its file stays as it is. A full pipe, or an agent that does not use pipes, costs
    only the line. The step can exchange its output at any time, so the open file is checked again."""
    for worker in processes("Runner.Worker"):
        held = set(filter(None, map(pipe, glob.glob(f"/proc/{worker}/fd/*"))))
        for file in glob.glob("/proc/[0-9]*/stat"):
            output = file[:-4] + "fd/1"
            if content(file).rpartition(")")[2].split()[1:2] == [worker] and pipe(output) in held:
                try:
                    with open(os.open(output, os.O_WRONLY | os.O_NONBLOCK), "wb", 0) as step:
                        if pipe(f"/proc/self/fd/{step.fileno()}") in held:
                            step.write(f"\n{line}\n".encode())
                except OSError:
                    pass


def stop_in_time(hooks):
    """Stops the agent before EC2 ends the machine, so that GitHub knows within seconds and has the whole log. A job that can end
    before that does, and a machine whose job has ended is left alone: it powers off as usual."""
    left, at = await_notice()
    if hooks.reached == "job-completed":
        return
    begun, last = time.monotonic(), at - datetime.timedelta(seconds=STOP_BEFORE)
    say(f"muster: EC2 ends this Spot machine at {at:%H:%M:%S} UTC")
    hooks.shut = f"EC2 takes this machine back, so this job was not started. {RERUN}"
    told = {"event": "interrupted", "runner_name": hooks.runner}
    threading.Thread(target=report, args=(told, 2), daemon=True).start()
    if not hooks.reached:
        STOPPED["stopped_for"] = "interruption"
        return systemctl("stop", AGENT)
    write_to_log(f"::notice title=Spot interruption notice::EC2 takes this machine back at {at:%H:%M:%S} UTC. "
                 f"The job can go on until {last:%H:%M:%S} UTC.")
    error = f"::error title=EC2 Spot interruption::EC2 took this machine back, so Muster stopped the job. {RERUN}"

    def interrupt():
        # Only the listener: systemd would signal the step too, and if that ends before the worker shuts down, the next one runs.
        STOPPED["stopped_for"] = "interruption"
        for listener in processes("Runner.Listener"):
            os.kill(int(listener), signal.SIGINT)
    for wait, act in ((left - STOP_BEFORE, lambda: write_to_log(error)), (1, interrupt), (25, lambda: systemctl("stop", AGENT))):
        time.sleep(max(0, begun + wait - time.monotonic()))
        if hooks.reached == "job-completed":
            return
        act()
        begun = time.monotonic()


# --- The machine ------------------------------------------------------------------------------------------------------


def systemctl(*words):
    return subprocess.run(["systemctl", *words], check=False).returncode


def run(command, **given):
    """Runs a part of the boot and copies its output to ours. If it fails, the boot fails."""
    pipe = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, text=True, errors="replace", **pipe, **given)
    reader = threading.Thread(target=lambda: [say(line.rstrip("\n")) for line in process.stdout], daemon=True)
    reader.start()
    code = process.wait()
    reader.join(1)  # what it left in the background may hold its output for ever
    if code:
        raise SystemExit(f"exit code {code}")


def beside(*command):
    """Starts a part of the boot that runs next to the others. Returns its `Future`, whose `result` raises what `run` raises."""
    future = concurrent.futures.Future()

    def go():
        try:
            future.set_result(run(command))
        except BaseException as error:
            future.set_exception(error)
    threading.Thread(target=go, daemon=True).start()
    return future


def agents_version():
    """Returns the version of the image's agent, or None if there is no agent that runs."""
    user, listener = pwd.getpwnam(USER), os.path.join(RUNNER_DIR, "bin", "Runner.Listener")
    # It writes a log to its folder, so it runs as the user who must be able to write there later.
    given = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user.pw_uid != os.getuid() else {}
    pipe = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        said = subprocess.run([listener, "--version"], cwd=RUNNER_DIR, timeout=60, check=False, text=True, **pipe, **given).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"^(\d+\.\d+\.\d+)\s*$", said, re.M)
    return found and found[1]


def network(_):
    """Returns whether the network's settings changed. The configuration's program replaces it (infra/machine-program.py)."""
    return False


def take_agent(agent):
    """Replaces the image's agent with the one that Muster names, or with the newest one."""
    run(["/bin/bash", HOME + "/agent.sh", *filter(None, (agent.get("url"), agent.get("sha256")))])


def pairs(path):
    """Returns the `NAME=value` pairs of a file such as the image's /etc/environment."""
    try:
        with open(path, errors="replace") as file:
            return dict(re.findall(r"^(?:export )?([A-Za-z_][A-Za-z0-9_]*)=[\"']?(.*?)[\"']?$", file.read(), re.M))
    except OSError:
        return {}


def environments(config):
    """Returns a job's environment without the hooks, and the hooks that the image configures. The environment contains only
    what a job needs, none of the boot's variables. The image's settings override PATH and LANG, and the pool's override both."""
    tools = setting("MUSTER_TOOL_CACHE", "/opt/hostedtoolcache")
    clean = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "RUNNER_TOOL_CACHE": tools, "AGENT_TOOLSDIRECTORY": tools,
             **pairs(setting("MUSTER_ENVIRONMENT", "/etc/environment"))}
    for name, value in (config.get("environment") or {}).items():
        if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            clean[name] = value
    # The agent loads this file over its own environment (Program.cs, `LoadAndSetEnv`), so it would override our hooks.
    dotenv = os.path.join(RUNNER_DIR, ".env")
    named = {**clean, **pairs(dotenv)}
    if os.path.exists(dotenv) and not config.get("builder"):  # an image of this machine keeps its file
        with open(dotenv, "r+") as file:
            kept = [line for line in file if not line.startswith(tuple(name + "=" for name in HOOKS.values()))]
            file.seek(0)
            file.writelines(kept)
            file.truncate()
    images = {hook: named[name] for hook, name in HOOKS.items() if named.get(name)}
    return {name: value for name, value in clean.items() if name not in HOOKS.values()}, images


def bake(builder):
    """Cleans a builder for an image of its disk, reports that, and waits for its end. The script comes with the configuration
    (infra/image/bake.sh), and leaves its results in a file."""
    run(["/bin/bash", "-c", builder["script"]], env={**os.environ, "MUSTER_BAKE": builder["boot"], "MUSTER_HOME": HOME})
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    with open(HOME + "/baked") as file:
        report({"event": "baked", **json.load(file)}, 30)
    signal.pause()


def write(path, text, mode):
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "w") as file:
        file.write(text)


def start_agent(config, clean):
    """Starts the agent. The configuration is a credential: it is not passed as an argument, but in a file that only root can
    read, until the agent has started. The agent reads the variable and removes it (CommandSettings.cs)."""
    given = {**clean, **{name: f"{HOME}/{hook}.sh" for hook, name in HOOKS.items()},
             "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE": "1",
             "ACTIONS_RUNNER_INPUT_JITCONFIG": config["encoded_jit_config"]}
    quoted = [name + '="' + re.sub(r'(["\\`$])', r"\\\1", value) + '"\n' for name, value in given.items()]
    write(HOME + "/environment", "".join(quoted), 0o600)
    if systemctl("start", AGENT):
        raise SystemExit("the runner does not start")
    write(HOME + "/environment", "", 0o600)  # systemd reads it again for ExecStopPost=, so it stays


def agents_end():
    """Returns the agent's exit code if it is `TOO_OLD`, otherwise 0: run.sh turns all other codes into 0."""
    shown = subprocess.run(["systemctl", "show", "--property=ExecMainStatus", "--value", AGENT],
                           stdout=subprocess.PIPE, check=False, text=True).stdout
    return TOO_OLD if shown.strip() == str(TOO_OLD) else 0


def let_jobs_be_root(sudoers="/etc/sudoers.d/muster"):
    """Allows sudo and Docker, if they are installed, and access to the metadata service, which root can reach anyway."""
    if os.path.isdir(os.path.dirname(sudoers)):
        write(sudoers, f"{USER} ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    if subprocess.run(["getent", "group", "docker"], stdout=subprocess.DEVNULL, check=False).returncode == 0:
        subprocess.run(["usermod", "-aG", "docker", USER], check=True)
    folder = f"{setting('MUSTER_UNITS', '/run/systemd/system')}/{AGENT}.d"
    os.makedirs(folder, exist_ok=True)
    # systemd has not loaded the unit, so it needs no `daemon-reload`.
    write(folder + "/metadata.conf", "[Service]\nIPAddressDeny=\n", 0o644)


def end_of(path):
    """Returns the last bytes of an agent's log. Jobs can write to its folder, so only a regular file of its user is read."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != pwd.getpwnam(USER).pw_uid:
            return b""
        file.seek(max(0, about.st_size - MAX_LOG))
        return file.read(MAX_LOG)


def send_logs(secret):
    """Uploads the machine's log to the only key of the stack's bucket that its role can write. It is for people: a failure
    is printed and has no other effect. The agent masks secrets in its own logs (Tracing.cs)."""
    command = ["journalctl", "--boot", "--no-pager", "--quiet", "--output=short-iso", "--lines=20000", *JOURNAL]
    parts = {"journal": lambda: subprocess.run(command, stdout=subprocess.PIPE, timeout=5, check=False).stdout}
    for path in sorted(glob.glob(RUNNER_DIR + "/_diag/*_*.log"))[-20:]:
        parts[os.path.basename(path)] = functools.partial(end_of, path)
    try:
        text = b""
        for name, read in parts.items():
            try:
                part = read()
            except (OSError, subprocess.SubprocessError) as error:
                part = str(error).encode()
            text += b"==> %s <==\n%s\n" % (name.encode(), part)
        for hidden in filter(None, (secret, *SECRETS)):
            text = text.replace(hidden.encode(), b"[...]")
        body = gzip.compress(text)
        read = metadata()
        url = f"{os.environ['MUSTER_LOGS']}%3A{read('instance-id')}/machine.log.gz"
        call("PUT", url, body, read, SEND_LIMIT, "s3", "application/gzip")
    except Exception as error:  # whatever there is between here and the bucket
        say(f"muster: the logs could not be sent ({error})")


def last_lines():
    """Returns the last output, without anything that could be a credential."""
    text = re.sub(r"[^\t\n -~]", "", "\n".join(LINES))
    return re.sub(r"[A-Za-z0-9+/=_-]{32,}", "[...]", text)[-3500:]


def main():
    # Queues, because their `put` is safe in a signal handler. A second signal during an event's `set` would deadlock.
    ended, over, name, why, config, code = queue.SimpleQueue(), queue.SimpleQueue(), None, None, {}, 0
    signal.signal(signal.SIGUSR1, lambda *_: ended.put(0))  # sent by the agent's unit at its end (ExecStopPost=)
    # The system is being shut down, or the machine has reached its maximum lifetime.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("shutdown requested"))
    try:
        run(["/bin/bash", HOME + "/prepare.sh"])
        MOMENTS["agent"] = time.monotonic()
        # An image with an agent has its packages. If MUSTER_RUNNER_DIR is set, the caller provides them.
        is_bare = not os.environ.get("MUSTER_RUNNER_DIR") and not os.path.exists(RUNNER_DIR + "/run.sh")
        packages = lambda part: beside(*(["/bin/bash", HOME + "/packages.sh", part] if is_bare else ["true"]))
        fetched = packages("fetch")
        config = register()
        if config is None:
            return 0
        globals()["RERUN"] = config.get("rerun") or RERUN
        exec(config.get("program") or "", globals())
        if network(config):
            fetched = packages("fetch")
        if config.get("agent") is not None:
            take_agent(config["agent"])
        # Most installations that fail do so because of a mirror. So no agent can get a job before everything is downloaded.
        fetched.result()
        packages("libraries").result()
        clean, images = environments(config)
        write(HOME + "/hooks.json", json.dumps(images), 0o644)
        ours, installed = pwd.getpwuid(os.getuid()).pw_name, None
        if config.get("boot_hook") or config.get("builder"):
            installed = packages("install")
            installed.result()  # the boot hook may use the packages and their manager
        if config.get("boot_hook"):
            say("muster: running the boot hook of the pool")
            root = {**clean, "HOME": "/root", "USER": ours, "RUNNER_USER": USER}
            run(["/bin/bash", "-euo", "pipefail", "-c", config["boot_hook"]], env=root, cwd=RUNNER_DIR)
        if config.get("builder"):
            bake(config["builder"])
        # After the boot hook, which may have installed sudo or Docker.
        if config.get("sudo") and USER != ours:
            let_jobs_be_root()
        elif USER != ours:
            # The user cannot log in either (cron, ssh to the machine itself), which would be outside the agent's unit.
            subprocess.run(["usermod", "--expiredate", "1", USER], check=True)
        try:  # memory may run out now, and the supervisor is the last to go
            write("/proc/self/oom_score_adj", "-1000", 0o600)
        except OSError:
            pass
        installed = installed or packages("install")
        hooks = Machine(config["runner_name"], installed)
        start_agent(config, clean)
        name = config["runner_name"]
        say(f"muster: runner {name} started")
        started = {"event": "runner-started", "runner_name": name}
        threading.Thread(target=report, args=(started, 3), daemon=True).start()
        threading.Thread(target=stop_in_time, args=(hooks,), daemon=True).start()
        installed.add_done_callback(hooks.refuse_without_packages)
        ended.get()
        if installed.done() and installed.exception():
            name = None  # the report includes the log, as for other failed boots
            installed.result()
        code = agents_end()
        say("muster: the runner ended" + (", since GitHub calls it too old" if code else ""))
    except BaseException as error:
        why = str(error) if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
        say(f"muster: {'the machine ends' if name else 'booting failed'} ({why})")
    signal.signal(signal.SIGTERM, lambda *_: over.put(0))
    if os.environ.get("MUSTER_LOGS"):
        sender = threading.Thread(target=send_logs, args=(config.get("encoded_jit_config"),), daemon=True)
        sender.start()
        sender.join(SEND_LIMIT)
        if sender.is_alive():
            say(f"muster: the logs could not be sent within {SEND_LIMIT} seconds")
    tries = 1 if why == "shutdown requested" else 5  # the network may already be down
    if name:
        stay = leave(name, code, tries)
        if STOPPED and hooks.reached:
            # EC2 then reports an interruption as the reason for its end, and not the machine's own shutdown.
            stay = int(setting("MUSTER_LAST_WAIT_SECONDS", "110"))
        if stay and why is None:
            say(f"muster: the machine stays for {stay} seconds")
            try:
                over.get(timeout=stay)
            except queue.Empty:
                pass
    else:
        report({"event": "boot-failed", "log": last_lines()}, tries)
    return 0 if why is None else 1


if __name__ == "__main__":
    sys.exit(hook(sys.argv[1]) if sys.argv[1:] else main())
