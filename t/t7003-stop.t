#!/bin/bash
# SIGTERM to one rank: all ranks stop after the same step, and say so once. A second SIGTERM ends a rank at once.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/training.sh"

start() { # RANKS: in the background; sets $launcher
    rm -f "$tmp/out"
    DDP_TEST_MARK=$tmp timeout -k 5 120 "$top_builddir/ddp" run -n "$1" \
        "$top_builddir/train" --model tiny --steps 1000000 --log-every 1 --data /usr/share/common-licenses/GPL-3 \
        >"$tmp/out" 2>"$tmp/err" </dev/null &
    launcher=$!
    until_true 60 grep -qs 'step 3/' "$tmp/out" || diag "training did not start: $(cat "$tmp/err")"
}
# The first signal has been handled: the process no longer catches it.
catches_none() { (((0x$(sed -n 's/^SigCgt:\s*//p' "/proc/$1/status") & 0x4000) == 0)); }
end() { rc=0; wait $launcher || rc=$?; }

start 3
kill -TERM "$(training "$tmp" 1)"
end
is "one rank gets SIGTERM: exit code" "$rc" 143
is "... said once" "$(grep -c '^train: stopped by SIGTERM$' "$tmp/err")" 1
unlike "... and nobody is blamed" "$(cat "$tmp/err")" "died|left|waits"

start 2
kill -STOP "$(training "$tmp" 0)"
victim=$(training "$tmp" 1)
kill -TERM "$victim"
until_true 10 catches_none "$victim"
kill -TERM "$victim"
kill -CONT "$(training "$tmp" 0)"
end
like "a second SIGTERM ends it" "$(cat "$tmp/err")" "rank 0: rank 1 \([^)]*\) died"
done_testing
