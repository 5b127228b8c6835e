#!/bin/bash
# What NCCL was seen to answer (t/data/nccl: recorded by t/t8403-nccl-record.t, on a GPU through contrib/gpu-check),
# given to the trainer again over the emulator: each call must come as it was recorded, and a trace that was tampered
# with is noticed. Calls of a real libnccl, where there is one, are recorded too, as far as they need no GPU.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/nccltraces.sh"
unset RANK WORLD_SIZE OMP_NUM_THREADS CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}" "${!NCCLTRACE_@}"

# ids of a real libnccl, which need no GPU
real=$(real_library)
if [ -z "$real" ]; then
    ok "calls of a real libnccl # SKIP no NCCL: libnccl.so.2 cannot be opened" true
else
    run env LD_LIBRARY_PATH="$trace_library" NCCLTRACE_LIBRARY="$real" NCCLTRACE_RECORD="$tmp/ids" \
        "$top_builddir/ddp" run -n 2 "$top_builddir/t/lib/ncclprobe" --ids
    is "calls of a real libnccl" "$rc $(grep -c 'ids [0-9a-f]' <<<"$out")" "0 2"
    like "... are recorded" "$(cat "$tmp/ids.rank0.trace")" '# NCCL [0-9.]+
# rank 0 of 2
1 [0-9.]+ [0-9.]+ version = 0 ; [0-9]+
2 [0-9.]+ [0-9.]+ id = 0 ; u0
3 [0-9.]+ 0.000 end = 0$'
    unlike "... and not taken for the double's" "$(cat "$tmp"/ids.*.trace)" emulated
fi

scene_train=$emulated_train scene_env=("${emulated_env[@]}") scene_library=$double/libnccl.so.2
[ -x "$scene_train" ] || {
    ok "traces # SKIP no C++ compiler" true
    done_testing
    exit
}

# ended PREFIX RANK: its process says that it has replayed all of it.
ended() { grep -cE "^nccltrace: rank $2: [0-9]+ calls of $1.rank$2.trace replayed" <<<"$err"; }
for trace in "$top_srcdir"/t/data/nccl/*.rank0.trace; do
    prefix=${trace%.rank0.trace}
    scene=$(sed -nE 's/^# ([a-z]+)(: .*)?$/\1/p' "$trace" | head -n 1)
    of=$(sed -nE 's/^# (NCCL [0-9.]+)(, emulated)?.*/\1\2/p' "$trace" | head -n 1)
    scene_run "$scene" NCCLTRACE_REPLAY="$prefix"
    scene_ends "$scene" "$(basename "$prefix") ($of)"
    is "... to its end" "$(ended "$prefix" 0) $(ended "$prefix" 1)" "1 1" || diag "$err"
done

# a replay that is recorded is the trace again, but for how often was polled; and it takes its time
calls() { sed -E 's/^[0-9]+ [0-9.]+ [0-9.]+ //; s/ x [0-9]+$//; /^#/d' "$1.rank$2.trace"; }
for prefix in "$top_srcdir"/t/data/nccl/*-emulated-train.rank0.trace; do prefix=${prefix%.rank0.trace}; done
scene_run train NCCLTRACE_REPLAY="$prefix" NCCLTRACE_RECORD="$tmp/again"
for rank in 0 1; do is "recorded again, rank $rank" "$(calls "$tmp/again" $rank)" "$(calls "$prefix" $rank)"; done
wire_up_ms() { sed -nE 's/^[0-9]+ [0-9.]+ ([0-9]+)\.[0-9]+ state c0 = 7 .*/\1/p' "$1.rank1.trace" | head -n 1; }
ok "... its wire-up takes its time: $(wire_up_ms "$tmp/again") ms" \
    [ "$(wire_up_ms "$tmp/again")" -ge $(($(wire_up_ms "$prefix") < 500 ? $(wire_up_ms "$prefix") / 2 : 250)) ]

# tampered DESC ERE SED: rank 1's trace of the training is edited; that is told. Its wire-up is made short.
tampered() {
    local desc=$1 ere=$2 edit=$3 rank
    for rank in 0 1; do
        sed -E '0,/state/s/^([0-9]+ [0-9.]+) [0-9.]+ state/\1 1 state/' "$prefix.rank$rank.trace" \
            >"$tmp/other.rank$rank.trace"
    done
    sed -i -E "$edit" "$tmp/other.rank1.trace"
    scene_run train NCCLTRACE_REPLAY="$tmp/other"
    ok "$desc: the run fails ($rc)" [ "$rc" -ne 0 ]
    like "... and says it" "$err" "nccltrace: rank 1: $tmp/other.rank1.trace $ere"
}
called='but what was called: '
tampered "another count" "line [0-9]+ is \"allreduce c0 33215 float32 sum\", ${called}allreduce c0 33216 float32 sum" \
    's/c0 33216/c0 33215/'
tampered "another type" "line [0-9]+ is \"allreduce c0 [0-9]+ bfloat16 sum\", $called" \
    's/(allreduce.*)float32/\1bfloat16/'
tampered "another root" "line [0-9]+ is \"broadcast c0 [0-9]+ float32 root 1\", ${called}" 's/root 0/root 1/'
tampered "waits in NCCL" "line [0-9]+ is \"init .* blocking 1\", ${called}init .* blocking 0" 's/blocking 0/blocking 1/'
tampered "a call less" "line [0-9]+ is \"finalize c0\", ${called}deregister c0" '/ deregister /d'
tampered "another order" "line [0-9]+ is \"broadcast .*\", ${called}group_start" \
    '/ group_start /{N;s/(.*)\n(.*)/\2\n\1/}'
tampered "a call that does not come" "line [0-9]+ is \"abort c0\", but this process: ends" \
    's/^.* end = 0/1 1 1 abort c0 = 0\n&/'
tampered "calls beyond the end" "is at its end, ${called}finalize" '/ (finalize|destroy|free) /d'
tampered "no line" "line [0-9]+: not a line of a trace" 's/^.* end = 0/x\n&/'
done_testing
