#!/bin/bash
# Fuzzes the records of machines and of runs, the lists, and the heads and manifests of checkpoints with libFuzzer, side
# by side, for $FUZZ_S seconds (600 unless set), from the seeds in t/fuzz. What breaks a promise is kept as
# ./fuzz-TARGET-*: t/fuzz/TARGET FILE runs it again.
source "$(dirname "$0")/lib/tap.sh"
: "${FUZZ_S:=600}"
command -v clang >/dev/null || skip_all "clang is missing: install the Debian package clang"

# shellcheck disable=SC2054
flags=(-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -DFUZZ_COVERAGE "-I$top_srcdir"
    "-I$top_builddir")
read -ra packages < <(pkg-config --cflags hwloc jansson libxxhash)
read -ra libraries < <(pkg-config --libs hwloc jansson)

# archive NAME SOURCE...: whole rooms, instrumented throughout, of which a target links what it calls.
archive() {
    mkdir -p "$tmp/rooms/$1"
    (cd "$tmp/rooms/$1" && printf '%s\0' "${@:2}" |
        xargs -0 -P 2 -n 8 clang -fsanitize=fuzzer-no-link "${flags[@]}" "${packages[@]}" -c) &&
        ar rcs "$tmp/rooms/$1.a" "$tmp/rooms/$1"/*.o
}
ok "the rooms are compiled" archive topology "$top_srcdir"/topology/*.c
for room in base ckpt record; do ok "... $room" archive $room "$top_srcdir/runtime/$room"/*.c; done
ok "... what shows runs" archive report "$top_srcdir"/runtime/cli/report/*.c
ok "... lists" archive lists "$top_srcdir"/spank/step/{hostlist,step}.c

build() { # TARGET OPTION...
    clang -fsanitize=fuzzer "${flags[@]}" "${packages[@]}" "${@:2}" "$top_srcdir/t/fuzz/$1.c" \
        -Wl,--start-group "$tmp"/rooms/*.a -Wl,--end-group "${libraries[@]}" -lm -o "$tmp/$1"
}
for target in lists head manifest runs; do ok "the target $target builds" build $target; done
ok "the target record builds" build record -Wl,--wrap=_exit,--wrap=__sanitizer_cov_8bit_counters_init

declare -A pid dict=([head]=-dict=$top_srcdir/t/fuzz/json.dict [manifest]=-dict=$top_srcdir/t/fuzz/json.dict
    [runs]=-dict=$top_srcdir/t/fuzz/json.dict)
targets=(lists record head manifest runs)
for target in "${targets[@]}"; do
    mkdir "$tmp/found-$target"
    timeout -k 10 $((FUZZ_S + 120)) "$tmp/$target" -max_total_time="$FUZZ_S" -timeout=30 -max_len=40000 -verbosity=0 \
        -print_final_stats=1 -artifact_prefix="$PWD/fuzz-$target-" ${dict[$target]:-} "$tmp/found-$target" \
        "$top_srcdir/t/fuzz/corpus-$target" >"$tmp/$target.out" 2>&1 &
    pid[$target]=$!
    at_exit "kill ${pid[$target]} 2>/dev/null"
done
for target in "${targets[@]}"; do
    wait "${pid[$target]}"
    is "$target: no crash, no leak, no hang in $FUZZ_S s" $? 0 || diag "$(tail -n 40 "$tmp/$target.out")"
    kept=("$tmp/found-$target"/*)
    diag "$target: $(grep -o 'executed_units: .*' "$tmp/$target.out"), ${#kept[@]} kept"
done
done_testing
