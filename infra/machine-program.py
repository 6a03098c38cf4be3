"""What a machine does besides registering and running the agent, for stacks and pools with settings that need it.

User data has no room for it, so the runner API sends this file with the configuration, and machine.py executes it in its own
namespace: the functions here use machine.py's, and replace those with the same name. It uses only Python 3.9.
"""
import contextlib, shutil, urllib.parse

# Hosts that a proxy never gets: the machine itself, its metadata, and its credentials (fd00:ec2::254 is the metadata by IPv6).
NEVER_PROXIED = ["localhost", "127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254", "169.254.170.2"]
# Where distributions read further authorities, and the command that adds them to the system's store: Debian, Fedora.
STORES = {
    "/usr/local/share/ca-certificates": (".crt", ["update-ca-certificates"]),
    "/etc/pki/ca-trust/source/anchors": (".pem", ["update-ca-trust", "extract"]),
}
CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)

say_as_is, bake_as_is = say, bake


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
