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

# Unpacks the files that infra/sync-boot packed. cloud-init is written in Python, so Python is installed.
python3 -I -c 'import base64, lzma, sys
packed = base64.b85decode(sys.stdin.read().replace("\n", ""))
for file in lzma.decompress(packed).decode().split("\0"):
    name, _, text = file.partition("\n")
    open(sys.argv[1] + "/" + name, "w").write(text)' "$home" <<'SOURCES'
@SOURCES@
SOURCES
# shellcheck source=machine/start.sh
source "$home/start.sh"
