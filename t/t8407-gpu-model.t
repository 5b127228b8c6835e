#!/bin/bash
# The table of a step's kernels and products, at toy sizes over the emulator: that it has what the trainer calls, adds
# up, and does not lose the rest where one fails or breaks the GPU.
. "$(dirname "$0")/lib/tap.sh"
unset RANK WORLD_SIZE CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}" "${!BLASLTDOUBLE_@}"
model=$top_builddir/t/lib/gpumodel-emu
[ -x "$model" ] || skip_all "no C++ compiler"
tiny=(--layers 2 --width 64 --context 8 --vocab 64 --batch 2 -n 3 --json "$tmp/json")

# check: "N entries", and each thing that is not as it should be.
check() {
    /usr/bin/python3 - "$tmp/json" <<'PY'
import json, sys
entries = list(map(json.loads, open(sys.argv[1])))
calls = [e for e in entries if "count" in e]
by_name = {e["what"]: e for e in entries}
total, copy = by_name["all of them, in a step"], by_name["a copy"]
print(len(calls), "entries")
near = lambda a, b: abs(a - b) <= 1e-6 * max(abs(a), abs(b))
if abs(sum(e["share"] for e in calls) - 1) > 1e-6:
    print("shares do not add up to 1")
if [e["what"].startswith("norm of") for e in calls] != [e["beside"] for e in calls]:
    print("not the norms are beside a step")
if not near(sum(e["count"] * e["median"] for e in calls if not e["beside"]), total["median"]):
    print("count x time do not add up to the step")
for e in calls:
    limit = max(e["bytes"] / copy["median"] / 1e6, e["flops"] / 989e12 * 1e3)
    if not near(e["limit"], limit) or not near(e["ratio"], limit / e["median"]) or \
            not e["beside"] and not near(e["lost_ms"] + e["count"] * limit, e["count"] * e["median"]):
        print("wrong limit of", e["what"])
    if (e["flops"] > 0 and "attention" not in e["what"]) != e["algorithm"].startswith("id 7 tile "):
        print("algorithm of", e["what"])
if [e["lost_ms"] for e in calls] != sorted((e["lost_ms"] for e in calls), reverse=True):
    print("not by what is lost")
for e in entries:
    if "failed" in e:
        print("failed", e["what"])
PY
}

for streams in now deferred; do
    run env EMU_STREAMS=$streams "$model" "${tiny[@]}"
    is "it runs, streams $streams" "$rc:$err" "0:"
done
like "... says over what" "$out" '^A step of a GPT-2, batch 2, context 8, width 64, 2 layers, vocabulary 64, on'
like "... and on what" "$out" \
    ' on NVIDIA H200, peak 989 TFLOP/s, cuBLASLt .* bf16, wgmma: .*emulated: no figure says anything'
n=$(check | sed -n 1p)
is "... adds up" "$(check)" "$n"
counts() { /usr/bin/python3 -c 'import json, sys
for e in map(json.loads, open(sys.argv[1])):
    if "count" in e: print(e["what"], e["count"])' "$tmp/json" | LC_ALL=C sort; }
is "... what a step has, and how often" "$(counts | grep -v '^norm of' | sed 's/ of [0-9]*//')" \
"attention backward, wgmma [2, 8, 64] 2
attention, wgmma [2, 8, 64] 2
attn.c_attn 16x192x64 2
attn.c_attn d input 16x64x192 2
attn.c_attn d weight 64x192x16 2
attn.c_proj 16x64x64 2
attn.c_proj d input 16x64x64 2
attn.c_proj d weight 64x64x16 2
bias backward [16, 192] 2
cross entropy backward [16, 64] 1
embedding [2, 8, 64] 1
embedding backward [2, 8, 64] 1
embedding's rows sorted [2, 8] 1
fill bytes 1
gelu [16, 256] 2
gelu backward [16, 256] 2
layer norm [16, 64] 5
layer norm backward [16, 64] 4
layer norm backward, first [16, 64] 1
mlp.c_fc 16x256x64 2
mlp.c_fc d input 16x64x256 2
mlp.c_fc d weight 64x256x16 2
mlp.c_proj 16x64x256 2
mlp.c_proj d input 16x256x64 2
mlp.c_proj d weight 256x64x16 2
optimizer's step 1
wte 16x128x64 1
wte d input 16x64x128 1
wte d weight 128x64x16 1"

run "$model" "${tiny[@]}" --no-wgmma
is "attention's other way" "$rc $(counts | sed -n '/^attention/p' | paste -sd,)" \
    "0 attention backward, mma.sync [2, 8, 64] 2,attention, mma.sync [2, 8, 64] 2"

# What one rank may call, and the linker must lead here.
called() { nm "$top_builddir"/runtime/train/.libs/gmodel_{layers,pass}.o "$top_builddir"/runtime/gpu/.libs/*.o |
    sed -n 's/^ *U \(cuda_.*\)/\1/p' | sort -u | grep -vx 'cuda_fold\|cuda_reduce_tree'; } # those sum what ranks have
nm "$model" | sed -n 's/.* __wrap_\(cuda_.*\)/\1/p' | sort -u >"$tmp/timed"
ok "there are objects to look at" test "$(called | wc -l)" -gt 10
is "nothing that the trainer calls is missing" "$(called | comm -23 - "$tmp/timed")" ""

run env BLASLTDOUBLE_FAIL=matmul:2:13 "$model" "${tiny[@]}"
is "a product that fails" "$rc:$err" "1:gpumodel: 1 entries of a step failed: the table says why"
like "... is told" "$out" 'attn.c_proj 16x64x64 +failed: cublasLtMatmul of \[16, 64\] x \[64, 64\] bf16: CUBLAS_'
is "... and the others are measured" "$(check)" "$((${n% *} - 1)) entries
failed attn.c_proj 16x64x64"

# The ninth fill is the first step's, of the gradients.
run env EMU_FAIL=cudaMemsetAsync:9:719 "$model" "${tiny[@]}"
is "a call that breaks the GPU" "$rc" 1
like "... is left out" "$err" '^gpumodel: fill of [0-9]+ bytes broke the GPU, and is left out .*cudaErrorLaunchFailure'
is "... and the others are measured" "$(check | sed 's/[0-9]* bytes//')" "$((${n% *} - 1)) entries
failed fill of "
# An event that fails, whichever calls are left out, is now and then none of the calls'.
for at in 120 125 130 135 140; do
    run env EMU_FAIL=cudaEventRecord:$at:719 "$model" "${tiny[@]}"
    [[ $err != *"8 calls"* ]] || break
done
is "one after the other breaks it: exit code" "$rc" 1
like "... it ends" "$err" 'gpumodel: 8 calls broke the GPU: the rest is not measured'

refuses() { # DESC ERE COMMAND...
    local desc=$1 why=$2
    shift 2
    run "$@"
    is "$desc: exit code" "$rc" 1
    like "$desc: says it" "$err" "$why"
}
refuses "no such option" 'there is no option --tensors: --help lists them' "$model" --tensors 3
refuses "too little memory" 'GPU.s memory|out of memory' env EMU_MEMORY=3000000 "$model" "${tiny[@]}"
refuses "no GPU" 'no NVIDIA driver' env EMU_DEVICES=0 "$model" "${tiny[@]}"
refuses "a width without heads" 'heads' "$model" "${tiny[@]}" --width 100
refuses "nowhere to write" 'cannot write /nowhere/x' "$model" "${tiny[@]}" --json /nowhere/x
refuses "two ranks" 'gpumodel is for one GPU' "$top_builddir/ddp" run -n 2 "$model" "${tiny[@]}"
done_testing
