"""A stub of the admin function: it returns recorded answers, with their times moved to now."""

import datetime
import http.server
import json
import pathlib
import re
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests/sim/tests/fleet/answers"
DRAWN = ROOT / "cli/tests/cli/answers"
# The time of the recorded answers.
THEN = datetime.datetime(2026, 11, 21, tzinfo=datetime.timezone.utc)
TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")

# Texts that other people may write, and that must never be interpreted as markup.
HOSTILE = [
    "<script>document.title = 'taken'</script>",
    "\"><img src=x onerror=document.title='taken'>",
    "' onmouseover='document.title=1' x='",
    "a \u001b[31mred\u001b[0m\u0007 name\u0000",
    "\u202egnp.exe \u2066right to left\u2069 שלום",
    "javascript:document.title='taken'",
    "{{7*7}} ${7*7} &lt;b&gt; </main></body>",
    "x" * 200,
]


def recorded(name):
    folder = DRAWN if (DRAWN / f"{name}.json").exists() else RECORDED
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def as_of_now(text):
    """Moves every time by the difference between now and the recorded time."""
    moved = datetime.datetime.now(datetime.timezone.utc) - THEN

    def later(found):
        at = datetime.datetime.fromisoformat(found[0].replace("Z", "+00:00")) + moved
        return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03}Z"

    return TIME.sub(later, text)


class Stack:
    """Records the requests, and answers them."""

    def __init__(self, machines=260, hostile=False):
        self.machines, self.hostile = machines, hostile
        self.asked = []
        self.down = False

    def answer(self, request):
        self.asked.append(request)
        action = request["action"]
        known = getattr(self, f"answer_{action}")(request)
        return self.spoilt(known) if self.hostile else known

    def answer_status(self, request):
        return recorded("status")

    def answer_overview(self, request):
        answer = recorded("status")
        for field in ("cooldowns", "switched", "app", "entities", "orphans"):
            answer.pop(field, None)
        return answer | {"findings": recorded("overview")["findings"]}

    def answer_costs(self, request):
        answer = recorded("costs") | {"by": request["by"]}
        for n, day in enumerate(answer["days"]):
            share = (n * 7 % 11 + 3) / 5
            money = answer["all"]["money"]
            day |= {"jobs": n * 3, "money": {part: int(money[part] * share) for part in money}}
        return answer

    def answer_waits(self, request):
        answer = recorded("waits_by_the_hour" if request["hourly"] else "waits")
        if request["hourly"]:
            hours = [THEN - datetime.timedelta(hours=n) for n in range(24) if n % 9]
            answer["series"] = [
                {"at": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "jobs": n % 17 + 1, "p50": 20_000 + n * 1_900 % 30_000, "p95": 60_000 + n * 7_300 % 90_000}
                for n, at in enumerate(hours)
            ]
        return answer

    def answer_list(self, request):
        answer = recorded("list")
        busy, stuck, starting = answer["instances"]
        rows = []
        for n in range(self.machines):
            row = dict((busy, busy, busy, stuck, starting)[n % 5])
            row["name"] = f"{row['pool']}-4kq7v2-{n // 5}-{n % 5}"
            row["age_seconds"] += n * 7
            if n % 5 == 1:
                row |= {"runner_state": "idle", "claim": None}
            if n % 5 == 2:
                # As long as names are in practice.
                row["pool"], row["name"] = "linux-x64-large-spot", f"linux-x64-large-spot-4dfd32fc-{n // 5}-{n % 5}"
                row["job"] = row["job"] | {"repository": "acme/documentation", "name": "integration (postgres-16, node-22)"}
            if row["machine"]:
                row["machine"] = f"i-{n:04x}6dcfdb79386ac"
            rows.append(row)
        answer["instances"] = rows
        return answer

    def answer_show(self, request):
        answer = json.loads(as_drawn(recorded("show")))
        answer["instance"]["name"] = request["name"]
        return answer

    def answer_jobs(self, request):
        return recorded("jobs_adopted" if request["adopt"] else "jobs")

    def answer_explain(self, request):
        answer = recorded("explain_job_over" if request["job"].endswith("/7") else "explain_job")
        answer["job"]["key"] = request["job"]
        return answer

    def answer_phases(self, request):
        answer = recorded("phases")
        answer["pools"][0]["pool"] = request["pool"]
        return answer

    def answer_audit(self, request):
        return recorded("audit")

    def answer_canary(self, request):
        if request["dry_run"]:
            return recorded("canary_dry_run")
        return recorded("canary") | {"name": "small-l1-0"}

    def answer_metrics(self, request):
        """Answers CloudWatch's GetMetricData: a day in which jobs wait in the afternoon."""
        end = request["EndTime"] - request["EndTime"] % 900
        times = [end - 900 * n for n in range(96) if n != 40]
        values = {"jobs": lambda n: max(0, 40 - abs(n - 30)), "machines": lambda n: max(2, 60 - abs(n - 34))}
        return {"MetricDataResults": [{"Id": id, "Timestamps": times, "Values": [value(n) for n in range(95)]} for id, value in values.items()]}

    def answer_sqs(self, operation, request):
        """Answers for dead-letter queues with messages."""
        self.asked.append(request | {"action": operation})
        name = request.get("QueueUrl", "").rpartition("/")[2]
        match operation:
            case "ListQueues":
                return {"QueueUrls": [f"https://sqs/1/muster-{queue}DeadLetters-1A" for queue in ("Jobs", "Launch", "Reap")]}
            case "GetQueueAttributes":
                number = {"muster-JobsDeadLetters-1A": "2", "muster-ReapDeadLetters-1A": "7"}.get(name, "0")
                return {"Attributes": {"ApproximateNumberOfMessages": number, "QueueArn": "arn:jobs"}}
            case "ReceiveMessage":
                bodies = HOSTILE if self.hostile else ['{"job":"447080002/984223540003","event":"queued"}', '{"job":"447080002/7","event":"completed"}']
                sent = str(int((THEN.timestamp() - 3_600) * 1_000))
                return {"Messages": [
                    {"MessageId": str(n), "ReceiptHandle": str(n), "Body": body, "Attributes": {"SentTimestamp": sent}}
                    for n, body in enumerate(bodies)
                ]}
            case _:
                return {}

    def answer_github(self, request):
        if request.get("hook") == "test":
            wrong = "GitHub's \"ping\" was answered 401: save the secret in the App's settings"
            return {"version": 1, "ok": True, "wrong": wrong, "tested": {"event": "ping", "status": 401, "at": "2026-11-21T00:00:00Z"}}
        return {
            "version": 1, "ok": True, "unknown": ["the groups of acme cannot be read"], "new_app": None,
            "webhook_url": "https://ab12.execute-api.us-east-1.amazonaws.com/webhook",
            "deliveries": [
                {"event": event, "status": status, "at": f"2026-11-20T23:5{n}:00.000Z"}
                for n, (event, status) in enumerate((("ping", 202), ("workflow_job", 202), ("workflow_job", None), ("workflow_job", 503)))
            ][::-1],
            "hook": {"url": "https://old.example.com/webhook", "ours": False},
            "lacks": ["GitHub sends events to https://old.example.com/webhook, not to this stack: muster github hook set"],
            "app": {"id": 4242, "slug": "muster-acme", "name": "muster-acme", "owner": "acme", "html_url": "https://github.com/apps/muster-acme"},
            "installations": [
                {"account": account, "repositories": "selected", "suspended_at": at, "html_url": f"https://github.com/organizations/{account}/settings/installations/7"}
                for account, at in (("acme", None), ("zoo", "2026-11-20T10:00:00Z"))
            ],
        }  # fmt: skip

    def answer_pools(self, request):
        if request.get("history"):
            return recorded("pools_history")
        if request.get("file") or request.get("restore"):
            return recorded("pools_dry_run" if request["dry_run"] else "pools_applied")
        return recorded("pools")

    def answer_switch(self, request):
        return recorded("switch")

    def answer_delete(self, request):
        if request["dry_run"]:
            return recorded("delete_dry_run") | {"name": request["name"]}
        return recorded("delete")

    def spoilt(self, answer):
        """Replaces every text that other people write by a hostile one."""
        worded = {"name", "repository", "reason", "why", "message", "by", "what", "branch", "workflow", "labels", "explanation", "lacks", "lines", "conclusion", "console", "unknown", "owner", "account", "event"}
        turn = iter(range(10**9))

        def spoil(value, key=None, path=()):
            if isinstance(value, dict):
                return {name: spoil(inner, name, (*path, name)) for name, inner in value.items()}
            if isinstance(value, list):
                return [spoil(inner, key, path) for inner in value]
            is_own_name = key == "name" and not ("jobs" in path or "unserved" in path or "waiting_for_approval" in path or "job" in path)
            is_file = "file" in path or "diff" in path
            if isinstance(value, str) and key in worded and not is_own_name and not is_file:
                return HOSTILE[next(turn) % len(HOSTILE)]
            return value

        return spoil(answer)


def as_drawn(answer):
    """Turns the answer into a machine that booted, ran a job, and that EC2 fails to terminate."""
    one = answer["instance"]
    times = {"created_at": "23:20:00.000", "bound_at": "23:20:02.100"}
    one |= {name: f"2026-11-20T{at}Z" for name, at in times.items()}
    one["make"] = {"type": "m7i-flex.large", "zone": "us-east-1a", "market": "spot"}
    one["phases"] = {name: f"2026-11-20T{at}Z" for name, at in {
        "running": "23:20:09.000", "booted": "23:20:21.500", "prepared": "23:20:28.000", "registered": "23:20:29.200", "started": "23:20:33.000",
    }.items()}
    one["runner"] |= {
        "state": "terminated", "since": "2026-11-20T23:36:10.000Z",
        "started": {"at": "2026-11-20T23:25:33.000Z", "repository": "acme/app", "run": 9912, "name": "test (ubuntu, 3)", "completed_at": "2026-11-20T23:36:09.000Z"},
        "exit": {"at": "2026-11-20T23:36:10.000Z", "code": 0, "log": None},
    }
    one["claim"] = "447080002/984223540003"
    one["state"], one["since"] = "pending_delete", "2026-11-20T23:36:10.000Z"
    one["mark"] = {
        "at": "2026-11-20T23:36:10.000Z", "reason": {"kind": "runner_ended"}, "not_busy_since": "2026-11-20T23:36:11.000Z", "gate_passed": True,
        "removing_until": None, "deregistered": True, "waiting": {"kind": "provider"}, "silences": 0, "kill_told": False,
    }
    one["attempts"] = 7
    one["last_error"] = {"at": "2026-11-20T23:57:00.000Z", "operation": "TerminateInstances", "code": "UnauthorizedOperation", "message": "You are not authorized to perform this operation."}
    answer["explanation"] = [
        "It is pending_delete since 23 min, machine i-000000a0000000000.",
        "It waits: EC2: UnauthorizedOperation, 7 tries, next 00:03.",
    ]
    answer["audit"] = [{"at": "2026-11-20T23:50:00.000Z", "kind": "ordered", "subject": one["name"], "by": "mira", "why": "termination protection"}]
    return json.dumps(answer)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        stack = self.server.stack
        target = self.headers.get("x-amz-target", "")
        if target.startswith("AmazonSQS."):
            body = json.dumps(stack.answer_sqs(target.removeprefix("AmazonSQS."), request)).encode()
        elif target.endswith(".GetMetricData"):
            body = json.dumps(stack.answer_metrics(request)).encode()
        elif stack.down:
            body = json.dumps({"errorMessage": "2026-11-25 Task timed out after 60.00 seconds"}).encode()
        else:
            body = as_of_now(json.dumps(stack.answer(request))).encode()
        self.send_response(200)
        if stack.down:
            self.send_header("x-amz-function-error", "Unhandled")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(stack):
    """Serves the stack until the process ends. Returns its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.stack = stack
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
