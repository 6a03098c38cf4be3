#!/usr/bin/env bash
# Cleans a builder, so that an image of its running disk boots as a new machine. With MUSTER_BAKE=unit, it also replaces cloud-init
# with a unit that only does what Muster's machines need.
#
# A builder gets this text with its configuration, and runs it as root after the agent, the packages and the pool's image_hook are
# installed (machine.py, `bake`). If it fails, the build fails. It writes its results to $MUSTER_HOME/baked, which the builder reports.
#
# Required: MUSTER_BAKE (unit or cloud-init), MUSTER_HOME. Optional: MUSTER_RUNNER_DIR, MUSTER_RUNNER_USER.
set -euo pipefail
boot=${MUSTER_BAKE:?}
home=${MUSTER_HOME:?}
runner_dir=${MUSTER_RUNNER_DIR:-/opt/actions-runner}
runner_user=${MUSTER_RUNNER_USER:-runner}
say() { echo "muster: $*"; }

# Prints the version of the installed agent. It has to run, because every machine of the image will run it.
agents_version() { cd "$runner_dir" && runuser -u "$runner_user" -- bin/Runner.Listener --version | grep -xE '[0-9]+\.[0-9]+\.[0-9]+'; }

# Prints why the image has to keep cloud-init. The unit knows one kind of network, and tools that it runs at each boot.
why_not_unit() {
  local tool
  if ! systemctl is-active --quiet systemd-networkd.service; then
    echo "The image does not use systemd-networkd."
    return
  fi
  for tool in curl growpart findmnt; do
    command -v "$tool" >/dev/null || { echo "The image has no $tool." && return; }
  done
}

# Writes the boot unit, and what it takes over from cloud-init: network, SSH host keys, and the size of the root file system.
install_boot_unit() {
  local units=/etc/systemd/system files=/usr/local/lib/muster
  mkdir -p "$files" /var/lib/muster /etc/systemd/network "$units/sysinit.target.wants" "$units/ssh.service.wants" "$units/sshd.service.wants"
  chmod 700 /var/lib/muster

  # The file comes before the image's own. A virtual interface of a job has a different name.
  cat >/etc/systemd/network/05-muster.network <<'END'
[Match]
Name=en* eth*
Type=ether
[Network]
DHCP=yes
[DHCPv4]
UseMTU=yes
UseHostname=no
[DHCPv6]
UseHostname=no
END

  cat >"$files/boot" <<'END'
#!/bin/bash
# Runs the user data of a new machine as root if it is a script, as cloud-init does (muster-boot.service).
# /run may be mounted without permission to execute, so the script is on the disk. Optional: MUSTER_METADATA_LIMIT_SECONDS.
set -uo pipefail
metadata=http://169.254.169.254/latest
script=/var/lib/muster/user-data
limit=${MUSTER_METADATA_LIMIT_SECONDS:-60}
fetch() { curl -fsS --noproxy '*' --connect-timeout 1 --max-time 5 "$@" 2>/dev/null; }
read_metadata() { fetch -H "x-aws-ec2-metadata-token: $token" "$metadata/$1"; }

# The interface gets its address meanwhile. Until then, a call fails at once.
until token=$(fetch -X PUT -H "x-aws-ec2-metadata-token-ttl-seconds: 300" "$metadata/api/token") && read_metadata user-data >"$script"; do
  if ((SECONDS >= limit)); then
    echo "muster: the metadata service did not answer for $limit seconds"
    exit 1
  fi
  sleep 0.1
done
# The name is that of cloud-init, and nothing waits for it.
(name=$(read_metadata meta-data/local-hostname) && name=${name%%.*} && [ -n "$name" ] && hostname "$name" && echo "$name" >/etc/hostname) &
if [ "$(head -c 2 "$script" | tr -d '\0')" != '#!' ]; then
  echo "muster: the user data is not a script"
  exit 1
fi
chmod 700 "$script"
"$script" || exit
wait
END

  cat >"$files/grow" <<'END'
#!/bin/bash
# Grows the root partition and its file system to the size of the disk (muster-grow.service).
set -uo pipefail
device=$(realpath "/sys/dev/block/$(findmnt -nro MAJ:MIN /)")
name=/dev/${device##*/}
# growpart fails if there is nothing to grow.
[ ! -e "$device/partition" ] || growpart "/dev/$(basename "${device%/*}")" "$(cat "$device/partition")" || true
case $(findmnt -nro FSTYPE /) in
  ext4) resize2fs "$name" ;;
  xfs) xfs_growfs / ;;
esac
END
  chmod 755 "$files/boot" "$files/grow"

  # Only this unit starts Muster, so a machine without user data powers off. The first time-out includes the wait for the network's
  # service, the second a script that hangs.
  cat >"$units/muster-boot.service" <<'END'
[Unit]
Description=Muster: runs the machine's user data
DefaultDependencies=no
Wants=systemd-networkd.service
After=systemd-networkd.service systemd-remount-fs.service muster-guard.service
RequiresMountsFor=/var/lib/muster /usr/local/lib/muster
Conflicts=shutdown.target
Before=shutdown.target
FailureAction=poweroff-force
JobTimeoutSec=65
JobTimeoutAction=poweroff-force
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/muster/boot
TimeoutStartSec=62
TimeoutStopSec=1
KillMode=mixed
StandardOutput=journal+console
StandardError=inherit
END
  cat >"$units/muster-grow.service" <<'END'
[Unit]
Description=Muster: grows the root file system
DefaultDependencies=no
After=systemd-remount-fs.service
Conflicts=shutdown.target
Before=shutdown.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/muster/grow
TimeoutStartSec=300
END
  # Started by the SSH server, and so not by a boot whose server waits for a connection.
  cat >"$units/muster-ssh-keys.service" <<'END'
[Unit]
Description=Muster: creates SSH host keys
Before=ssh.service sshd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/ssh-keygen -A
END
  ln -sf ../muster-boot.service ../muster-grow.service "$units/sysinit.target.wants/"
  ln -sf ../muster-ssh-keys.service "$units/ssh.service.wants/"
  ln -sf ../muster-ssh-keys.service "$units/sshd.service.wants/"
  [ ! -d /etc/cloud ] || touch /etc/cloud/cloud-init.disabled
}

# Removes the boot unit of a parent image that Muster built.
remove_boot_unit() {
  [ -e /etc/systemd/system/muster-boot.service ] || return 0
  rm -f /etc/systemd/system/{,*.wants/}muster-{boot,grow,ssh-keys}.service /etc/systemd/network/05-muster.network /etc/cloud/cloud-init.disabled
  rm -rf /usr/local/lib/muster /var/lib/muster
}

# Waits until snapd has installed the snaps of a new image, because it no longer starts by itself.
settle_snaps() {
  ! command -v snap >/dev/null || timeout 300 snap wait system seed.loaded || say "the snaps of the image are not installed yet"
}

# Turns off what a machine for one job does not need, in addition to the updates that prepare.sh masks. Docker and snapd are started by
# their sockets, because jobs use them, and the SSM agent of Ubuntu is a snap.
turn_services_off() {
  local unit
  for unit in apport.service apport-autoreport.path apport-autoreport.timer ModemManager.service multipathd.service multipathd.socket \
    snapd.seeded.service snapd.autoimport.service snapd.core-fixup.service motd-news.timer update-notifier-download.timer update-notifier-motd.timer \
    ua-timer.timer ua-reboot-cmds.service ubuntu-advantage.service pollinate.service fwupd.service fwupd-refresh.timer udisks2.service \
    open-vm-tools.service vgauth.service hibinit-agent.service \
    networkd-dispatcher.service secureboot-db.service e2scrub_all.timer e2scrub_reap.service fstrim.timer man-db.timer logrotate.timer \
    dpkg-db-backup.timer sysstat.service; do
    ln -s /dev/null "/etc/systemd/system/$unit" 2>/dev/null || true
  done
  for unit in docker snapd; do
    systemctl cat "$unit.socket" >/dev/null 2>&1 || continue
    systemctl enable "$unit.socket" && systemctl disable "$unit.service" || say "$unit still starts at boot"
  done
  systemctl disable containerd.service 2>/dev/null || true
  # The network's service may have been enabled by cloud-init's configuration only.
  systemctl enable systemd-networkd.service || true
  ! systemctl cat systemd-resolved.service >/dev/null 2>&1 || systemctl enable systemd-resolved.service || true
}

agent=$(agents_version) || { say "the agent in $runner_dir does not run" && exit 1; }
why=
if [ "$boot" = unit ]; then
  why=$(why_not_unit)
  [ -z "$why" ] || boot=cloud-init
fi
if [ "$boot" = unit ]; then
  settle_snaps
  turn_services_off
  install_boot_unit
else
  remove_boot_unit
fi

# What would be in use while EC2 copies the disk.
systemctl stop docker.socket docker.service containerd.service rsyslog.service syslog.socket 2>/dev/null || true

# This machine's identity, and what Muster wrote. `--machine-id` of cloud-init would make the next boot systemd's first one, which
# enables services again (machine-id(5), "First Boot Semantics").
if command -v cloud-init >/dev/null; then
  cloud-init clean --logs
  rm -f /etc/netplan/50-cloud-init.yaml
fi
rm -f /etc/systemd/system/{,sysinit.target.wants/}muster-guard.service /var/lib/muster/user-data
[ "$(readlink /usr/local/bin/docker)" != /usr/bin/docker ] || rm /usr/local/bin/docker
rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub /etc/hostname /var/lib/systemd/random-seed /var/lib/systemd/credential.secret
[ -L /var/lib/dbus/machine-id ] || rm -f /var/lib/dbus/machine-id

# What others left. apt's lists stay, because jobs use them.
rm -rf "$runner_dir/_diag" "$runner_dir"/.runner "$runner_dir"/.credentials "$runner_dir"/.credentials_rsaparams
rm -f /root/.*_history /home/*/.*_history /var/cache/apt/archives/*.deb /var/cache/apt/archives/partial/*
[ ! -d /var/cache/dnf ] || find /var/cache/dnf -name '*.rpm' -delete
find /tmp /var/tmp -xdev -mindepth 1 -maxdepth 1 ! -name 'systemd-private-*' -exec rm -rf {} +
# The journal continues in memory.
journalctl --relinquish-var 2>/dev/null || true
rm -rf /var/log/journal/*
find /var/log -xdev -type f -exec truncate -s 0 {} +
# Last, because other programs may need it. An empty file is filled at the next boot.
: >/etc/machine-id
sync

disk=$(df -B1 --output=used / | tail -n 1)
printf '{"agent": "%s", "boot": "%s", "disk_bytes": %d%s}\n' "$agent" "$boot" "$disk" "${why:+, \"why\": \"$why\"}" >"$home/baked"
say "baked with agent $agent and ${boot/unit/its own boot unit}${why:+: $why}"
