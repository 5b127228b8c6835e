# shellcheck shell=bash disable=SC2154
# ckptprobe.sh - for shell tests that save and resume through the public API (t/lib/ckptprobe.c): source it after
# tap.sh.
#
#   ranks LAYOUT ARGUMENT...   the program on the nodes of `ddp run --layout`, "2,1": sets $rc, $out and $err
#   bits                       of $out, what must be the same bits: steps and parameters

probe=$top_builddir/t/lib/ckptprobe
unset RANK WORLD_SIZE OMP_NUM_THREADS "${!SLURM@}" "${!DDP_@}"

ranks() {
    local n=$((${1//,/ + }))
    run "$top_builddir/ddp" run -n $n --layout "$1" "$probe" "${@:2}"
}
bits() { grep -E '^(step|params)' <<<"$out"; }
