#!/bin/bash
# The time that contrib/gpu-check gives to its tests and benchmarks, with programs made up for this: what has no time
# left is not started, what is at work when the time is over is cut off, and both are skipped, not failed. contrib/check
# runs the whole script so over the emulator.
. "$(dirname "$0")/lib/tap.sh"
set -o pipefail # as gpu-check does

mkdir -p "$tmp/out/build"
out=$tmp/out top=$top_srcdir n_gpus=0 emulated=1
say() { echo "$*"; }
. "$top_srcdir/contrib/lib/gpu-run.sh"
. "$top_srcdir/contrib/lib/gpu-bench.sh"

# program NAME LINE...: a test program.
program() {
    local name=$1
    shift
    printf '%s\n' '#!/bin/bash' "$@" >"$out/build/$name.t"
    chmod 755 "$out/build/$name.t"
}
wait_for_ever='read -r <>"$(dirname "$0")/never"'
mkfifo "$out/build/never"
program good 'echo ok 1 - good'
program bad 'echo not ok 1 - bad' 'exit 1'
program skips 'echo "1..0 # SKIP no GPU"'
program endless 'echo ok 1 - begun' "$wait_for_ever"
program worse 'echo not ok 1 - already' "$wait_for_ever"

# tests BUDGET PROGRAM...: sets $table, without seconds and folders.
tests() {
    budget=$1
    shift
    n_passed=0 n_failed=0 n_skipped=0 n_late=0 results=() least=1
    budget_begin
    run_tests "${@/%/.t}" >"$tmp/table"
    table=$(sed -E '/^$/d; /^test /d; s/^([a-z]+) +([0-9]+) +([0-9]+) +([0-9]+) +[0-9]+ */\1 \2 \3 \4 /' "$tmp/table" |
        sed -E 's| ?[^ ]*/out/| |; s/ $//')
}

tests 0 good bad skips
is "without a budget" "$table" "good 1 0 0
bad 0 1 0 exit code 1; bad.log
skips 0 0 1 no GPU
all 1 1 1"
test_seconds=1
tests 0 endless good
is "a program of no end is one that fails" "$table" "endless 1 1 0 exit code 124: not over after 1 s; endless.log
good 1 0 0
all 2 1 0"
test_seconds=120
tests 4 good endless good bad
is "but not where all time is over" "$table" "good 1 0 0
endless 1 0 1 cut off: the 4 s are over
good 0 0 1 not run: the 4 s are over
bad 0 0 1 not run: the 4 s are over
all 2 0 3"
is "... they are counted" $n_late 3
tests 3 worse
like "what had failed by then has failed" "$table" "^worse 0 1 0 exit code 124: not over after [123] s; worse.log
all 0 1 0$"

# benchmarks
budget=480 least=5
budget_begin
is "minutes are called so" "$(budget_text)" "the 8 minutes are over"
like "nobody gets more than is left" "$(limit_of 20) $(limit_of 600)" '^20 (480|479)$'
budget=4
is "... and nobody less than is worth a start" "$(limit_of 20) $?" "not run: the 4 s are over 1"
n_late=0
bench speed 10 true >"$tmp/bench" 2>&1
is "a benchmark that is too late" "$n_unmeasured $n_late ${unmeasured[*]}" "0 1 speed|not run: the 4 s are over"
budget=3 least=1 unmeasured=()
budget_begin
bench speed 10 bash -c "cd . && read -r <>never" >"$tmp/bench" 2>&1
is "... that is cut off" "$n_unmeasured $n_late ${unmeasured[*]}" "0 2 speed|cut off: the 3 s are over"
budget=0 unmeasured=()
bench speed 10 bash -c "echo it broke >&2; exit 3" >"$tmp/bench" 2>&1
is "... that fails" "$n_unmeasured $n_late ${unmeasured[*]}" "1 2 speed|it broke"
done_testing
