# shellcheck shell=bash
# training.sh - for shell tests that look for training processes. A run is marked by DDP_TEST_MARK in its environment.

# training MARK [RANK]: the processes of that run that train (not their launcher), by their environment.
training() {
    local f
    for f in $(grep -lzsxF "DDP_TEST_MARK=$1" /proc/[0-9]*/environ); do
        [[ "$(cat "${f%/environ}/comm" 2>/dev/null)" = @(train|train-probe) ]] || continue
        [ $# -lt 2 ] || grep -qzsxF "RANK=$2" "$f" || continue
        basename "${f%/environ}"
    done
}
