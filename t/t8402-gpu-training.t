#!/bin/bash
# Training on a GPU as a user meets it: losses of the processor, the same bits again, checkpoints from GPU to processor
# and back, two ranks on one GPU, one of which is killed, and more than fits into memory. In make check over the
# emulator and the double of NCCL; DDP_TEST_GPU=1, as contrib/gpu-check sets it, means the GPU that is here.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/training.sh"
[ -n "${DDP_TEST_GPU:-}" ] || unset CUDA_VISIBLE_DEVICES
unset RANK WORLD_SIZE OMP_NUM_THREADS "${!SLURM@}" "${!DDP_D@}" "${!DDP_B@}" "${!EMU_@}"
ddp=$top_builddir/ddp
cpu=$top_builddir/train
if [ -n "${DDP_TEST_GPU:-}" ]; then
    gpu=$top_builddir/train
    size=(--layers 4 --width 256 --heads 4 --context 256 --batch 8) bucket=1
    nccl=(NCCL_NET=Socket NCCL_SOCKET_IFNAME==lo NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_MAX_CTAS=4)
    "$gpu" --data "$top_srcdir/LICENSE" --steps 0 --device cuda >"$tmp/gpu" 2>&1 ||
        skip_all "needs a GPU: $(tail -n 1 "$tmp/gpu")"
else
    gpu=$top_builddir/t/lib/train-emu
    size=(--layers 1 --width 64 --heads 1 --context 16 --batch 2) bucket=0.02
    double=$top_builddir/t/lib/nccldouble/.libs
    nccl=(LD_LIBRARY_PATH="$double" NCCLDOUBLE_DIR="$tmp" NCCLDOUBLE_IN_ORDER=1)
    [ -x "$gpu" ] || skip_all "no C++ compiler"
fi
small=(--data "$top_srcdir/LICENSE" "${size[@]}" --val-windows 1 --warmup 0 --log-every 0)

# trains DESC LOG COMMAND...
trains() {
    local desc=$1 log=$2
    shift 2
    run "$@" --log-json "$log"
    is "$desc" "$rc" 0 || diag "$err"
}
losses() { sed -n 's/.*"loss": \([0-9.e+-]*\),.*/\1/p' "$1"; }
# near DESC LOG LOG RELATIVE: as many losses, none further apart.
near() {
    is "$1" "$(paste <(losses "$2") <(losses "$3") | awk -v most="$4" '
        { d = $1 > $2 ? $1 - $2 : $2 - $1; if (NF != 2 || !(d <= most * $2)) bad = bad " " $1 "/" $2; n++ }
        END { print n + 0 bad }')" "$(losses "$3" | wc -l)"
}
hash() { sed -n 's/^params hash //p' <<<"$out"; }

# --- one rank ---
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

# --- checkpoints ---
steady=(--lr 1e-3 --min-lr 1e-3) # the same, however many steps there are to be
# goes_on DESC FROM TO: trained to step 3 on one, the values are the same bits on the other, which trains to step 6.
goes_on() {
    local desc=$1 from=$2 to=$3 ckpt=$tmp/ckpt.$2 before
    local -A program=([cpu]=$cpu [cuda]=$gpu)
    local rest=(--dtype f32 --ckpt "$ckpt" --print-hash "${steady[@]}")
    trains "$desc: saved" "$tmp/log" "${program[$from]}" "${small[@]}" --device "$from" --steps 3 "${rest[@]}"
    before=$(hash)
    trains "... read" "$tmp/log" "${program[$to]}" "${small[@]}" --device "$to" --steps 3 "${rest[@]}"
    is "... the same bits" "$(hash)" "$before"
    trains "... went on" "$tmp/log" "${program[$to]}" "${small[@]}" --device "$to" --steps 6 "${rest[@]}"
    near "... with the losses of the processor alone" "$tmp/log" "$tmp/whole" 1e-4
}
trains "the processor alone" "$tmp/whole" "$cpu" "${small[@]}" --device cpu --steps 6 "${steady[@]}"
goes_on "from GPU to processor" cuda cpu
goes_on "from processor to GPU" cpu cuda

# --- more than fits ---
run "$gpu" "${small[@]}" --device cuda --steps 1 --layers 600 --width 6144 --heads 96
is "too large a model: exit code" "$rc" 1
like "... says how much, and what helps" "$err" 'out of memory.*(--batch|--recompute)'

# --- two ranks on one GPU ---
two=(env "${nccl[@]}" "$ddp" run -n 2 "$gpu" "${small[@]}" --device cuda --ddp-share-device=on)
trains "two ranks on the processor" "$tmp/cpu2" "$ddp" run -n 2 "$cpu" "${small[@]}" --device cpu --steps 6
run "${two[@]}" --dtype f32 --steps 6 --log-json "$tmp/gpu2"
if [ "$rc" != 0 ] && [[ "$err" =~ NCCL|nccl ]] && [ -z "${DDP_TEST_GPU:-}" ] && [ ! -e "$double/libnccl.so.2" ]; then
    tap_result 0 "two ranks on one GPU # SKIP no NCCL: this build lacks nccl.h"
    done_testing
    exit
fi
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
