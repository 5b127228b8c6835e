#!/bin/bash
# train on (emulated) GPUs against the processor: the same losses in float32, near ones in bfloat16 and float16, on one
# rank and on two over the double of NCCL; what it says of itself, and bad input.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/refuses.sh"
unset RANK WORLD_SIZE OMP_NUM_THREADS CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}" "${!NCCL@}"
train=$top_builddir/train
emulated=$top_builddir/t/lib/train-emu
ddp=$top_builddir/ddp
[ -x "$emulated" ] || skip_all "no emulated GPUs: they need a C++ compiler"
export EMU_DEVICES=2

# 18 samples of 16 tokens: the fifth step of four has two.
head -c 315 /usr/share/common-licenses/GPL-3 >"$tmp/data"
common=(--data "$tmp/data" --layers 2 --width 64 --heads 4 --context 16 --batch 4 --steps 6 --warmup 3)
common+=(--lr 3e-3 --seed 3 --log-every 0 --val-every 3 --print-hash)

losses() { sed -n 's/.*"\(val_\)\?loss": \([^,}]*\)[,}].*/\2/p' "$1"; }
# Greatest difference of two loss curves of equal length, relative, and that length.
apart() {
    paste <(losses "$1") <(losses "$2") | awk 'NF != 2 { print "bad"; exit }
        { d = ($1 - $2) / $1; if (d < 0) d = -d; if (!(d <= m)) m = d } END { printf "%.3g %d\n", m, NR }'
}
within() { awk -v l="$2" -v n="$3" '{ exit !($1 != "bad" && $1 + 0 <= l && $2 == n) }' <<<"$1"; }
hash_of() { sed -n 's/^params hash //p' "$tmp/$1.out"; }
# curve NAME COMMAND...: trains, losses into $tmp/NAME, output into $tmp/NAME.out
curve() {
    local name=$1
    shift
    run "$@" --log-json "$tmp/$name"
    is "$name: exit code" "$rc" 0 || diag "$err"
    printf '%s\n' "$out" >"$tmp/$name.out"
    like "$name: a hash, the same on all ranks" "$out" 'params hash [0-9a-f]{16}'
}
near() { # DESC NAME NAME LIMIT LINES
    local d
    d=$(apart "$tmp/$2" "$tmp/$3")
    ok "$1 (largest difference $d)" within "$d" "$4" "$5"
}

# --- one rank ---
curve cpu "$train" "${common[@]}" --device cpu
curve f32 "$emulated" "${common[@]}" --device cuda --dtype f32
near "float32 as on the processor, over an epoch's end, validation too" cpu f32 1e-5 8
curve late env EMU_STREAMS=deferred "$emulated" "${common[@]}" --device cuda --dtype f32
is "work that is done late: the same bits" "$(hash_of late)" "$(hash_of f32)"
curve again "$emulated" "${common[@]}" --device cuda --dtype f32 --recompute
is "--recompute: the same bits" "$(hash_of again)" "$(hash_of f32)"
like "... in less memory" "$out" 'activations: [0-9]+ bytes \([0-9.]+ MiB\) a rank, instead of [0-9]+'
curve accum "$emulated" "${common[@]}" --device cuda --dtype f32 --batch 1 --accum 4
near "four micro-steps of one sample as one of four" cpu accum 1e-5 8

common+=(--heads 1)
curve cpu1 "$train" "${common[@]}" --device cpu
curve bf16 "$emulated" "${common[@]}" --device cuda
like "heads of 64: bfloat16 unless told otherwise, attention by wgmma" "$out" \
    ', cuBLASLt [0-9.]+ bf16, wgmma on NVIDIA H200'
near "bfloat16 near the processor's float32" cpu1 bf16 2e-3 8
is "... but not the same" "$(apart "$tmp/cpu1" "$tmp/bf16" | awk '{ print ($1 > 1e-6) }')" 1
curve bf16-again "$emulated" "${common[@]}" --device cuda --recompute
is "bfloat16 with --recompute: the same bits" "$(hash_of bf16-again)" "$(hash_of bf16)"
curve mma "$emulated" "${common[@]}" --device cuda --no-wgmma
like "--no-wgmma: attention as on other GPUs" "$out" ', cuBLASLt [0-9.]+ bf16 on NVIDIA H200'
near "... with nearly the same losses" bf16 mma 1e-3 8

# --- float16: losses are scaled ---
short=("${common[@]}" --batch 2 --steps 4 --val-every 0) scaled=("${short[@]}" --device cuda --dtype f16)
curve short "$train" "${short[@]}" --device cpu
curve f16 "$emulated" "${scaled[@]}" --ddp-loss-scale=4096
like "float16 says so" "$out" ', cuBLASLt [0-9.]+ f16, wgmma on NVIDIA H200.*, parameters in f16 [0-9.]+'
near "float16 near the processor's float32, with a scale that fits" short f16 1e-4 5
curve skips "$emulated" "${scaled[@]}" --log-every 1 --ckpt "$tmp/scaled" --ckpt-every 2
skipped=$(grep -c 'step 0/4 .* skipped: the gradient is not finite' <<<"$out")
ok "the first steps overflow and are skipped, $skipped of them" [ "$skipped" -ge 1 ]
is "... no other" "$(grep -c skipped <<<"$out")" "$skipped"
run "$ddp" ckpt show "$tmp/scaled"
like "... each halves the scale, which the checkpoint knows" "$out" "loss scale +$((65536 >> skipped)), for 4 steps"
rm -r "$tmp/scaled/step-00000004"
run "$emulated" "${scaled[@]}" --log-every 1 --ckpt "$tmp/scaled"
is "... goes on with that scale" "$rc $(grep -c 'resumed from .*, at step 2' <<<"$out") $(grep -c skipped <<<"$out")" \
    "0 1 0"
is "... to the same bits" "$(sed -n 's/^params hash //p' <<<"$out")" "$(hash_of skips)"

# --- checkpoints go from one device to the other (t8411 has more of them) ---
saves=("${common[@]}" --ckpt "$tmp/ckpt" --ckpt-every 3)
curve saved "$emulated" "${saves[@]}" --device cuda --dtype f32
resumed=()
for device in cuda cpu; do
    rm -rf "$tmp/ckpt/step-00000006"
    run "$emulated" "${saves[@]}" --device $device --dtype f32
    like "$device: goes on from the middle" "$out" 'resumed from .*, at step 3'
    resumed+=("$(sed -n 's/^params hash //p; s/^step 6.*val loss \(.*\)...$/\1/p' <<<"$out")")
done
is "on a GPU: to the same bits" "${resumed[0]##*$'\n'}" "$(hash_of saved)"
is "on the processor: to the same loss" "${resumed[1]%%$'\n'*}" "${resumed[0]%%$'\n'*}"

# --- what it says ---
said=$(cat "$tmp/bf16.out")
like "memory, part by part" "$said" \
    'memory: [0-9.]+ MiB a rank: parameters [0-9.]+, gradients [0-9.]+, moments [0-9.]+, parameters in bf16 [0-9.]+, '\
'activations [0-9.]+; its GPU had 1024.0 free'
like "a live line has FLOP/s and their share of the peak" "$said" \
    'step 6/6 loss [^ ]+ .* tok/s [0-9]+ TFLOP/s [0-9.e-]+ MFU [0-9.]+%'
# 6 (2 * 12 * 64^2 + 256 * 64) + 6 * 2 * 16 * 64 operations a token
is "JSON too: operations by the formula, the share of an H200's" "$(sed -n '/tflops/{
    s/.*"tokens_per_s": \([^,]*\), "tflops": \([^,]*\), "mfu": \([^,]*\),.*/\1 \2 \3/p;q;}' "$tmp/bf16" |
    awk '{ f = $2 * 1e12 / $1 / 700416; m = $3 * 989e12 / ($2 * 1e12); e = 1e-6
           print (f > 1 - e && f < 1 + e && m > 1 - e && m < 1 + e) }')" 1
one=("${common[@]}" --steps 1 --warmup 0 --val-windows 1 --val-every 0)
run env EMU_NAME="Graphics 3000" "$emulated" "${one[@]}"
like "a GPU whose peak nobody knows: FLOP/s alone" "$out" 'TFLOP/s [0-9.e-]+'$'\n'
unlike "float32: FLOP/s alone" "$(cat "$tmp/f32.out")" MFU
unlike "the processor: neither" "$(cat "$tmp/cpu.out")" FLOP

# --- bad input ---
refuses "bfloat16 on the processor" 2 '--dtype=bf16 is for GPUs' "$train" "${one[@]}" --device cpu --dtype bf16
refuses "bfloat16 with other heads" 2 'needs heads of 64, and --width=64 over --heads=2 are 32 each.*--dtype=f32' \
    "$emulated" "${one[@]}" --device cuda --dtype bf16 --heads 2
refuses "no such type" 2 '--dtype=f64.*f32\|bf16\|f16' "$emulated" "${one[@]}" --dtype f64
refuses "float16 on the processor" 2 '--dtype=f16 is for GPUs' "$train" "${one[@]}" --device cpu --dtype f16
refuses "a GPU without memory for the products" 1 \
    'GPU 0 \(NVIDIA H200.*of 33554432 bytes for matrix products: out of memory, 9000000 free: take a smaller --batch' \
    env EMU_MEMORY=9000000 "$emulated" "${one[@]}" --device cuda
cure='take a smaller --batch, --recompute or --ddp-zero=1'
refuses "a GPU without memory for the activations" 1 \
    "cudaMalloc of [0-9]+ bytes for activations: out of memory, [0-9]+ free: $cure" \
    env EMU_MEMORY=36500000 "$emulated" "${one[@]}" --device cuda
refuses "a matrix library that does not open" 1 'cublasLtCreate: CUBLAS_STATUS_ALLOC_FAILED: .*memory' \
    env BLASLTDOUBLE_FAIL=create:1:3 "$emulated" "${one[@]}" --device cuda
refuses "a product that fails in a step" 1 \
    'rank 0: GPU 0 \(NVIDIA H200\): cublasLtMatmul of \[[0-9]+, [0-9]+\] x .* bf16: CUBLAS_STATUS_EXECUTION_FAILED' \
    env BLASLTDOUBLE_FAIL=matmul:20:13 "$emulated" "${one[@]}" --device cuda

# --- two ranks ---
double=$top_builddir/t/lib/nccldouble/.libs
if [ ! -e "$double/libnccl.so.2" ]; then
    diag "several ranks: this build lacks nccl.h (libnccl-dev)"
    done_testing
    exit
fi
export LD_LIBRARY_PATH=$double${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} NCCLDOUBLE_DIR=$tmp/double NCCLDOUBLE_IN_ORDER=1
mkdir "$tmp/double"
common+=(--heads 4)
curve two "$ddp" run -n 2 "$emulated" "${common[@]}" --device cuda --batch 2
near "two ranks x 2 as one x 4, over an epoch's end" cpu two 1e-5 8
curve two-accum "$ddp" run -n 2 "$emulated" "${common[@]}" --device cuda --batch 1 --accum 2
near "two ranks x 1 x 2 micro-steps as one x 4" cpu two-accum 1e-5 8
curve two-bf16 "$ddp" run -n 2 "$emulated" "${common[@]}" --heads 1 --device cuda --batch 2
near "bfloat16 near the processor's float32" cpu1 two-bf16 2e-3 8
curve two-spread "$ddp" run -n 2 "$emulated" "${common[@]}" --heads 1 --device cuda --batch 2 --ddp-zero=1
is "zero=1: the same bits" "$(hash_of two-spread)" "$(hash_of two-bf16)"
like "... from half of the optimizer's state" \
    "$(awk '/^optimizer state/ { if ($3 > .45 * $11 && $3 < .6 * $11) print "half" }
    /^memory/' "$tmp/two-spread.out")" '^half.memory: [0-9.]+ MiB a rank: .* moments [0-9.]+, '
for n in 1 2; do
    curve shards-$n "$ddp" run -n $n "$emulated" "${common[@]}" --device cuda --batch 2 --shards 2
done
is "two shards, on one GPU and on two: the same bits" "$(hash_of shards-1)" "$(hash_of shards-2)"
curve share env EMU_DEVICES=1 DDP_SHARE_DEVICE=on "$ddp" run -n 2 "$emulated" "${common[@]}" --device cuda --batch 2
is "two ranks on one GPU, asked for: the same bits" "$(hash_of share)" "$(hash_of two)"
is "nothing is left of the double's files" "$(ls "$tmp/double")" ""
done_testing
