#!/bin/bash
# What a program does wrong with its gradients is told to every rank, by name, and nobody hangs.
. "$(dirname "$0")/lib/tap.sh"
probe=$top_builddir/t/lib/apiprobe
export DDP_TIMEOUT=30

told() { # CASE TEXT: rank 1 is told TEXT, the others that rank 1 aborted with it
    for layout in 3 2,1; do
        run "$top_builddir/ddp" run -n 3 --layout $layout "$probe" "$1" --ddp-bucket-mb=0.0001
        is "$1, $layout: all three end" "$rc $(grep -cx ok <<<"$out")" "0 3"
        is "$1, $layout: rank 1 is told" "$(grep -c "^told: rank 1: $2" <<<"$out")" 1
        is "$1, $layout: the others too" "$(grep -c "^told: rank 1 .*aborted: $2" <<<"$out")" 2
    done
}
told twice "ddp_grad_ready was called twice for parameter body"
told never "parameter body was not used: call ddp_grad_ready or ddp_grad_unused"
run "$top_builddir/ddp" run -n 3 "$probe" silent
is "never, and rank 1 passes no errp: the others are told" \
    "$rc $(grep -c "^told: rank 1 .*aborted: parameter body was not used" <<<"$out")" "0 2"
told stray "ddp_grad_ready or ddp_grad_unused was called outside a micro-step"
run "$top_builddir/ddp" run -n 3 "$probe" no-optimizer
is "an optimizer that one rank lacks: all are told" "$rc $(grep -c "^told: .*optimizer: none is given" <<<"$out")" "0 3"
told unknown "ddp_grad_ready was called for parameter 3, which does not exist: .* 0..2"

for case in no-values no-plan; do
    for layout in 3 2,1; do
        run "$top_builddir/ddp" run -n 3 --layout $layout "$probe" $case --ddp-zero=0
        is "$case, $layout: memory that rank 1 alone lacks: all are told" \
            "$rc $(grep -cE "^told: (rank 1.*: )?no memory for" <<<"$out")" "0 3" || diag "$out$err"
    done
done

# A rank goes in the middle of a pass, and frees what its reductions use: freed memory is filled, so that a use shows.
for layout in 3 1,1,1; do
    for progress in caller thread; do
        for case in leave:left abort:aborted; do
            run env MALLOC_PERTURB_=165 "$top_builddir/ddp" run -n 3 --layout $layout "$probe" ${case%:*} $progress \
                --ddp-progress=$progress --ddp-bucket-mb=100
            is "${case%:*}, $layout, $progress: all three end" "$rc $(grep -cx ok <<<"$out")" "0 3"
            is "... the others are told" "$(grep -c "^told: rank 1 .*${case#*:}" <<<"$out")" 2 || diag "$out$err"
        done
    done
done
for layout in 3 1,1,1; do
    run "$top_builddir/ddp" run -n 3 --layout $layout "$probe" check
    is "check, $layout: who waits for nothing hears of an abort" \
        "$rc $(grep -c "^told: rank 1 .*aborted: enough" <<<"$out")" "0 2" || diag "$out$err"
done
for case in refuse two-hooks shards shards-join diverged values; do
    run "$top_builddir/ddp" run -n 2 "$probe" $case
    is "$case: refused with its reason" "$rc $(grep -cx ok <<<"$out")" "0 2" || diag "$out$err"
done
DDP_COMPRESS=f16 run "$top_builddir/ddp" run -n 2 "$probe" diverged
is "diverged, or too large for f16: refused with its reason" "$rc $(grep -cx ok <<<"$out")" "0 2" || diag "$out$err"
run "$top_builddir/ddp" run -n 3 "$probe" nan
is "a gradient that is not finite is named, and its step skipped" "$rc $(grep -cx ok <<<"$out")" "0 3"
for layout in 1 3 2,2; do
    n=$(($(tr , + <<<"$layout")))
    for o in --ddp-bucket-mb=0.01 --ddp-bucket-mb=100 --ddp-timeout=30; do
        run "$top_builddir/ddp" run -n "$n" --layout "$layout" "$probe" join $o
        is "$layout $o: ranks with fewer steps join" "$rc $(grep -cx ok <<<"$out")" "0 $n"
        [ "$rc" = 0 ] || diag "$out$err"
    done
done
for told in 0 2; do
    run "$top_builddir/ddp" run -n 3 "$probe" join-stop $told
    is "SIGTERM to rank $told while others have joined: all stop after the same step" \
        "$rc $(grep -cx ok <<<"$out")" "0 3"
done
run "$top_builddir/ddp" run -n 2 "$probe" join-rest --ddp-loss-scale=dynamic --ddp-record="$tmp/rest"
is "a step whose samples are all those of a rank that has joined is skipped" "$rc $(grep -cx ok <<<"$out")" "0 2" ||
    diag "$out$err"
is "... and is none whose gradient was not finite" \
    "$(grep -oE '"(steps|skipped)": ?[0-9]+' "$tmp/rest" | tr -d ' \n')" '"steps":1"skipped":0"steps":1"skipped":0'
run "$top_builddir/ddp" run -n 2 "$probe" join-rest 1 --ddp-loss-scale=dynamic
is "... one whose samples nobody counts is an error" "$rc $(grep -cx ok <<<"$out")" "0 2" || diag "$out$err"
# Who computes slower than the others.
for more in 0 30; do
    run "$top_builddir/ddp" run -n 3 --layout 2,1 "$probe" slow $more
    is "rank 1 computes $more ms longer: found if it does" "$rc $(grep -cx ok <<<"$out")" "0 3" || diag "$out$err"
done
done_testing
