#!/bin/bash
# Gradients of several (emulated) GPUs, summed in a fixed order on request: the processor's bits, over a double of NCCL
# that adds in another order.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/nccl.sh"
unset RANK WORLD_SIZE CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}"
probe=$top_builddir/t/lib/gpuprobe
ddp=$top_builddir/ddp
export EMU_DEVICES=4 NCCLDOUBLE_IN_ORDER=1 NCCLDOUBLE_BACKWARDS=1

# same DESC LAYOUT ARGUMENT...: on request the lines that the processor prints ($want), of every rank.
same() {
    local desc=$1 layout=$2 n=0 k
    shift 2
    for k in ${layout//,/ }; do n=$((n + k)); done
    run "$ddp" run -n "$n" --layout "$layout" "$probe" "$@" --ddp-device=cpu --ddp-zero=0
    want=$(sort <<<"$out")
    run "$ddp" run -n "$n" --layout "$layout" "$probe" --ddp-device=cuda --ddp-deterministic=on "$@"
    is "$desc: exit code" "$rc" 0 || diag "$err"
    is "$desc: the processor's bits" "$(sort <<<"$out")" "$want"
    is "$desc: values changed" "$(grep -c ^values <<<"$out") $(grep ^values <<<"$out" | sort -u | wc -l)" "$((2 * n)) 2"
}
same "three ranks" 3 4 clip=1
is "... moved by sends and receipts alone" \
    "$(grep -oE ' (send|recv|allreduce) ' "$NCCLDOUBLE_LOG" | sort -u | tr -d '\n')" " recv  send "
run "$ddp" run -n 3 "$probe" 4 clip=1 --ddp-device=cuda
is "without it NCCL adds" "$rc $(grep -o ' allreduce ' "$NCCLDOUBLE_LOG" | sort -u)" "0  allreduce "
ok "... gives other bits" [ "$(sort <<<"$out")" != "$want" ]
same "two ranks, shards, without being asked" 2 3 shards=8 --ddp-deterministic=off
is "... by sends and receipts, too" "$(tail -n 40 "$NCCLDOUBLE_LOG" | grep -c ' allreduce ')" 0
same "nodes of 2,1" 2,1 4 clip=1
same "nodes of 2,2, micro-steps, small buckets" 2,2 4 accum=2 --ddp-bucket-mb=0.01
for wire in bf16 f16; do
    same "nodes of 1,2, gradients as $wire" 1,2 3 --ddp-compress=$wire
done
rm "$NCCLDOUBLE_LOG"
same "nodes of 2,1, zero=1" 2,1 4 clip=1 --ddp-zero=1
is "... summed by sends and receipts alone" \
    "$(grep -oE ' (send|recv|reducescatter|allreduce|allgather) [0-9]+ float32' "$NCCLDOUBLE_LOG" |
        cut -d ' ' -f 2 | sort -u | paste -sd ' ')" \
    "allgather recv send"
same "nodes of 2,2, zero=1, micro-steps, small buckets" 2,2 4 accum=2 --ddp-bucket-mb=0.01 --ddp-zero=1
same "nodes of 1,2, zero=1, gradients as bf16" 1,2 3 --ddp-compress=bf16 --ddp-zero=1
same "two ranks, shards, zero=1" 2 3 shards=8 --ddp-deterministic=off --ddp-zero=1
is "nothing is left of it" "$(ls "$NCCLDOUBLE_DIR")" log
done_testing
