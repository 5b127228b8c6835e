#!/bin/bash
# Optimizer state spread over the ranks (--ddp-zero=1): the same bits as without, a smaller state, and a rank that dies
# while values are gathered is named by the others.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/cluster.sh"
train=$top_builddir/train
probe=$top_builddir/t/unit/train-probe
text=/usr/share/common-licenses/GPL-3
unset RANK WORLD_SIZE OMP_NUM_THREADS "${!SLURM@}" "${!DDP_@}"
mkdir -m 777 "$tmp/logs"
opts=(--data $text --context 32 --layers 2 --width 64 --heads 4 --batch 2 --steps 25 --seed 5 --val-windows 4
    --log-every 0 --print-hash)

ranks() { # LAYOUT COMMAND...
    local n=$((${1//,/ + }))
    run "$top_builddir/ddp" run -n $n --layout "$@"
}
# Every digit of every line but the time, and the parameters.
bits() { # NAME: of its log and of $out
    sed 's/"tokens_per_s": [^,]*, //' "$tmp/logs/$1"
    grep 'params hash' <<<"$out"
}
same() { # DESC COMMAND...: with and without, twice the same bits
    local desc=$1 want
    shift
    rm -f "$tmp/logs/with" "$tmp/logs/without"
    "$@" --ddp-zero=0 --log-json "$tmp/logs/without"
    is "$desc: runs without" "$rc" 0 || diag "$err"
    want=$(bits without)
    is "$desc: ... to the end" "$(wc -l <<<"$want")" 27
    "$@" --ddp-zero=${stage:-1} --log-json "$tmp/logs/with"
    is "$desc: runs with" "$rc" 0 || diag "$err"
    ok "$desc: the same bits" [ "$(bits with)" = "$want" ]
}

for layout in 1 2 3 4 2,2 1,1 2,1 1,3 1,1,1,1; do
    same "nodes of $layout" ranks $layout "$train" "${opts[@]}"
done
same "many small buckets" ranks 2,2 "$train" "${opts[@]}" --ddp-bucket-mb=0.01
same "accumulation" ranks 2 "$train" "${opts[@]}" --accum 2
same "16-bit gradients" ranks 2,2 "$train" "${opts[@]}" --ddp-compress=bf16 --ddp-bucket-mb=0.05
same "SGD" ranks 3 "$train" "${opts[@]}" --optimizer sgd
same "shards" ranks 2,2 "$train" "${opts[@]}" --shards 8

# By default, on one node: who steps what follows from the first buckets, whatever the planner makes of them later.
big=("${opts[@]}" --width 128 --layers 4)
stage=auto same "auto" ranks 2 "$train" "${big[@]}"
stage=auto same "auto, 16-bit gradients" ranks 3 "$train" "${big[@]}" --ddp-compress=bf16

# A rank that runs out of data goes along with the others' steps, and so it gathers (t4104 compares the values).
ranks 2,2 "$top_builddir/t/lib/apiprobe" join --ddp-zero=1 --ddp-bucket-mb=0.001
is "ranks with fewer steps join" "$rc $(grep -cx ok <<<"$out")" "0 4"

# --- the state ---
state() { # LAYOUT [OPTION...]: bytes on rank 0
    ranks "$1" "$train" "${opts[@]}" --steps 1 --ddp-zero=1 "${@:2}"
    sed -n 's/^optimizer state: \([0-9]*\) bytes .* of \([0-9]*\) .*/\1 \2/p' <<<"$out"
}
is "alone: nothing to spread" "$(state 1)" ""
for layout in 2 4 2,2; do
    read -r part whole <<<"$(state $layout)"
    ok "nodes of $layout: rank 0 keeps its share ($part of $whole bytes)" \
        awk -v p="$part" -v w="$whole" -v n=$((${layout//,/ + })) 'BEGIN { exit !(p > 0.8 * w / n && p < 1.2 * w / n) }'
done

like "auto: spread on one node" "$(state 2 "${big[@]}" --steps 1 --ddp-zero=auto)" "^[0-9]+ [0-9]+$"
is "auto: not between nodes" "$(state 1,1 "${big[@]}" --steps 1 --ddp-zero=auto)" ""
is "auto: not in one rank" "$(state 1 "${big[@]}" --steps 1 --ddp-zero=auto)" ""
is "auto: not below a megabyte" "$(state 2 --ddp-zero=auto)" ""
is "0: never" "$(state 2 "${big[@]}" --steps 1 --ddp-zero=0)" ""

# --- a rank that dies while values are gathered ---
for layout in 3 1,1,1; do
    ranks $layout env PROBE_FAULT=die-in-gather "$probe" "${opts[@]}" --ddp-zero=1 --ddp-bucket-mb=0.05
    is "nodes of $layout: rank 1 dies in the gather: exit code" "$rc" 137
    is "nodes of $layout: ... the two others name it" "$(grep -c "rank 1 ([^)]*) died" <<<"$err")" 2
done

# --- under Slurm, on nodes with networks of their own ---
cluster_up 2 --netns
same "srun" cluster_run srun --ddp=on -N2 -n4 --ntasks-per-node=2 "$train" "${opts[@]}"
done_testing
