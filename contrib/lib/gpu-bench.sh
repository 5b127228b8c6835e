# shellcheck shell=bash disable=SC2154,SC2034
# gpu-bench.sh - the benchmarks of contrib/gpu-check. Each prints its table and writes a JSON object per result
# (contrib/bench/gpureport.h); one that cannot run says why. The time is gpu-run.sh's; $out, $top,
# $emulated and say() are the caller's.

n_unmeasured=0
unmeasured=() # "WHAT|WHY"

not_measured() {
    unmeasured+=("$1|$2")
    say "not measured: $1: $2"
}

# bench NAME SECONDS COMMAND...: in the build folder; its results go to $out/bench-NAME.json. What it says is shown and
# kept. One that fails counts, unless there was no time for it.
bench() {
    local name=$1 seconds=$2 rc=0 limit
    shift 2
    echo
    limit=$(limit_of "$seconds") || {
        n_late=$((n_late + 1))
        not_measured "$name" "$limit"
        return
    }
    (cd "$out/build" && timeout -k 5 "$limit" "$@" --json "$out/bench-$name.json" 2>"$out/bench-$name.err") </dev/null |
        tee "$out/bench-$name.log" || rc=$?
    [ $rc -ne 0 ] || return 0
    if [[ $rc = 124 || $rc = 137 ]] && [ "$limit" -lt "$seconds" ]; then
        n_late=$((n_late + 1))
        not_measured "$name" "cut off: $(budget_text)"
        return
    fi
    n_unmeasured=$((n_unmeasured + 1))
    not_measured "$name" "$([ $rc -ne 124 ] && tail -n 1 "$out/bench-$name.err" || echo "not over after $limit s")"
}

bench_kernels() {
    if [ -n "$emulated" ]; then
        bench kernels 120 t/lib/gpukernels-emu --layers 1 --width 32 --context 16 --vocab 64 --copies 1 -n 3 -w 1
    else
        bench kernels 120 contrib/bench/gpukernels
    fi
}

# Between the GPUs that are there; where it is one, two ranks on it, which talk over the machine's sockets.
bench_allreduce() {
    if [ -n "$emulated" ]; then
        [ -e "$out/build/t/lib/nccldouble/.libs/libnccl.so.2" ] || {
            not_measured allreduce "no NCCL: this build lacks nccl.h"
            return
        }
        NCCLDOUBLE_DIR=$out LD_LIBRARY_PATH=t/lib/nccldouble/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
            bench allreduce 120 ./ddp run -n 2 t/lib/gpureduce-emu --sizes 4096,65536 -k 2 -n 3 -w 1
    elif [ "$n_gpus" -gt 1 ]; then
        bench allreduce 120 ./ddp run -n "$n_gpus" contrib/bench/gpureduce
    else
        NCCL_NET=Socket NCCL_SOCKET_IFNAME="=lo" NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_MAX_CTAS=4 \
            bench allreduce 120 ./ddp run -n 2 contrib/bench/gpureduce -k 2 -n 8 -w 2
    fi
}

# bench_train ACCUM PART...: beside PyTorch, where there is one.
bench_train() {
    local accum=$1 python=${PEER_PYTHON:-python3}
    shift
    command -v "$python" >/dev/null || {
        not_measured train "there is no $python"
        return
    }
    if [ -n "$emulated" ]; then
        bench train 300 "$python" "$top/contrib/bench/gpupeer" "$@" --size toy --train t/lib/train-emu --trial \
            --torch-device cpu --batch 2 --accum 1 --steps 2
    else
        bench train 420 "$python" "$top/contrib/bench/gpupeer" "$@" --accum "$accum"
    fi
}

# run_benches short|full: what matters most first
run_benches() {
    rm -f "$out"/bench-*
    if [ "$1" = full ]; then bench_train 8 speed losses; else bench_train 1 speed losses; fi
    bench_kernels
    bench_allreduce
}

n_missed() { cat "$out"/bench-*.json 2>/dev/null | grep -c '"reached": false' || :; }

# The results as a JSON array's content.
bench_results() { { cat "$out"/bench-*.json 2>/dev/null || :; } | sed '$!s/$/,/; s/^/  /'; }
