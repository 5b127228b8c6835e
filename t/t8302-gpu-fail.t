#!/bin/bash
# What ends a rank in the middle of a step on (emulated) GPUs, over a double of NCCL: the others are out of it at once,
# and say who it was and why; exit codes are documented ones; nothing is left.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/nccl.sh"
unset RANK WORLD_SIZE CUDA_VISIBLE_DEVICES "${!SLURM@}" "${!DDP_@}" "${!EMU_@}"
ddp=$top_builddir/ddp
probe=$top_builddir/t/lib/gpuprobe
export EMU_DEVICES=4 NCCLDOUBLE_IN_ORDER=1
steps=1000000

# one RANK VAR=VALUE COMMAND...: VAR is VALUE for that rank alone.
cat >"$tmp/one" <<'SCRIPT'
[ "$RANK" != "$1" ] || export "$2"
shift 2
exec "$@"
SCRIPT

# probes [RANK]: the processes of this test that train.
probes() {
    local f
    for f in $(grep -lzsxF "NCCLDOUBLE_DIR=$NCCLDOUBLE_DIR" /proc/[0-9]*/environ); do
        [ "$(cat "${f%/environ}/comm" 2>/dev/null)" = gpuprobe ] || continue
        [ $# = 0 ] || grep -qzsxF "RANK=$1" "$f" || continue
        basename "${f%/environ}"
    done
}
none_left() { [ -z "$(probes)" ]; }

# ended WHAT CODE N TEXT: as it should, N ranks saying what matches TEXT.
ended() {
    is "$1: exit code" "$rc" "$2"
    is "$1: $3 ranks say why" "$(grep -cE "^gpuprobe: .*$4" <<<"$err")" "$3" || diag "$err"
    ok "$1: nothing is left" until_true 10 none_left
}

# train LAYOUT ARGUMENT...: sets $rc and $err, and $took_ms
train() {
    local layout=$1 n=0 k start
    shift
    for k in ${layout//,/ }; do n=$((n + k)); done
    rm -f "$NCCLDOUBLE_LOG"
    start=$(date +%s%3N)
    run "$ddp" run -n "$n" --layout "$layout" "$@" --ddp-device=cuda
    took_ms=$(($(date +%s%3N) - start))
}

# Killed from outside, whatever it does.
for layout in 3 2,1; do
    for victim in 0 1; do
        rm -f "$tmp/out"
        timeout -k 5 120 "$ddp" run -n 3 --layout $layout "$probe" $steps --ddp-device=cuda >"$tmp/out" 2>"$tmp/err" &
        launcher=$!
        until_true 60 grep -qs 'step 3 ' "$tmp/out" || diag "training did not start: $(cat "$tmp/err")"
        pid=$(probes $victim)
        start=$(date +%s%3N)
        kill -9 "${pid:-$launcher}"
        rc=0
        wait $launcher || rc=$?
        took_ms=$(($(date +%s%3N) - start))
        err=$(cat "$tmp/err")
        ended "nodes of $layout, rank $victim killed" 137 2 "rank $victim \([^)]*\) died"
        ok "... within five seconds ($took_ms ms)" [ "$took_ms" -lt 5000 ]
    done
done

# In a call of NCCL's, while the others' operations wait for it.
for call in "group at 4" "init" "allreduce at 5"; do
    script "rank 1 $call kill"
    train 2,1 "$probe" $steps
    ended "killed in NCCL ($call)" 137 2 'rank 1 \([^)]*\) died'
done
script "rank 1 allgather at 3 kill"
train 2,1 "$probe" $steps --ddp-zero=1
ended "killed while values are gathered" 137 2 'rank 1 \([^)]*\) died'
script

# Errors after which a GPU is lost: what Xid in the kernel's log tells of. Each in a call of libddp's within a step.
for fault in cudaEventRecord:14:719:'cudaEventRecord: cudaErrorLaunchFailure: .*Xid' \
    cudaStreamWaitEvent:6:214:'cudaStreamWaitEvent: cudaErrorECCUncorrectable: .*\(ECC\).*Xid' \
    cudaEventQuery:5:999:'cudaEventQuery: cudaErrorUnknown: the GPU failed or fell off the bus'; do
    what=${fault#*:*:*:}
    for layout in 3 1,2; do
        train $layout bash "$tmp/one" 1 EMU_FAIL="${fault%":$what"}" "$probe" $steps
        ended "nodes of $layout, ${what%%: *} fails" 1 3 \
            "rank 1(: | \([^)]*\) aborted: )GPU [01] \(NVIDIA H200, [^)]*\): $what"
        is "... its memory is left alone, the others' is not" "$(grep -cx 'rank 1 free' "$NCCLDOUBLE_LOG") $(grep -cE \
            '^rank [02] free$' "$NCCLDOUBLE_LOG")" "0 2"
        is "... which is said of rank 1" "$(grep -cE '^gpuprobe: rank 1 \([^)]*\) aborted: GPU ' <<<"$err")" 2
        ok "... soon ($took_ms ms)" [ "$took_ms" -lt 10000 ]
    done
done

# In the update, when no rank waits in NCCL any more, or all do for the values.
for zero in 0 1; do
    train 3 bash "$tmp/one" 1 EMU_FAIL=cudaemu_enqueue:$((5 + zero)):719 "$probe" $steps --ddp-zero=$zero
    ended "zero=$zero: the update fails" 1 3 \
        'rank 1(: | \([^)]*\) aborted: )GPU 1 \(NVIDIA H200, [^)]*\): cuda_adamw: cudaErrorLaunchFailure'
    is "... once named by each" "$(grep -c 'rank 1.*rank 1:' <<<"$err")" 0
done

# A driver that never answers, of which the rank itself can say nothing.
train 3 bash "$tmp/one" 1 EMU_FAIL=cudaEventQuery:9:-1 "$probe" $steps --ddp-timeout=2
ended "a driver that does not answer" 1 2 'rank 1 \([^)]*\) did not come before the deadline'

# A kernel that never ends: the trainer waits for it no longer than for other ranks, and ends.
small=(--data /usr/share/common-licenses/GPL-3 --layers 1 --width 64 --heads 1 --context 16 --batch 1 --val-windows 1)
hangs() { # DESC RANKS TEXT
    local start
    start=$(date +%s%3N)
    run "$ddp" run -n "$2" bash "$tmp/one" $(($2 - 1)) EMU_STREAMS=stuck "$top_builddir/t/lib/train-emu" "${small[@]}" \
        --steps 3 --device cuda --ddp-timeout=3
    took_ms=$(($(date +%s%3N) - start))
    is "$1: exit code" "$rc" 1
    like "$1: says what is known" "$err" "$3"
    unlike "... and not what follows from it" "$err" 'an earlier call failed'
    ok "... and ends its process, too ($took_ms ms)" [ "$took_ms" -lt 40000 ]
}
hangs "a kernel that hangs" 1 'GPU 0 .*: its work was not done within [0-9]+\.[0-9] s: a kernel hangs'
hangs "a kernel that hangs on one of two ranks" 2 'nothing moves|did not come before the deadline'

# Memory: how much, what for, and what lowers it; found before the first step.
train 3 bash "$tmp/one" 1 EMU_MEMORY=300000 "$probe" $steps
full='cudaMalloc of 43360 bytes for parameters in bfloat16: out of memory, 39840 free: take a smaller --batch'
ended "out of memory" 1 3 'rank 1(: | \([^)]*\) aborted: )GPU 1 .*'"$full"
like "... and what lowers it" "$err" 'rank 1: GPU 1 .* free: take a smaller --batch, --recompute or --ddp-zero=1'
train 3 bash "$tmp/one" 1 EMU_MEMORY=40000 "$probe" $steps --ddp-zero=1
ended "out of memory for a share" 1 3 \
    'rank 1(: | \([^)]*\) aborted: )GPU 1 .*cudaMalloc of 37184 bytes for optimizer state: out of memory'
script "rank 1 alloc error 1 out of memory"
train 3 bash "$tmp/one" 1 EMU_MEMORY=40000 "$probe" $steps
ended "out of memory, NCCL's and any other" 1 3 \
    'rank 1(: | \([^)]*\) aborted: )GPU 1 .*cudaMalloc of [0-9]+ bytes for parameters: out of memory'
says() { # DESC TEXT: three ranks train, and rank 0 alone warns of one thing
    rm -rf "$tmp/ckpt"
    train 3 "$probe" 2 ckpt="$tmp/ckpt"
    is "$1: training goes on" "$rc" 0 || diag "$err"
    is "... and one line says so" "$(grep -c ^warning <<<"$out") $(grep -cE "^warning $2" <<<"$out")" "1 1" ||
        diag "$out"
}
says "no memory of NCCL's on one rank" 'NCCL of rank 1 \([^)]*\) cannot allocate 1 MiB \(out of memory\): [^;]*$'
script "rank 2 register error 4 not aligned"
says "no registration on one rank" 'NCCL of rank 2 .* cannot register 1 MiB \(not aligned\): no rank does, [^;]*$'
script "version 22807"
says "a version that crashes" 'NCCL 2\.28\.7 may crash [^;]*: install NCCL 2\.28\.9 or newer$'
script

# A rank that ends early, without an error: its part of NCCL waits for nobody, nor do the others for it.
train 2,1 bash -c "exec '$probe' \$([ \$RANK = 1 ] && echo 2 || echo $steps) \"\$@\"" sh
ended "a rank that ends early" 1 2 'rank 1 \([^)]*\) left the job while rank [02] waits in'
ok "... not at the deadline ($took_ms ms)" [ "$took_ms" -lt 20000 ]
is "... which has left NCCL before" \
    "$(grep -E '^rank 1 (finalize|destroy|abort)$' "$NCCLDOUBLE_LOG" | tail -2 | tr '\n' ' ')" \
    "rank 1 finalize rank 1 destroy "
ok "nothing of ours is in /dev/shm" sh -c '! ls /dev/shm | grep -i ddp'
done_testing
