"""Measures a job of tests/machine/workflows as a machine does: from its start until the end of its input, which says for how many
microseconds it used all CPUs. Run on the machine's root file system, with /run/muster as on a machine. Prints the lines of the
job's log, and compares what it used with what it is known to use: the CPUs, and these MB of memory and disk, within 10 percent.
"""

import sys

sys.path.insert(0, "/run/muster")
import machine  # noqa: E402

known = {"memory": int(sys.argv[1]), "disk": int(sys.argv[2])}
with open("/run/machine-program.py", encoding="utf-8") as file:
    exec(file.read(), vars(machine))


class Timed(machine.Meter):
    cost = samples = 0

    def sample(self, with_disk):
        begun = machine.time.thread_time()
        super().sample(with_disk)
        self.cost, self.samples = self.cost + machine.time.thread_time() - begun, self.samples + 1


meter = Timed(folder="/")
meter.thread.start()
while not meter.disk:
    machine.time.sleep(0.01)
before = meter.mem >> 10, meter.disk >> 20
busy = int(sys.stdin.read() or 0) / 1_000_000
used = meter.finish()
facts = {"type": "m7i.large", "zone": "us-east-1a", "market": "spot", "pool": "linux-x64", "waited": [48, 42], "price": 39100,
         "seconds": used["s"] + 42}
print("\n".join(machine.log_lines(used, facts, meter.size())))
print(f"the sampler needs {meter.cost / meter.samples * 3600 / machine.SAMPLE_SECONDS:.2f} s of CPU time per hour")
found = {"memory": used["mem"] - before[0], "disk": used["disk"] - before[1]}
wrong = [f"{found[name]} MB of {name} instead of {size}" for name, size in known.items() if not 0.9 * size <= found[name] <= 1.1 * size]
if not 0.9 * known["disk"] <= used["write"] <= 1.1 * known["disk"]:
    wrong.append(f"{used['write']} MB written instead of {known['disk']}")
cpu = round(100 * busy / used["s"])
if not 0.9 * cpu <= used["cpu"] <= 1.1 * cpu:
    wrong.append(f"{used['cpu']} % of the CPUs instead of {cpu}")
sys.exit("measured " + ", ".join(wrong) if wrong else 0)
