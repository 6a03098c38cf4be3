#!/usr/bin/env bash
# Simulates the agent's run.sh and run-helper.sh (actions/runner, src/Misc/layoutroot): starts the listener, restarts it
# on request, and turns every other exit code into 0, unless it is configured to keep one.
set -u
listener=$(dirname "${BASH_SOURCE[0]}")/bin/Runner.Listener
while :; do
  "$listener" run "$@"
  code=$?
  # Codes 2 (retryable), 3 and 4 (updating) restart it; after 0, 1, 5 or a signal the agent ends with 0.
  case $code in
    2 | 3 | 4) sleep 5 ;;
    7) echo "Runner listener exit with deprecated version exit code: 7."
       [ "${ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE:-}" = 1 ] || exit 0
       exit 7 ;;
    *) echo "Runner listener exit with code $code, stop the service, no retry needed."
       exit 0 ;;
  esac
done
