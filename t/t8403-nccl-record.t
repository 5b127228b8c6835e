#!/bin/bash
# Two ranks on one GPU while NCCL's calls are recorded (t/lib/nccltrace/trace.h): in training, with the optimizer spread
# over the ranks, in the deterministic mode, and when one of them is killed. In make check over the emulator and the double of NCCL; DDP_TEST_GPU=1, as
# contrib/gpu-check sets it, means the GPU and the NCCL that are here. DDP_TEST_TRACES is a folder for the traces,
# DDP_TEST_ABOUT a line for their heads; t/t8104-nccl-replay.t replays those that are committed.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/nccltraces.sh"
[ -n "${DDP_TEST_GPU:-}" ] || unset CUDA_VISIBLE_DEVICES
unset RANK WORLD_SIZE OMP_NUM_THREADS "${!SLURM@}" \
    "${!DDP_D@}" "${!DDP_B@}" "${!EMU_@}" "${!NCCLTRACE_@}"

if [ -n "${DDP_TEST_GPU:-}" ]; then
    scene_train=$top_builddir/train
    scene_env=(NCCL_NET=Socket NCCL_SOCKET_IFNAME==lo NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_MAX_CTAS=4)
    scene_library=$(real_library)
    [ -r "$scene_library" ] || skip_all "no NCCL: libnccl.so.2 cannot be opened"
    "$scene_train" --data "$top_srcdir/LICENSE" --steps 0 --device cuda >"$tmp/gpu" 2>&1 ||
        skip_all "needs a GPU: $(tail -n 1 "$tmp/gpu")"
else
    scene_train=$emulated_train scene_env=("${emulated_env[@]}") scene_library=$double/libnccl.so.2
    scenes+=" $emulated_scenes"
    [ -x "$scene_train" ] || skip_all "no C++ compiler"
fi
mkdir "$tmp/traces"

calls() { sed -nE 's/^[0-9]+ [0-9.]+ [0-9.]+ ([^ ]+).*/\1/p' "$tmp/traces/$1.rank$2.trace"; }
for scene in $scenes; do
    scene_script "$scene" >"$tmp/script"
    scene_run "$scene" NCCLTRACE_RECORD="$tmp/traces/$scene" NCCLDOUBLE_SCRIPT="$tmp/script" \
        NCCLTRACE_ABOUT="$scene${DDP_TEST_ABOUT:+: $DDP_TEST_ABOUT}"
    scene_ends "$scene" "$scene"
    case $scene in
    train | zero | fixed) want='end end' ;;
    killed) want='end allreduce' ;; # and the call that it was killed in
    broken) want='end end' ;;
    esac
    is "... both traces end as their processes do" "$(for r in 0 1; do calls "$scene" $r | tail -n 1; done | xargs)" \
        "$want"
done
is "with zero=1 gradients go to their owners, values come back" \
    "$(calls zero 0 | grep -E '^(reduce_scatter|allgather)$' | sort -u | xargs)" "allgather reduce_scatter"
is "the deterministic mode lets NCCL add nothing" "$(calls fixed 0 | grep -cE '^(allreduce|reduce_scatter)$')" 0
ok "... but move" grep -q 'recv c0 [0-9]* float32 peer 1 = ' "$tmp/traces/fixed.rank0.trace"
is "who hears of a death aborts, and does not finish" \
    "$(calls killed 0 | grep -E '^(abort|finalize|destroy)$' | xargs)" abort
is "no id is in a trace" "$(cat "$tmp/traces"/*.trace | grep -c nccldouble.)" 0

if [ -n "${DDP_TEST_TRACES:-}" ]; then
    mkdir -p "$DDP_TEST_TRACES"
    for f in "$tmp/traces"/*.trace; do
        version=$(sed -nE 's/^# NCCL ([0-9.]+), emulated.*/\1-emulated/p; t; s/^# NCCL ([0-9.]+)$/\1/p' "$f")
        ok "kept: $version-${f##*/}" cp "$f" "$DDP_TEST_TRACES/$version-${f##*/}"
    done
fi
done_testing
