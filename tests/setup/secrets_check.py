"""Checks that the App's key and the webhook's secret are only in Secrets Manager."""

import pathlib
import threading
import time

from local import LOCAL, RUN, Failed


class Processes(threading.Thread):
    """Records the arguments and environment of every process of this machine, as `ps` shows them to all users."""

    def __init__(self):
        super().__init__(daemon=True)
        self.seen, self.is_over = set(), False
        self.start()

    def run(self):
        while not self.is_over:
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                for what in ("cmdline", "environ"):
                    try:
                        self.seen.add((process / what).read_bytes())
                    except OSError:  # it has ended, or belongs to a different user
                        pass
            time.sleep(0.1)

    def end(self):
        self.is_over = True
        self.join()
        return b"\n".join(self.seen)


def planted(emulator, name):
    """Returns a line of the key, without the line breaks that a copy may lose, and the secret."""
    store = emulator.client("secretsmanager")
    key = store.get_secret_value(SecretId=f"{name}/app-key")["SecretString"]
    secret = store.get_secret_value(SecretId=f"{name}/webhook-secret")["SecretString"]
    body = key.split("PRIVATE KEY-----")[1].replace("\\n", "\n")
    line = [one for one in body.splitlines() if len(one) >= 60][3]
    return {"the App's key": line.encode(), "the webhook's secret": secret.encode()}


def files(folder):
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file() and not path.is_symlink():
            try:
                yield path, path.read_bytes()
            except OSError:
                pass


def tables(emulator, name):
    database = emulator.client("dynamodb")
    for table in database.list_tables()["TableNames"]:
        if table.startswith(name):
            for page in database.get_paginator("scan").paginate(TableName=table):
                yield f"table {table}", repr(page["Items"]).encode()


def logs(emulator, name):
    watch = emulator.client("logs")
    for group in watch.describe_log_groups()["logGroups"]:
        if name in group["logGroupName"]:
            events = watch.filter_log_events(logGroupName=group["logGroupName"])["events"]
            yield group["logGroupName"], "\n".join(event["message"] for event in events).encode()


def check(emulator, name, home, shown, processes):
    places = [("what the command showed", shown.encode()), ("a process", processes)]
    places += [*files(home), *files(RUN), *files(LOCAL / "setup")]
    places += [*tables(emulator, name), *logs(emulator, name)]
    for what, canary in planted(emulator, name).items():
        # The simulated GitHub created both, so its own copies are no leak.
        found = [str(place) for place, text in places if canary in text and "world" not in str(place)]
        if found:
            raise Failed(f"{what} is in {', '.join(found)}")
    return len(places)
