# shellcheck shell=bash disable=SC2154,SC2034
# gpu-run.sh - the tests of contrib/gpu-check: their order, their limits, what they said. The time is gpu-time.sh's;
# $out, $top, $logs, $n_gpus and record_now() are the caller's.

# What a kernel needs is tested before it: where several fail, the first is the one to look at. A test that is not named
# here comes after these.
test_order=(device cuda_cast cuda_reduce cuda_optim cuda_matmul cuda_gelu cuda_layernorm cuda_embedding
    cuda_crossentropy cuda_attention gmodel)
test_seconds=40   # of a program
script_seconds=90 # of a script
n_passed=0 n_failed=0 n_skipped=0 n_late=0 # late: programs and benchmarks for which there was no time
results=() failed_programs=()
doing='' # what is at work

# in_order PROGRAM...: one a line.
in_order() {
    local name program
    for name in "${test_order[@]}"; do
        for program; do [ "$(basename "$program" .t)" != "$name" ] || echo "$program"; done
    done
    for program; do
        [[ " ${test_order[*]} " == *" $(basename "$program" .t) "* ]] || echo "$program"
    done
}

# ---- what is shown ----

# show_lines MOST: of its input, all of which it reads, so that nobody who writes it is killed.
show_lines() { awk -v most="$1" 'NR <= most { print "    " substr($0, 1, 200) }'; }
row() { printf '%-28s %6s %6s %7s %4s  %s\n' "$@"; }

# show_failed LOG: the tests that failed, with what they said; or the last lines, where none says that it failed.
show_failed() {
    if grep '^not ok ' "$1" | grep -qv '# SKIP'; then
        awk '/^not ok / && !/# SKIP/ { on = 1 } /^(ok |1\.\.)/ || /^not ok .*# SKIP/ { on = 0 } on' "$1"
    else
        tail -n 15 "$1"
    fi | show_lines 30
}

# count_test NAME PASSED FAILED SKIPPED SECONDS WHY: shown and recorded at once.
count_test() {
    n_passed=$((n_passed + $2)) n_failed=$((n_failed + $3)) n_skipped=$((n_skipped + $4))
    [ ${#results[@]} -gt 0 ] || row test passed failed skipped s why
    results+=("$1|$2|$3|$4|$5|${6//|//}")
    row "${@:1:5}" "${6:0:160}"
    record_now
}
# What there was no time for.
count_late() {
    n_late=$((n_late + 1))
    count_test "$1" 0 0 1 0 "$2"
}

# ---- running ----

# program_of TEST: a script lies where the sources are.
program_of() {
    if [ -x "$out/build/$1" ]; then echo "$out/build/$1"; else echo "$top/$1"; fi
}
# test_environment: what a test is told, for env.
test_environment=()
set_test_environment() {
    test_environment=(CMOCKA_MESSAGE_OUTPUT=TAP "top_srcdir=$top" "top_builddir=$out/build" "DDP_TEST_GPU=${n_gpus#0}")
}

# keep_short LOG: the last MiB of it.
keep_short() {
    [ "$(stat -c %s "$1")" -le 1048576 ] || { tail -c 1048576 "$1" >"$1.end" && mv "$1.end" "$1"; }
}

# count_log NAME RC LIMIT ASKED SECONDS: what a test said in TAP. One that ends badly has failed, unless the budget's
# end ended it; and where a GPU is, one that skips all has, too.
count_log() {
    local name=$1 rc=$2 limit=$3 log=$logs/$1.log passed failed skipped why
    skipped=$(grep -cE '^(ok|not ok) .*# SKIP|^1\.\.0 # SKIP' "$log" || :)
    passed=$(($(grep -c '^ok ' "$log" || :) - $(grep -cE '^ok .*# SKIP' "$log" || :)))
    failed=$(grep '^not ok ' "$log" | grep -vc '# SKIP' || :)
    why=$(grep -oE '# SKIP .*' "$log" | head -n 1 | cut -c8- || :)
    if is_over "$rc" && [ "$limit" -lt "$4" ] && [ "$failed" -eq 0 ]; then
        n_late=$((n_late + 1)) skipped=$((skipped + 1)) why="cut off: $(budget_text)"
    elif [ "$rc" -ne 0 ] || [ $((passed + failed + skipped)) -eq 0 ]; then
        [ "$failed" -gt 0 ] || failed=1
        why=$(why_ended "$rc" "$limit")
    elif [ $((passed + failed)) -eq 0 ] && [ "$n_gpus" -gt 0 ]; then
        failed=1 skipped=0 why="skipped all, where a GPU is: $why"
    fi
    count_test "$name" "$passed" "$failed" "$skipped" "$5" "$why"
    [ "$failed" -eq 0 ] || show_failed "$log"
}

# run_test PROGRAM
run_test() {
    local name asked=$test_seconds rc=0 began=$SECONDS limit program
    name=$(basename "$1" .t)
    [[ $name != t[0-9]* ]] || asked=$script_seconds
    program=$(program_of "$1")
    [ -x "$program" ] || { [ -z "$build_was_cut" ] || count_late "$name" "not built in time"; return 0; }
    limit=$(limit_of "$asked") || { count_late "$name" "$limit" && return; }
    doing=$name
    within "$limit" "$logs/$name.log" "$logs/$name.log" env -C "$out/build" "${test_environment[@]}" "$program" || rc=$?
    keep_short "$logs/$name.log"
    local before=$n_failed
    count_log "$name" $rc "$limit" "$asked" $((SECONDS - began))
    [ "$n_failed" -eq "$before" ] || failed_programs+=("$1")
}

# run_tests PROGRAM...
run_tests() {
    local program
    for program; do run_test "$program"; done
}
