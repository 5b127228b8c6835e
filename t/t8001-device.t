#!/bin/bash
# What train computes on: --device here, where there is no GPU, and over an emulated CUDA runtime; each kind of bad
# input, and a GPU that fails in mid-step, as ranks tell it.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/refuses.sh"
data=/usr/share/common-licenses
unset RANK WORLD_SIZE OMP_NUM_THREADS CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}"
emulated=$top_builddir/t/lib/train-emu
probe=$top_builddir/t/lib/deviceprobe
ddp=$top_builddir/ddp
tiny=(--data $data --steps 1 --log-every 0 --val-windows 1)
small=("${tiny[@]}" --layers 1 --width 32 --context 8 --batch 2)

# trains DESC ERE COMMAND...: it trains, and says that line.
trains() {
    local desc=$1 says=$2
    shift 2
    run "$@"
    is "$desc: exit code" "$rc" 0
    like "$desc: trains" "$out" 'step 1/1 loss'
    like "$desc: says it" "$out" "$says"
}
nl=$'\n'

# --- the memory that training takes, before the first step ---
run env DDP_COMPRESS=bf16 DDP_ZERO=1 "$ddp" run -n 2 "$top_builddir/train" "${tiny[@]}"
like "memory, part by part" "$out" \
    "memory: ([0-9.]+) MiB a rank: parameters 3.2, gradients 3.2, moments 3.2, activations \
[0-9.]+, buckets beside the gradients 1.6; ([0-9.]+) MiB for 2 ranks here, [0-9.]+ were free$nl.*step 1/1"
is "both sums are right" \
    "$(sed -n 's/^memory: \([0-9.]*\) .*activations \([0-9.]*\),.*; \([0-9.]*\) MiB for.*/\1 \2 \3/p' \
    <<<"$out" | awk '{ a = 11.2 + $2 - $1; b = 2 * $1 - $3; print (a * a < 0.05 && b * b < 0.05) }')" 1

run env DDP_ZERO=1 "$ddp" run -n 2 "$top_builddir/train" "${tiny[@]}" --ckpt "$tmp/ckpt"
like "with checkpoints, each rank's half of one, in huge pages" "$out" \
    "memory: [0-9.]+ MiB a rank: parameters 3.2, gradients 3.2, moments \
3.2, activations [0-9.]+, snapshot of a checkpoint 6.0; "
is "which is counted" "$(sed -n 's/^memory: \([0-9.]*\) .*activations \([0-9.]*\),.*/\1 \2/p' <<<"$out" |
    awk '{ a = 15.6 + $2 - $1; print (a * a < 0.05) }')" 1

# --- this machine, or one whose GPU hides ---
export CUDA_VISIBLE_DEVICES=
trains "auto without a GPU" "$nl""no GPU, training on the processor: [^$nl]+$nl" "$top_builddir/train" "${tiny[@]}"
first=$(grep loss <<<"$out")
trains "cpu" "MiB a rank" "$top_builddir/train" "${tiny[@]}" --device cpu
unlike "cpu: does not ask for GPUs" "$out" GPU
is "cpu: the same losses" "$(grep -o 'loss [0-9.]*' <<<"$out")" "$(grep -o 'loss [0-9.]*' <<<"$first")"
refuses "cuda without a GPU" 2 '^train: a GPU is asked for \(device cuda\), but [a-z]' \
    "$top_builddir/train" "${tiny[@]}" --device cuda
refuses "the same on two ranks" 2 'train: a GPU is asked for' "$ddp" run -n 2 "$top_builddir/train" "${tiny[@]}" \
    --device cuda
refuses "the same by the variable" 2 'train: a GPU is asked for' env DDP_DEVICE=cuda "$top_builddir/train" "${tiny[@]}"
refuses "the same by libddp's option" 2 'train: a GPU is asked for' "$top_builddir/train" "${tiny[@]}" --ddp-device=cuda
trains "the plugin's number, without a GPU" "$nl""no GPU" env DDP_DEVICE=3 "$top_builddir/train" "${tiny[@]}"
refuses "no device" 2 '--device=gpu.*auto\|cpu\|cuda' "$top_builddir/train" "${tiny[@]}" --device gpu
refuses "no device in the variable" 2 'device=gpu is not allowed: use auto, cpu, cuda or the number' \
    env DDP_DEVICE=gpu "$top_builddir/train" "${tiny[@]}"
unset CUDA_VISIBLE_DEVICES

# --- emulated GPUs ---
[ -x "$emulated" ] || { diag "no emulated GPUs: they need a C++ compiler"; done_testing; exit; }
for device in auto cuda; do
    trains "$device with a GPU" ', cuBLASLt [0-9.]+ f32 on NVIDIA H200' "$emulated" "${small[@]}" --device $device
done
refuses "the variable's number counts beside --device cuda" 2 'DDP_DEVICE names GPU 2, but this process sees 2' \
    env EMU_DEVICES=2 DDP_DEVICE=2 "$emulated" "${tiny[@]}" --device cuda
refuses "a GPU that is not there" 2 'DDP_DEVICE names GPU 2, but this process sees 2' \
    env EMU_DEVICES=2 DDP_DEVICE=2 "$emulated" "${tiny[@]}"
refuses "no driver" 2 'a GPU is asked for.*there is no NVIDIA driver' env EMU_DEVICES=0 "$emulated" "${tiny[@]}" \
    --device cuda
refuses "a driver older than the toolkit" 2 'too old: it serves CUDA up to 12\.2, and this build needs 13\.0: update' \
    env EMU_DRIVER=12020 "$emulated" "${tiny[@]}" --device cuda
trains "the same under auto" "no GPU, training on the processor: the NVIDIA driver is too old" \
    env EMU_DRIVER=12020 "$emulated" "${tiny[@]}"
refuses "no GPU left to see" 2 'CUDA_VISIBLE_DEVICES=9 shows no GPU' \
    env CUDA_VISIBLE_DEVICES=9 EMU_FAIL=cudaGetDeviceCount:1:100 "$emulated" "${tiny[@]}" --device cuda
refuses "a driver that does not answer" 1 "the GPUs' driver did not answer within 1 s: try nvidia-smi on this node" \
    env DDP_TIMEOUT=2 EMU_FAIL=cudaGetDeviceCount:1:-1 "$emulated" "${tiny[@]}"
refuses "two ranks on one GPU" 2 'ranks 0 and 1 of node 0 both have the GPU 0000:18:00.0: .*--ddp-share-device=on' \
    env EMU_DEVICES=1 "$ddp" run -n 2 "$emulated" "${tiny[@]}" --device cuda
refuses "two names for one GPU" 2 'ranks 0 and 1 of node 0 both have the GPU' \
    env EMU_DEVICES=2 EMU_SAME=1 "$ddp" run -n 2 "$emulated" "${tiny[@]}" --device cuda

# --- ranks that compute on emulated GPUs ---
export EMU_DEVICES=2 DDP_TIMEOUT=20
# For rank 1 alone: SCRIPT, then the rest of the command.
cat >"$tmp/rank1" <<'SCRIPT'
#!/bin/bash
script=$1
shift
[ "$RANK" != 1 ] || eval "$script"
exec "$@"
SCRIPT
chmod +x "$tmp/rank1"
run env DDP_TIMEOUT=4 "$ddp" run -n 2 "$tmp/rank1" "export EMU_FAIL=cudaGetDeviceCount:1:-1" "$emulated" "${tiny[@]}"
is "rank 1's driver does not answer: exit code" "$rc" 1
like "... rank 1 says it" "$err" "train: rank 1: the GPUs' driver did not answer within 2 s"
like "... and rank 0" "$err" "train: rank 0: rank 1: the GPUs' driver did not answer within 2 s"
for streams in now deferred; do
    run env EMU_STREAMS=$streams "$ddp" run -n 2 "$probe" 20 4096
    is "20 steps, streams $streams" "$rc:$(sort -u <<<"$out")" "0:20 steps"
done
fails() { # DESC SCRIPT-OF-RANK-1 ERE-OF-RANK-1 ERE-OF-RANK-0
    run "$ddp" run -n 2 "$tmp/rank1" "$2" "$probe" 20 4096
    is "$1: exit code" "$rc" 1
    like "$1: the rank says it" "$err" "deviceprobe: rank 1: GPU 1 \(NVIDIA H200, 0000:19:00.0\): $3"
    like "$1: its peer, too" "$err" "deviceprobe: rank 1 \([^)]*\) aborted: GPU 1 \(NVIDIA H200, 0000:19:00.0\): $4"
}
cure="take a smaller --batch, --recompute or --ddp-zero=1"
fails "out of device memory" "export EMU_MEMORY=4000" \
    "cudaMalloc of 4096 bytes for parameters: out of memory, 4000 free: $cure" \
    "cudaMalloc of 4096 bytes for parameters: out of memory, 4000 free"
fails "another process has the GPU" "export EMU_FAIL=cudaSetDevice:1:46" \
    "cudaSetDevice: cudaErrorDevicesUnavailable: the GPU is busy or closed to this process: .*exclusive mode.*MIG" \
    "cudaSetDevice: cudaErrorDevicesUnavailable: the GPU is busy"
cure="see Xid in the kernel's log"
fails "a GPU falls off the bus in mid-step" "export EMU_FAIL=cudaEventQuery:10:719" \
    "cudaEventQuery: cudaErrorLaunchFailure: a kernel crashed, or the GPU fell off the bus: $cure" \
    "cudaEventQuery: cudaErrorLaunchFailure: a kernel crashed"
fails "an uncorrectable memory error in mid-step" "export EMU_FAIL=cudaMemcpyAsync:7:214" \
    "cudaMemcpyAsync of 8 bytes from the device: cudaErrorECCUncorrectable: .* drain the node" \
    "cudaMemcpyAsync of 8 bytes"
fails "the driver gives up in mid-step" "export EMU_FAIL='*:100:999'" \
    ".*cudaErrorUnknown: the GPU failed or fell off the bus: see Xid" "cuda"
DDP_TIMEOUT=1 fails "a kernel hangs" "export EMU_STREAMS=stuck" \
    "its work was not done within [0-9]+\.[0-9] s: a kernel hangs" \
    "its work was not done"

# A rank waits for its GPU, and not longer than its peer lives.
cat >"$tmp/dies" <<SCRIPT
#!/bin/bash
# Rank 1 runs far enough to be wired up, in a process that is then killed while rank 0 waits for its GPU.
if [ "\$RANK" = 1 ]; then exec env EMU_STREAMS=now "$probe" 1000000 4096; fi
export EMU_STREAMS=stuck
exec "$probe" 1 4096
SCRIPT
chmod +x "$tmp/dies"
DDP_TIMEOUT=300 DDP_TEST_MARK=$tmp "$ddp" run -n 2 "$tmp/dies" >"$tmp/dies.out" 2>&1 &
launcher=$!
victim() { # rank 1's probe, when it has stopped computing: it waits for rank 0
    local f
    for f in $(grep -lzsxF "DDP_TEST_MARK=$tmp" /proc/[0-9]*/environ); do
        grep -qzsxF RANK=1 "$f" && [ "$(cat "${f%/environ}/comm" 2>/dev/null)" = deviceprobe ] &&
            basename "${f%/environ}"
    done
}
is_wired_up() { pid=$(victim) && [ -n "$pid" ] && [ "$(ls "/proc/$pid/task" 2>/dev/null | wc -l)" -gt 1 ]; }
ok "rank 1 is there" until_true 20 is_wired_up || diag "$(cat "$tmp/dies.out")"
kill -9 "$pid"
wait $launcher
is "a peer that dies while a GPU is waited for: exit code" "$?" 137
like "... is what ends the wait" "$(cat "$tmp/dies.out")" 'deviceprobe: rank 1 (\([^)]*\) )?died'
done_testing
