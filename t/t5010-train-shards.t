#!/bin/bash
# With --shards=V training gives the same bits on 1, 2 and 4 ranks, however they lie on nodes, with 1 and 2 threads,
# over an epoch's end; a fault in the order of summation is noticed; what does not go together is refused.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/cluster.sh"
train=$top_builddir/train
probe=$top_builddir/t/unit/train-probe
whole=/usr/share/common-licenses/GPL-3
text=$tmp/text
unset RANK WORLD_SIZE OMP_NUM_THREADS "${!SLURM@}" "${!DDP_@}"
mkdir -m 777 "$tmp/logs"

# 243 samples: an epoch has 10 steps of 3 a shard, and one of 3 samples in all, in which 5 shards have none.
head -c 8455 $whole >"$text"
opts=(--data $text --context 33 --layers 2 --width 64 --heads 4 --batch 3 --shards 8 --steps 15 --seed 5 --val-windows 4
    --val-every 12 --log-every 0 --print-hash)

# Every digit of every line but the time, and the parameters.
bits() { # NAME: of its log and of $out
    sed 's/"tokens_per_s": [^,]*, //' "$tmp/logs/$1"
    grep 'params hash' <<<"$out"
}
same() { # NAME COMMAND...: the same bits as the first one
    local name=$1
    shift
    "$@" --log-json "$tmp/logs/$name"
    is "$name: runs" "$rc" 0 || diag "$err"
    ok "$name: the same bits" [ "$(bits "$name")" = "$want" ]
}
ranks() { # LAYOUT COMMAND...
    local n=$((${1//,/ + }))
    run "$top_builddir/ddp" run -n $n --layout "$@"
}

run "$train" "${opts[@]}" --log-json "$tmp/logs/first"
is "one rank trains" "$rc" 0 || diag "$err"
alone=$out
like "... of as many samples as said above" "$out" ' 243 samples'
like "... and says what the partial sums take" "$out" '8 shards, 8 a rank: [0-9]+ bytes \(1.4 MiB\) of partial sums'
want=$(bits first)
is "... all steps, over an epoch's end" "$(wc -l <<<"$want")" 18
plain=$want
for layout in 1 2 1,1 4 2,2 2,1,1 1,1,1,1 8; do
    same "nodes-of-$layout" ranks $layout "$train" "${opts[@]}"
done
export OMP_NUM_THREADS=2
same two-threads run "$train" "${opts[@]}"
same two-threads-two-ranks ranks 2 "$train" "${opts[@]}"
unset OMP_NUM_THREADS
same small-buckets ranks 2 "$train" "${opts[@]}" --ddp-bucket-mb=0.03
same other-small-buckets ranks 2,2 "$train" "${opts[@]}" --ddp-bucket-mb=0.1 --ddp-first-bucket-mb=0.01
same again ranks 2 "$train" "${opts[@]}"

# --- in DistributedSampler's order, of as many replicas as shards ---
run "$train" "${opts[@]}" --ddp-order=distributed --log-json "$tmp/logs/distributed"
ledger=$want want=$(bits distributed)
ok "DistributedSampler's order gives other bits" [ "$want" != "$ledger" ]
same distributed-on-two ranks 2 "$train" "${opts[@]}" --ddp-order=distributed
same distributed-on-two-nodes ranks 2,2 "$train" "${opts[@]}" --ddp-order=distributed
want=$ledger

# --- the comparison notices what it is for ---
export PROBE_FAULT=fold-order
ranks 1 "$probe" "${opts[@]}" --log-json "$tmp/logs/fault"
is "fault fold-order: runs" "$rc" 0 || diag "$err"
ok "fault fold-order is noticed" [ "$(bits fault)" != "$want" ]
unset PROBE_FAULT
ranks 2 "$train" "${opts[@]}" --shards 0 --batch 12 --log-json "$tmp/logs/none"
ok "without shards the bits are others" [ "$(bits none)" != "$want" ]

# --- rates and warm-up follow the shards ---
opts+=(--scale-lr --warmup 0.5e)
run "$train" "${opts[@]}" --log-json "$tmp/logs/scaled"
want=$(bits scaled)
ok "scaled rates are others" [ "$want" != "$plain" ]
is "--scale-lr is by shards: the first rate, 8 x 3e-3 / 6 steps of warm-up" \
    "$(sed -n '1s/.*"lr": \(0.004\).*/\1/p' "$tmp/logs/scaled")" 0.004
same scaled-on-four ranks 2,2 "$train" "${opts[@]}"

# --- what does not go together ---
refuses() { # DESC ERE LAYOUT OPTION...
    local desc=$1 why=$2 layout=$3
    shift 3
    ranks "$layout" "$train" --data $whole "$@"
    is "$desc: exit code" "$rc" 2
    is "$desc: said once" "$(grep -c '^train:' <<<"$err")" 1
    like "$desc: says it" "$err" "$why"
}
refuses "no power of two" '12 shards.*power of two' 2 --shards 12
refuses "three ranks" '8 shards on 3 ranks.*start 1, 2, 4' 3 --shards 8
refuses "fewer shards than ranks" '2 shards on 4 ranks.*at least 4 shards' 4 --shards 2
refuses "accumulation" '2 micro-steps.*1 micro-step and 2 times as many shards' 2 --shards 8 --accum 2
refuses "16-bit gradients" '8 shards.*no compression' 2 --shards 8 --ddp-compress=bf16
refuses "ranks in no order" '8 shards.*consecutive ranks on every node' 1,3 --shards 8
ranks 2 sh -c 'exec "$@" --seed $RANK' sh "$train" --data $whole --shards 4 --log-every 0 --steps 1
is "other seeds: exit code" "$rc" 2
like "... named with both ranks" "$err" 'rank 1: .*4 shards, seed 1, but rank 0 has .*, 4, 0: start every rank'
case $(head -1 <<<"$alone") in
*own\ *)
    ranks 2 sh -c '[ $RANK = 0 ] || export DDP_MATMUL=openblas; exec "$@"' sh "$train" --data $whole --shards 4 \
        --steps 1
    is "other matrix products: exit code" "$rc" 2
    like "... said by the rank that has them" "$err" \
        'rank 1: --shards=4: matrix products are OpenBLAS .* own .* on rank 0'
    ;;
*) diag "matrix products of our own: not on this processor" ;;
esac
refuses "too many" '1 x 1024 shards.*only.*smaller --batch' 1 --shards 1024 --batch 1

# --- under Slurm, on nodes with networks of their own ---
cluster_up 4 --netns
for case in "-N1 -n4" "-N2 -n4 --ntasks-per-node=2" "-N4 -n4" "-N2 -n2"; do
    # shellcheck disable=SC2086
    same "srun${case// /}-scaled" cluster_run srun --ddp=on $case "$train" "${opts[@]}"
done
done_testing
