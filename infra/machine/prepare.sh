# What a bare machine needs before it can be a runner. The supervisor runs it as root, with bash; if it fails, so does
# the boot. Optional: MUSTER_RUNNER_DIR, MUSTER_RUNNER_USER, MUSTER_TOOL_CACHE, and MUSTER_RUNNER_VERSION and
# MUSTER_RUNNER_SHA256 for an image without the runner.
# shellcheck shell=bash
set -euo pipefail
runner_dir=${MUSTER_RUNNER_DIR:-/opt/actions-runner}
runner_user=${MUSTER_RUNNER_USER:-runner}
tools=${MUSTER_TOOL_CACHE:-/opt/hostedtoolcache}
say() { echo "muster: $*"; }

# A fresh Ubuntu or Debian starts its own updates now, and they hold the locks of apt. Updates that
# run already are not cut off: that would leave dpkg with half a package.
quiet_apt() {
  systemctl mask --now apt-daily.timer apt-daily-upgrade.timer apt-daily.service || true
  systemctl mask apt-daily-upgrade.service unattended-upgrades.service || true
  echo 'DPkg::Lock::Timeout "240";' >/etc/apt/apt.conf.d/99muster
  # Ubuntu restarts what uses a library that a job replaces: Docker under its containers, even the agent.
  [ ! -d /etc/needrestart/conf.d ] || echo "\$nrconf{restart} = 'l';" >/etc/needrestart/conf.d/99-muster.conf
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
  local version=${MUSTER_RUNNER_VERSION:-} arch archive=/var/tmp/muster-runner.tar.gz
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
  rm "$archive"
  install_packages
}

id -u "$runner_user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$runner_user"
# An image that has the runner meets its own updates as well. Where the folder is named, somebody else looks after that.
[ -n "${MUSTER_RUNNER_DIR:-}" ] || ! command -v apt-get >/dev/null || quiet_apt
[ -x "$runner_dir/run.sh" ] || install_runner
mkdir -p "$tools"
if [ "$runner_user" != "$(id -un)" ]; then
  chown -R "$runner_user" "$runner_dir"
  # Tools are kept where the setup actions look for them, whatever they are told (ruby/setup-ruby).
  chown "$runner_user" "$tools"
fi
