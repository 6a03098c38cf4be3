# Writes the settings and the units, and starts the supervisor: the end of the user data. It is not in boot.sh because only the files
# of this folder are compressed. boot.sh sources it and sets $home, $units and $guard.
# shellcheck shell=bash disable=SC2154
sed "s|/run/muster|$home|" "$home/muster-guard.service" >"$guard/muster-guard.service"
ln -sf ../muster-guard.service "$guard/sysinit.target.wants/"
env | grep -E '^(MUSTER_|AWS_EC2_METADATA_SERVICE_ENDPOINT=)' >"$home/settings"
life=$((${MUSTER_MAX_LIFETIME_SECONDS:-43200} + ${MUSTER_LIFETIME_GRACE_SECONDS:-300}))
for unit in muster.service muster-runner.service; do
  sed -e "s|/run/muster|$home|g; s|/opt/actions-runner|${MUSTER_RUNNER_DIR:-/opt/actions-runner}|g" \
    -e "s|^User=.*|User=${MUSTER_RUNNER_USER:-runner}|; s|^RuntimeMaxSec=.*|RuntimeMaxSec=$life|" "$home/$unit" >"$units/$unit"
done
# No `daemon-reload`, which takes longer than all of the above: systemd reads a unit that it has not loaded when it is started.
# Does not wait, so that cloud-init ends, and the units that wait for cloud-init can start.
systemctl start --no-block muster.service
