#!/bin/bash
# Two ranks on one GPU, as a user meets it: the losses of two on the processor, in each mode; buckets that travel while
# gradients are computed; and one rank that is killed.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/gputrain.sh"
[ -n "${DDP_TEST_GPU:-}" ] || [ -e "$double/libnccl.so.2" ] || skip_all "no NCCL: this build lacks nccl.h"

two=(env "${nccl[@]}" "$ddp" run -n 2 "$gpu" "${small[@]}" --device cuda --ddp-share-device=on)
trains "two ranks on the processor" "$tmp/cpu2" "$ddp" run -n 2 "$cpu" "${small[@]}" --device cpu --steps 6
run "${two[@]}" --dtype f32 --steps 6 --log-json "$tmp/gpu2"
is "two ranks on one GPU" "$rc" 0 || diag "$err"
near "... the losses of two on the processor" "$tmp/gpu2" "$tmp/cpu2" 1e-4

run "${two[@]}" --dtype f32 --steps 6 --log-json "$tmp/zero" --ddp-zero=1
is "... with the optimizer spread over them" "$rc" 0 || diag "$err"
near "... the losses of two on the processor" "$tmp/zero" "$tmp/cpu2" 1e-4

run "${two[@]}" --dtype f32 --steps 6 --log-json "$tmp/fixed" --ddp-deterministic=on
is "... in the deterministic mode" "$rc" 0 || diag "$err"
near "... the losses of two on the processor" "$tmp/fixed" "$tmp/cpu2" 1e-4

# --- gradients travel while others are computed ---
run "${two[@]}" --steps 6 --ddp-bucket-mb="$bucket" --ddp-trace="$tmp/trace-%r.json"
is "buckets in a trace" "$rc" 0 || diag "$err"
if command -v python3 >/dev/null; then
    ok "... of which the first travels, on the GPU, before the last gradient is done there" \
        python3 "$top_srcdir/t/lib/tracecheck" "$tmp/trace-0.json" 6 gpu
else
    tap_result 1 "the order of buckets # SKIP no python3"
fi

# --- a rank that dies in mid-step ---
DDP_TEST_MARK=$tmp "${two[@]}" --steps 1000000 --log-json "$tmp/endless" >"$tmp/dies.out" 2>&1 &
launcher=$!
has_steps() { [ "$(wc -l 2>/dev/null <"$tmp/endless")" -ge 3 ]; }
victim() {
    local f
    for f in $(grep -lzsxF "DDP_TEST_MARK=$tmp" /proc/[0-9]*/environ); do
        grep -qzsxF RANK=1 "$f" || continue
        [ "$(readlink "${f%/environ}/exe")" != "$(realpath "$gpu")" ] || basename "${f%/environ}"
    done
}
ok "two ranks train" until_true 60 has_steps
pid=$(victim | head -n 1)
began=$SECONDS
kill -9 "$pid"
wait $launcher
is "a rank that is killed: exit code" "$?" 137
ok "... the other one is out soon" [ $((SECONDS - began)) -le 15 ]
like "... and says who died" "$(cat "$tmp/dies.out")" 'train(-emu)?: rank 0: .*rank 1 (\([^)]*\) )?died'
done_testing
