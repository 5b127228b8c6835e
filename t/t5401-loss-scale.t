#!/bin/bash
# Loss scaling: no bit changes where nothing is rounded to 16 bits; with gradients in float16 the scale falls until
# nothing overflows, and a run that was stopped goes on with it.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
unset RANK WORLD_SIZE OMP_NUM_THREADS "${!SLURM@}" "${!DDP_@}"
ddp=$top_builddir/ddp
tiny=(--data /usr/share/common-licenses --layers 1 --width 32 --heads 2 --context 32 --val-windows 1 --log-every 1
    --print-hash --device cpu)

# trains STEPS ARGUMENT...: $losses, $hash
trains() {
    run "$ddp" run -n 2 "$top_builddir/train" "${tiny[@]}" --steps "$@"
    is "${*:2}: trains" "$rc" 0 || diag "$err"
    losses=$(sed -n 's/^step \([0-9]*\).* loss \([^ ]*\) .*norm \([^ ]*\) .*/\1 \2 \3/p' <<<"$out")
    hash=$(grep '^params hash' <<<"$out")
}
trains 4
without="$losses $hash"
for scale in dynamic 1024 0.125; do
    trains 4 --ddp-loss-scale=$scale
    is "$scale: the same bits" "$losses $hash" "$without"
done
run "$top_builddir/train" "${tiny[@]}" --steps 1 --ddp-loss-scale=3
is "one that is none: exit code" "$rc" 2
like "... says it" "$err" 'loss-scale=3 is not allowed: use auto, off, dynamic or a power of two'

# A step that is skipped is no step: it comes again.
f16=(--ddp-compress=f16 --ddp-loss-scale=dynamic --ckpt-every 5)
trains 10 "${f16[@]}" --ckpt "$tmp/a"
skipped=$(grep -c 'skipped: the gradient is not finite' <<<"$out")
ok "float16: the first steps are skipped, $skipped of them" test "$skipped" -ge 1
like "... and then they are not" "$out" 'step 10/10 loss'
is "... checkpoints are of steps that were due" "$(cd "$tmp/a" && echo step-*)" "step-00000005 step-00000010"
whole=$hash later=$(sed -n '/^step 5\//,$p' <<<"$out" | grep -c skipped)
run "$ddp" ckpt show "$tmp/a"
like "the checkpoint knows the scale" "$out" "loss scale +$((65536 >> skipped)), for [0-9]+ steps"
rm -r "$tmp/a/step-00000010"
trains 10 "${f16[@]}" --ckpt "$tmp/a"
like "goes on" "$out" "resumed from $tmp/a/step-00000005"
is "... with the scale that it had" "$(grep -c skipped <<<"$out")" "$later"
is "... to the same bits" "$hash" "$whole"

# At such a rate no step but the first two is taken. A checkpoint of a stop then has skipped steps in it.
diverges() { # FOLDER [VARIABLE...]
    run env "${@:2}" "$ddp" run -n 2 "$top_builddir/t/unit/train-probe" "${tiny[@]}" --steps 4 --val-every 1 \
        --optimizer sgd --lr 1000 --warmup 0 --clip 0 --ddp-compress=f16 --log-json "$1.json" --ckpt "$1" --ckpt-every 0
}
bits() { sed 's/"tokens_per_s": [^,]*, //' "$1"; }
diverges "$tmp/never"
is "a rate at which training diverges: exit code, and steps that are skipped" \
    "$rc $(grep -c '"step": 2,.*"skipped": true' "$tmp/never.json")" "1 63" || diag "$err"
diverges "$tmp/stop" PROBE_STOP=5
is "stopped when 3 were skipped: exit code, and how many the checkpoint holds" \
    "$rc $("$ddp" ckpt show "$tmp/stop" | grep -o '[0-9]* steps in a row')" "75 3 steps in a row" || diag "$err"
diverges "$tmp/stop"
is "... goes on to the same end" "$rc" 1
is "... with the same log" "$(bits "$tmp/stop.json")" "$(bits "$tmp/never.json")"

# After a step that is skipped there is nothing new to validate.
trains 2 --ckpt "$tmp/b"
trains 4 --ckpt "$tmp/b" --val-every 2 "${f16[@]}"
ok "skipped after step 2" grep -q '^step 2/4 .*skipped' <<<"$out"
is "... which is validated once" "$(grep -c 'val loss' <<<"$out")" 2 || diag "$out"
done_testing
