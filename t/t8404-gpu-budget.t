#!/bin/bash
# The time that contrib/gpu-check gives to its tests and benchmarks, and what it says of them, with programs made up
# for this: what has no time left is not started, what is at work when the time is over is cut off, and both are
# skipped, not failed. t8408 runs the whole script so, contrib/check over the emulator.
. "$(dirname "$0")/lib/tap.sh"
set -o pipefail # as gpu-check does

mkdir -p "$tmp/out/build" "$tmp/out/logs"
out=$tmp/out logs=$tmp/out/logs top=$top_srcdir n_gpus=0 emulated=1 python=none
say() { echo "$*"; }
record_now() { :; }
for part in time build run again bench record; do . "$top_srcdir/contrib/lib/gpu-$part.sh"; done
record_now() { :; }
set_test_environment

# program NAME LINE...: a test program.
program() {
    local name=$1
    shift
    printf '%s\n' '#!/bin/bash' "$@" >"$out/build/$name.t"
    chmod 755 "$out/build/$name.t"
}
wait_for_ever='read -r <>never'
mkfifo "$out/build/never"
program good 'echo ok 1 - good'
program bad 'echo ok 1 - fine' 'echo not ok 2 - bad' 'echo "# 1 != 2"' 'echo ok 3 - fine, too' 'exit 1'
program crash 'echo "1..3"' 'kill -SEGV $$'
program skips 'echo "1..0 # SKIP no GPU"'
program endless 'echo ok 1 - begun' "$wait_for_ever"
program worse 'echo not ok 1 - already' "$wait_for_ever"

# begin BUDGET: as if the script began now.
begin() {
    SECONDS=0 budget=$1 reserve=0 least=1
    n_passed=0 n_failed=0 n_skipped=0 n_late=0 results=() failed_programs=() unmeasured=() n_unmeasured=0
    rm -f "$logs"/*
}
# tests BUDGET PROGRAM...: sets $table, without seconds.
tests() {
    begin "$1"
    shift
    run_tests "${@/%/.t}" >"$tmp/table" 2>"$tmp/errors"
    table=$(sed -E '/^test /d; s/^([a-z]+) +([0-9]+) +([0-9]+) +([0-9]+) +[0-9]+ */\1 \2 \3 \4 /; s/ $//' "$tmp/table")
}

tests 0 good bad skips
is "without a budget: what failed is shown at once, and nothing else of its log" "$table" "good 1 0 0
bad 2 1 0 exit code 1
    not ok 2 - bad
    # 1 != 2
skips 0 0 1 no GPU"
is "... and counted" "$n_passed $n_failed $n_skipped $n_late ${failed_programs[*]}" "3 1 1 0 bad.t"
tests 0 crash
like "a crash: the last lines" "$table" '^crash 0 1 0 exit code 139
    1..3'
n_gpus=1
tests 0 skips good
like "where a GPU is a test that skips all has failed" "$table" '^skips 0 1 0 skipped all, where a GPU is: no GPU
 .*
good 1 0 0$'
n_gpus=0
test_seconds=1
tests 0 endless good
like "a program of no end is one that fails" "$table" "^endless 1 1 0 not over after 1 s
 .*
good 1 0 0$"
test_seconds=120
tests 4 good endless good bad
is "but not where all time is over" "$table" "good 1 0 0
endless 1 0 1 cut off: the 4 s are over
good 0 0 1 not run: the 4 s are over
bad 0 0 1 not run: the 4 s are over"
is "... they are counted" $n_late 3
tests 3 worse
like "what had failed by then has failed" "$table" "^worse 0 1 0 not over after [123] s
    not ok 1 - already$"

is "the order: what is used comes first, what nobody knows comes last" \
    "$(in_order t/gpu/gmodel t/gpu/new t/gpu/cuda_attention t/gpu/device t/gpu/cuda_cast.t | tr '\n' ' ')" \
    "t/gpu/device t/gpu/cuda_cast.t t/gpu/cuda_attention t/gpu/gmodel t/gpu/new "

# --- benchmarks ---
begin 480
least=5
is "minutes are called so" "$(budget_text)" "the 8 minutes are over"
like "nobody gets more than is left" "$(limit_of 20) $(limit_of 600)" '^20 (480|479)$'
reserve=15
like "... and some is for the end" "$(limit_of 600)" '^46[45]$'
begin 4
least=5
is "... and nobody less than is worth a start" "$(limit_of 20) $?" "not run: the 4 s are over 1"
bench speed 10 true >"$tmp/bench" 2>&1
is "a benchmark that is too late" "$n_unmeasured $n_late ${unmeasured[*]}" "0 1 speed|not run: the 4 s are over"
begin 3
cat >"$out/build/measure" <<'PROGRAM'
#!/bin/bash
# measure --json FILE: an entry, half of another, and no end
printf '%s' '{"what": "a", "median": 1.5, "unit": "ms", "q1": 1, "q3": 2, "limit": null, "ratio": 0.5, ' >"$2"
printf '%s\n%s' '"ratio_of": "of it", "goal": ">= 1", "reached": false}' '{"what": "b", "med' >>"$2"
echo a line
read -r <>never
PROGRAM
chmod 755 "$out/build/measure"
bench ours 10 ./measure >"$tmp/bench" 2>&1
is "... that is cut off" "$n_unmeasured $n_late ${unmeasured[*]}" "0 1 ours|cut off: the 3 s are over"
is "... is shown so far" "$(sed -n 2p "$tmp/bench")" "a line"
is "... and has measured so far" "$(bench_files | grep -c .) $(n_missed)" "1 1"
begin 0
bench speed 10 bash -c "echo it broke >&2; exit 3" >"$tmp/bench" 2>&1
is "... that fails" "$n_unmeasured $n_late ${unmeasured[*]}" "1 0 speed|it broke"
bench torch 10 bash -c "echo no PyTorch >&2; exit 77" >"$tmp/bench" 2>&1
is "... that lacks what a machine need not have" "$n_unmeasured ${unmeasured[1]}" "1 torch|no PyTorch"

# --- the last lines ---
begin 0
for ((i = 0; i < 100; i++)); do
    echo "{\"what\": \"$i $(printf 'x%.0s' {1..100})\", \"median\": 1.5, \"unit\": \"ms\", \"ratio\": 0.5," \
        "\"ratio_of\": \"$(printf 'y%.0s' {1..100})\", \"goal\": \">= 1\", \"reached\": false}"
    results+=("$i|0|1|0|0|$(printf 'z%.0s' {1..1000})") again+=("$i|memcheck|$(printf 'z%.0s' {1..1000})")
    unmeasured+=("$i|$(printf 'z%.0s' {1..1000})")
done >"$logs/bench-ours.json"
pack_logs() { :; }
(finish now) >"$tmp/last"
ok "the last lines say all that matters in less than 12000 characters ($(wc -c <"$tmp/last"))" \
    [ "$(wc -c <"$tmp/last")" -lt 12000 ]
like "... speeds, failures, the verdict" "$(cat "$tmp/last")" \
    ' 0 x+ +1.5 ms +0.5 y+ MISSED.*  0: 1 failed, 0 passed: z.*0 tests failed, 0 benchmarks did not run, 100 goals'
done_testing
