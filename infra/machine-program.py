"""What a machine does besides registering and running the agent: it measures its job, and applies settings of the network.

User data has no room for it, so the runner API sends this file with the configuration, and machine.py executes it in its own
namespace: the functions here use machine.py's, and replace those with the same name. It uses only Python 3.9.
"""
import contextlib, itertools, shutil, urllib.parse

# Hosts that a proxy never gets: the machine itself, its metadata, and its credentials (fd00:ec2::254 is the metadata by IPv6).
NEVER_PROXIED = ["localhost", "127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254", "169.254.170.2"]
# Where distributions read further authorities, and the command that adds them to the system's store: Debian, Fedora.
STORES = {
    "/usr/local/share/ca-certificates": (".crt", ["update-ca-certificates"]),
    "/etc/pki/ca-trust/source/anchors": (".pem", ["update-ca-trust", "extract"]),
}
CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)

# The seconds between two samples, and the number of samples between two readings of the disk's free space.
SAMPLE_SECONDS, DISK_EVERY = 2, 5
# The maximum seconds that the end of a job waits for the last sample.
LAST_SAMPLE_LIMIT = 1

say_as_is, bake_as_is, report_as_is = say, bake, report


def say(text):
    """Prints a line without the proxy's password: the output of every part of the boot passes through here."""
    for secret in SECRETS:
        text = text.replace(secret, "[...]")
    say_as_is(text)


def network(config):
    """Applies the CA bundle and the proxy of the configuration. Returns whether there are any."""
    settings = config.get("network")
    if not settings:
        return False
    end_downloads()
    made = {}
    if settings.get("ca"):
        made.update(trust(settings["ca"]))
    if settings.get("proxy"):
        made.update(use_proxy(settings["proxy"], is_for_jobs=not config.get("builder")))
    # For the agent's download, the packages, and everything else that this program starts. Its own calls use no proxy.
    os.environ.update(made)
    # For the agent and its jobs, and for hooks. The pool's own variables take precedence.
    config["environment"] = {**made, **(config.get("environment") or {})}
    # For an image's Docker. For one that is installed later, systemd rereads its units anyway.
    systemctl("daemon-reload")
    systemctl("try-restart", "docker.service")
    return True


def end_downloads():
    """Ends the programs that this one has started: the download of packages, which began without these settings."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        fields = content(path).rpartition(")")[2].split()
        if fields:
            parents[int(path.split("/")[2])] = int(fields[1])
    for process in parents:
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() != process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def trust(pem):
    """Adds certificates to the system's store. Returns the environment variables for programs that do not use it."""
    for folder, (suffix, command) in STORES.items():
        if shutil.which(command[0]) and os.path.isdir(os.path.dirname(folder)):
            os.makedirs(folder, exist_ok=True)
            # update-ca-certificates expects one certificate per file.
            for number, certificate in enumerate(CERTIFICATE.findall(pem)):
                write(f"{folder}/muster-{number}{suffix}", certificate + "\n", 0o644)
            run(command)
            break
    else:
        say("muster: this image has no tool to add certificates to its store (ca-certificates): only Node.js trusts the CA bundle")
    write(HOME + "/ca.pem", pem, 0o644)
    return {"NODE_EXTRA_CA_CERTS": HOME + "/ca.pem"}


def distrust():
    """Removes the certificates from the store of an image: its machines get their own."""
    for folder, (suffix, command) in STORES.items():
        files = glob.glob(f"{folder}/muster-*{suffix}")
        for file in files:
            os.unlink(file)
        if files:
            run(command)


def bake(builder):
    distrust()
    bake_as_is(builder)


def use_proxy(proxy, is_for_jobs):
    """Makes Docker use the proxy, and sudo keep its variables. Returns the variables, in the two spellings that programs read."""
    password = proxy.get("password")
    coded = urllib.parse.quote(password, safe="") if password else None
    SECRETS.extend(secret for secret in (password, coded) if secret)

    def address(url):
        return url.replace("@", f":{coded}@", 1) if url and coded else url
    own = [os.environ[name].split("/")[2].partition(":")[0] for name in ("MUSTER_RUNNER_API", "MUSTER_LOGS") if os.environ.get(name)]
    none = ",".join([*NEVER_PROXIED, *own, *proxy.get("no_proxy", [])])
    values = {"http_proxy": address(proxy.get("http")), "https_proxy": address(proxy.get("https")), "no_proxy": none}
    made = {spelt: value for name, value in values.items() if value for spelt in (name, name.upper())}
    # In memory, so no image contains it.
    unit = setting("MUSTER_UNITS", "/run/systemd/system") + "/docker.service.d"
    os.makedirs(unit, exist_ok=True)
    write(HOME + "/proxy", "".join(f'{name}="{quoted(value)}"\n' for name, value in made.items()), 0o600)
    write(unit + "/muster-proxy.conf", f"[Service]\nEnvironmentFile={HOME}/proxy\n", 0o644)
    if is_for_jobs:
        names = {"httpProxy": "http_proxy", "httpsProxy": "https_proxy", "noProxy": "no_proxy"}
        configure_docker({key: made[name] for key, name in names.items() if name in made})
        keep_in_sudo([*made, "NODE_EXTRA_CA_CERTS"])
    return made


def quoted(value):
    """Returns a value for a line of systemd's EnvironmentFile."""
    return re.sub(r'(["\\`$])', r"\\\1", value)


def configure_docker(proxies):
    """Gives containers and image builds the proxy's variables, through the configuration of Docker's command."""
    for name in (USER, pwd.getpwuid(os.getuid()).pw_name):
        user = pwd.getpwnam(name)
        folder = os.path.join(user.pw_dir, ".docker")
        file, known = folder + "/config.json", {}
        with contextlib.suppress(OSError, ValueError), open(file) as stored:
            known = json.load(stored)
        known = known if isinstance(known, dict) else {}
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write(file, json.dumps({**known, "proxies": {"default": proxies}}), 0o600)
        for path in (folder, file):
            os.chown(path, user.pw_uid, user.pw_gid)


def keep_in_sudo(names, sudoers="/etc/sudoers.d/muster-proxy"):
    """Lets `sudo apt-get install` and the like use the proxy: by default, sudo removes its variables."""
    if os.path.isdir(os.path.dirname(sudoers)):
        write(sudoers, f'Defaults env_keep += "{" ".join(names)}"\n', 0o440)


# --- What the job used ------------------------------------------------------------------------------------------------


class Meter:
    """Measures the whole machine while its one job runs, because Docker's containers are outside the agent's unit. Its memory
    does not grow: it keeps the first counters, maxima, and a histogram. A failure ends the measurement and nothing else."""

    def __init__(self, proc="/proc", sys="/sys", folder=RUNNER_DIR):
        self.proc, self.sys, self.folder = proc, sys, folder
        self.shares, self.half, self.mem, self.disk, self.used = [0] * 101, 0, 0, 0, None
        self.over, self.thread = threading.Event(), threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            self.begin()
            samples = 0
            while not self.over.wait(SAMPLE_SECONDS):
                samples += 1
                self.sample(samples % DISK_EVERY == 0)
            self.sample(True)
            self.used = self.summary()
        except Exception as error:  # whatever an unusual kernel answers
            say(f"muster: what the job uses is not measured ({type(error).__name__}: {error})")

    def begin(self):
        self.begun, self.first = time.monotonic(), self.counters()
        self.last = self.begin_ticks = self.ticks()
        self.sample(True)

    def finish(self):
        """Ends the measurement, and returns what the job used; None if that is unknown."""
        self.over.set()
        self.thread.join(LAST_SAMPLE_LIMIT)
        return self.used

    def ticks(self):
        """Returns the busy, stolen and total CPU time, in hundredths of a second (man proc_stat). The hypervisor gave the stolen
        time to others. Waiting for disks is not busy, and time of guests is included in that of their users."""
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, content(self.proc + "/stat").split(None, 9)[1:9])
        busy = user + nice + system + irq + softirq
        return busy, steal, busy + steal + idle + iowait

    def sample(self, with_disk):
        now = self.ticks()
        busy, total = now[0] - self.last[0], now[2] - self.last[2]
        # The last interval may be too short to say anything: a second at least, unless there is no other.
        if total >= 100 * os.cpu_count() or (total > 0 and self.over.is_set() and not any(self.shares)):
            share = min(max(busy / total, 0), 1)
            self.shares[int(100 * share)] += 1
            self.half += max(0, 2 * share - 1)
            self.last = now
        found = dict(re.findall(r"^(MemTotal|MemAvailable): *(\d+)", content(self.proc + "/meminfo"), re.M))
        self.mem_of = int(found["MemTotal"])
        self.mem = max(self.mem, self.mem_of - int(found["MemAvailable"]))
        if with_disk:
            space = os.statvfs(self.folder)
            self.disk_of = space.f_blocks * space.f_frsize
            self.disk = max(self.disk, self.disk_of - space.f_bfree * space.f_frsize)

    def counters(self):
        """Returns counters that only grow: killed processes, bytes read, written, received and sent, and the microseconds in
        which a process waited for CPU, memory and disk. Kernels without pressure information lack the last three."""
        kills = re.search(r"^oom_kill (\d+)", content(self.proc + "/vmstat"), re.M)
        read = written = got = sent = 0
        for line in content(self.proc + "/diskstats").splitlines():
            name, sectors, written_sectors = (line.split()[number] for number in (2, 5, 9))
            # Only disks: a partition's data is its disk's, and that of loop, dm, md and zram devices too. Sectors have 512 bytes.
            if os.path.exists(f"{self.sys}/block/{name}/device"):
                read, written = read + int(sectors) * 512, written + int(written_sectors) * 512
        for line in content(self.proc + "/net/dev").splitlines()[2:]:
            name, _, numbers = line.partition(":")
            if not re.match(r" *(lo$|docker0$|veth|br-)", name):  # containers' data passes one of the others too
                numbers = numbers.split()
                got, sent = got + int(numbers[0]), sent + int(numbers[8])
        some = [re.match(r"some .*total=(\d+)", content(f"{self.proc}/pressure/{name}")) for name in ("cpu", "memory", "io")]
        return [int(kills[1]) if kills else 0, read, written, got, sent, *(int(found[1]) for found in some if found)]

    def summary(self):
        """Returns the numbers of a usage record (`Used`): shares in percent, sizes in MB of 2^20 bytes."""
        seconds = max(time.monotonic() - self.begun, 0.001)
        busy, steal, total = (now - then for now, then in zip(self.ticks(), self.begin_ticks))
        oom, read, written, got, sent, *waits = (max(0, now - then) for now, then in zip(self.counters(), self.first))
        count = max(1, sum(self.shares))

        def percent(part, whole):
            return min(100, max(0, round(100 * part / max(whole, 1))))

        def mb(size):
            return min(round(size / 2**20), 2**32 - 1)
        # The smallest share that 95 percent of the intervals do not exceed.
        below = list(itertools.accumulate(self.shares))
        used = {"s": round(seconds), "cpus": os.cpu_count(), "cpu": percent(busy, total),
                "cpu95": next(share for share in range(101) if 100 * below[share] >= 95 * below[-1]),
                "half": percent(self.half, count), "full": percent(sum(self.shares[95:]), count), "steal": percent(steal, total),
                "mem": mb(self.mem * 1024), "mem_of": mb(self.mem_of * 1024), "oom": min(oom, 65535), "disk": mb(self.disk),
                "disk_of": mb(self.disk_of), "read": mb(read), "write": mb(written), "got": mb(got), "sent": mb(sent)}
        return {**used, "wait": [percent(wait, seconds * 1e6) for wait in waits]} if len(waits) == 3 else used

    def size(self):
        """Returns the machine's memory in MB as EC2 states it: without what the kernel keeps for itself, if Linux lists it."""
        blocks = len(glob.glob(self.sys + "/devices/system/memory/memory[0-9]*"))
        block = content(self.sys + "/devices/system/memory/block_size_bytes")
        return blocks * int(block, 16) >> 20 if blocks and block else round(self.mem_of / 1024)


METER = None


def report(body, tries):
    """Adds what the job used to the reports of its end and of the agent's end. The first that arrives counts."""
    used = METER.finish() if METER and body["event"] in ("job-completed", "exited") else None
    return report_as_is({**body, "used": used} if used else body, tries)


class Hook(Hook):
    def tell(self, **line):
        """Begins to measure with the answer that lets a job start, and writes into its log with the answer to its end."""
        global METER
        try:
            if line.get("go") and self.server.reached == "job-started" and not METER:
                METER = Meter()
                METER.thread.start()
            elif line.get("go") and self.server.reached == "job-completed" and METER and METER.used:
                # Without an answer it is unknown whether the pool wants these lines.
                facts = isinstance(self.server.completed, dict) and self.server.completed.get("facts")
                for text in log_lines(METER.used, facts, METER.size()) if facts else ():
                    super().tell(say=text)
        except Exception as error:  # the job continues in any case
            say(f"muster: what the job used is not shown ({type(error).__name__}: {error})")
        super().tell(**line)


def gb(size):
    return f"{size / 1024:.1f}" if size < 10 * 1024 else f"{size / 1024:.0f}"


def share_of(size, whole):
    return f"{gb(size)} of {gb(whole)} GB"


def log_lines(used, facts, size):
    """Returns the lines for the log of a job, from the numbers of its usage record, what the runner API knows about the machine,
    and its memory in MB. A line whose numbers are unknown is left out."""
    market = {"spot": "Spot", "on-demand": "On-Demand"}.get(facts.get("market"))
    cpus = f"{used['cpus']} vCPU{'s' if used['cpus'] != 1 else ''}"
    whole, mem, disk = f"{round(size / 1024, 1):g} GB", share_of(used["mem"], used["mem_of"]), share_of(used["disk"], used["disk_of"])
    machine = ", ".join(filter(None, (facts.get("type"), cpus, whole, market, facts.get("zone"))))
    parts = {
        "machine": f"{machine}; pool {facts['pool']}",
        "waited": "{} s for the machine, {} s of them while it booted".format(*facts["waited"]) if facts.get("waited") else "",
        "CPU": f"{used['cpu']} % on average, {used['cpu95']} % at its busiest",
        "memory": f"{mem} at most",
        "disk": f"{disk} at most; {gb(used['read'])} GB read, {gb(used['write'])} GB written, {gb(used['got'])} GB downloaded",
        "cost": "",
    }
    if used.get("wait"):
        parts["CPU"] += f"; {used['wait'][0]} % of the time something waited for a CPU"
    if facts.get("price"):
        price = facts["price"] / 1e6
        cost = price * facts["seconds"] / 3600
        parts["cost"] = f"about ${cost:.{2 if cost >= 1 else 3 if cost >= 0.001 else 4}f} so far, at ${price:.4f} an hour"
    lines = ["What this job used (Muster)", *(f"  {name:<9}{text}" for name, text in parts.items() if text)]
    if used["oom"]:
        processes = f"{used['oom']} process{'es' if used['oom'] != 1 else ''}"
        # A container's own limit ends processes too, while the machine has memory left.
        why = f"the machine's {whole} were used up" if 100 * used["mem"] >= 80 * used["mem_of"] \
            else f"memory was used up: the machine's {whole}, or the limit of a container"
        lines.append(f"::warning title=Out of memory::The kernel ended {processes} of this job because {why}.")
    elif 100 * used["mem"] >= 92 * used["mem_of"]:
        lines.append(f"::warning title=Memory almost used up::At most {mem} were in use.")
    if 100 * used["disk"] >= 90 * used["disk_of"]:
        lines.append(f"::warning title=Disk almost full::At most {disk} were in use.")
    return lines
