# shellcheck shell=bash disable=SC2034,SC2154 # what it reads and sets is the sourcing script's
# How the stand-ins for listener and worker talk to the world; sourced by both.

# ask METHOD PATH [curl options]: sets $status and $answer; a lost connection is status 000. It waits in a way that a
# signal can interrupt. The world is reached without the proxy that a pool may name.
ask() {
  local method=$1 path=$2 file=$PWD/.answer.$BASHPID
  shift 2
  curl -q -sS --noproxy '*' -X "$method" -w '\n%{http_code}' --max-time 40 "$@" "$world$path" >"$file" 2>/dev/null &
  wait $!
  answer=$(<"$file")
  rm -f "$file"
  status=${answer##*$'\n'}
  answer=${answer%$'\n'*}
}
value() { sed -n "s/^$1=//p" <<<"$answer"; }
line() { echo "$(date -u '+%Y-%m-%d %H:%M:%SZ'): $*"; }
