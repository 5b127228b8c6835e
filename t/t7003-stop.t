#!/bin/bash
# A signal to one rank: all ranks stop after the same step, and say once which it was. Further ones change nothing, but
# a second SIGINT ends a rank at once.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/training.sh"

start() { # RANKS [COMMAND...]: in the background, run by COMMAND; sets $launcher
    local n=$1
    shift
    rm -f "$tmp/out"
    DDP_TEST_MARK=$tmp "$@" timeout -k 5 120 "$top_builddir/ddp" run -n "$n" \
        "$top_builddir/train" --model tiny --steps 1000000 --log-every 1 --data /usr/share/common-licenses/GPL-3 \
        >"$tmp/out" 2>"$tmp/err" </dev/null &
    launcher=$!
    until_true 60 grep -qs 'step 3/' "$tmp/out" || diag "training did not start: $(cat "$tmp/err")"
}
took() { # PID SIGNAL: it has reached the process
    (((0x$(sed -n 's/^ShdPnd:\s*//p' "/proc/$1/status") >> ($(kill -l "$2") - 1) & 1) == 0))
}
tell() { # PID SIGNAL...
    local pid=$1 signal
    for signal in "${@:2}"; do
        kill -"$signal" "$pid"
        until_true 10 took "$pid" "$signal"
    done
}
steps() { tail -n 1 "$tmp/out" | sed -n 's|^step \([0-9]*\)/.*|\1|p'; }
goes_on() { [ "$(steps)" -gt $(($1 + 2)) ]; } # STEP
end() { rc=0; wait $launcher || rc=$?; }
default=(env --default-signal=TERM,USR1,USR2,INT) # of what this script was told to ignore

for case in "TERM 143" "USR1 138" "USR2 140" "INT 130"; do
    read -r signal code <<<"$case"
    start 3 "${default[@]}"
    tell "$(training "$tmp" 1)" "$signal"
    end
    is "one rank gets SIG$signal: exit code" "$rc" "$code"
    is "... said once" "$(grep -c "^train: stopped by SIG$signal\$" "$tmp/err")" 1
    unlike "... and nobody is blamed" "$(cat "$tmp/err")" "died|left|waits"
done

start 2 "${default[@]}"
kill -STOP "$(training "$tmp" 0)"
tell "$(training "$tmp" 1)" USR1 TERM TERM INT USR2
kill -CONT "$(training "$tmp" 0)"
end
is "signals that follow the first are ignored" "$rc $(grep -c "^train: stopped by SIGUSR1\$" "$tmp/err")" "138 1"

start 2 "${default[@]}"
kill -STOP "$(training "$tmp" 0)"
tell "$(training "$tmp" 1)" INT
kill -INT "$(training "$tmp" 1)"
kill -CONT "$(training "$tmp" 0)"
end
like "a second SIGINT ends it" "$(cat "$tmp/err")" "rank 0: rank 1 \([^)]*\) died"

start 2 "${default[@]}" --ignore-signal=USR1
at=$(steps)
tell "$(training "$tmp" 1)" USR1
ok "a signal that is ignored stays so" until_true 60 goes_on "$at"
tell "$(training "$tmp" 1)" USR2
end
is "... and another stops" "$rc" 140

start 2 "${default[@]}" DDP_STOP_SIGNALS=USR2
kill -USR1 "$(training "$tmp" 1)"
end
is "a signal that is not among stop-signals acts as ever" "$rc" 138
like "... on that rank alone" "$(cat "$tmp/err")" "rank 0: rank 1 \([^)]*\) died"
run env DDP_STOP_SIGNALS=TERM,HUP "$top_builddir/ddp" run -n 2 "$top_builddir/train" --model tiny --steps 3 \
    --data /usr/share/common-licenses/GPL-3
like "an unknown signal is refused with the list" "$rc $err" \
    '^2 .*stop-signals=TERM,HUP: "HUP" is no signal .* none, or some of TERM, USR1, USR2, INT'
done_testing
