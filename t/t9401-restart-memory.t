#!/bin/bash
# ./train killed 20 times in a row at random steps, single ranks and whole nodes, and started again in the same
# allocation: the end and every line of the log are the undisturbed run's, from memory and from files; with the
# optimizer's state spread over the ranks, and with shards. SEED=N does the same again.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/cluster.sh"
mkdir -m 777 "$tmp/out"
cluster_up 2
run_deadline=600
harm=
seed=${SEED:-$(date +%s)}
diag "SEED=$seed"
RANDOM=$seed
args=(--data /usr/share/common-licenses --layers 1 --width 32 --heads 2 --context 32 --batch 2 --steps 2200
    --val-windows 4 --log-every 0 --print-hash --ckpt-every 100)
place=(-N2 -n4 --ntasks-per-node=2 -m block)
hash_of() { grep -oE 'params hash.*' <<<"$1"; }
steps_of() { grep '"loss"' "$1" | sed 's/, "tokens_per_s.*//'; } # without what follows the clock

# No rank twice in a row: three times would be a loop. Every fifth death is that of a node, after HARM.
plan() { # HARM
    local last=0 rank i
    for i in {1..20}; do
        rank=$(((last + 1 + RANDOM % 3) % 4))
        if [ $((i % 5)) = 0 ]; then
            rank=$((2 - last / 2 * 2)) # the other node's first
            echo "$rank,$((rank + 1)) $((i * 100 + RANDOM % 90)) $1"
            rank=$((rank + RANDOM % 2))
        elif [ $((i % 5)) = 1 ] && [ $i != 1 ]; then
            rank=$(((2 - last / 2 * 2) + RANDOM % 2))
            echo "$rank $((i * 100 + RANDOM % 90))"
        else
            echo "$rank $((i * 100 + RANDOM % 90))"
        fi
        last=$rank
    done
}

try() { # NAME FROM OPTION...
    local name=$1 from=$2 want
    shift 2
    cluster_run srun --ddp=on "${place[@]}" "$top_builddir/train" "${args[@]}" "$@" --ckpt "$tmp/out/$name-0" \
        --log-json "$tmp/out/$name-0.log"
    want=$(hash_of "$out")
    plan "$harm" >"$tmp/kills"
    diag "$(tr '\n' ';' <"$tmp/kills")"
    cluster_run srun --ddp=on,restarts=25 "${place[@]}" "$top_srcdir/t/lib/victim" "$tmp/kills" \
        "$tmp/out/$name.log" "$top_builddir/train" "${args[@]}" "$@" --ckpt "$tmp/out/$name" \
        --log-json "$tmp/out/$name.log"
    is "$name: 20 restarts, and the undisturbed run's end" \
        "$rc $(grep -c 'restart [0-9]* of 25' <<<"$err") $(hash_of "$out")" "0 20 $want" ||
        diag "$(grep '^ddp' <<<"$err")"
    is "... from $from" "$(grep -c "^resumed from $from, at step" <<<"$out")" 20 ||
        diag "$(grep -E 'resumed|warning' <<<"$out$err")"
    is "... and every line of the log" "$(steps_of "$tmp/out/$name.log" | cksum)" \
        "$(steps_of "$tmp/out/$name-0.log" | cksum)"
}

try plain memory --ddp-zero=0
try zero memory --ddp-zero=1
try shards memory --shards 8 --batch 1
try every-step memory --ddp-zero=1 --ddp-snapshot-every=1
harm=damage
try nodes memory --ddp-zero=1 # what each node that dies has kept is on the other one
harm=
try files ".*/step-[0-9]*" --ddp-zero=1 --ddp-snapshot-every=0
done_testing
