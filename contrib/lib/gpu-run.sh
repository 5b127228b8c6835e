# shellcheck shell=bash disable=SC2154
# gpu-run.sh - the time of contrib/gpu-check, and the tests that it runs. $out, $top and $n_gpus are the caller's.

# ---- time: a budget for all programs together, and a limit for each ----

budget=0 # seconds; 0: none
least=5  # a program that has less is not started
budget_began=$SECONDS

budget_begin() { budget_began=$SECONDS; }
budget_used() { echo $((SECONDS - budget_began)); }
budget_text() {
    if [ $((budget % 60)) -eq 0 ]; then echo "the $((budget / 60)) minutes are over"; else
        echo "the $budget s are over"
    fi
}

# limit_of SECONDS: what a program gets that may take so long; fails, with why, where it is too late for it.
limit_of() {
    local left=$((budget - (SECONDS - budget_began)))
    if [ "$budget" -eq 0 ] || [ $left -ge "$1" ]; then
        echo "$1"
    elif [ $left -ge $least ]; then
        echo $left
    else
        echo "not run: $(budget_text)"
        return 1
    fi
}

# ---- tests ----

test_seconds=120 # of one program
n_passed=0 n_failed=0 n_skipped=0 n_late=0 # late: programs and benchmarks for which there was no time
results=()

# count_test NAME PASSED FAILED SKIPPED SECONDS WHY
count_test() {
    n_passed=$((n_passed + $2)) n_failed=$((n_failed + $3)) n_skipped=$((n_skipped + $4))
    results+=("$1|$2|$3|$4|$5|$6")
}

# run_test PROGRAM: counts what it says in TAP; a program that ends badly has failed, unless the budget's end ended it.
run_test() {
    local name rc=0 began=$SECONDS passed failed skipped why limit
    name=$(basename "$1" .t)
    limit=$(limit_of $test_seconds) || {
        n_late=$((n_late + 1))
        count_test "$name" 0 0 1 0 "$limit"
        return
    }
    (cd "$out/build" && [ -x "$1" ] || cd "$top" # a script lies where the sources are
        CMOCKA_MESSAGE_OUTPUT=TAP top_srcdir=$top top_builddir=$out/build DDP_TEST_GPU=${n_gpus#0} \
            timeout -k 5 "$limit" "./$1") >"$out/$name.log" 2>&1 </dev/null || rc=$?
    skipped=$(grep -cE '^(ok|not ok) .*# SKIP|^1\.\.0 # SKIP' "$out/$name.log" || :)
    passed=$(($(grep -c '^ok ' "$out/$name.log" || :) - $(grep -cE '^ok .*# SKIP' "$out/$name.log" || :)))
    failed=$(grep '^not ok ' "$out/$name.log" | grep -vc '# SKIP' || :)
    why=$(grep -oE '# SKIP .*' "$out/$name.log" | head -n 1 | cut -c8- || :)
    if [[ $rc = 124 || $rc = 137 ]] && [ "$limit" -lt $test_seconds ] && [ "$failed" -eq 0 ]; then
        n_late=$((n_late + 1)) skipped=$((skipped + 1)) why="cut off: $(budget_text)"
    elif [ $rc -ne 0 ] || [ $((passed + failed + skipped)) -eq 0 ]; then
        [ "$failed" -gt 0 ] || failed=1
        why="exit code $rc$([ $rc -ne 124 ] || echo ": not over after $limit s"); $out/$name.log"
    fi
    count_test "$name" "$passed" "$failed" "$skipped" $((SECONDS - began)) "$why"
}

# run_tests PROGRAM...
run_tests() {
    local program
    for program; do run_test "$program"; done
    show_tests
}

row() { printf '%-28s %6s %6s %7s %4s  %s\n' "$@"; }
show_tests() {
    local line
    echo
    row test passed failed skipped s why
    for line in "${results[@]}"; do IFS='|' read -ra cells <<<"$line|" && row "${cells[@]}"; done
    row all $n_passed $n_failed $n_skipped "$(budget_used)" ""
}
