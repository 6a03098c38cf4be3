"""Starts `muster ui` with the stub function, and a browser."""

import contextlib
import os
import pathlib
import subprocess

from playwright.sync_api import sync_playwright

import function

ROOT = function.ROOT
MUSTER = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "local/muster"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@contextlib.contextmanager
def muster(address, *flags):
    """Runs the command. Yields the address that it prints, and the process."""
    env = {
        "PATH": os.environ["PATH"], "USER": "mira", "AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    command = [MUSTER, "ui", "--no-open", *flags]
    with subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            entry = process.stdout.readline().strip()
            if not entry:
                raise RuntimeError(process.stderr.read())
            yield entry, process
        finally:
            process.kill()


@contextlib.contextmanager
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()
