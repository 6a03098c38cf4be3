# Puts an agent in the place of the one that is there, if one is: agent.sh [URL [SHA256]]. Without an address it takes the
# newest release on github.com. The supervisor runs it as root, with bash; if it fails, so does the boot.
# Optional: MUSTER_RUNNER_DIR, MUSTER_RUNNER_USER.
# shellcheck shell=bash
set -euo pipefail
url=${1:-} sha256=${2:-}
runner_dir=${MUSTER_RUNNER_DIR:-/opt/actions-runner}
runner_user=${MUSTER_RUNNER_USER:-runner}
say() { echo "muster: $*"; }

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

newest() {
  local version arch releases=https://github.com/actions/runner/releases
  version=$(curl -fsS --retry 5 -o /dev/null -w '%{redirect_url}' "$releases/latest")
  version=${version##*/v}
  arch=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
  echo "$releases/download/v$version/actions-runner-linux-$arch-$version.tar.gz"
}

[ -n "$url" ] || url=$(newest)
say "taking the runner from $url"
archive=$(mktemp /var/tmp/muster-runner.XXXXXX)
curl -fsSL --retry 5 --retry-connrefused -o "$archive" "$url"
if [ -z "$sha256" ]; then
  say "GitHub has not said its digest: it is not checked"
elif ! sha256sum --check --quiet <<<"$sha256  $archive"; then
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
