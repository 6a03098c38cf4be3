#!/usr/bin/env bash
# Stands for the runner application on a simulated machine. It knows only what its JIT config says,
# gets its job from the world, runs the hooks as the real one does, and exits after one job.
set -u

config=
while [ $# -gt 0 ]; do
  case $1 in
    --jitconfig) config=$2; shift 2 ;;
    *) shift ;;
  esac
done
file() { base64 -d <<<"$config" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | base64 -d; }
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
world=$(file '\.runner' | field ServerUrl)
RUNNER_NAME=$(file '\.runner' | field AgentName)
secret=$(file '\.credentials' | field ClientId)
if [ -z "$world" ] || [ -z "$secret" ]; then
  echo "The just-in-time configuration is not valid."
  exit 1
fi

# ask METHOD PATH [curl options]: sets $status and $answer; a lost connection is status 000.
ask() {
  local method=$1 path=$2
  shift 2
  answer=$(curl -sS -X "$method" -w '\n%{http_code}' --max-time 40 "$@" "$world$path" 2>/dev/null)
  status=${answer##*$'\n'}
  answer=${answer%$'\n'*}
}
value() { sed -n "s/^$1=//p" <<<"$answer"; }
line() { echo "$(date -u '+%Y-%m-%d %H:%M:%SZ'): $*"; }

ask POST /runner/connect -H "Authorization: Bearer $secret" -H 'X-Machine: @MACHINE@'
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
export RUNNER_NAME RUNNER_OS=Linux RUNNER_ARCH=X64 RUNNER_TEMP=$PWD/_temp CI=true
export GITHUB_ACTIONS=true GITHUB_SERVER_URL=https://github.com
GITHUB_REPOSITORY=$(value repository) GITHUB_JOB=$(value name) GITHUB_WORKFLOW=$(value workflow)
GITHUB_RUN_ID=$(value run_id) GITHUB_RUN_ATTEMPT=$(value run_attempt) GITHUB_RUN_NUMBER=1
export GITHUB_REPOSITORY GITHUB_JOB GITHUB_WORKFLOW
export GITHUB_RUN_ID GITHUB_RUN_ATTEMPT GITHUB_RUN_NUMBER
line "Running job: $GITHUB_JOB"

hook() { [ "$hooks" != 1 ] || [ -z "$1" ] || bash -e "$1"; }

conclusion=failure
if hook "${ACTIONS_RUNNER_HOOK_JOB_STARTED:-}"; then
  ask POST "/runner/job/$job/began?session=$session"
  if [ -n "$crash_ms" ]; then
    sleep "$((crash_ms / 1000)).$(printf %03d "$((crash_ms % 1000))")"
    echo "An error occurred: the runner crashed."
    exit 139
  fi
  while :; do
    ask GET "/runner/job/$job/over?session=$session"
    case $status in
      200) conclusion=$(value conclusion)
           break ;;
      204) ;;
      000 | 5*) sleep 1 ;;
      *) break ;;
    esac
  done
  hook "${ACTIONS_RUNNER_HOOK_JOB_COMPLETED:-}" || conclusion=failure
else
  line "The job-started hook failed; the job does not start."
fi
ask POST "/runner/job/$job/done?session=$session&conclusion=$conclusion"
line "Job $GITHUB_JOB completed with result: $conclusion"
