# shellcheck shell=bash
# Simulates infra/image/bake.sh. Every bash below muster.service reads this file first (BASH_ENV in systemctl.py), and the one
# that is to clean a builder's disk ends here: a simulated machine shares its disk with the system that runs the tests.
if [ -n "${MUSTER_BAKE:-}" ]; then
  printf '{"agent": "%s", "boot": "%s", "disk_bytes": 3000000000}\n' \
    "$(env -u MUSTER_BAKE "${MUSTER_RUNNER_DIR:?}/bin/Runner.Listener" --version)" "$MUSTER_BAKE" >"${MUSTER_HOME:?}/baked"
  echo "muster: baked in simulation"
  exit 0
fi
