# Installs what everyday workflows need and the image lacks: packages.sh [fetch|libraries|install]. Without an argument, it does
# all three, in this order. The supervisor runs it as root, with bash, for an image without an agent: `fetch` downloads next to
# the agent's download, `libraries` installs what the agent needs to start, `install` runs while the agent connects.
# shellcheck shell=bash
set -euo pipefail
runner_dir=${MUSTER_RUNNER_DIR:-/opt/actions-runner}
part=${1:-all}
# The packages that `fetch` found missing. The file exists until they are installed.
list=${0%/*}/packages
stand_in=/usr/local/bin/docker
missing=()
say() { echo "muster: $*"; }

# Retries a command that fails: the package manager may be locked by a different program (dnf then fails at once), a mirror
# may not answer, or the network may not be up.
again() {
  local try
  for ((try = 1; try <= tries; try++)); do
    "$@" && return
    say "$1 failed (attempt $try of $tries)" >&2
    sleep 10
  done
  return 1
}

# Prints the packages of the commands that do not exist. Each argument is a command, a colon, and packages.
lacks() {
  local pair
  for pair in "$@"; do
    # shellcheck disable=SC2086
    command -v "${pair%%:*}" >/dev/null || printf '%s\n' ${pair#*:}
  done
}

# The disk ends with the machine, so nothing has to be safe from a crash: without fsync, dpkg takes about half the time.
apt_install() { DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Options::=--force-unsafe-io install -y --no-install-recommends "$@"; }
dnf_install() { dnf install -y --setopt=strict=0 "$@"; }

# A mirror that does not answer is an error. By default, apt would continue with the packages that it already knows.
apt_fetch() {
  local name known=()
  apt-get -o APT::Update::Error-Mode=any update || return
  for name in "${missing[@]}"; do
    ! apt-cache show "$name" >/dev/null 2>&1 || known+=("$name")
  done
  missing=("${known[@]}")
  apt_install --download-only "${missing[@]}"
}
dnf_fetch() { dnf_install --downloadonly "${missing[@]}"; }

# The agent's own script does not know every distribution; .NET needs little beyond libicu.
apt_libraries() { "$runner_dir/bin/installdependencies.sh"; }
dnf_libraries() { "$runner_dir/bin/installdependencies.sh" || dnf install -y libicu; }

# The agent resolves `docker` before the job-started hook runs, and a process keeps the groups of its start. So the command and
# the group exist before the agent starts; a call waits for the package.
stand_in_for_docker() {
  getent group docker >/dev/null || groupadd --system docker
  printf '#!/bin/sh\nwhile [ -e "%s" ]; do sleep 0.2; done\nexec /usr/bin/docker "$@"\n' "$list" >"$stand_in"
  chmod 755 "$stand_in"
}

if command -v apt-get >/dev/null; then
  manager=apt tries=3 # each waits up to four minutes for the lock (prepare.sh)
  wanted=(git:git unzip:unzip zip:zip jq:jq cc:build-essential c++:build-essential make:build-essential "docker:docker.io docker-buildx")
else
  manager=dnf tries=24
  wanted=(git:git tar:tar gzip:gzip unzip:unzip zip:zip jq:jq cc:gcc c++:gcc-c++ make:make docker:docker)
fi

if [ "$part" = fetch ] || [ "$part" = all ]; then
  mapfile -t missing < <(lacks "${wanted[@]}" | sort -u)
  [ "${#missing[@]}" = 0 ] || again "${manager}_fetch"
  if [ "$part" = fetch ] && [ "${#missing[@]}" != 0 ]; then
    printf '%s\n' "${missing[@]}" >"$list"
    command -v docker >/dev/null || stand_in_for_docker
  fi
fi

if [ "$part" = libraries ] || [ "$part" = all ]; then
  found=$(ldconfig -p)
  grep -q libicuuc <<<"$found" && grep -q 'libssl\.so' <<<"$found" || again "${manager}_libraries"
fi

if [ "$part" = install ] || [ "$part" = all ]; then
  [ ! -e "$list" ] || mapfile -t missing <"$list"
  if [ "${#missing[@]}" != 0 ]; then
    again "${manager}_install" "${missing[@]}"
    [ "$manager" = apt ] || ! systemctl cat docker.service >/dev/null 2>&1 || systemctl enable --now docker
  fi
  if grep -qs "$list" "$stand_in"; then
    # The agent may have resolved the name already, so it stays valid.
    ln -s /usr/bin/docker "$stand_in.new"
    mv -fT "$stand_in.new" "$stand_in"
    [ -x "$stand_in" ] || rm "$stand_in"
  fi
  rm -f "$list"
fi
