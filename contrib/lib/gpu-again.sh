# shellcheck shell=bash disable=SC2154,SC2034
# gpu-again.sh - what contrib/gpu-check learns of tests that failed, when all else is done and time is left: each runs
# again with launches that wait for their end, and under compute-sanitizer's memcheck; attention, whose threads share
# most memory, once under racecheck, whatever it did. The caller's are those of gpu-run.sh.

again_least=15       # a run that has less is not begun
again_seconds=40     # of a test that runs again
sanitizer_seconds=90 # it is many times slower under these
again=()             # "NAME|HOW|RESULT"
sanitizer=''         # compute-sanitizer, where it is

find_sanitizer() {
    local folder
    command -v compute-sanitizer && return
    for folder in "$(dirname "$(command -v nvcc)")" /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer; do
        [ ! -x "$folder/compute-sanitizer" ] || { echo "$folder/compute-sanitizer" && return; }
    done
}

# rerun NAME HOW SECONDS COMMAND...: sets $rc and $log; fails where there is no time.
rerun() {
    local limit
    limit=$(limit_of "$3") && [ "$limit" -ge $again_least ] || return 1
    log=$logs/$1.$2.log rc=0
    doing="$1, $2"
    within "$limit" "$log" "$log" env -C "$out/build" "${test_environment[@]}" "${@:4}" || rc=$?
    keep_short "$log"
}
tell_again() {
    again+=("$1|$2|${3//|//}")
    echo "again: $1, $2: ${3:0:160}"
    record_now
}

# What a tool of the sanitizer's said: its first complaint, and its sum.
sanitizer_words() {
    local first
    first=$(sed -n 's/^========= \(.*\)/\1/p' "$1" | grep -vE '^(COMPUTE-SANITIZER|[A-Z]+ SUMMARY)' | head -n 1)
    echo "${first:+$first; }$(sed -n 's/^========= \([A-Z]* SUMMARY: .*\)/\1/p' "$1" | tail -n 1)"
}
can_not() { grep -qE 'Device not supported|not supported on|Unable to|[Ii]nternal [Ee]rror' "$1"; }

# The same with launches that wait: a fault of order passes so, and one of a kernel names its launch.
run_blocking() {
    local name=$1 rc log
    rerun "$name" blocking $again_seconds CUDA_LAUNCH_BLOCKING=1 "$2" || return 0
    if [ "$rc" -eq 0 ]; then tell_again "$name" CUDA_LAUNCH_BLOCKING=1 "passes"; else
        tell_again "$name" CUDA_LAUNCH_BLOCKING=1 "fails, too: $(why_ended "$rc" $again_seconds)"
    fi
}
run_memcheck() {
    local name=$1 rc log
    rerun "$name" memcheck $sanitizer_seconds "$sanitizer" --tool memcheck --error-exitcode 99 --print-limit 20 "$2" ||
        return 0
    tell_again "$name" memcheck "$(sanitizer_words "$log"), $(why_ended "$rc" $sanitizer_seconds)"
    sed -n '/^========= /p' "$log" | show_lines 12
}

run_again() {
    local program name
    [ -n "$emulated" ] || sanitizer=$(find_sanitizer) || :
    for program in "${failed_programs[@]}"; do
        name=$(basename "$program" .t) program=$(program_of "$program")
        run_blocking "$name" "$program"
        [ -z "$sanitizer" ] || [[ $name == t[0-9]* ]] || run_memcheck "$name" "$program"
    done
}

# run_racecheck PROGRAM: hazards are a failure; that the tool cannot work here, or was not over, is none.
run_racecheck() {
    local name rc log
    name=$(basename "$1" .t).racecheck
    [ -n "$sanitizer" ] && [ -x "$out/build/$1" ] || return 0
    rerun "${name%.racecheck}" racecheck $sanitizer_seconds "$sanitizer" --tool racecheck --error-exitcode 99 \
        --print-limit 20 "$out/build/$1" || return 0
    if is_over "$rc"; then
        count_test "$name" 0 0 1 $sanitizer_seconds "not over in its time: $(sanitizer_words "$log")"
    elif can_not "$log"; then
        count_test "$name" 0 0 1 0 "racecheck cannot work here: $(sanitizer_words "$log")"
    elif [ "$rc" -eq 0 ]; then
        count_test "$name" 1 0 0 0 "$(sanitizer_words "$log")"
    else
        count_test "$name" 0 1 0 0 "$(sanitizer_words "$log"), $(why_ended "$rc" $sanitizer_seconds)"
        sed -n '/^========= /p' "$log" | show_lines 20
    fi
}
