#!/bin/bash
# Calls of ddp.h outside the training loop: collectives in flight, options.
. "$(dirname "$0")/lib/tap.sh"
probe=$top_builddir/t/lib/apiprobe

oks() { grep -cx "$1ok" <<<"$out"; }
for layout in 1 3 2,1; do
    n=$(($(tr , + <<<"$layout")))
    run "$top_builddir/ddp" run -n "$n" --layout "$layout" "$probe" allreduce
    is "$layout: several all-reduces in flight" "$rc $(oks "")" "0 $n"
    run "$top_builddir/ddp" run -n "$n" --layout "$layout" "$probe" gather
    is "$layout: all-gather, reduce-scatter, a group of one" "$rc $(oks "")" "0 $n" || diag "$err"
done
run "$top_builddir/ddp" run -n 6 --layout 1,1,1,1,1,1 bash -c "ulimit -Sn 16; exec $probe allreduce"
is "more connections than the soft limit on descriptors allows" "$rc $(oks "")" "0 6" || diag "$err"
run "$top_builddir/ddp" run -n 2 "$probe" options
is "options from the program" "$rc $(oks "")" "0 2"
run "$top_builddir/ddp" run -n 2 "$probe" empty
is "hundreds of collectives of nothing in flight" "$rc $(oks "")" "0 2" || diag "$out"
for life in first second; do
    PROBE_DIR=$tmp/text run "$probe" text
    is "a state that is a text only: $life life" "$rc $out" "0 ok" || diag "$err"
done
PROBE_DIR=$tmp/join run "$probe" join-saved
is "a stop that comes when all have joined: the checkpoint is waited for" "$rc $out" "0 ok" || diag "$err"
run "$probe" peek --ddp-stop-within=0
is "what is peeked behind a step that was cut is what comes: nothing" "$rc $out" "0 ok" || diag "$err"
run "$probe" kept
is "values kept in two types at once are refused" "$rc $out" "0 ok" || diag "$err"
run "$top_builddir/ddp" run -n 2 sh -c "exec $probe options --ddp-first-bucket-mb=\$((1 + RANK))"
is "a setting that differs between ranks: exit code" "$rc" 1
like "... is named with both ranks" "$out" "first-bucket-mb=1 on rank 0, first-bucket-mb=2 on rank 1"
for layout in 2 1,1; do
    for progress in caller thread; do
        run "$top_builddir/ddp" run -n 2 --layout $layout "$probe" fork --ddp-progress=$progress
        is "$layout, $progress: a forked child that calls its parent's handle is refused, and harms nobody" \
            "$rc $(oks "")" "0 2" || diag "$out$err"
    done
    run "$top_builddir/ddp" run -n 2 --layout $layout "$probe" optimizer
    is "$layout: an optimizer that differs between ranks is named on both" \
        "$rc $(grep -c "^told: .*lr=0.5 on rank 0, lr=0.25 on rank 1" <<<"$out")" "0 2" || diag "$out$err"
    run "$top_builddir/ddp" run -n 2 --layout $layout "$probe" data
    is "$layout: data that ranks open differently" "$rc $(oks "")" "0 2" || diag "$out$err"
done
done_testing
