#!/bin/bash
# Four ranks do what one rank does with a batch four times as large; and planted faults are noticed.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
data=/usr/share/common-licenses
probe=$top_builddir/t/unit/train-probe
export OMP_NUM_THREADS=1
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}"
run_deadline=120
model=(--layers 2 --width 64 --heads 2)

ranks() { # N COMMAND...
    local n=$1
    shift
    if [ "$n" -eq 1 ]; then run "$@"; else run "$top_builddir/ddp" run -n "$n" "$@"; fi
}
losses() { sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$1"; }
# Greatest difference of two loss curves of equal length.
apart() {
    paste <(losses "$1") <(losses "$2") | awk 'NF != 2 { print "bad"; exit }
        { d = $1 - $2; if (d < 0) d = -d; if (!(d <= m)) m = d } END { printf "%.3g %d\n", m, NR }'
}
within() { # "DIFFERENCE COUNT" LIMIT COUNT
    awk -v l="$2" -v n="$3" '{ exit !($1 != "bad" && $1 + 0 <= l && $2 == n) }' <<<"$1"
}
beyond() { awk -v l="$2" '{ exit !($1 + 0 > l) }' <<<"$1"; }

common=("${model[@]}" --data $data --seed 3 --lr 1e-3 --log-every 0 --val-windows 8)
steps=10
curve() { # NAME RANKS OPTION...: trains $steps steps, losses into $tmp/NAME
    local name=$1 n=$2
    shift 2
    ranks "$n" "$probe" "${common[@]}" --steps $steps --log-json "$tmp/$name" "$@"
    is "$name: runs" "$rc" 0 || diag "$err"
}
compare() { # DESC NAME NAME
    local d
    d=$(apart "$tmp/$2" "$tmp/$3")
    ok "$1 (largest difference $d)" within "$d" 1e-5 $steps
}

# --- the same losses ---
curve adamw-1 1 --batch 8
curve adamw-4 4 --batch 2
compare "AdamW: 4 ranks x 2 as 1 rank x 8" adamw-1 adamw-4
curve sgd-1 1 --batch 8 --optimizer sgd --clip 0
curve sgd-4 4 --batch 2 --optimizer sgd --clip 0
compare "SGD: 4 ranks x 2 as 1 rank x 8" sgd-1 sgd-4
curve accum-4 4 --batch 1 --accum 2 --optimizer sgd --clip 0
compare "SGD: 4 ranks x 1 x 2 micro-steps as 1 rank x 8" sgd-1 accum-4
curve dealt-1 1 --batch 8 --ddp-order=distributed
curve dealt-4 4 --batch 2 --ddp-order=distributed
compare "AdamW, DistributedSampler's order: 4 ranks x 2 as 1 rank x 8" dealt-1 dealt-4

# --- over an epoch's end: 74 samples, of which the tenth step has two, and two of the ranks none ---
head -c 8800 $data/GPL-3 >"$tmp/short"
whole=("${common[@]}")
steps=12
common=("${model[@]}" --data "$tmp/short" --context 112 --seed 3 --lr 1e-3 --log-every 0 --val-windows 8)
curve short-1 1 --batch 8
like "... of so many samples" "$out" ' 74 samples'
curve short-4 4 --batch 2
compare "a short step: 4 ranks x 2 as 1 rank x 8" short-1 short-4
curve short-accum 4 --batch 1 --accum 2
compare "a short step: 4 ranks x 1 x 2 micro-steps as 1 rank x 8" short-1 short-accum
curve short-unspread 4 --batch 2 --ddp-zero=0 --ddp-bucket-mb=100
compare "a short step, with one bucket and the optimizer's state everywhere" short-1 short-unspread
common=("${whole[@]}") steps=10
is "validation is the same number on 4 ranks with the same parameters" \
    "$(ranks 4 "$probe" "${common[@]}" --steps 1 --lr 0 --batch 2; grep 'val loss' <<<"$out")" \
    "$(ranks 1 "$probe" "${common[@]}" --steps 1 --lr 0 --batch 8; grep 'val loss' <<<"$out")"

# --- the same gradient, unclipped; seen through one step of SGD ---
one=("${model[@]}" --data $data --seed 3 --optimizer sgd --lr 1000 --min-lr 1000 --warmup 0 --clip 0 --weight-decay 0
    --steps 1 --val-windows 1)
gradient() { # OPTION...: on 4 ranks; prints the distance
    ranks 4 env PROBE_COMPARE="$tmp/gradient" "$probe" "${one[@]}" "$@"
    sed -n 's/^gradient differs by //p' <<<"$out"
}
ranks 1 env PROBE_WRITE="$tmp/gradient" "$probe" "${one[@]}" --batch 8
d=$(gradient --batch 2)
ok "the averaged gradient of 4 ranks ($d)" within "$d 1" 1e-6 1
d=$(gradient --batch 1 --accum 2)
ok "the averaged gradient of 4 ranks x 2 micro-steps ($d)" within "$d 1" 1e-6 1

# --- planted faults must be noticed by both ---
for fault in sum accum same-samples; do
    export PROBE_FAULT=$fault
    opts=(--batch 2)
    [ $fault = accum ] && opts=(--batch 1 --accum 2)
    curve "fault-$fault" 4 "${opts[@]}" --optimizer sgd --clip 0
    d=$(apart "$tmp/sgd-1" "$tmp/fault-$fault")
    ok "fault $fault: the losses tell ($d)" beyond "$d" 1e-5
    d=$(gradient "${opts[@]}")
    ok "fault $fault: the gradient tells ($d)" beyond "$d" 1e-6
    unset PROBE_FAULT
done

# --- no allocation in the loop ---
# 20 steps count; of libddp only the communicator's works, each some hundred bytes: two buckets and the tail a step.
# Once, with the last step, the ranks gather what they took.
allocates() { # LAYOUT OPTION...: fills $said
    local layout=$1 n=$((${1//,/ + }))
    shift
    run "$top_builddir/ddp" run -n $n --layout "$layout" env PROBE_ALLOCATIONS=1 "$probe" --layers 2 --data $data \
        --steps 26 --log-every 0 --batch 2 --context 32 --ddp-zero=0 "$@"
    said=$(sed -n 's/^allocations: //p' <<<"$out" | sort -u)
    is "nodes of $layout $*: every rank counts" "$rc $(grep -c '^allocations' <<<"$out")" "0 $n" || diag "$err"
}
for layout in 1 3; do
    for o in "" "--shards 8" --recompute "--accum 3 --ddp-compress=bf16"; do
        [ "$layout $o" = "3 --shards 8" ] && continue
        # shellcheck disable=SC2086
        allocates $layout --ddp-bucket-mb=100 $o
        like "... and allocates nothing but works" "$said" \
            '^0 in the model, 61 in libddp, the largest of [1-9][0-9]{2} bytes$'
    done
done
allocates 1,2
like "between nodes there are messages too, as small" "$said" \
    '^(0 in the model, [0-9]+ in libddp, the largest of [0-9]{1,3} bytes.?)+$'

# --- errors of several ranks ---
train=$top_builddir/train
ranks 4 "$train" --data "$tmp/missing"
is "the same error everywhere: exit code" "$rc" 1
is "the same error everywhere: said once" "$(grep -c missing <<<"$err")" 1
ranks 4 sh -c 'if [ "$RANK" = 2 ]; then exec "$0" --data "$1/missing"; else exec "$0" --data "$2"; fi' \
    "$train" "$tmp" $data
is "an error of one rank: exit code" "$rc" 1
is "an error of one rank: said once, by its number" "$(grep missing <<<"$err" | grep -c 'rank 2: ')" 1
done_testing
