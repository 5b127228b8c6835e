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
told unknown "ddp_grad_ready was called for a parameter that does not exist"
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
done_testing
