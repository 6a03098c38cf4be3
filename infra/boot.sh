#!/usr/bin/env bash
# Muster's user data: unpacks infra/machine, starts it, and ends.
#
# The launch template contains it, after a header that exports MUSTER_RUNNER_API, MUSTER_REGION and MUSTER_STACK.
# It runs as root, only at a machine's first boot. It contains no secret: the runner API identifies the machine by the signature
# of its role. After `systemctl start`, machine/muster.service is responsible, including for the end.
#
# Optional settings: those of the programs in machine/, MUSTER_HOME, MUSTER_UNITS, MUSTER_MAX_LIFETIME_SECONDS,
# MUSTER_LIFETIME_GRACE_SECONDS.
set -euo pipefail
# A failure here cannot be reported, because the supervisor does not run yet: the machine shuts down.
trap '[ "$?" = 0 ] || until shutdown -h now; do sleep 5; done' EXIT

# In memory, so it does not survive a reboot.
home=${MUSTER_HOME:-/run/muster}
units=${MUSTER_UNITS:-/run/systemd/system}
guard=${MUSTER_UNITS:-/etc/systemd/system}
# Some images run user data at every boot.
[ ! -e "$guard/muster-guard.service" ] || exit 1
umask 022
mkdir -p "$home" "$units" "$guard/sysinit.target.wants"
# A second boot shuts the machine down, before any other service starts. At the first boot the condition is false.
cat >"$guard/muster-guard.service" <<UNIT
[Unit]
Description=Muster: a second boot powers off
DefaultDependencies=no
ConditionPathExists=!$home
SuccessAction=poweroff
FailureAction=poweroff
[Service]
Type=oneshot
ExecStart=/bin/true
UNIT
ln -sf ../muster-guard.service "$guard/sysinit.target.wants/"

# Unpacks the files that infra/sync-boot packed. cloud-init is written in Python, so Python is installed.
python3 -I -c 'import base64, json, lzma, sys
packed = base64.b85decode(sys.stdin.read().replace("\n", ""))
for name, text in json.loads(lzma.decompress(packed)).items():
    open(sys.argv[1] + "/" + name, "w").write(text)' "$home" <<'SOURCES'
@SOURCES@
SOURCES
env | grep -E '^(MUSTER_|AWS_EC2_METADATA_SERVICE_ENDPOINT=)' >"$home/settings"
life=$((${MUSTER_MAX_LIFETIME_SECONDS:-43200} + ${MUSTER_LIFETIME_GRACE_SECONDS:-300}))
for unit in muster.service muster-runner.service; do
  sed -e "s|/run/muster|$home|g; s|/opt/actions-runner|${MUSTER_RUNNER_DIR:-/opt/actions-runner}|g" \
    -e "s|^User=.*|User=${MUSTER_RUNNER_USER:-runner}|; s|^RuntimeMaxSec=.*|RuntimeMaxSec=$life|" "$home/$unit" >"$units/$unit"
done
systemctl daemon-reload
# Does not wait, so that cloud-init ends, and the units that wait for cloud-init can start.
systemctl start --no-block muster.service
