#!/usr/bin/env bash
# Stands for the agent's run.sh and run-helper.sh (actions/runner, src/Misc/layoutroot): starts the listener, again
# when it asks for that, and makes an exit code of 0 from every other one, unless it was told to let one through.
set -u
listener=$(dirname "${BASH_SOURCE[0]}")/bin/Runner.Listener
while :; do
  "$listener" run "$@"
  code=$?
  # Codes 2 (retryable), 3 and 4 (updating) start it again; 0, 1, 5 and whatever kills it end the agent well.
  case $code in
    2 | 3 | 4) sleep 5 ;;
    7) echo "Runner listener exit with deprecated version exit code: 7."
       [ "${ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE:-}" = 1 ] || exit 0
       exit 7 ;;
    *) echo "Runner listener exit with code $code, stop the service, no retry needed."
       exit 0 ;;
  esac
done
