#!/bin/bash
# Simulates Runner.Listener. It knows only its JIT config, gets its job from the world, and starts a worker for it. It is
# executed directly, without `env`, so that the kernel uses its name for the process.
#
# On SIGTERM or SIGINT it shuts down as the real one does (actions/runner, src/Runner.Listener: Runner.cs `Runner_Unloading`,
# JobDispatcher.cs `ShutdownAsync`): it notifies the worker and waits at most 30 seconds for its end
# (Constants.cs `ExitOnUnloadTimeout`).
set -u
bin=$(dirname "${BASH_SOURCE[0]}")
version=@VERSION@

if [ "$*" = --version ]; then
  echo "$version"
  exit 0
fi
# The real one reads its argument from such a variable, and removes it (CommandSettings.cs).
config=${ACTIONS_RUNNER_INPUT_JITCONFIG:-}
unset ACTIONS_RUNNER_INPUT_JITCONFIG
file() { base64 -d <<<"$config" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | base64 -d; }
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
world=$(file '\.runner' | field ServerUrl)
RUNNER_NAME=$(file '\.runner' | field AgentName)
secret=$(file '\.credentials' | field ClientId)
if [ -z "$world" ] || [ -z "$secret" ]; then
  echo "The just-in-time configuration is not valid."
  exit 1
fi
# shellcheck source=ask.sh
. "$bin/ask.sh"

worker=
shut_down() {
  echo "Exiting..."
  if [ -n "$worker" ]; then
    kill -USR1 "$worker" # replaces the message RunnerShutdown on the worker's channel
    for ((second = 0; second < 30; second++)); do
      kill -0 "$worker" 2>/dev/null || break
      sleep 1
    done
  fi
  exit 0
}
trap shut_down TERM INT

ask POST /runner/connect -H "Authorization: Bearer $secret" -H "X-Machine: $(<"$bin/../../machine")" -H "X-Version: $version"
if [ "$status" = 403 ]; then
  echo "An error occurred: $(value message)"
  # Program.cs, `GetRunnerVersionDeprecatedExitCode`
  [ "${ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE:-}" = 1 ] && exit 7
  exit 1
fi
if [ "$status" != 200 ]; then
  echo "A session could not be created: $(value message)"
  exit 1
fi
session=$(value session)
hooks=$(value hooks)
echo
echo "√ Connected to GitHub"
echo
line "Listening for Jobs"

while :; do
  ask GET "/runner/message?session=$session"
  case $status in
    200) [ -n "$(value deregistered)" ] || break
         echo "The runner registration has been deleted from the server."
         exit 0 ;;
    204) ;;
    000 | 5*) sleep 1 ;;
    *) echo "The session is gone ($status)."
       exit 1 ;;
  esac
done

job=$(value job)
crash_ms=$(value crash_ms)
export world session job hooks crash_ms
export RUNNER_NAME RUNNER_OS=Linux RUNNER_ARCH=X64 RUNNER_TEMP=$PWD/_temp CI=true
export GITHUB_ACTIONS=true GITHUB_SERVER_URL=https://github.com
GITHUB_REPOSITORY=$(value repository) GITHUB_JOB=$(value name) GITHUB_WORKFLOW=$(value workflow)
GITHUB_RUN_ID=$(value run_id) GITHUB_RUN_ATTEMPT=$(value run_attempt) GITHUB_RUN_NUMBER=1
GITHUB_EVENT_PATH=$RUNNER_TEMP/_github_workflow/event.json
mkdir -p "${GITHUB_EVENT_PATH%/*}"
printf '{"repository":{"private":%s}}' "$(value private)" >"$GITHUB_EVENT_PATH"
export GITHUB_REPOSITORY GITHUB_JOB GITHUB_WORKFLOW GITHUB_EVENT_PATH
export GITHUB_RUN_ID GITHUB_RUN_ATTEMPT GITHUB_RUN_NUMBER
line "Running job: $GITHUB_JOB"
"$bin/Runner.Worker" &
worker=$!
wait "$worker"
code=$?
# A worker that crashed reports nothing: the listener fails its job (JobDispatcher.cs `ForceFailJob`).
[ "$code" = 0 ] || ask POST "/runner/job/$job/done?session=$session&conclusion=failure"
line "Job $GITHUB_JOB completed"
