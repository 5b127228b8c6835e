#!/bin/bash
# Training on a GPU as a user meets it, on one rank: losses of the processor, the same bits again, and more than fits
# into memory.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/gputrain.sh"

trains "the processor" "$tmp/cpu" "$cpu" "${small[@]}" --device cpu --steps 6
for dtype in f32 bf16 f16; do
    trains "a GPU, $dtype" "$tmp/$dtype" "$gpu" "${small[@]}" --device cuda --dtype $dtype --steps 6 --print-hash \
        --ddp-loss-scale=256
    first=$(hash)
    like "... says on what" "$out" "cuBLASLt [0-9.]+ $dtype(, wgmma)? on "
    trains "... once more" "$tmp/again" "$gpu" "${small[@]}" --device cuda --dtype $dtype --steps 6 --print-hash \
        --ddp-loss-scale=256
    is "... the same bits" "$(losses "$tmp/again") $(hash)" "$(losses "$tmp/$dtype") $first"
done
near "float32: the processor's losses" "$tmp/f32" "$tmp/cpu" 1e-4
near "bfloat16: about the processor's losses" "$tmp/bf16" "$tmp/cpu" 2e-2
near "float16: about them, too" "$tmp/f16" "$tmp/cpu" 5e-3

# --- where its time goes: the GPU's time, which the host is ahead of ---
run env EMU_STREAMS=deferred "$gpu" "${small[@]}" --device cuda --steps 20 --ddp-record="$tmp/record"
is "with a record" "$rc" 0 || diag "$err"
# share PART...: of the last interval's time, in percent
share() {
    sed -n 's/.*"interval".*"wall_s": \([^,]*\),.*"parts": {\([^}]*\)}.*/\1 \2/p' "$tmp/record" | tail -n 1 |
        awk -v parts="$*" '{ n = split(parts, part, " "); for (i = 1; i <= n; i++) for (j = 2; j < NF; j += 2)
            if ($j == "\"" part[i] "\":") sum += $(j + 1); printf "%.0f\n", 100 * sum / $1 }'
}
ok "most of it is forward and backward" test "$(share forward backward)" -gt 50
ok "... forward its part of it" test "$(share forward)" -gt 10
ok "little is waiting for sums, where there are none" test "$(share exposed)" -lt 25

# --- more than fits ---
run "$gpu" "${small[@]}" --device cuda --steps 1 --layers 600 --width 6144 --heads 96
is "too large a model: exit code" "$rc" 1
like "... says how much, and what helps" "$err" 'out of memory.*(--batch|--recompute)'
done_testing
