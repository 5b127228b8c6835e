#!/bin/bash
# The real loop over real ranks: every sample exactly once an epoch, every validation window once, prefetched as used.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
probe=$top_builddir/t/lib/loopprobe
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}"

# times WHAT N COUNT: numbers 0 .. N - 1 came COUNT times each, and no other.
times() {
    diff <(awk -v w="$1" '$1 == w { print $2 }' <<<"$out" | sort -n | uniq -c | awk '{ print $2, $1 }') \
        <(seq 0 $(($2 - 1)) | awk -v c="$3" '{ print $1, c }')
}
epochs() { # RANKS LAYOUT SAMPLES BATCH ACCUM SHARDS OPTION...: three epochs
    local n=$1 layout=$2 samples=$3 batch=$4 accum=$5 shards=$6 replicas
    shift 6
    replicas=$((shards ? shards : n))
    run "$top_builddir/ddp" run -n "$n" --layout "$layout" "$probe" "$samples" "$batch" "$accum" "$shards" \
        $((3 * ((samples + batch * accum * replicas - 1) / (batch * accum * replicas)))) 11 "$@"
    local name="$layout ranks, $samples samples, batch $batch, $accum micro-steps, $shards shards $*"
    is "$name: runs" "$rc" 0 || diag "$err"
}
for case in "1 1 101 4 1 0" "2 2 101 4 1 0" "3 3 101 4 3 0" "4 4 66 4 4 0" "4 2,2 97 2 1 0" "3 1,2 50 4 4 0" \
    "1 1 67 4 1 16" "2 2 67 4 1 16" "4 2,2 67 4 1 16" "8 8 17 2 1 8"; do
    # shellcheck disable=SC2086
    epochs $case
    read -r _ _ samples _ <<<"$case"
    ok "... every sample three times in three epochs" times sample "$samples" 3
    # 11 windows in loop_run, and again in loop_validate
    ok "... every window once a validation" times window 11 2
    is "... weighed by its count" "$(sed -n 's/^loss //p' <<<"$out")" 5
done
epochs 4 4 101 4 3 0 --ddp-order=distributed
is "... pads 101 samples to 104" "$(grep -c ^sample <<<"$out")" $((3 * 104))
done_testing
