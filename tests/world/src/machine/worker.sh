#!/bin/bash
# shellcheck disable=SC2154 # the listener exports the job's variables
# Simulates Runner.Worker: runs the steps of the one job, and reports their result.
#
# The hooks are steps (actions/runner, src/Runner.Worker/JobExtension.cs `InitializeJob`), the first and the last, each
# with the condition always(). A failed step fails the job but does not stop it: every later step's condition is evaluated
# (StepsRunner.cs `RunAsync`), so after a failed job-started hook, steps with always(), failure() or !cancelled() run. Only
# while the runner shuts down is no condition evaluated and no further step run (StepsRunner.cs, at
# `RunnerShutdownToken`); the current step is then interrupted.
set -u
# shellcheck source=ask.sh
. "$(dirname "${BASH_SOURCE[0]}")/ask.sh"

result=success shutting_down='' step=''
# Like ProcessInvoker.cs (src/Runner.Sdk, `CancelAndKillProcessTree`): SIGINT, SIGTERM after 7.5 s, then SIGKILL
# after 2.5 s. A shell with a child in the foreground ignores the SIGINT.
shut_down() {
  local signal
  shutting_down=1 result=failure
  for signal in INT:7.5 TERM:2.5 KILL:0; do
    [ -n "$step" ] && kill "-${signal%:*}" "$step" 2>/dev/null || return 0
    timeout "${signal#*:}" tail --pid="$step" -s 0.1 -f /dev/null
  done
}
trap shut_down USR1 TERM # the listener's message, or the system's (Worker.cs, `Worker_Unloading`)

# run CONDITION COMMAND…: runs one step. The condition is success(), failure() or always().
run() {
  local condition=$1 code
  shift
  [ -z "$shutting_down" ] || return 0
  [ "$condition" = always ] || [ "$condition" = "$result" ] || return 0
  { trap - INT QUIT; "$@"; } & # bash makes background processes ignore these two; the real worker does not
  step=$!
  wait "$step"
  code=$?
  # A signal interrupts the wait, not the step.
  while kill -0 "$step" 2>/dev/null; do wait "$step"; code=$?; done
  step=''
  [ "$code" = 0 ] || result=failure
}

hook() { [ "$hooks" != 1 ] || [ -z "$1" ] || exec bash -e "$1"; }

begin() { ask POST "/runner/job/$job/began?session=$session"; }

# The job's main step. The world decides how long it takes.
work() {
  begin
  if [ -n "$crash_ms" ]; then
    sleep "$((crash_ms / 1000)).$(printf %03d "$((crash_ms % 1000))")"
    echo "An error occurred: the runner crashed."
    kill -KILL "$listener" "$$"
  fi
  while :; do
    ask GET "/runner/job/$job/over?session=$session"
    case $status in
      200) value conclusion >"$outcome"
           return 0 ;;
      204) ;;
      000 | 5*) sleep 1 ;;
      *) return 1 ;;
    esac
  done
}

# Typical clean-up steps: one with `if: always()`, and one with `if: failure()`. For the world a job has begun as soon as
# any of its steps runs.
clean_up() {
  line "The clean-up runs ($1, $(id -un))."
  [ -n "$(<"$outcome")" ] || begin
}

outcome=$PWD/.outcome listener=$PPID
: >"$outcome"
run always hook "${ACTIONS_RUNNER_HOOK_JOB_STARTED:-}"
run success work
worked=$(<"$outcome")
[ -z "$worked" ] || [ "$result" = failure ] || result=$worked
run always clean_up 'always()'
run failure clean_up 'failure()'
run always hook "${ACTIONS_RUNNER_HOOK_JOB_COMPLETED:-}"
ask POST "/runner/job/$job/done?session=$session&conclusion=$result"
line "Job $GITHUB_JOB completed with result: $result"
