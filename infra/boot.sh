#!/usr/bin/env bash
# Muster's user data: unpacks infra/machine, starts it, and ends.
#
# It stands in the launch template behind a header that exports MUSTER_RUNNER_API, MUSTER_REGION and MUSTER_STACK.
# cloud-init runs it as root, at a machine's first boot and no other. It holds no secret: the runner API knows the machine
# by the signature of its own role. From `systemctl start` on, machine/muster.service sees to everything, the end included.
#
# Optional: what machine/machine.py, machine/prepare.sh and machine/agent.sh name, MUSTER_HOME, MUSTER_UNITS, MUSTER_PER_BOOT,
# MUSTER_MAX_LIFETIME_SECONDS, MUSTER_LIFETIME_GRACE_SECONDS.
set -euo pipefail
# There is nobody yet who could tell, and nothing to wait for.
trap '[ "$?" = 0 ] || until shutdown -h now; do sleep 5; done' EXIT

# In memory: a machine that boots again has none of it.
home=${MUSTER_HOME:-/run/muster}
units=${MUSTER_UNITS:-/run/systemd/system}
per_boot=${MUSTER_PER_BOOT:-/var/lib/cloud/scripts/per-boot}
umask 022
mkdir -p "$home" "$units" "$per_boot"
# What is in this folder cloud-init runs at each boot that begins after now: a second one ends the machine.
printf '#!/bin/sh\nshutdown -h now\n' >"$per_boot/muster"
chmod 755 "$per_boot/muster"

# What infra/sync-boot packed: cloud-init is Python, so that is there.
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
# It is not waited for: cloud-init ends, and with it whatever waits for that.
systemctl start --no-block muster.service
