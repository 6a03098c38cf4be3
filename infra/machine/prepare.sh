# What every machine needs before it can be a runner. The supervisor runs it as root, with bash; if it fails, so does the
# boot. Optional: MUSTER_RUNNER_DIR, MUSTER_RUNNER_USER, MUSTER_TOOL_CACHE.
# shellcheck shell=bash
set -euo pipefail
runner_dir=${MUSTER_RUNNER_DIR:-/opt/actions-runner}
runner_user=${MUSTER_RUNNER_USER:-runner}
tools=${MUSTER_TOOL_CACHE:-/opt/hostedtoolcache}

# A fresh Ubuntu or Debian starts its own updates now, and they hold the locks of apt. Updates that
# run already are not cut off: that would leave dpkg with half a package.
quiet_apt() {
  systemctl mask --now apt-daily.timer apt-daily-upgrade.timer apt-daily.service || true
  systemctl mask apt-daily-upgrade.service unattended-upgrades.service || true
  echo 'DPkg::Lock::Timeout "240";' >/etc/apt/apt.conf.d/99muster
  # Ubuntu restarts what uses a library that a job replaces: Docker under its containers, even the agent.
  [ ! -d /etc/needrestart/conf.d ] || echo "\$nrconf{restart} = 'l';" >/etc/needrestart/conf.d/99-muster.conf
}

id -u "$runner_user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$runner_user"
# An image that has the runner meets its own updates as well. Where the folder is named, somebody else looks after that.
[ -n "${MUSTER_RUNNER_DIR:-}" ] || ! command -v apt-get >/dev/null || quiet_apt
mkdir -p "$tools" "$runner_dir"
if [ "$runner_user" != "$(id -un)" ]; then
  chown -R "$runner_user" "$runner_dir"
  # Tools are kept where the setup actions look for them, whatever they are told (ruby/setup-ruby).
  chown "$runner_user" "$tools"
fi
