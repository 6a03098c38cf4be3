#!/usr/bin/env bash
# Muster's boot script: turns a bare machine into a GitHub Actions runner for one job.
#
# It is the user data of the launch template, behind a header that exports MUSTER_RUNNER_API,
# MUSTER_REGION and MUSTER_STACK. cloud-init runs it as root, and it lives as long as the runner.
# It holds no secret: the runner API knows the machine by the signature of its own role, and hands
# out a just-in-time runner configuration, once. Whatever happens, the end is a power-off.
#
# Optional: MUSTER_RUNNER_DIR, MUSTER_RUNNER_USER, MUSTER_HOME, MUSTER_PER_BOOT, MUSTER_TOOL_CACHE, MUSTER_ENVIRONMENT,
# MUSTER_RUNNER_VERSION and MUSTER_RUNNER_SHA256 (for an image without the runner), MUSTER_MAX_LIFETIME_SECONDS,
# MUSTER_LIFETIME_GRACE_SECONDS, MUSTER_REGISTER_LIMIT_SECONDS, MUSTER_START_LIMIT_SECONDS,
# AWS_EC2_METADATA_SERVICE_ENDPOINT.
set -euo pipefail

runner_dir=${MUSTER_RUNNER_DIR:-/opt/actions-runner}
runner_user=${MUSTER_RUNNER_USER:-runner}
home=${MUSTER_HOME:-/opt/muster}
per_boot=${MUSTER_PER_BOOT:-/var/lib/cloud/scripts/per-boot}
register_limit=${MUSTER_REGISTER_LIMIT_SECONDS:-480}

tries=5
power_off() { until shutdown -h now || [ "$tries" = 1 ]; do sleep 5; done; }

# The watchdog comes first and depends on nothing that follows. It outlives this script, and the
# kernel takes everything else before it when memory runs out. The control plane ends a machine of this age
# first, and tells of it; this is for when it does not.
(
  trap '' HUP # and not TERM: at the power-off systemd waits 90 seconds for whoever ignores that
  echo -1000 >"/proc/$BASHPID/oom_score_adj" || true
  sleep "$((${MUSTER_MAX_LIFETIME_SECONDS:-43200} + ${MUSTER_LIFETIME_GRACE_SECONDS:-300}))"
  power_off
) >/dev/null 2>&1 &

umask 022
mkdir -p "$home" "$per_boot"
# cloud-init runs user data at the first boot and no other: a machine that boots again has neither agent nor watchdog.
# What is in this folder it runs at each boot that begins after now.
printf '#!/bin/sh\nshutdown -h now\n' >"$per_boot/muster"
chmod 755 "$per_boot/muster"
# A boot hook may print what jobs are not to read.
log=$home/boot.log
touch "$log"
chmod 600 "$log"
exec > >(tee -a "$log") 2>&1
say() { echo "muster: $*"; }

# What this script and the hooks share. Hooks run as the runner user: it may read this, not write.
{
  printf 'MUSTER_RUNNER_API=%q\nMUSTER_REGION=%q\n' "$MUSTER_RUNNER_API" "$MUSTER_REGION"
  printf 'MUSTER_IMDS=%q\n' "${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}"
  printf 'MUSTER_START_LIMIT=%q\n' "${MUSTER_START_LIMIT_SECONDS:-600}"
  cat <<'API'
# Proxies, curl options and certificates are the jobs' affair: a proxy would be handed the machine's credentials.
muster_curl() {
  env -u CURL_CA_BUNDLE -u SSL_CERT_FILE -u SSL_CERT_DIR -u SSLKEYLOGFILE curl -q --noproxy '*' "$@"
}
# muster_imds PATH [curl options]: instance metadata (version 2), with $imds_token.
muster_imds() {
  muster_curl -fsS --connect-timeout 2 --max-time 5 --retry 5 --retry-connrefused \
    -H "x-aws-ec2-metadata-token: ${imds_token:-}" "${@:2}" "${MUSTER_IMDS%/}/latest/$1"
}
muster_imds_token() { muster_imds api/token -X PUT -H 'x-aws-ec2-metadata-token-ttl-seconds: 300'; }
# muster_field NAME: one plain value (no escapes in it) of the JSON object on standard input.
muster_field() { sed -n "s/.*\"$1\" *: *\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1; }
# muster_string TEXT: TEXT as a JSON string; of control characters, tab and newline stay.
muster_string() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\t'/\\t}
  text=${text//$'\n'/\\n}
  printf '"%s"' "${text//[[:cntrl:]]/}"
}
# curl signs the session token of temporary credentials since 7.88; before, `muster_sign` has to.
muster_curl_signs() {
  local major minor
  IFS=. read -r major minor _ < <(curl --version | sed -n '1s/^curl \([0-9.]*\).*/\1/p')
  [ $((${major:-0} * 1000 + ${minor:-0})) -ge 7088 ]
}
muster_sha256() { sha256sum | cut -d ' ' -f 1; }
# muster_hmac TEXT...: the HMAC of each text with that of the one before; the first key is standard
# input, since arguments can be read by every user.
muster_hmac() {
  python3 -I -c '
import hmac, sys
key = sys.stdin.buffer.read()
for text in sys.argv[1:]:
    key = hmac.new(key, text.encode(), "sha256").digest()
print(key.hex())' "$@"
}

# muster_sign URL BODY ID SECRET TOKEN: Signature Version 4, as lines for curl's --config.
muster_sign() {
  local host=${1#*://} now day scope names='host;x-amz-date;x-amz-security-token' text key
  local path=/${host#*/}
  host=${host%%/*} now=$(date -u +%Y%m%dT%H%M%SZ)
  day=${now%T*}
  scope=$day/$MUSTER_REGION/execute-api/aws4_request
  text=$(printf 'POST\n%s\n\nhost:%s\nx-amz-date:%s\nx-amz-security-token:%s\n\n%s\n%s' "$path" \
    "$host" "$now" "$5" "$names" "$(printf %s "$2" | muster_sha256)")
  text=$(printf 'AWS4-HMAC-SHA256\n%s\n%s\n%s' "$now" "$scope" "$(printf %s "$text" | muster_sha256)")
  key=$(printf 'AWS4%s' "$4" | muster_hmac "$day" "$MUSTER_REGION" execute-api aws4_request "$text")
  printf 'header = "x-amz-date: %s"\nheader = "authorization: AWS4-HMAC-SHA256 ' "$now"
  printf 'Credential=%s/%s, SignedHeaders=%s, Signature=%s"\n' "$3" "$scope" "$names" "$key"
}

# muster_post PATH BODY SECONDS: a signed call; $muster_status and $muster_answer tell the outcome.
# Secrets reach curl through its standard input: arguments can be read by every user.
muster_post() {
  local url=$MUSTER_RUNNER_API$1 roles=meta-data/iam/security-credentials/ imds_token keys id secret token
  muster_status=000 muster_answer=''
  imds_token=$(muster_imds_token) && keys=$(muster_imds $roles) &&
    keys=$(muster_imds "$roles${keys%%$'\n'*}") || return 0
  id=$(muster_field AccessKeyId <<<"$keys") secret=$(muster_field SecretAccessKey <<<"$keys")
  token=$(muster_field Token <<<"$keys")
  muster_answer=$({
    printf 'url = "%s"\nheader = "content-type: application/json"\n' "$url"
    printf 'header = "x-amz-security-token: %s"\n' "$token"
    if muster_curl_signs; then
      printf 'user = "%s:%s"\naws-sigv4 = "aws:amz:%s:execute-api"\n' "$id" "$secret" "$MUSTER_REGION"
    else
      muster_sign "$url" "$2" "$id" "$secret" "$token"
    fi
  } | muster_curl -sS -K - --connect-timeout 5 --max-time "$3" --data-binary "$2" -w '\n%{http_code}') || true
  muster_status=${muster_answer##*$'\n'} muster_answer=${muster_answer%$'\n'*}
}

# muster_report BODY TRIES: an event. Fails if it was refused (409), or not taken in so many tries.
muster_report() {
  local try
  for ((try = 1; ; try++)); do
    muster_post /runner/events "$1" 10
    [ "$muster_status" != 200 ] || return 0
    [ "$muster_status" != 409 ] && [ "$try" -lt "$2" ] || return 1
    sleep "$try.$((RANDOM % 10))"
  done
}

# muster_job_event NAME [MORE]: an event about the job that this runner has; to be used in a hook.
muster_job_event() {
  printf '{"event":"%s","runner_name":%s,"repository":%s,"run_id":%d,"run_attempt":%d,"job_name":%s%s}' \
    "$1" "$(muster_string "$RUNNER_NAME")" "$(muster_string "$GITHUB_REPOSITORY")" \
    "$GITHUB_RUN_ID" "$GITHUB_RUN_ATTEMPT" "$(muster_string "$GITHUB_JOB")" "${2:-}"
}

# muster_private: whether the job's repository is private, as GitHub's event says; null where it does not.
# The agent writes that file before its first hook (actions/runner, JobHookProvider.cs).
muster_private() {
  python3 -I -c '
import json, sys
print(json.dumps(json.load(open(sys.argv[1]))["repository"]["private"]))' "${GITHUB_EVENT_PATH:-}" 2>/dev/null || echo null
}

# muster_may_start: asks until there is a yes, or a clear no (409). Nothing has started yet, so to
# wait costs time alone, and whatever else comes (throttling, an outage, a metadata service that is slow) passes.
muster_may_start() {
  local event pause=1 last=$((SECONDS + MUSTER_START_LIMIT))
  event=$(muster_job_event job-started ",\"private\":$(muster_private)")
  while :; do
    muster_post /runner/job-started "$event" 10
    case $muster_status in
      200) return 0 ;;
      409) return 1 ;;
    esac
    [ "$SECONDS" -lt "$last" ] || return 1
    [ "$pause" -gt 1 ] || echo "Muster does not answer yet (status $muster_status); asking again."
    sleep "$pause.$((RANDOM % 10))"
    pause=$((pause < 8 ? pause * 2 : 12))
  done
}

# muster_end_agent: for a job that must not run. To the agent a hook is a step: when it fails, the
# steps with `if: always()`, `failure()` or `!cancelled()` run. It skips them all only when the agent itself
# shuts down, and so the hook ends the agent, and waits to be ended by it. SIGTERM, since SIGINT is
# not heard where a shell started the agent with `&`. What is not done then ends with the worker's death: no step
# can follow, and the agent fails the job.
muster_end_agent() {
  local agent=$PPID
  sleep 1 # the worker reads what was said
  while [ "$agent" -gt 1 ] && [ "$(cat "/proc/$agent/comm")" != Runner.Listener ]; do
    agent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$agent/status")
  done
  if [ "$agent" -gt 1 ] && kill -TERM "$agent"; then
    sleep 45 >/dev/null 2>&1 & # bash hears signals while it waits, and not beside a command
    wait $! || true
  fi
  kill -KILL "$PPID"
}
API
} >"$home/api.sh"
muster_status='' muster_answer=''
# shellcheck source=/dev/null
. "$home/api.sh"

# Muster may delete a runner that has no job. So a job must not start unless Muster knows of it, and
# lasting silence is a no: refusing costs a re-run, a machine deleted under its job costs the work.
cat >"$home/job-started.sh" <<HOOK
#!/usr/bin/env bash
. "$home/api.sh"
muster_may_start && exit 0
case \$muster_status:\$(muster_field code <<<"\$muster_answer") in
  409:foreign_job)
    echo "::error::The pool of this runner does not serve \$GITHUB_REPOSITORY, so this job was not started." \\
      "Ask who operates Muster which labels this repository may use."
    ;;
  409:*)
    echo "::error::This runner is being deleted and takes no more jobs. Please re-run this job."
    ;;
  *)
    echo "::error::Muster could not be told about this job for \$MUSTER_START_LIMIT seconds (status" \\
      "\$muster_status). A job that it does not know could lose its machine at any time, so it was" \\
      "not started. Please re-run it."
    ;;
esac
muster_end_agent
HOOK
# Here the job is over: nothing may change its result any more.
cat >"$home/job-completed.sh" <<HOOK
#!/usr/bin/env bash
. "$home/api.sh"
muster_report "\$(muster_job_event job-completed)" 2 || true
HOOK
chmod 755 "$home"/job-*.sh

# The log's last lines, without anything that could be a credential.
last_lines() {
  tail -n 40 "$log" | tr -cd '\11\12\40-\176' | sed -E 's|[A-Za-z0-9+/=_-]{32,}|[...]|g' | tail -c 3500
}

# The one way out.
stage=booting
finish() {
  local code=$?
  trap - EXIT
  set +e
  if [ "$stage" = booting ]; then
    say "booting failed (exit code $code)"
    sleep 0.2 # lets tee write what was said
    muster_report "{\"event\":\"boot-failed\",\"log\":$(muster_string "$(last_lines)")}" "$tries"
  elif [ "$stage" = running ]; then
    say "the runner ended with code $code"
    muster_report "{\"event\":\"exited\",\"runner_name\":\"$runner_name\",\"code\":$code}" "$tries"
  fi
  power_off
}
trap finish EXIT
# Somebody else shuts the system down, and systemd would wait 90 seconds for what cannot succeed any more.
trap 'tries=1; exit 143' TERM

instance=$(imds_token=$(muster_imds_token) muster_imds meta-data/instance-id)
say "machine $instance of stack $MUSTER_STACK"

# A fresh Ubuntu or Debian starts its own updates now, and they hold the locks of apt. Updates that
# run already are not cut off: that would leave dpkg with half a package.
quiet_apt() {
  systemctl mask --now apt-daily.timer apt-daily-upgrade.timer apt-daily.service || true
  systemctl mask apt-daily-upgrade.service unattended-upgrades.service || true
  echo 'DPkg::Lock::Timeout "240";' >/etc/apt/apt.conf.d/99muster
}

# What the agent needs, and what everyday workflows expect: images, services and containers, archives, native builds.
# A name that a distribution does not have is passed over.
install_packages() {
  local try name known
  if ! command -v apt-get >/dev/null; then
    # The agent's own script does not know every distribution; .NET needs little beyond libicu.
    "$runner_dir/bin/installdependencies.sh" || dnf install -y libicu
    dnf install -y --setopt=strict=0 docker git tar gzip unzip zip jq gcc gcc-c++ make
    ! systemctl cat docker.service >/dev/null 2>&1 || systemctl enable --now docker
    return
  fi
  for try in 1 2 3; do
    if "$runner_dir/bin/installdependencies.sh"; then
      known=()
      for name in docker.io docker-buildx git unzip zip jq build-essential; do
        ! apt-cache show "$name" >/dev/null 2>&1 || known+=("$name")
      done
      DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${known[@]}" && return
    fi
    say "packages could not be installed (attempt $try)"
    sleep 10
  done
  return 1
}

install_runner() {
  local version=${MUSTER_RUNNER_VERSION:-} arch archive=$home/runner.tar.gz
  local releases=https://github.com/actions/runner/releases
  [ -n "$version" ] || version=$(curl -fsS --retry 5 -o /dev/null -w '%{redirect_url}' "$releases/latest")
  version=${version##*/v}
  arch=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
  say "installing runner $version for $arch"
  curl -fsSL --retry 5 --retry-connrefused -o "$archive" \
    "$releases/download/v$version/actions-runner-linux-$arch-$version.tar.gz"
  [ -z "${MUSTER_RUNNER_SHA256:-}" ] || sha256sum --check --quiet <<<"$MUSTER_RUNNER_SHA256  $archive"
  mkdir -p "$runner_dir"
  tar -xzf "$archive" -C "$runner_dir"
  install_packages
}

id -u "$runner_user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$runner_user"
# An image that has the runner meets its own updates as well. Where the folder is named, somebody else looks after that.
[ -n "${MUSTER_RUNNER_DIR:-}" ] || ! command -v apt-get >/dev/null || quiet_apt
[ -x "$runner_dir/run.sh" ] || install_runner
as_user=()
if [ "$runner_user" != "$(id -un)" ]; then
  as_user=(runuser -u "$runner_user" --)
  chown -R "$runner_user" "$runner_dir"
fi

# Jobs become root on their machine, by sudo and by docker, where there are such.
let_jobs_be_root() {
  if command -v sudo >/dev/null; then
    (umask 227 && echo "$runner_user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/muster)
  fi
  ! getent group docker >/dev/null || usermod -aG docker "$runner_user"
}

# The agent loads this file over its own environment (actions/runner, Program.cs `LoadAndSetEnv`), and images
# of others name their hooks in it. With those in place of ours, no job's start would be told.
drop_other_hooks() {
  [ ! -e "$runner_dir/.env" ] || sed -i -E '/^ACTIONS_RUNNER_HOOK_JOB_(STARTED|COMPLETED)=/d' "$runner_dir/.env"
}

# Asks for the configuration until there is one in $muster_answer; does not return without.
register() {
  local attempt action wait
  for ((attempt = 0; ; attempt++)); do
    muster_post /runner/register '{}' 30
    [ "$muster_status" != 200 ] || return 0
    action=$(muster_field action <<<"$muster_answer")
    say "not registered: status $muster_status, code $(muster_field code <<<"$muster_answer"), action $action"
    if [ "$action" = shutdown ]; then
      stage=unwanted # Muster wants this machine gone and needs no report of it
      exit 0
    fi
    # Also for a 403: it takes a while until everybody knows a new role.
    wait=$(muster_field retry_after_seconds <<<"$muster_answer")
    [[ $wait =~ ^[0-9]+$ ]] || wait=$((1 << (attempt < 5 ? attempt : 5)))
    if [ $((SECONDS + wait)) -gt "$register_limit" ]; then
      say "giving up after $((attempt + 1)) attempts"
      exit 1
    fi
    sleep "$wait.$((RANDOM % 10))"
  done
}
register

# Only cloud-init brings a script here, and cloud-init is written in Python.
mapfile -d '' -t answer < <(python3 -c '
import json, re, sys
answer = json.load(sys.stdin)
print(answer["runner_name"], answer["encoded_jit_config"], answer.get("boot_hook") or "", sep="\0", end="\0")
print("yes" if answer.get("sudo") else "", end="\0")
for name, value in (answer.get("environment") or {}).items():
    if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        print(f"{name}={value}", end="\0")
' <<<"$muster_answer")
runner_name=${answer[0]}

# Tools are kept where the setup actions look for them, whatever they are told (ruby/setup-ruby).
tools=${MUSTER_TOOL_CACHE:-/opt/hostedtoolcache}
mkdir -p "$tools"
[ "${#as_user[@]}" = 0 ] || chown "$runner_user" "$tools"
# An image says in this file where its tools are.
named="s/^(export )?([A-Za-z_][A-Za-z0-9_]*)=[\"']?([^\"']*)[\"']?\$/\\2=\\3/p"
mapfile -t image < <(sed -nE "$named" "${MUSTER_ENVIRONMENT:-/etc/environment}" 2>/dev/null || true)
image=("RUNNER_TOOL_CACHE=$tools" "AGENT_TOOLSDIRECTORY=$tools" "${image[@]}")

# A clean environment: a job sees what it needs, and nothing of how its machine came up. What the image says
# may replace PATH and LANG, what the pool says that too, and neither the hooks.
clean=("PATH=$PATH" "LANG=${LANG:-C.UTF-8}" "${image[@]}" "${answer[@]:4}")
as_runner=("${as_user[@]}" env -i "HOME=$(getent passwd "$runner_user" | cut -d: -f6)"
  "USER=$runner_user" "${clean[@]}"
  "ACTIONS_RUNNER_HOOK_JOB_STARTED=$home/job-started.sh"
  "ACTIONS_RUNNER_HOOK_JOB_COMPLETED=$home/job-completed.sh")
cd "$runner_dir"
# The pool's boot hook, as root. If it fails, so does the boot: a job must not meet half a machine.
if [ -n "${answer[2]}" ]; then
  say "running the boot hook of the pool"
  env -i HOME=/root "USER=$(id -un)" "RUNNER_USER=$runner_user" "${clean[@]}" \
    "$BASH" -euo pipefail -c "${answer[2]}" </dev/null
fi
# After the hook: it may have installed what a job then may use.
[ -z "${answer[3]}" ] || [ "${#as_user[@]}" = 0 ] || let_jobs_be_root
drop_other_hooks
# The configuration is an argument, as the runner wants it: it is good for one registration, and the
# runner keeps what is in it among its own files anyway.
# What runs with `&` ignores SIGINT, and with it every step of a job: a cancelled one must hear it.
(
  trap - INT QUIT
  exec "${as_runner[@]}" "$runner_dir/run.sh" --jitconfig "${answer[1]}" </dev/null
) &
runner=$!
stage=running
unset answer muster_answer
say "runner $runner_name started"
muster_report "{\"event\":\"runner-started\",\"runner_name\":\"$runner_name\",\"hooks\":true}" 3 ||
  say "this could not be reported (status $muster_status)"
wait "$runner" # its exit code is ours, and `finish` reports it
