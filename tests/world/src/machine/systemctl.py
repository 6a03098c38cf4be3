#!/usr/bin/python3 -I
"""Simulates the parts of systemd that infra/boot.sh and infra/machine use.

Each unit has a keeper: a process that runs the unit's program, and that the kernel makes the parent of all orphans below
it. So the processes below a keeper correspond to a unit's cgroup. Only the fields that `start` reads are supported.
"""

import ctypes
import os
import pathlib
import pwd
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
UNITS, PIDS = ROOT / "units", ROOT / "tmp"
PR_SET_CHILD_SUBREAPER = 36


def fields(unit):
    """Returns the fields of a unit file, each with its last value."""
    lines = (line.partition("=") for line in (UNITS / unit).read_text().splitlines() if line[:1] not in "#[")
    return {name: value for name, _, value in lines if name}


def variables(path):
    """Parses an environment file like systemd: a quoted value may contain escapes and line breaks."""
    found = re.findall(r'^(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^\n]*))$', pathlib.Path(path).read_text(), re.M | re.S | re.A)
    return {name: re.sub(r'\\(["\\`$])', r"\1", quoted) if quoted else plain for name, quoted, plain in found}


def below(process):
    """Returns the descendants of a process, parents first."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children")
    try:
        ids = [int(word) for word in children.read_text().split()]
    except OSError:
        return []
    return ids + [deeper for child in ids for deeper in below(child)]


def tell(processes, number):
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def end(keeper, seconds, is_told=False):
    """Sends SIGTERM to all processes of a unit, unless they were sent it before, and SIGKILL to those that remain."""
    last = time.monotonic() + seconds
    if not is_told:
        tell(below(keeper), signal.SIGTERM)
    while below(keeper):
        if time.monotonic() > last:
            tell(below(keeper), signal.SIGKILL)
        if keeper == os.getpid():
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.02)


def keep(unit, started):
    """Runs a unit from its start to its end."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    said, given = fields(unit), {}
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    own = pwd.getpwuid(os.getuid())
    user = pwd.getpwnam(said["User"]) if "User" in said else None
    if user:
        environment |= {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
        if user != own:
            groups = os.getgrouplist(user.pw_name, user.pw_gid)
            given = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}
    if unit == "muster.service":
        # The only unit that bakes. A job's steps do not see the variable.
        environment["BASH_ENV"] = str(ROOT / "bake.sh")
    environment |= variables(said["EnvironmentFile"])
    main = subprocess.Popen(
        shlex.split(said["ExecStart"]), env=environment, cwd=said.get("WorkingDirectory", "/"), stdin=subprocess.DEVNULL, **given
    )
    (PIDS / f"{unit}.stop").unlink(missing_ok=True)
    (PIDS / unit).write_text(f"{os.getpid()} {main.pid}")
    os.write(started, b"yes")
    os.close(started)
    if "RuntimeMaxSec" in said:
        timer = threading.Timer(int(said["RuntimeMaxSec"]), tell, ([main.pid], signal.SIGTERM))
        timer.daemon = True
        timer.start()
    main.wait()
    (PIDS / f"{unit}.status").write_text(str(main.returncode))
    if said.get("SuccessAction" if main.returncode == 0 else "FailureAction") == "poweroff":
        os.execvp("shutdown", ["shutdown", "-h", "now"])
    # A stopped unit got its one SIGTERM: a second one would end what its processes do about the first.
    end(os.getpid(), int(said["TimeoutStopSec"]), (PIDS / f"{unit}.stop").exists())
    if "ExecStopPost" in said:
        subprocess.run(shlex.split(said["ExecStopPost"].lstrip("+-")), check=False)
    (PIDS / unit).unlink()


def start(unit):
    """Starts a unit. Returns once the unit's program runs, as for Type=exec."""
    read, written = os.pipe()
    if os.fork() == 0:
        os.close(read)
        keep(unit, written)
        os._exit(0)
    os.close(written)
    return 0 if os.read(read, 3) else 1


def stop(unit):
    keeper = int((PIDS / unit).read_text().split()[0])
    (PIDS / f"{unit}.stop").touch()
    end(keeper, int(fields(unit)["TimeoutStopSec"]))
    while (PIDS / unit).exists():
        time.sleep(0.02)
    return 0


def main():
    options = [word for word in sys.argv[1:] if word.startswith("-")]
    verb, *units = [word for word in sys.argv[1:] if not word.startswith("-")]
    if verb == "start":
        return max(start(unit) for unit in units)
    if verb == "stop":
        return max(stop(unit) for unit in units if (PIDS / unit).exists())
    if verb == "show" and options == ["--property=ExecMainStatus", "--value"]:
        print((PIDS / f"{units[0]}.status").read_text())
        return 0
    if verb == "kill" and "--kill-who=main" in options:
        name = next(word.partition("=")[2] for word in options if word.startswith("--signal="))
        for unit in units:
            tell([int((PIDS / unit).read_text().split()[1])], signal.Signals["SIG" + name])
        return 0
    return f"systemctl: this machine knows no {' '.join(sys.argv[1:])}"


if __name__ == "__main__":
    sys.exit(main())
