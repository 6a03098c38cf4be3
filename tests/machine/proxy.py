"""The parts of tests/machine/proxy that run in the root file system: the machine, its metadata service, and the runner API."""

import contextlib
import glob
import gzip
import http.server
import json
import os
import subprocess
import sys
import threading
import time

OUT = "/run/outside/"
API = ("10.99.99.1", 8080)
SETTINGS = {"MUSTER_RUNNER_API": "http://10.99.99.1:8080", "MUSTER_REGION": "eu-central-1", "MUSTER_LOGS": "http://10.99.99.1:8080/logs"}


class Api(http.server.BaseHTTPRequestHandler):
    """The runner API and the log bucket; on the other address, the metadata service."""

    def log_message(self, *_):
        pass

    def answer(self, body=""):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def do_GET(self):
        known = {"security-credentials/": "role", "instance-id": "i-0abc"}
        keys = json.dumps({"AccessKeyId": "id", "SecretAccessKey": "key", "Token": "token"})
        self.answer(next((text for end, text in known.items() if self.path.endswith(end)), keys))

    def do_PUT(self):
        data = self.body()
        if self.path.startswith("/logs"):
            with open(OUT + "calls", "ab") as file:
                file.write(gzip.decompress(data))
        self.answer("TOKEN")

    def do_POST(self):
        with open(OUT + "calls", "ab") as file:
            file.write(self.body() + b"\n")
        if self.path != "/runner/register":
            return self.answer("{}")
        with open(OUT + "machine-program.py") as file, open(OUT + "ca.pem") as bundle, open(OUT + "password") as secret:
            program, ca, password = file.read(), bundle.read() or None, secret.read()
        url = "http://muster@10.99.99.1:3128"
        proxy = {"https": url, "http": url, "no_proxy": ["10.99.99.1"], "password": password}
        self.answer(json.dumps({"program": program, "network": {"ca": ca, "proxy": proxy}, "environment": {}, "runner_name": "r-1"}))


def serve(address):
    http.server.ThreadingHTTPServer(address, Api).serve_forever()


def watch():
    """Records every argument list of the machine."""
    seen = set()
    while True:
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                seen.add(file.read())
        with open(OUT + "arguments", "wb") as file:
            file.write(b"\n".join(seen).replace(b"\0", b" "))
        time.sleep(0.2)


def job(machine, environment, commands):
    """Runs a step of a job. Prints the last line of its output if it fails."""
    step = ["runuser", "-u", "runner", "--", "env", "-i", *[f"{name}={value}" for name, value in environment.items() if "proxy" not in name.lower()],
            "HOME=/home/runner", "bash", "-c", f"set -a; . /run/outside/proxied; set +a; set -euo pipefail; cd /home/runner; {commands}"]
    done = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        machine.say("\n".join(done.stdout.splitlines()[-5:]))
        raise SystemExit(f"failed: {commands}")


def main():
    os.environ.update(SETTINGS)
    sys.path.insert(0, "/run/muster")
    import machine

    threading.Thread(target=watch, daemon=True).start()
    machine.run(["/bin/bash", "/run/muster/prepare.sh"])
    os.makedirs("/opt/actions-runner/bin", exist_ok=True)
    packages = lambda part: machine.beside("/bin/bash", "/run/muster/packages.sh", part)
    fetched = packages("fetch")
    time.sleep(2)  # the first attempt has begun, and cannot end by itself
    config = machine.register()
    exec(config["program"], vars(machine))
    if not machine.network(config):
        raise SystemExit("the configuration has no network")
    assert fetched.exception(timeout=10), "the first attempt was not ended"
    packages("fetch").result()
    packages("install").result()
    machine.let_jobs_be_root()
    clean, _ = machine.environments(config)
    # The agent's unit reads the environment from a file too, so it is in no argument list.
    proxied = {name: value for name, value in clean.items() if "proxy" in name.lower()}
    machine.write(OUT + "proxied", "".join(f"{name}='{value}'\n" for name, value in proxied.items()), 0o644)
    job(machine, clean, "curl -fsS -o /dev/null https://deb.debian.org/debian/dists/bookworm/InRelease")
    job(machine, clean, "sudo apt-get install -y hello >/dev/null && hello")
    job(machine, clean, "! curl --noproxy '*' -sS --max-time 3 http://deb.debian.org/")
    job(machine, clean, "curl -fsS -X PUT http://169.254.169.254/latest/api/token")
    # Docker's daemon, with the file that its unit names.
    unit = "/run/systemd/system/docker.service.d/muster-proxy.conf"
    with open(unit) as file:
        assert "EnvironmentFile=/run/muster/proxy\n" in file.read()
    daemon = subprocess.Popen(["bash", "-c", "set -a; . /run/muster/proxy; exec dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs"
                               " --data-root=/run/docker-data >/run/outside/dockerd 2>&1"])
    job(machine, clean, "for try in {1..60}; do ! sudo docker info >/dev/null 2>&1 || break; sleep 0.5; done; sudo docker info >/dev/null")
    job(machine, clean, "! docker pull registry.invalid/none 2>&1")
    daemon.terminate()
    daemon.wait()
    machine.report({"event": "boot-failed", "log": machine.last_lines()}, 1)
    machine.send_logs(None)
    print("the job is done")


if __name__ == "__main__":
    {"api": lambda: serve(API), "metadata": lambda: serve(("169.254.169.254", 80)), "machine": main}[sys.argv[1]]()
