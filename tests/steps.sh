# Sourced by scripts that run many steps: names and times each step, and ends the script at the first that fails.

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

# Prints how long each step took.
steps_done() {
    printf '\n'
    printf '%s\n' "${summary[@]}"
    printf '%5d s  in all\n' $((SECONDS - begun_all))
}
