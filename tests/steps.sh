# Sourced by the scripts that run many steps: each is named and timed, and the first that fails ends the script.

begun_all=$SECONDS
summary=()

# step NAME COMMAND…
step() {
    local name=$1 begun=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    if ! "$@"; then
        printf '\n== FAILED: %s, after %d s\n' "$name" $((SECONDS - begun)) >&2
        exit 1
    fi
    summary+=("$(printf '%5d s  %s' $((SECONDS - begun)) "$name")")
}

# How long each step took.
steps_done() {
    printf '\n'
    printf '%s\n' "${summary[@]}"
    printf '%5d s  in all\n' $((SECONDS - begun_all))
}
