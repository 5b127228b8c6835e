#!/bin/bash
# Fuzzes the records of machines and of runs, the lists, and the heads and manifests of checkpoints with libFuzzer, side
# by side, for $FUZZ_S seconds (600 unless set), from the seeds in t/fuzz. What breaks a promise is kept as
# ./fuzz-TARGET-*: t/fuzz/TARGET FILE runs it again.
source "$(dirname "$0")/lib/tap.sh"
: "${FUZZ_S:=600}"
command -v clang >/dev/null || skip_all "clang is missing: install the Debian package clang"

room=$top_srcdir/topology base=$top_srcdir/runtime/base
ckpt=$top_srcdir/runtime/ckpt
machines=("$room"/{cpus,devices,driver,fill,import,inventory,load,matching,models,record,sysfs}.c "$room"/placement*.c
    "$base"/{clock,error,io,num,plain}.c)
checkpoints=("$ckpt"/{checksum,checksum_avx2,checksum_avx512,files,manifest,manifest_decode,members,safetensors}.c
    "$base"/{error,json_limit,num,plain}.c)

# build TARGET SOURCE...: with libFuzzer, instrumented throughout.
build() {
    local target=$1
    shift
    # shellcheck disable=SC2046
    clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -DFUZZ_COVERAGE \
        -I"$top_srcdir" -I"$top_builddir" $(pkg-config --cflags hwloc jansson libxxhash) "$@" \
        "$top_srcdir/t/fuzz/$target.c" $(pkg-config --libs hwloc jansson) -lm -o "$tmp/$target"
}
ok "the target for lists builds" build lists "$top_srcdir"/spank/{hostlist,step}.c "${machines[@]}"
ok "the target for records builds" build record -Wl,--wrap=_exit,--wrap=__sanitizer_cov_8bit_counters_init \
    "${machines[@]}"
ok "the target for heads builds" build head "${checkpoints[@]}"
ok "the target for manifests builds" build manifest "${checkpoints[@]}"
runs=("$top_srcdir"/runtime/record/{goodput,read,read_line,read_member,read_ranks}.c
    "$top_srcdir"/runtime/cli/report_*.c "$base"/{error,plain,stats}.c)
ok "the target for runs builds" build runs "${runs[@]}"

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
