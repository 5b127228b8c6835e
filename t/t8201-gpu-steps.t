#!/bin/bash
# Training steps on (emulated) GPUs: the same bits as on the processor, for one rank and for several over the double of
# NCCL, which adds in the host communicator's order.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
unset RANK WORLD_SIZE CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}" "${!NCCL@}"
probe=$top_builddir/t/lib/gpuprobe
ddp=$top_builddir/ddp
export EMU_DEVICES=4

# same DESC RANKS ARGUMENT...: the same lines from the processor and from GPUs, of every rank.
same() {
    local desc=$1 n=$2 want
    shift 2
    run "$ddp" run -n "$n" "$probe" "$@" --ddp-device=cpu --ddp-zero=0
    [ "$rc" = 0 ] || diag "$err"
    want=$(sort <<<"$out")
    run "$ddp" run -n "$n" "$probe" "$@" --ddp-device=cuda
    is "$desc: exit code" "$rc" 0 || diag "$err"
    is "$desc: the same bits" "$(sort <<<"$out")" "$want"
    is "$desc: values changed" "$(grep -c ^values <<<"$out") $(grep ^values <<<"$out" | sort -u | wc -l)" "$((2 * n)) 2"
}
same "one rank" 1 5
same "clipped" 1 4 clip=1
same "micro-steps" 1 4 accum=3
same "plain SGD" 1 4 sgd=on clip=1
same "a step that is skipped" 1 5 nan=2
same "a parameter that is not always used" 1 5 unused=on
for v in 1 2 8; do
    same "$v shards" 1 3 clip=1 shards=$v
done
same "small buckets" 1 4 --ddp-bucket-mb=0.01 --ddp-first-bucket-mb=0.001
for wire in bf16 f16; do
    same "gradients as $wire" 1 4 clip=1 --ddp-compress=$wire
done
same "values kept in float16" 1 4 f16=on --ddp-loss-scale=off

# padded DESC RANKS ARGUMENT...: rows behind the parameters, with something in their gradients, change nothing.
padded() {
    local want
    run "$ddp" run -n "$2" "$probe" "${@:3}" --ddp-device=cpu --ddp-zero=0
    want=$(sort <<<"$out")
    same "rows behind parameters, $1" "${@:2}" pad=on
    is "rows behind parameters, $1: as without them" "$(sort <<<"$out")" "$want"
}
padded "clipped, micro-steps" 1 3 clip=1 accum=2
run "$ddp" run -n 2 "$probe" 3 clip=1 --ddp-device=cpu --ddp-zero=0
want=$(sort <<<"$out")
for way in --ddp-zero=1 "--ddp-zero=0 hook=on"; do
    # shellcheck disable=SC2086
    run "$ddp" run -n 2 "$probe" 3 clip=1 pad=on --ddp-device=cpu $way --ddp-bucket-mb=0.01
    is "rows behind parameters, on processors, $way: as without them" "$rc $(sort <<<"$out")" "0 $want" || diag "$err"
done
export EMU_STREAMS=deferred
same "work that is done late" 1 4 clip=1 accum=2
same "... shards" 1 3 shards=4
same "... gradients as bf16" 1 4 --ddp-compress=bf16
unset EMU_STREAMS

# The optimizer's state spread over the ranks: on one it is all there.
same "zero=1 on one rank" 1 4 clip=1 --ddp-zero=1
EMU_STREAMS=deferred same "... work that is done late" 1 4 accum=2 --ddp-compress=bf16 --ddp-bucket-mb=0.01 --ddp-zero=1

# What a GPU cannot do yet is refused.
refused() { # ERE ARGUMENT...
    run "$probe" 3 --ddp-device=cuda "${@:2}"
    is "${*:2}: refused" "$rc $out" "1 "
    like "... says why" "$err" "$1"
}
refused 'a hook \(ddp_hook\) computes on the processor, .*: use the option compress, or device cpu' hook=on
run "$probe" 3 --ddp-device=cuda shards=4 --ddp-compress=bf16
like "shards and gradients in 16 bits: refused" "$rc:$err" '^1:.*4 shards: gradients must travel .*compress=none'
same "zero=auto, which is off" 1 3 --ddp-zero=auto

double=$top_builddir/t/lib/nccldouble/.libs
if [ -e "$double/libnccl.so.2" ]; then
    export LD_LIBRARY_PATH=$double${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} NCCLDOUBLE_DIR=$tmp/double NCCLDOUBLE_IN_ORDER=1
    mkdir "$tmp/double"
    same "two ranks" 2 5 clip=1
    same "three ranks, micro-steps" 3 4 accum=2
    same "four ranks, small buckets" 4 4 clip=1 --ddp-bucket-mb=0.01
    same "two ranks, a step that is skipped" 2 4 nan=2
    same "two ranks, a parameter that is not always used" 2 5 unused=on
    for n in 1 2 4; do
        same "4 shards on $n" $n 3 clip=1 shards=4 --ddp-bucket-mb=0.01
        shards+=$(grep ^values <<<"$out" | sort -u)$'\n'
    done
    is "shards: the same values on any number of GPUs" "$(sort -u <<<"$shards" | grep -c .)" 2
    same "two ranks, one of which runs out of data" 2 4 join=on
    padded "three ranks, small buckets" 3 3 clip=1 --ddp-bucket-mb=0.01
    padded "two ranks, shards" 2 3 clip=1 shards=4
    padded "two ranks, gradients as bf16" 2 3 clip=1 --ddp-compress=bf16
    padded "three ranks, zero=1, small buckets" 3 3 clip=1 accum=2 --ddp-bucket-mb=0.01 --ddp-zero=1
    for wire in bf16 f16; do
        same "three ranks, gradients as $wire" 3 4 clip=1 --ddp-compress=$wire
    done
    for n in 2 3 4; do
        same "zero=1 on $n" $n 5 clip=1 --ddp-zero=1
        same "... small buckets, micro-steps" $n 3 accum=2 --ddp-bucket-mb=0.01 --ddp-first-bucket-mb=0.001 --ddp-zero=1
    done
    same "zero=1, a step that is skipped, loss scale" 3 4 nan=2 --ddp-loss-scale=dynamic --ddp-zero=1
    same "zero=1, a parameter that is not always used" 2 5 unused=on --ddp-bucket-mb=0.01 --ddp-zero=1
    same "zero=1, values kept in float16" 2 3 f16=on --ddp-loss-scale=off --ddp-zero=1
    same "zero=1, plain SGD" 2 3 sgd=on clip=1 --ddp-zero=1
    same "zero=1, one runs out of data" 2 4 join=on --ddp-zero=1
    same "zero=1, shards" 2 3 clip=1 shards=4 --ddp-zero=1
    same "zero=1, deterministic" 3 3 clip=1 --ddp-deterministic=on --ddp-zero=1
    # Two buckets, of five and four units of 4096 elements, in halves; between them the sums of nine blocks.
    NCCLDOUBLE_LOG=$tmp/calls run "$ddp" run -n 2 "$probe" 1 --ddp-zero=1 --ddp-bucket-mb=0.04 --ddp-device=cuda
    is "zero=1: sums go to their owners, values come back" \
        "$(sed -nE 's/^rank 0 ((allreduce|reducescatter|allgather) .*)/\1/p' "$tmp/calls" | paste -sd ,)" \
        "reducescatter 12288 float32,reducescatter 8192 float32,"\
"allreduce 9 float64 in a group,allgather 12288 float32,allgather 8192 float32"
    for wire in bf16 f16; do
        same "zero=1, gradients as $wire" 3 4 clip=1 --ddp-compress=$wire --ddp-bucket-mb=0.01 --ddp-zero=1
    done
    # Memory that NCCL does not give, or not register; and as a window, where operations are at one offset on all ranks.
    for lines in "rank 1 alloc error 1 no" "alloc error 1 no" "rank 0 register error 4 no" "version 23007"; do
        export NCCLDOUBLE_SCRIPT=$tmp/script
        echo "$lines" >"$tmp/script"
        for zero in 0 1; do
            same "NCCL: $lines, zero=$zero" 3 4 clip=1 --ddp-compress=bf16 --ddp-bucket-mb=0.01 --ddp-zero=$zero
        done
        same "NCCL: $lines, unencoded" 2 3 unused=on
    done
    NCCLDOUBLE_LOG=$tmp/windows run "$ddp" run -n 2 "$probe" 1 --ddp-zero=1 --ddp-device=cuda
    is "NCCL 2.30.7, zero=1: gradients are a window, values are not" \
        "$(sed -nE 's/^rank 0 (window|register) [0-9]+/\1/p' "$tmp/windows" | xargs)" "register window"
    unset NCCLDOUBLE_SCRIPT
    hostids() { # RANKS-WITH-A-NODE-OF-THEIR-OWN GPUS: NCCL takes ranks that share a GPU for nodes, and no others
        run env EMU_DEVICES="$2" NCCLDOUBLE_LOG="$tmp/log.$2" "$ddp" run -n 2 "$probe" 1 --ddp-device=cuda \
            --ddp-share-device=on
        is "two ranks on $2 GPUs, which they may share" "$rc $(grep -c NCCL_HOSTID= "$tmp/log.$2")" "0 $1" ||
            diag "$err"
    }
    hostids 2 1
    hostids 0 2
    is "nothing is left of it" "$(ls "$tmp/double")" ""
else
    diag "several ranks: this build lacks nccl.h (libnccl-dev)"
fi
done_testing
