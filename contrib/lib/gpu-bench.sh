# shellcheck shell=bash disable=SC2154,SC2034
# gpu-bench.sh - the benchmarks of contrib/gpu-check. Each prints its table and writes a JSON object per result
# (contrib/bench/gpureport.h); one that cannot run says why. The time is gpu-time.sh's; $out, $top, $logs, $emulated,
# $python, say() and record_now() are the caller's.

n_unmeasured=0 # without those for which there was no time, or that this machine has not what they need
unmeasured=()  # "WHAT|WHY"
bench_kind=short
no_torch=''    # why nothing of PyTorch's can be measured
prepare_seconds=150

not_measured() {
    unmeasured+=("$1|$2")
    say "not measured: $1: $2"
    record_now
}
measured_late() {
    n_late=$((n_late + 1))
    not_measured "$@"
}

last_word() { tail -n 1 "$1" | sed 's|^contrib/bench/gpupeer: ||'; }

# bench NAME SECONDS COMMAND...: in the build folder; its results go to bench-NAME.json. What it says is shown and kept.
# One that fails counts, unless there was no time for it. SECONDS are for short ones; full ones take longer.
bench() {
    local name=$1 seconds=$2 rc=0 limit log=$logs/bench-$1.log errors=$logs/bench-$1.err
    shift 2
    [ $bench_kind = short ] || seconds=$((seconds * 3))
    echo
    limit=$(limit_of "$seconds") || { measured_late "$name" "$limit" && return; }
    doing=$name
    within "$limit" "$log" "$errors" env -C "$out/build" "$@" --json "$logs/bench-$name.json" || rc=$?
    keep_short "$log"
    cat "$log"
    record_now
    [ $rc -ne 0 ] || return 0
    if is_over $rc && [ "$limit" -lt "$seconds" ]; then
        measured_late "$name" "cut off: $(budget_text)"
        return
    fi
    [ ! -s "$errors" ] || tail -n 15 "$errors" | show_lines 15
    if [ $rc -eq 77 ]; then
        not_measured "$name" "$(last_word "$errors")"
        return
    fi
    n_unmeasured=$((n_unmeasured + 1))
    not_measured "$name" "$(if is_over $rc; then why_ended $rc "$limit"; else last_word "$errors"; fi)"
}

# ---- the trainer, and PyTorch ----

set_peer() {
    peer=("$python" "$top/contrib/bench/gpupeer" --keep "$out/peer" --accum 1)
    if [ -n "$emulated" ]; then
        peer+=(--size toy --train t/lib/train-emu --trial --torch-device cpu --batch 2 --steps 2)
    elif [ $bench_kind = short ]; then
        peer+=(--steps 5)
    else
        peer+=(--accum 8)
    fi
    command -v "$python" >/dev/null || no_torch="there is no $python"
}

# What PyTorch compiles is there before it is timed: that goes on beside our build and our tests, which are not timed.
prepare_peer() {
    local limit
    [ -z "$no_torch" ] || return 0
    limit=$(limit_of $prepare_seconds) || return 0
    timeout -k 5 "$limit" env -C "$top" "${peer[@]}" prepare >"$logs/prepare.log" 2>&1 </dev/null &
    at_work[1]=$!
}
# Nothing else is at work on the GPU while ours is timed: waits for the end of that, which has a limit of its own.
end_prepare() {
    local rc=0
    [ -n "${at_work[1]:-}" ] || return 0
    doing="waiting for PyTorch's compiler"
    wait "${at_work[1]}" || rc=$?
    unset 'at_work[1]'
    [ $rc -ne 77 ] || no_torch=$(last_word "$logs/prepare.log")
    [ $rc -ne 0 ] || { cat "$logs/prepare.log" && return; }
    say "PyTorch, ahead: $(if is_over $rc; then echo "not over in its time"; else last_word "$logs/prepare.log"; fi)"
}

bench_ours() {
    if command -v "$python" >/dev/null; then bench ours 100 "${peer[@]}" ours; else
        not_measured ours "there is no $python"
    fi
}
# bench_torch PART SECONDS
bench_torch() {
    if [ -n "$no_torch" ]; then not_measured "$1" "$no_torch"; else bench "$1" "$2" "${peer[@]}" "$1"; fi
}

# ---- kernels, products, NCCL ----

bench_kernels() {
    if [ -n "$emulated" ]; then
        bench kernels 120 t/lib/gpukernels-emu --layers 1 --width 32 --context 16 --vocab 64 --copies 1 -n 3 -w 1
    else
        bench kernels 60 contrib/bench/gpukernels
    fi
}

# bench_model NAME [OPTION...]: kernels and products of a step at their real shapes.
bench_model() {
    local model=(contrib/bench/gpumodel)
    [ -z "$emulated" ] || model=(t/lib/gpumodel-emu --layers 2 --width 64 --context 8 --vocab 64 --batch 2 -n 3)
    bench "$1" 90 "${model[@]}" "${@:2}"
}

# Between the GPUs that are there; where it is one, two ranks on it, which talk over the machine's sockets.
bench_allreduce() {
    if [ -n "$emulated" ]; then
        [ -e "$out/build/t/lib/nccldouble/.libs/libnccl.so.2" ] || {
            not_measured allreduce "no NCCL: this build lacks nccl.h"
            return
        }
        bench allreduce 120 env NCCLDOUBLE_DIR="$out" \
            LD_LIBRARY_PATH="t/lib/nccldouble/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
            ./ddp run -n 2 t/lib/gpureduce-emu --sizes 4096,65536 -k 2 -n 3 -w 1
    elif [ "$n_gpus" -gt 1 ]; then
        bench allreduce 60 ./ddp run -n "$n_gpus" contrib/bench/gpureduce
    else
        bench allreduce 60 env NCCL_NET=Socket NCCL_SOCKET_IFNAME="=lo" NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 \
            NCCL_MAX_CTAS=4 ./ddp run -n 2 contrib/bench/gpureduce -k 2 -n 8 -w 2
    fi
}

# What matters most comes first, in the record too.
bench_files() {
    local name
    for name in ours torch losses allreduce model mma kernels; do
        [ ! -s "$logs/bench-$name.json" ] || grep '^{.*}$' "$logs/bench-$name.json" || :
    done
}
n_missed() { bench_files | grep -c '"reached": false' || :; }
