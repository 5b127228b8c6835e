# shellcheck shell=bash disable=SC2154
# gpu-record.sh - what is left of a run of contrib/gpu-check, however it ends: its JSON, which is whole at any time, one
# archive of logs beside it, and the last lines on the screen. All values are the script's and its other parts'.

ended='at work' # "in full", "by SIGTERM", "stopped: WHY"
first_words=()  # what the first program said of the machine

# A JSON string of what can be printed of it.
text() {
    local LC_ALL=C s=${1//[^ -~]/}
    s=${s//\\/\\\\}
    printf '"%s"' "${s//\"/\\\"}"
}
# objects LINE...: for NAMES, in the caller's $names, the cells of "CELL|CELL"
objects() {
    local line cells i comma=
    for line; do
        IFS='|' read -ra cells <<<"$line|"
        printf '  %s{' "$comma"
        for i in "${!names[@]}"; do
            printf '%s"%s": ' "$([ "$i" = 0 ] || echo ', ')" "${names[$i]}"
            if [[ ${numbers:-} == *" $i "* ]]; then printf '%s' "${cells[$i]}"; else text "${cells[$i]:-}"; fi
        done
        printf '}\n'
        comma=,
    done
}
strings() {
    local line comma=
    for line; do printf '%s%s' "$comma" "$(text "$line")" && comma=', '; done
}

record() {
    local names numbers
    echo "{\"version\": $(text "$version"), \"state\": \"$state\", \"date\": \"$date\","
    echo " \"verb\": \"$verb\", \"emulated\": ${is_emulated}, \"ended\": $(text "$ended"),"
    echo " \"gpu\": $(text "$gpu"), \"nvcc\": $(text "$nvcc"), \"cpu\": $(text "$cpu"), \"seconds\": $SECONDS,"
    echo " \"probe\": [$(strings "${first_words[@]}")], \"build_s\": $build_seconds,"
    echo " \"budget_s\": $budget, \"used_s\": $SECONDS, \"not_run\": $n_late,"
    echo " \"passed\": $n_passed, \"failed\": $n_failed, \"skipped\": $n_skipped, \"tests\": ["
    names=(name passed failed skipped seconds why) numbers=' 1 2 3 4 '
    objects "${results[@]}"
    echo " ],"
    echo " \"again\": ["
    names=(name how result) numbers=''
    objects "${again[@]}"
    echo " ],"
    echo " \"benchmarks\": ["
    bench_files | sed '$!s/$/,/; s/^/  /'
    echo " ],"
    echo " \"not_measured\": ["
    names=(what why)
    objects "${unmeasured[@]}"
    echo " ]}"
}
record_now() { record >"$out/gpu-check.json.part" && mv "$out/gpu-check.json.part" "$out/gpu-check.json"; }

pack_logs() {
    [ ! -e "$out/build/config.log" ] || cp "$out/build/config.log" "$logs/config.log"
    tar -C "$out" -czf "$out/gpu-check-logs.tar.gz.part" gpu-check.json "$(basename "$logs")" &&
        mv "$out/gpu-check-logs.tar.gz.part" "$out/gpu-check-logs.tar.gz"
}

# ---- the last lines: all that matters, in less than 12000 characters ----

show_speeds() {
    local first='"what": "([^"]*)", "median": ([^,]*), "unit": "([^"]*)"'
    local rest='"ratio": ([^,]*), "ratio_of": "([^"]*)".*"reached": ([a-z]*)'
    bench_files | sed -E "s/^.*$first.*$rest.*\$/\\1|\\2|\\3|\\4|\\5|\\6/" | head -n 50 |
        awk -F'|' '{ printf "  %-50.50s %10.5g %-5.5s", $1, $2, $3
            if ($4 != "null") printf " %.4g %.24s", $4, $5
            print $6 == "false" ? " MISSED" : "" }'
}
show_failures() {
    local line cells
    for line in "${results[@]}"; do
        IFS='|' read -ra cells <<<"$line|"
        [ "${cells[2]}" = 0 ] || echo "  ${cells[0]}: ${cells[2]} failed, ${cells[1]} passed: ${cells[5]:0:120}"
    done | head -n 15
    for line in "${again[@]}"; do echo "  again: ${line:0:140}"; done | head -n 8
    for line in "${unmeasured[@]}"; do echo "  not measured: ${line:0:140}"; done | head -n 8
}

# finish ENDED: the record, the archive, the last lines; true if nothing failed and all ran.
finish() {
    trap - EXIT
    ended=$1
    record_now
    pack_logs || complain "there is no archive of $logs"
    echo
    say "what was measured"
    show_speeds
    say "what failed, or was not measured"
    show_failures
    say "$SECONDS s$([ "$budget" -eq 0 ] || echo " of $budget"); for $n_late of them there was no time; ended $ended"
    say "$n_failed tests failed, $n_unmeasured benchmarks did not run, $(n_missed) goals were missed:" \
        "$out/gpu-check.json"
    [ $((n_failed + n_unmeasured)) -eq 0 ]
}

# stop NAME WHY: nothing else is of use then.
stop() {
    count_test "$1" 0 1 0 0 "$2"
    say "stopped: $1: $2"
    end_work
    finish "stopped: $1: $2" || exit 1
}

# What this script did not foresee.
ended_by_error() {
    end_work
    finish "by an error of this script's, at $doing" || :
}
# interrupted SIGNAL CODE
interrupted() {
    trap '' TERM INT HUP
    end_work
    measured_late "$doing" "ended by SIG$1"
    finish "by SIG$1" || :
    exit "$2"
}
