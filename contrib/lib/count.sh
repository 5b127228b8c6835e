# shellcheck shell=bash disable=SC2034
# count.sh - how many tests passed, failed and were skipped, from what automake's TAP driver leaves behind.

passed=0 failed=0 skipped=0

# The only reasons for which a test may be skipped: GPUs, what is not in Debian proper but builds for them need, and
# what the package index does not offer. contrib/check is there to run the tests: whatever else is missing on the
# machine is a failure to be mended.
skip_allowed='(no|needs a|needs [0-9]+) GPUs?( |$|[,;:(])|^no (CUDA toolkit|NCCL)( |$|[,;:(])'
skip_allowed+='|the package index does not offer|^no Python package .* DDP_TEST_PYTHON names'

# count_results FOLDER...: adds the results of all tests whose .trs and .log lie below, and prints a line for each that
# is not good: failures, skips for another reason, tests that never ended.
count_results() {
    local trs log line
    while IFS= read -r trs; do
        log=${trs%.trs}.log
        grep -q '^:global-test-result: ' "$trs" || bad_result "ERROR: $trs: the test did not end"
        passed=$((passed + $(count 'PASS|XFAIL' "$trs")))
        while IFS= read -r line; do bad_result "$line"; done < <(lines_of "$log" 'FAIL|ERROR|XPASS' "$trs")
        while IFS= read -r line; do
            if [[ $(skip_reason "$line") =~ $skip_allowed ]]; then skipped=$((skipped + 1)); else
                bad_result "$line (a skip for want of anything but a GPU is a failure)"
            fi
        done < <(lines_of "$log" SKIP "$trs")
    done < <(find "$@" -name '*.trs' | sort)
}

bad_result() {
    failed=$((failed + 1))
    echo "$1"
}

# One line per result of kind $2 (regular expression): those of the log $1; where it lacks any, as many as the .trs $3
# has.
lines_of() {
    {
        grep -sE "^($2): " "$1" || true
        yes "${2%%|*}: $3" || true
    } | head -n "$(count "$2" "$3")"
}
count() { grep -cE "^:test-result: ($1)" "$2" || true; }

# The driver prints "SKIP: t/x.t 3 - what # SKIP why" for one test, "SKIP: t/x.t - why" for a whole program.
skip_reason() {
    case $1 in
    *'# SKIP '*) echo "${1##*# SKIP }" ;;
    *' - '*) echo "${1#* - }" ;;
    esac
}
