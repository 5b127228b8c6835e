#!/bin/bash
# The benchmarks for a GPU, at toy sizes over the emulator and the double of NCCL: that they run, what they print and
# write, and that figures from the emulator count for nothing.
. "$(dirname "$0")/lib/tap.sh"
unset RANK WORLD_SIZE CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}"
kernels=$top_builddir/t/lib/gpukernels-emu
reduce=$top_builddir/t/lib/gpureduce-emu
[ -x "$kernels" ] || skip_all "no C++ compiler"

# entries FILE: "WHAT|GOAL|REACHED|is the ratio that of limit and median?" of each line.
entries() {
    /usr/bin/python3 - "$1" <<'PY'
import json, sys
for e in map(json.loads, open(sys.argv[1])):
    by = e["limit"] / e["median"] if e["unit"] == "ms" else e["median"] / e["limit"]
    fits = e["q1"] <= e["median"] <= e["q3"] and abs(e["ratio"] / by - 1) < 1e-6
    print(e["what"], e["goal"], e["reached"], fits, sep="|")
PY
}

tiny=(--layers 1 --width 32 --context 16 --vocab 64 --copies 1 -n 3 -w 1)
for streams in now deferred; do
    run env EMU_STREAMS=$streams "$kernels" "${tiny[@]}" --json "$tmp/kernels"
    is "kernels, streams $streams" "$rc:$err" "0:"
done
like "... says over what" "$out" \
    '^Kernels over 16 tensors, 15328 elements, on NVIDIA H200: .*emulated: no figure says anything'
is "... an object each, which reached nothing" "$(entries "$tmp/kernels")" "cast float32 to bfloat16|>= 0.9|None|True
cast float32 to float16|>= 0.9|None|True
norm of float32|>= 0.9|None|True
norm of bfloat16, written as float32|>= 0.9|None|True
AdamW|>= 0.9|None|True
AdamW, and values in bfloat16|>= 0.9|None|True
sum of 8 arrays by the tree|None|None|True
sum of 8 arrays from the last|None|None|True"

refuses() { # DESC ERE COMMAND...
    local desc=$1 why=$2
    shift 2
    run "$@"
    is "$desc: exit code" "$rc" 1
    like "$desc: says it" "$err" "$why"
}
refuses "no such option" 'there is no option --tensors: --help lists them' "$kernels" --tensors 3
refuses "too little memory" '[0-9]+ MiB of the GPU.s memory are needed, 1024 are free: take fewer --copies' "$kernels"
refuses "no GPU" 'no NVIDIA driver' env EMU_DEVICES=0 "$kernels" "${tiny[@]}"
refuses "not so many GPUs" 'device=3: there are 1 GPUs' "$kernels" --device 3
refuses "a GPU that fails" 'GPU 0 .*cudaErrorLaunchFailure' env EMU_FAIL=cudaEventRecord:77:719 "$kernels" "${tiny[@]}"
refuses "nowhere to write" 'cannot write /nowhere/x' "$kernels" "${tiny[@]}" --json /nowhere/x

first=$top_builddir/t/lib/gpufirst-emu
run "$first"
is "what gpu-check runs first" "$rc:$err:$(sed -E 's/^no //; s/^(NCCL|cuBLASLt).*/\1/' <<<"$out" | cut -c1-19)" "0::NCCL
GPU NVIDIA H200, 00
a kernel of ours: r
cuBLASLt
a product: right"
refuses "... where no GPU is" 'gpufirst: there is no NVIDIA driver' env EMU_DEVICES=0 "$first"
refuses "... where a kernel crashes" 'cudaErrorLaunchFailure' env EMU_FAIL=cudaMemcpyAsync:2:719 "$first"
like "... it went no further" "$(tail -n 1 <<<"$out")" '^GPU NVIDIA H200'
refuses "... where cuBLASLt fails" 'gpufirst: cublasLt' env BLASLTDOUBLE_FAIL=matmul:1:13 "$first"
like "... it went no further" "$(tail -n 1 <<<"$out")" '^cuBLASLt 13'

# PyTorch's part of gpupeer does what the script on standard input says.
peer() {
    { echo '#!/bin/bash' && cat; } >"$tmp/python"
    chmod 755 "$tmp/python"
    rm -rf "$tmp/peer"
    run env PEER_PYTHON="$tmp/python" timeout --foreground "${peer_seconds:-50}" /usr/bin/python3 \
        "$top_srcdir/contrib/bench/gpupeer" "$@" --keep "$tmp/keep" --json "$tmp/peer" --size toy \
        --train "$top_builddir/t/lib/train-emu" --trial --torch-device cpu --batch 2 --accum 1 --steps 2
}
mkfifo "$tmp/no-end"
rates='^\{"what": "GPT-2 toy, 2 x 32 tokens x 1", "median": [0-9.]+, "unit": "tok/s", [^}]*\}$'
peer ours torch <<<'echo "gpugpt.py: no PyTorch" >&2; exit 77'
is "the trainer where no PyTorch is: exit code" "$rc:$err" "77:contrib/bench/gpupeer: no PyTorch"
like "... ours is told" "$(cat "$tmp/peer")" "$rates"
peer_seconds=10 peer ours torch <<<"read -r <>$tmp/no-end"
is "... where time is over while PyTorch is at work" "$rc" 124
like "... ours is told" "$(cat "$tmp/peer")" "$rates"
peer torch <<<'echo "CUDA out of memory" >&2; exit 3'
is "... where PyTorch has no room: exit code" "$rc" 1
like "... says so" "$err" 'PyTorch: out of memory at batch 2.*PyTorch: not even one sample fits'

[ -e "$top_builddir/t/lib/nccldouble/.libs/libnccl.so.2" ] || done_testing # a build without nccl.h
. "$(dirname "$0")/lib/nccl.sh"
for n in 1 3; do
    run "$top_builddir/ddp" run -n $n "$reduce" --sizes 4000,70000 -k 2 -n 3 -w 1 --json "$tmp/reduce"
    is "all-reduce, $n ranks" "$rc:$err" "0:"
    is "... an object for each size" "$(entries "$tmp/reduce" | cut -d'|' -f2-)" "None|None|True
None|None|True"
done
like "... which says how many ranks" "$(cat "$tmp/reduce")" '"all-reduce of 68.36 KiB, 3 ranks on one GPU"'
run env EMU_DEVICES=2 "$top_builddir/ddp" run -n 2 "$reduce" --sizes 26214400 -k 1 -n 1 -w 0 --json "$tmp/reduce"
is "a GPU for each rank" "$(entries "$tmp/reduce")" "all-reduce of 25 MiB, 2 ranks|<= 1.03|None|True"
script "allreduce at 2 error 3 broken"
refuses "NCCL fails" 'ncclAllReduce: ' "$reduce" --sizes 4000
refuses "a size that is none" 'sizes: at most 16 sizes in bytes' "$reduce" --sizes 4K
done_testing
