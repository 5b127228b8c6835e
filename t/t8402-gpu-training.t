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

# --- more than fits ---
run "$gpu" "${small[@]}" --device cuda --steps 1 --layers 600 --width 6144 --heads 96
is "too large a model: exit code" "$rc" 1
like "... says how much, and what helps" "$err" 'out of memory.*(--batch|--recompute)'
done_testing
