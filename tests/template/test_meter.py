"""infra/machine-program.py: what a job used, from files of /proc to the lines in its log."""

import concurrent.futures
import json
import os
import socket
import types
import unittest
import unittest.mock

from rendered import ROOT
from test_machine import Case

# Recorded on a machine with 2 CPUs, and shortened. `{…}` differs between two readings.
PROC = {
    "stat": "cpu  {user} 0 200 {idle} 50 0 10 {steal} 77 0\ncpu0 1 2 3\nintr 12345 0 0\nctxt 1\n",
    "meminfo": "MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    {available} kB\nBuffers: 1 kB\n",
    "vmstat": "nr_free_pages 25000\noom_kill {oom}\nswap_ra 0\n",
    # A disk with a partition, the volume on it, a loop and a zram device.
    "diskstats": """ 259       0 nvme0n1 100 0 {read} 9 100 0 {written} 9 0 9 9
 259       1 nvme0n1p1 90 0 {read} 9 90 0 {written} 9 0 9 9
 253       0 dm-0 100 0 {read} 9 100 0 {written} 9 0 9 9 0 0 0 0 0 0
   7       0 loop0 50 0 4000 9 0 0 0 0 0 9 9
 252       0 zram0 50 0 4000 9 50 0 4000 0 0 9 9
""",
    "net/dev": """Inter-|   Receive                            |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: {got} 1 0 0 0 0 0 0 {got} 1 0 0 0 0 0 0
  ens5: {got} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0
docker0: {got} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0
veth12ab: {got} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0
br-0a1b: {got} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0
""",
    "pressure/cpu": "some avg10=1.00 avg60=1.00 avg300=1.00 total={waits}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
    "pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=500\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500\n",
    "pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total={waits}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
}
BEFORE = {"user": 1000, "idle": 9000, "steal": 5, "available": 7000000, "oom": 3, "read": 0, "written": 4096, "got": 10**6, "sent": 0,
          "waits": 1000}
USED = {"s": 1266, "cpus": 2, "cpu": 38, "cpu95": 95, "half": 3, "full": 4, "steal": 0, "mem": 3482, "mem_of": 7987, "oom": 0,
        "wait": [12, 0, 3], "disk": 19456, "disk_of": 38912, "read": 812, "write": 2210, "got": 1533, "sent": 44}
FACTS = {"type": "m7i.large", "zone": "us-east-1a", "market": "spot", "pool": "linux-x64", "waited": [48, 42], "seconds": 1290,
         "price": 39100}
LINES = """What this job used (Muster)
  machine  m7i.large, 2 vCPUs, 8 GB, Spot, us-east-1a; pool linux-x64
  waited   48 s for the machine, 42 s of them while it booted
  CPU      38 % on average, 95 % at its busiest; 12 % of the time something waited for a CPU
  memory   3.4 of 7.8 GB at most
  disk     19 of 38 GB at most; 0.8 GB read, 2.2 GB written, 1.5 GB downloaded
  cost     about $0.014 so far, at $0.0391 an hour
""".splitlines()


class MeterCase(Case):
    def setUp(self):
        super().setUp()
        exec((ROOT / "infra/machine-program.py").read_text(encoding="utf-8"), vars(self.machine))
        self.now = 0
        (self.root / "sys/block/nvme0n1/device").mkdir(parents=True)
        for name in ("nvme0n1p1", "dm-0", "loop0", "zram0"):
            (self.root / "sys/block" / name).mkdir()
        self.files(BEFORE)
        clock = types.SimpleNamespace(monotonic=lambda: self.now)
        space = lambda _: types.SimpleNamespace(f_blocks=2**20, f_bfree=self.free, f_frsize=4096)
        self.free = 2**19
        self.enterContext_(unittest.mock.patch.multiple(self.machine, time=clock, os=unittest.mock.Mock(
            wraps=os, cpu_count=lambda: 2, statvfs=space, path=os.path)))
        self.meter = self.machine.Meter(str(self.root / "proc"), str(self.root / "sys"))

    def files(self, values):
        for name, text in PROC.items():
            path = self.root / "proc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(**values))


class Numbers(MeterCase):
    def measured(self, *shares, **after):
        """Measures intervals of two seconds in which the CPUs were this busy, in percent. Returns the numbers."""
        values = dict(BEFORE)
        self.meter.begin()
        for share in shares:
            self.now += 2
            values["user"] += 4 * share
            values["idle"] += 400 - 4 * share
            self.files(values)
            self.meter.sample(True)
        self.files({**values, **after})
        self.meter.over.set()
        self.meter.sample(True)
        return self.meter.summary()

    def test_a_job_that_did_nothing_used_nothing(self):
        used = self.measured(*[0] * 30)
        gone = 8000000 - 7000000
        self.assertEqual(used, {"s": 60, "cpus": 2, "cpu": 0, "cpu95": 0, "half": 0, "full": 0, "steal": 0, "mem": round(gone / 1024),
                                "mem_of": 7812, "oom": 0, "disk": 2048, "disk_of": 4096, "read": 0, "write": 0, "got": 0, "sent": 0,
                                "wait": [0, 0, 0]})

    def test_shares_of_the_cpu(self):
        for shares, cpu, cpu95, half, full in (
                ([100] * 40, 100, 100, 100, 100),
                ([50] * 40, 50, 50, 0, 0),
                ([75] * 40, 75, 75, 50, 0),
                ([10] * 38 + [100] * 2, 14, 10, 5, 5),  # 95 percent of the intervals do not exceed 10 percent
                ([10] * 37 + [100] * 3, 17, 100, 8, 8),
                ([94] * 20 + [95] * 20, 94, 95, 89, 50),
                ([], 0, 0, 0, 0)):
            self.meter = self.machine.Meter(str(self.root / "proc"), str(self.root / "sys"))
            self.files(BEFORE)
            used = self.measured(*shares)
            self.assertEqual([used[name] for name in ("cpu", "cpu95", "half", "full")], [cpu, cpu95, half, full], shares)

    def test_a_short_last_interval_counts_only_alone(self):
        used = self.measured(*[0] * 10, user=1050, idle=BEFORE["idle"] + 4000)
        self.assertEqual((used["cpu"], used["full"], sum(self.meter.shares)), (1, 0, 10))
        self.meter = self.machine.Meter(str(self.root / "proc"), str(self.root / "sys"))
        self.files(BEFORE)
        used = self.measured(user=1050)
        self.assertEqual((used["cpu"], used["cpu95"], used["full"]), (100, 100, 100))

    def test_the_highest_use_of_memory_and_disk_counts(self):
        self.meter.begin()
        for available, free in ((6000000, 400000), (1000000, 100000), (6500000, 500000)):
            self.files({**BEFORE, "available": available})
            self.free = free
            self.meter.sample(True)
        used = self.meter.summary()
        self.assertEqual((used["mem"], used["mem_of"]), (round(7000000 / 1024), 7812))
        self.assertEqual((used["disk"], used["disk_of"]), (round((2**20 - 100000) / 256), 4096))

    def test_data_of_disks_and_network_counts_once(self):
        after = {"read": 2 * 2**20, "written": 4096 + 4 * 2**20, "got": 10**6 + 3 * 2**20, "sent": 5 * 2**20, "oom": 5,
                 "waits": 1000 + 6 * 10**6, "steal": 305}
        used = self.measured(*[50] * 30, **after)
        names = ("read", "write", "got", "sent", "oom", "wait", "steal")
        self.assertEqual([used[name] for name in names], [1024, 2048, 3, 5, 2, [10, 0, 10], 2])

    def test_without_pressure_information_there_are_no_waits(self):
        (self.root / "proc/pressure/io").unlink()
        without = {name: text for name, text in PROC.items() if name != "pressure/io"}
        with unittest.mock.patch.dict(PROC, without, clear=True):
            self.assertNotIn("wait", self.measured(0, 0))

    def test_the_numbers_fit_the_record(self):
        """`Used` in shared/domain/src/instance/used.rs: unsigned numbers of 8, 16 and 32 bits."""
        used = self.measured(100, read=2**60, written=0, got=0, oom=10**9, steal=0, available=0)
        self.assertEqual((used["read"], used["write"], used["got"], used["oom"], used["steal"]), (2**32 - 1, 0, 0, 65535, 0))
        source = (ROOT / "shared/domain/src/instance/used.rs").read_text(encoding="utf-8")
        fields = [line.split()[1].rstrip(":") for line in source.splitlines() if line.startswith("    pub ") and "fn" not in line]
        self.assertEqual(sorted(used), sorted(fields))

    def test_an_unusual_kernel_ends_the_measurement_and_is_logged_once(self):
        (self.root / "proc/meminfo").write_text("MemTotal: 1 kB\n")
        with unittest.mock.patch.object(self.machine, "SAMPLE_SECONDS", 0):
            self.meter.thread.start()
            self.meter.thread.join(10)
        self.assertIsNone(self.meter.finish())
        self.assertEqual(self.said.getvalue(), "muster: what the job uses is not measured (KeyError: 'MemAvailable')\n")

    def test_the_machines_memory_is_what_ec2_calls_it(self):
        self.meter.mem_of = 8000000
        self.assertEqual(self.meter.size(), 7812)
        for number in range(64):
            (self.root / f"sys/devices/system/memory/memory{number}").mkdir(parents=True)
        (self.root / "sys/devices/system/memory/block_size_bytes").write_text("8000000\n")
        self.assertEqual(self.meter.size(), 8192)


class Lines(MeterCase):
    def lines(self, facts=(), size=8192, without=(), **used):
        facts = {name: value for name, value in {**FACTS, **dict(facts)}.items() if name not in without}
        return self.machine.log_lines({name: value for name, value in {**USED, **used}.items() if name not in without}, facts, size)

    def test_the_lines_of_the_specification(self):
        self.assertEqual(self.lines(), LINES)
        self.assertTrue("\n".join(LINES).isascii())

    def test_what_is_unknown_is_left_out(self):
        lines = self.lines(without=("type", "market", "zone", "waited", "price", "wait"), cpus=1)
        self.assertEqual(lines, [LINES[0], "  machine  1 vCPU, 8 GB; pool linux-x64",
                                 "  CPU      38 % on average, 95 % at its busiest", *LINES[4:6]])

    def test_sums_of_money(self):
        for price, seconds, expected in ((39100, 1, "about $0.0000 so far, at $0.0391 an hour"),
                                         (39100, 60, "about $0.0007 so far, at $0.0391 an hour"),
                                         (1008000, 2 * 3600, "about $2.02 so far, at $1.0080 an hour")):
            self.assertEqual(self.lines({"price": price, "seconds": seconds})[-1], "  cost     " + expected)

    def test_warnings(self):
        ended = "::warning title=Out of memory::The kernel ended {} of this job because {}."
        for used, expected in (
                ({"mem": 7349}, ["::warning title=Memory almost used up::At most 7.2 of 7.8 GB were in use."]),
                ({"mem": 7348}, []),
                ({"oom": 2, "mem": 7987}, [ended.format("2 processes", "the machine's 8 GB were used up")]),
                ({"oom": 1, "mem": 6389}, [ended.format("1 process", "memory was used up: the machine's 8 GB, or the limit of a container")]),
                ({"disk": 35021}, ["::warning title=Disk almost full::At most 34 of 38 GB were in use."]),
                ({"disk": 35020}, [])):
            self.assertEqual(self.lines(**used)[7:], expected, used)


class Hooks(Case):
    """From a job's first hook to its last, through the supervisor's socket."""

    def setUp(self):
        super().setUp()
        exec((ROOT / "infra/machine-program.py").read_text(encoding="utf-8"), vars(self.machine))
        self.enterContext_(unittest.mock.patch.object(self.machine, "SAMPLE_SECONDS", 0.01))
        installed = concurrent.futures.Future()
        installed.set_result(0)
        self.hooks = self.machine.Machine("r-1", installed)
        self.addCleanup(self.hooks.server_close)
        self.addCleanup(self.hooks.shutdown)

    def ask(self, event):
        with socket.socket(socket.AF_UNIX) as machine:
            machine.connect(self.machine.SOCKET)
            machine.sendall(json.dumps({"event": event}).encode() + b"\n")
            return [json.loads(line) for line in machine.makefile()]

    def reports(self):
        return [body for path, body in self.api.calls if path == "/runner/events"]

    def test_a_job_is_measured_between_its_hooks_and_its_log_shows_it(self):
        self.api.answers["/runner/events"] = [(200, {"facts": FACTS})]
        self.assertEqual(self.ask("job-started"), [{"go": True}])
        meter = self.machine.METER
        self.assertEqual(self.ask("job-started"), [{"go": True}])
        self.assertIs(self.machine.METER, meter, "a job that calls the hook again changes nothing")
        said = self.ask("job-completed")
        self.assertEqual(([line.get("say") for line in said[:2]], said[-1]),
                         ([LINES[0], said[1]["say"]], {"go": True}))
        self.assertEqual([line["say"][:11] for line in said[1:-1]], [line[:11] for line in LINES[1:]])
        self.assertFalse(meter.thread.is_alive())
        self.machine.leave("r-1", 0, 1)
        first, last = self.reports()
        self.assertEqual((first["event"], last["event"], first["used"]), ("job-completed", "exited", last["used"]))
        self.assertEqual(first["used"]["cpus"], os.cpu_count())

    def test_no_lines_without_an_answer_or_if_the_pool_does_not_want_them(self):
        for answer in ((200, {}), (500, {})):
            self.machine.METER, self.hooks.completed, self.hooks.reached, self.hooks.verdict = None, False, "", None
            self.api.answers["/runner/events"] = [answer]
            self.ask("job-started")
            with unittest.mock.patch.object(self.machine.time, "sleep"):
                self.assertEqual(self.ask("job-completed"), [{"go": True}])
            self.assertIn("used", self.reports()[-1])

    def test_a_refused_job_is_not_measured(self):
        self.api.answers["/runner/job-started"] = [(409, {})]
        with unittest.mock.patch.object(self.machine.time, "sleep"), unittest.mock.patch.object(self.machine, "systemctl"):
            self.assertFalse(self.ask("job-started")[-1]["go"])
        self.ask("job-completed")
        self.assertIsNone(self.machine.METER)
        self.assertNotIn("used", self.reports()[-1])

    def test_a_fault_changes_no_answer_of_a_hook(self):
        self.api.answers["/runner/events"] = [(200, {"facts": FACTS})]
        for broken in ("Meter", "log_lines", "gb"):
            self.machine.METER, self.hooks.completed, self.hooks.reached, self.hooks.verdict = None, False, "", None
            fault = unittest.mock.Mock(side_effect=RuntimeError("can't start new thread"))
            with unittest.mock.patch.object(self.machine, broken, fault):
                self.assertEqual(self.ask("job-started"), [{"go": True}], broken)
                self.assertEqual(self.ask("job-completed"), [{"go": True}], broken)
            self.assertIn("muster: what the job used is not shown (", self.said.getvalue(), broken)


if __name__ == "__main__":
    unittest.main()
