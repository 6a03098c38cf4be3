# Installs an agent, or replaces the machine's: agent.sh [URL [SHA256]]. Without a URL it installs the newest release on
# github.com. The supervisor runs it as root, with bash; if it fails, the boot fails, and an earlier agent is unchanged. An
# archive is used only if it has a digest that GitHub published. Optional: MUSTER_RUNNER_DIR, MUSTER_RUNNER_USER.
# shellcheck shell=bash
set -euo pipefail
url=${1:-} sha256=${2:-}
runner_dir=${MUSTER_RUNNER_DIR:-/opt/actions-runner}
runner_user=${MUSTER_RUNNER_USER:-runner}
say() { echo "muster: $*"; }

# Downloads only by HTTPS, also after a redirect. Tests use a server on this machine.
download() {
  local protocols='=https'
  case "${!#}" in http://127.0.0.1:*) protocols='=http' ;; esac
  curl -fsSL --proto "$protocols" --proto-redir '=https' --retry 5 --retry-all-errors "$@"
}

releases=https://github.com/actions/runner/releases
newest() {
  local version arch
  version=$(curl -fsS --proto '=https' --retry 5 --retry-all-errors -o /dev/null -w '%{redirect_url}' "$releases/latest")
  version=${version##*/v}
  arch=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
  echo "$releases/download/v$version/actions-runner-linux-$arch-$version.tar.gz"
}

# Prints the SHA-256 that github.com publishes for this archive, if there is one.
published() {
  local file=${1##*/} version
  version=${file##*-}
  download "https://api.github.com/repos/actions/runner/releases/tags/v${version%.tar.gz}" | python3 -I -c 'import json, sys
for asset in json.load(sys.stdin)["assets"]:
    if asset["name"] == sys.argv[1]:
        print((asset.get("digest") or "").replace("sha256:", "", 1))' "$file"
}

[ -n "$url" ] || url=$(newest)
say "taking the runner from $url"
[ -n "$sha256" ] || sha256=$(published "$url") || true
if [ -z "$sha256" ]; then
  say "neither GitHub's list of agents nor github.com has a digest of this archive, so it is not installed. An image that has the agent needs no download"
  exit 1
fi
# The archive is unpacked before it is verified, so without root's permissions.
as_user=()
[ "$runner_user" = "$(id -un)" ] || as_user=(runuser -u "$runner_user" --)
new=$runner_dir/.new

# Unpacks the archive while it downloads, into a folder of its own, and prints its SHA-256. `tee` feeds both.
unpack() {
  rm -rf "$new"
  "${as_user[@]}" mkdir -p "$new"
  { download --retry 0 "$url" | tee >(sha256sum >&3) | "${as_user[@]}" tar -xzf - -C "$new" >&2; } 3>&1
}

got=
# Each attempt starts with an empty folder, so curl must not retry by itself.
for pause in 0 1 2 4 8 16; do
  sleep "$pause"
  ! got=$(unpack) || break
  got=
done
if [ "${got%% *}" != "$sha256" ]; then
  rm -rf "$new"
  [ -z "$got" ] || say "this is not the archive that GitHub lists: its digest is another"
  exit 1
fi
# Replaces only what the agent itself replaces in an update. The image's settings in this folder stay.
rm -rf "$runner_dir/bin" "$runner_dir/externals"
find "$new" -mindepth 1 -maxdepth 1 -exec mv -ft "$runner_dir" {} +
rmdir "$new"
