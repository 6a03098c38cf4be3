# Replaces the agent of this machine, if it has one: agent.sh [URL [SHA256]]. Without an address it installs the newest
# release on github.com. The supervisor runs it as root, with bash; if it fails, so does the boot. Nothing is unpacked whose
# digest GitHub has not published. Optional: MUSTER_RUNNER_DIR, MUSTER_RUNNER_USER.
# shellcheck shell=bash
set -euo pipefail
url=${1:-} sha256=${2:-}
runner_dir=${MUSTER_RUNNER_DIR:-/opt/actions-runner}
runner_user=${MUSTER_RUNNER_USER:-runner}
say() { echo "muster: $*"; }

# Repeats a command that fails: another program may hold the lock of the package manager (dnf fails at once then), a mirror
# may not answer, the network may not be up.
again() {
  local try tries=$1
  shift
  for ((try = 1; try <= tries; try++)); do
    "$@" && return
    say "$1 failed (attempt $try of $tries)" >&2
    sleep 10
  done
  return 1
}

# Downloads by HTTPS, also after a redirect. Only tests have a server on this machine.
download() {
  local protocols='=https'
  case "${!#}" in http://127.0.0.1:*) protocols='=http' ;; esac
  curl -fsSL --proto "$protocols" --proto-redir '=https' --retry 5 --retry-all-errors "$@"
}

with_apt() {
  local name known=()
  "$runner_dir/bin/installdependencies.sh" || return
  for name in docker.io docker-buildx git unzip zip jq build-essential; do
    ! apt-cache show "$name" >/dev/null 2>&1 || known+=("$name")
  done
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${known[@]}"
}

with_dnf() {
  # The agent's own script does not know every distribution; .NET needs little beyond libicu.
  "$runner_dir/bin/installdependencies.sh" || dnf install -y libicu || return
  dnf install -y --setopt=strict=0 docker git tar gzip unzip zip jq gcc gcc-c++ make
}

# What the agent needs, and what everyday workflows expect: images, services and containers, archives, native builds.
# A name that a distribution does not have is skipped.
install_packages() {
  if command -v apt-get >/dev/null; then
    again 3 with_apt # each waits up to four minutes for the lock (prepare.sh)
  else
    again 24 with_dnf
    ! systemctl cat docker.service >/dev/null 2>&1 || systemctl enable --now docker
  fi
}

releases=https://github.com/actions/runner/releases
newest() {
  local version arch
  version=$(again 6 curl -fsS --proto '=https' --retry 5 -o /dev/null -w '%{redirect_url}' "$releases/latest")
  version=${version##*/v}
  arch=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
  echo "$releases/download/v$version/actions-runner-linux-$arch-$version.tar.gz"
}

# The SHA-256 that github.com publishes for the archive of this name; nothing where there is none.
published() {
  local file=${1##*/} version
  version=${file##*-}
  download "https://api.github.com/repos/actions/runner/releases/tags/v${version%.tar.gz}" | python3 -I -c 'import json, sys
for asset in json.load(sys.stdin)["assets"]:
    if asset["name"] == sys.argv[1]:
        print((asset.get("digest") or "").replace("sha256:", "", 1))' "$file"
}

[ -n "$url" ] || url=$(newest)
say "taking the runner from $url"
[ -n "$sha256" ] || sha256=$(published "$url") || true
if [ -z "$sha256" ]; then
  say "neither GitHub's list of agents nor github.com has a digest of this archive, so it is not installed. An image that has the agent needs no download"
  exit 1
fi
archive=$(mktemp /var/tmp/muster-runner.XXXXXX)
download -o "$archive" "$url"
if ! sha256sum --check --quiet <<<"$sha256  $archive"; then
  say "this is not the archive that GitHub lists: its digest is another"
  exit 1
fi
had=
[ ! -x "$runner_dir/run.sh" ] || had=1
# What the agent itself replaces when it updates. The image's settings beside it stay.
rm -rf "$runner_dir/bin" "$runner_dir/externals"
mkdir -p "$runner_dir"
tar -xzf "$archive" --no-same-owner -C "$runner_dir"
rm "$archive"
# An image with an agent has what that needs. Where the folder is named, somebody else looks after that.
[ -n "$had" ] || [ -n "${MUSTER_RUNNER_DIR:-}" ] || install_packages
[ "$runner_user" = "$(id -un)" ] || chown -R "$runner_user" "$runner_dir"
