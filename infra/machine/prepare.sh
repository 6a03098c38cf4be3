# Prepares a machine to become a runner. The supervisor runs it as root, with bash; if it fails, the boot fails.
# Optional: MUSTER_RUNNER_DIR, MUSTER_RUNNER_USER, MUSTER_TOOL_CACHE.
# shellcheck shell=bash
set -euo pipefail
runner_dir=${MUSTER_RUNNER_DIR:-/opt/actions-runner}
runner_user=${MUSTER_RUNNER_USER:-runner}
tools=${MUSTER_TOOL_CACHE:-/opt/hostedtoolcache}
say() { echo "muster: $*"; }

# A new Ubuntu or Debian starts its own updates now, which lock apt. Running updates are not
# interrupted, because that would leave dpkg with half a package.
quiet_apt() {
  local unit
  # As `systemctl mask`, without its reload of systemd. So what systemd has loaded is stopped too; the service only while it is still
  # queued.
  for unit in apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service unattended-upgrades.service; do
    ln -s /dev/null "/etc/systemd/system/$unit" 2>/dev/null || true
  done
  systemctl stop apt-daily.timer apt-daily-upgrade.timer apt-daily.service || true
  [ "$(systemctl is-active apt-daily-upgrade.service)" != inactive ] || systemctl stop apt-daily-upgrade.service || true
  echo 'DPkg::Lock::Timeout "240";' >/etc/apt/apt.conf.d/99muster
  # Ubuntu restarts services whose libraries a job replaces: Docker under its containers, even the agent.
  [ ! -d /etc/needrestart/conf.d ] || echo "\$nrconf{restart} = 'l';" >/etc/needrestart/conf.d/99-muster.conf
}

# Other people's images have the agent in different folders: the first one that has it is used.
find_agent() {
  local folder
  [ ! -e "$runner_dir/run.sh" ] || return 0
  for folder in /home/runner /home/runner/actions-runner /actions-runner; do
    [ -x "$folder/run.sh" ] && [ -x "$folder/bin/Runner.Listener" ] || continue
    say "using the agent in $folder"
    # A folder that is in the way and is not empty stays, and gets an agent.
    rmdir "$runner_dir" 2>/dev/null || true
    [ -e "$runner_dir" ] || ln -sfn "$folder" "$runner_dir"
    return 0
  done
}

# An installed Docker is never replaced, but an image may have disabled it.
enable_docker() {
  local unit
  command -v docker >/dev/null && systemctl cat docker.service >/dev/null 2>&1 || return 0
  for unit in docker.service docker.socket; do
    ! systemctl is-enabled --quiet "$unit" || return 0
  done
  systemctl enable --no-reload --now docker.socket || systemctl enable --no-reload --now docker.service || say "docker is disabled, and cannot be enabled"
}

id -u "$runner_user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$runner_user"
# If MUSTER_RUNNER_DIR is set, the caller handles all of this.
if [ -z "${MUSTER_RUNNER_DIR:-}" ]; then
  # Images with the agent start their own updates too.
  ! command -v apt-get >/dev/null || quiet_apt
  find_agent
  enable_docker
fi
mkdir -p "$tools" "$runner_dir"
if [ "$runner_user" != "$(id -un)" ]; then
  chown -R "$runner_user" "$runner_dir/"
  # Some setup actions use this folder regardless of the variables (ruby/setup-ruby).
  chown "$runner_user" "$tools"
fi
