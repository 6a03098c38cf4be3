# shellcheck shell=bash disable=SC2034,SC2154 # the variables belong to the sourcing script
# The calls of the simulated listener and worker to the world; sourced by both.

# ask METHOD PATH [curl options]: sets $status and $answer; a lost connection is status 000. A trap runs while it waits, and
# then the wait goes on: a worker that ended before its call would take the call with it. It does not use a proxy that the
# pool configures.
ask() {
  local method=$1 path=$2 file=$PWD/.answer.$BASHPID
  shift 2
  curl -q -sS --noproxy '*' -X "$method" -w '\n%{http_code}' --max-time 40 "$@" "$world$path" >"$file" 2>/dev/null &
  while kill -0 $! 2>/dev/null; do wait $!; done
  answer=$(<"$file")
  rm -f "$file"
  status=${answer##*$'\n'}
  answer=${answer%$'\n'*}
}
value() { sed -n "s/^$1=//p" <<<"$answer"; }
line() { echo "$(date -u '+%Y-%m-%d %H:%M:%SZ'): $*"; }
