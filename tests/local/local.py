"""Shared by the scripts in this folder: paths, progress, processes, ports. Python 3.11, no packages."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCAL = ROOT / ".local"
RUN = LOCAL / "run"
STACKS = LOCAL / "stacks"
STATE = RUN / "state.json"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# An unpacked release (`tests/smoke`) to deploy instead of building this checkout.
PACKAGE = pathlib.Path(os.environ["MUSTER_PACKAGE"]) if os.environ.get("MUSTER_PACKAGE") else None
# Not the folder `dist/`, whose functions are built for Lambda: these builds are quick, and for this machine.
DIST = PACKAGE / "dist" if PACKAGE else LOCAL / "dist"
TEMPLATE = (PACKAGE or ROOT) / "template.yaml"
FUNCTIONS = ("webhook", "scale-up", "reaper", "runner-api", "admin")
EMULATOR_PYTHON = LOCAL / "ministack/bin/python"
SAM = LOCAL / "sam/bin/sam"

# Any two words: the emulator accepts them as the account's root.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class Failed(Exception):
    """An error message for the user, printed without a traceback."""


def main(run):
    """Runs a script's main function and turns `Failed` into one line and exit code 1."""
    try:
        run()
    except Failed as failure:
        print(f"\n{pathlib.Path(sys.argv[0]).name}: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def say(text):
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text):
    """Prints a step's name, a reminder every ten seconds while it runs, and how long it took."""
    begun = time.monotonic()
    done = threading.Event()

    def remind():
        while not done.wait(10):
            say(f"    … {text}: {time.monotonic() - begun:.0f} s so far")

    threading.Thread(target=remind, daemon=True).start()
    say(f"  → {text}")
    try:
        yield
    finally:
        done.set()
    say(f"    {time.monotonic() - begun:.1f} s")


def need(tool, why, how):
    if shutil.which(tool) is None:
        raise Failed(f"`{tool}` is not installed, but {why}. {how}")


def check_tools():
    if sys.version_info < (3, 11):
        raise Failed(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}.")
    if PACKAGE is None:
        need("cargo", "the functions are built with it", "See https://rustup.rs.")
    need("bash", "machines boot with it", "Install it with your package manager.")
    need("curl", "the boot script calls AWS with it", "Install it with your package manager.")


def run(arguments, log=None, **options):
    """Runs a command. With `log` its output goes to that file, and its end is shown on failure."""
    if log is None:
        code = subprocess.run(arguments, check=False, **options).returncode
    else:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w", encoding="utf-8") as out:
            code = subprocess.run(
                arguments, check=False, stdout=out, stderr=subprocess.STDOUT, **options
            ).returncode
    if code != 0:
        if log is not None:
            say("\n".join(log.read_text(encoding="utf-8").splitlines()[-30:]))
        raise Failed(f"`{' '.join(map(str, arguments))}` ended with {code}" + (f"; see {log}" if log else ""))


def digest(*paths):
    """One hash over the contents of files."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:16]


# --- ports and processes ------------------------------------------------------------------------


def free_port(wanted, taken=()):
    """Returns `wanted` if that port is free and not in `taken`, otherwise any free port."""
    for port in (wanted, 0):
        if port in taken:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return probe.getsockname()[1]
    raise Failed("no free port on 127.0.0.1")


def birth(pid):
    """Returns a process's start time as text, or None if it does not exist. Distinguishes reused PIDs."""
    with contextlib.suppress(OSError):
        # The name in brackets may itself contain spaces and brackets.
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    if pathlib.Path("/proc/self").exists():
        return None
    shown = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.strip() or None


def start(name, arguments, environment):
    """Starts a process in a new group in the background; its output goes to .local/run/NAME.log."""
    RUN.mkdir(parents=True, exist_ok=True)
    with open(RUN / f"{name}.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [str(a) for a in arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=RUN,
        )
    return {"pid": process.pid, "birth": birth(process.pid)}


def alive(record):
    return bool(record) and record["birth"] is not None and birth(record["pid"]) == record["birth"]


def stop(record):
    """Stops only a recorded process and its group (the functions' and machines' processes)."""
    if not alive(record):
        return
    for number, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 2)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(record["pid"], number)
        until = time.monotonic() + patience
        while time.monotonic() < until:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(record["pid"], os.WNOHANG)
            if not alive(record):
                # Processes that the leader left in its group are killed too.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(record["pid"], signal.SIGKILL)
                return
            time.sleep(0.05)


def wait_for(url, record, log, seconds=90):
    """Waits until `url` answers with any status."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            try:
                urllib.request.urlopen(url, timeout=2).close()
            except urllib.error.HTTPError:
                pass
            return
        if not alive(record):
            break
        time.sleep(0.05)
    raise Failed(f"{url} does not answer. {end_of(log)}")


def wait_for_file(path, record, log, seconds=90):
    """Waits for a JSON file that a process writes when it is ready, and returns its content."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and alive(record):
        with contextlib.suppress(OSError, ValueError):
            return json.loads(path.read_text(encoding="utf-8"))
        time.sleep(0.05)
    raise Failed(f"{path} was not written. {end_of(log)}")


def end_of(log):
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
    return f"The end of {log}:\n" + "\n".join(lines)


# --- state --------------------------------------------------------------------------------------


def load_state():
    try:
        return json.loads(STATE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def save_state(state):
    RUN.mkdir(parents=True, exist_ok=True)
    draft = STATE.with_suffix(".new")
    draft.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
    draft.replace(STATE)


def write_env(path, values):
    """Writes an env file that a shell can `source` and a program can split at the first `=`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")
    draft.replace(path)
